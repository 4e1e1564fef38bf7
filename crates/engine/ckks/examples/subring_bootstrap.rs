//! Bootstraps a subring query and prints keys, memory, levels, times and errors.
//!
//! `cargo run --release -p unspoken-ckks --example subring_bootstrap -- n16_query_depth11_scale40 4096`; the last
//! argument is the number of elements.

use std::error::Error;
use std::f64::consts::PI;
use std::time::Instant;

use unspoken_ckks::{
    Complex64, Encoder, ErrorStatistics, Evaluator, Preset, Simulator, SubringBootstrap, SubringBootstrapper,
};
use unspoken_ring::SecretRng;
use unspoken_rlwe::{EvaluationKeys, SecretKey, SubringQuerySecret};

fn main() -> Result<(), Box<dyn Error>> {
    let name = std::env::args().nth(1).unwrap_or_else(|| "insecure_n11_query_depth11_scale40".into());
    let parameters = Preset::find(&name)?.build()?;
    let count = std::env::args().nth(2).map_or(Ok(512), |count| count.parse())?;
    let plan = SubringBootstrap::new(&parameters, count)?;
    println!("{plan}");
    let mut rng = SecretRng::from_os()?;
    let secret = SecretKey::generate(parameters.rlwe(), &mut rng)?;
    let encoder = Encoder::new(&parameters);
    let elements: Vec<f64> = (0..count).map(|i| (i * i % 509) as f64 / 509.0 - 0.5).collect();
    let mut wanted = vec![Complex64::default(); count];
    elements.iter().enumerate().for_each(|(i, t)| wanted[plan.slot_of(i)] = Complex64::cis(2.0 * PI * t));
    let wanted = wanted.repeat(parameters.slots() / count);
    let simulated = plan.simulate(&Simulator::new(&encoder, 1), &elements, parameters.scale())?.error();
    println!("simulated  error rms 2^{:.1}, worst 2^{:.1}", simulated.rms.log2(), simulated.worst.log2());
    let start = Instant::now();
    let keys = EvaluationKeys::generate(&secret, &plan.key_plan(), &mut rng)?;
    println!("keys       made in {:.1} s: {} bytes", start.elapsed().as_secs_f64(), keys.bytes());
    let start = Instant::now();
    let bootstrapper = SubringBootstrapper::new(&encoder, plan)?;
    println!("matrices   encoded in {:.1} s", start.elapsed().as_secs_f64());
    let query = SubringQuerySecret::of(&secret, bootstrapper.plan().queries())?.encrypt(&elements, &mut rng)?;
    let evaluator = Evaluator::new(&encoder, &keys);
    for _ in 0..3 {
        let start = Instant::now();
        let output = bootstrapper.exponential(&evaluator, &query, parameters.scale())?;
        let seconds = start.elapsed().as_secs_f64();
        let error = ErrorStatistics::between(&encoder.decrypt(&output, &secret)?, &wanted);
        println!("{seconds:.2} s, error rms 2^{:.1}, worst 2^{:.1}", error.rms.log2(), error.worst.log2());
    }
    Ok(())
}
