//! Measures each part of encryption in milliseconds: `timings [PRESET] [RUNS] [LEVEL]`.

use std::time::Instant;

use unspoken_ckks::{Complex64, Encoder, Preset};
use unspoken_ring::SecretRng;
use unspoken_rlwe::{PublicKey, SecretKey, ZeroEncryption};

/// Prints the smallest wall time of `runs` runs and the median of their processor time, which other programs disturb
/// less, in milliseconds.
fn time<T>(what: &str, runs: usize, mut work: impl FnMut() -> T) {
    let processor = || {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        now.tv_sec as f64 * 1e3 + now.tv_nsec as f64 / 1e6
    };
    let mut times: Vec<[f64; 2]> = (0..runs)
        .map(|_| {
            let (start, used) = (Instant::now(), processor());
            std::hint::black_box(work());
            [start.elapsed().as_secs_f64() * 1e3, processor() - used]
        })
        .collect();
    let mut sorted = |i: usize| {
        times.sort_by(|a, b| a[i].total_cmp(&b[i]));
        times.iter().map(|time| time[i]).collect::<Vec<_>>()
    };
    println!("{what:20} {:8.3} {:8.3}", sorted(0)[0], sorted(1)[runs / 2]);
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let preset = arguments.next().unwrap_or_else(|| "n15_linear_depth27_scale30".into());
    let runs = arguments.next().map_or(Ok(21), |runs| runs.parse::<usize>())?.max(1);
    let level = arguments.next().map(|level| level.parse::<usize>()).transpose()?;
    let parameters = Preset::find(&preset)?.build()?;
    let encoder = Encoder::new(&parameters);
    let mut rng = SecretRng::from_os()?;
    let secret = SecretKey::generate(parameters.rlwe(), &mut rng)?;
    let public = PublicKey::generate(&secret, &mut rng)?;
    let (level, scale) = (level.unwrap_or(parameters.max_level()), parameters.scale());
    let values: Vec<Complex64> = (0..parameters.slots()).map(|i| Complex64::from((i as f64).sin())).collect();
    let plaintext = encoder.encode(&values, level, scale)?;
    let bits = parameters.log2_modulus(level);
    println!("{preset}, level {level}: {bits:.1} bits, backend {}", parameters.ring().backend().name());

    let n = parameters.ring().degree();
    println!("{:20} {:>8} {:>8}  ms", "", "least", "CPU");
    time("encode", runs, || encoder.encode(&values, level, scale));
    time("seeded", runs, || encoder.encrypt(&plaintext, &secret, &mut rng));
    time("public key", runs, || encoder.encrypt_public(&plaintext, &public, &mut rng));
    let sent = encoder.encrypt(&plaintext, &secret, &mut rng)?;
    time("bytes of a seeded", runs, || sent.to_bytes(&parameters));
    let mut zeros = Vec::new();
    for _ in 0..runs {
        zeros.push(ZeroEncryption::seeded(&secret, parameters.basis(level), &mut rng)?);
    }
    time("a seeded zero, used", runs, || zeros.pop().map(|zero| encoder.encrypt_with(&plaintext, zero)));
    for _ in 0..runs {
        zeros.push(ZeroEncryption::public(&public, parameters.basis(level), &mut rng)?);
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
