//! Number-theoretic transforms, by degree and backend.

use std::ops::RangeInclusive;

use unspoken_ring::modular::primes_descending;
use unspoken_ring::{Backend, Basis, Poly, Ring, RingKind, RingLiteral, Seed};

use crate::clock::{TimedOperation, alternate, scaled};
use crate::harness::Harness;
use crate::row::{Metric, params};

const TIME: Metric = Metric::less("time_per_prime", "us");

/// Words of the transformed polynomial: at small degrees, it fits a second-level cache together with the tables of
/// its primes.
const WORDS: usize = 1 << 17;

/// Words transformed per sample, so that a sample lasts much longer than the resolution of the clock.
const SAMPLE_WORDS: usize = 1 << 22;

/// Work inside the measured time besides the transform itself.
const INCLUDES: &str = "forward: one more pass, into Montgomery form; inverse: the division by n";

/// One row per degree, direction and vector backend, with the portable one as baseline.
pub(super) fn run(harness: &mut Harness<'_>, log_degrees: RangeInclusive<u32>) -> anyhow::Result<()> {
    for log_n in log_degrees {
        harness.progress(format!("transforms of degree 2^{log_n}"));
        degree(harness, log_n)?;
    }
    Ok(())
}

fn degree(harness: &mut Harness<'_>, log_n: u32) -> anyhow::Result<()> {
    let n = 1usize << log_n;
    let primes = (WORDS / n).clamp(2, 32);
    let rounds = (SAMPLE_WORDS / (n * primes)).max(1);
    let backends: Vec<Backend> = Backend::ALL.into_iter().filter(|backend| backend.is_available()).collect();
    let rings: Vec<Ring> = backends.iter().map(|&backend| ring(n, primes, backend)).collect::<Result<_, _>>()?;
    for (direction, forward) in [("forward", true), ("inverse", false)] {
        let (clock, single_thread) = (harness.clock(), &harness.single_thread);
        let mut operations: Vec<TimedOperation<'_>> = Vec::new();
        for ring in &rings {
            let mut poly = ring.uniform(&Seed([7; 32]), 0, Basis::chain(primes));
            operations.push(Box::new(move || {
                let mut seconds = 0.0;
                for _ in 0..rounds {
                    seconds += single_thread.install(|| round_trip(clock, ring, &mut poly, forward))?;
                }
                Ok(seconds / (rounds * primes) as f64)
            }));
        }
        let samples = alternate(harness.repetitions(), &mut operations)?;
        drop(operations);
        let micros: Vec<Vec<f64>> = samples.iter().map(|seconds| scaled(seconds, 1e6)).collect();
        let params = |backend: Backend| params! { "n": n, "backend": backend.name(), "includes": INCLUDES };
        let case = |backend: Backend| format!("NTT {direction}, n = 2^{log_n}, {}", backend.name());
        for (&backend, ours) in backends.iter().zip(&micros).skip(1) {
            let baseline = Some((Backend::Portable.name(), micros[0].as_slice()));
            harness.timing(TIME, case(backend), ours, baseline, params(backend));
        }
        if let [only] = backends[..] {
            harness.timing(TIME, case(only), &micros[0], None, params(only));
        }
    }
    Ok(())
}

/// Transforms to coefficients and back; returns the seconds of one direction.
fn round_trip(clock: crate::Clock, ring: &Ring, poly: &mut Poly, forward: bool) -> anyhow::Result<f64> {
    let (inverted, inverse_seconds) = clock.time(|| ring.to_coefficients(poly));
    inverted?;
    let (transformed, forward_seconds) = clock.time(|| ring.to_evaluation(poly));
    transformed?;
    Ok(if forward { forward_seconds } else { inverse_seconds })
}

fn ring(degree: usize, primes: usize, backend: Backend) -> anyhow::Result<Ring> {
    let kind = RingKind::Standard;
    let chain = primes_descending(1 << 16, 1 << 30, kind.prime_step(degree)).take(primes).collect();
    Ok(Ring::new(RingLiteral { degree, kind, chain, terminal: vec![], special: Vec::new(), digit_len: 1 }, backend)?)
}
