//! Milliseconds of each part of encryption: `timings [PRESET] [RUNS]`.

use std::time::Instant;

use unspoken_ckks::{Complex64, Encoder, Preset, Zero};
use unspoken_ring::SecretRng;
use unspoken_rlwe::{PublicKey, SecretKey};

/// Prints the least and the median of `runs` timings, in milliseconds.
fn time<T>(what: &str, runs: usize, mut work: impl FnMut() -> T) {
    let mut times: Vec<f64> = (0..runs)
        .map(|_| {
            let start = Instant::now();
            std::hint::black_box(work());
            start.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    println!("{what:20} {:8.3} {:8.3}", times[0], times[runs / 2]);
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let preset = arguments.next().unwrap_or_else(|| "n15_linear_depth27_scale30".into());
    let runs = arguments.next().map_or(Ok(21), |runs| runs.parse::<usize>())?.max(1);
    let parameters = Preset::find(&preset)?.build()?;
    let encoder = Encoder::new(&parameters);
    let mut rng = SecretRng::from_os()?;
    let secret = SecretKey::generate(parameters.rlwe(), &mut rng)?;
    let public = PublicKey::generate(&secret, &mut rng)?;
    let (level, scale) = (parameters.max_level(), parameters.scale());
    let values: Vec<Complex64> = (0..parameters.slots()).map(|i| Complex64::from((i as f64).sin())).collect();
    let plaintext = encoder.encode(&values, level, scale)?;
    println!("{preset}: {:.1} bits, backend {}", parameters.log2_modulus(level), parameters.ring().backend().name());

    let n = parameters.ring().degree();
    println!("{:20} {:>8} {:>8}  ms", "", "least", "median");
    time("encode", runs, || encoder.encode(&values, level, scale));
    time("seeded", runs, || encoder.encrypt(&plaintext, &secret, &mut rng));
    time("public key", runs, || encoder.encrypt_public(&plaintext, &public, &mut rng));
    let mut zeros = Vec::new();
    for _ in 0..runs {
        zeros.push(Zero::seeded(&parameters, &secret, level, &mut rng)?);
    }
    time("a seeded zero, used", runs, || zeros.pop().map(|zero| encoder.encrypt_with(&plaintext, zero)));
    for _ in 0..runs {
        zeros.push(Zero::public(&parameters, &public, level, &mut rng)?);
    }
    time("a public zero, used", runs, || zeros.pop().map(|zero| encoder.encrypt_with(&plaintext, zero)));
    time("one error sampled", runs, || rng.gaussian(n));
    time("one ternary sampled", runs, || rng.ternary(n));
    let (seed, basis) = (rng.seed(), plaintext.poly().basis());
    time("one mask", runs, || parameters.ring().uniform(&seed, 0, basis));
    let small = rng.gaussian(n);
    time("one transform", runs, || parameters.ring().evaluate_i32(&small, basis));
    Ok(())
}
