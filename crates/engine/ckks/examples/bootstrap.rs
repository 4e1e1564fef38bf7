//! Bootstraps all slots of a preset and prints keys, memory, levels, times and errors.
//!
//! `cargo run --release -p unspoken-ckks --example bootstrap -- n16_boot_depth10_scale50 3`; the last argument is the
//! number of runs.

use std::error::Error;
use std::time::Instant;

use unspoken_ckks::{Bootstrap, Bootstrapper, Complex64, Encoder, ErrorStatistics, Evaluator, Preset, SlotValues};
use unspoken_ring::SecretRng;
use unspoken_rlwe::{EvaluationKeys, SecretKey};

fn main() -> Result<(), Box<dyn Error>> {
    let name = std::env::args().nth(1).unwrap_or_else(|| "insecure_n11_boot_depth10_scale50".into());
    let parameters = Preset::find(&name)?.build()?;
    let plan = Bootstrap::new(&parameters, parameters.slots(), SlotValues::Complex)?;
    println!("{plan}");
    let mut rng = SecretRng::from_os()?;
    let secret = SecretKey::generate(parameters.rlwe(), &mut rng)?;
    let encoder = Encoder::new(&parameters);
    let start = Instant::now();
    let keys = EvaluationKeys::generate(&secret, &plan.key_plan(), &mut rng)?;
    println!("keys made in {:.1} s", start.elapsed().as_secs_f64());
    let start = Instant::now();
    let bootstrapper = Bootstrapper::new(&encoder, plan)?;
    println!("matrices encoded in {:.1} s", start.elapsed().as_secs_f64());
    let angle = |j: usize| (j * j) as f64;
    let values: Vec<Complex64> =
        (0..parameters.slots()).map(|j| Complex64::new(angle(j).sin(), angle(j).cos())).collect();
    let plaintext = encoder.encode(&values, bootstrapper.plan().input_level(), parameters.scale())?;
    let input = encoder.encrypt(&plaintext, &secret, &mut rng)?.expand(&parameters);
    let evaluator = Evaluator::new(&encoder, &keys);
    let runs = std::env::args().nth(2).map_or(Ok(3), |runs| runs.parse())?;
    for _ in 0..runs {
        let start = Instant::now();
        let output = bootstrapper.refresh(&evaluator, &input)?;
        let seconds = start.elapsed().as_secs_f64();
        let error = ErrorStatistics::between(&encoder.decrypt(&output, &secret)?, &values);
        println!("{seconds:.2} s, error rms 2^{:.1}, worst 2^{:.1}", error.rms.log2(), error.worst.log2());
    }
    Ok(())
}
