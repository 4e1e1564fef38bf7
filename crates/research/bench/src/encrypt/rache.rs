//! Rache, timed in turn with vanilla encryption only: several caches at once would fill the memory.

use unspoken_audit::insecure_reproduction::{Rache, RacheShape};
use unspoken_ring::SecretRng;

use super::methods::{EncryptionMethod, PreparedMethod};
use super::scheme::SchemeFixture;
use crate::clock::{Repetitions, TimedOperation, alternate};
use crate::harness::Harness;

/// Seconds, repetition by repetition.
pub(super) struct RacheTimes {
    pub(super) rache: Vec<f64>,
    /// Vanilla encryption of an encoded message.
    pub(super) vanilla: Vec<f64>,
}

/// Name in a row.
pub(super) fn name(shape: RacheShape) -> String {
    format!("Rache (broken), {shape}")
}

/// One pivot for each digit of the largest of these numbers.
pub(super) fn shape_that_holds(radix: u64, values: &[f64]) -> RacheShape {
    let largest = values.iter().fold(0.0, |max: f64, &x| max.max(x)).round() as u64;
    let digits = std::iter::successors(Some(largest), |rest| Some(rest / radix)).take_while(|&rest| rest > 0);
    RacheShape { radix, pivots: digits.count().max(1) }
}

/// Times Rache in turn with vanilla encryption. Encrypts every [`STRIDE`]th of `values`; if there are none, random
/// numbers of every length that the pivots allow.
pub(super) fn measure(
    shape: RacheShape,
    harness: &Harness<'_>,
    fixture: &SchemeFixture,
    values: &[u64],
    repetitions: Repetitions,
) -> anyhow::Result<RacheTimes> {
    let stopwatch = harness.stopwatch();
    let mut rng = SecretRng::insecure_from_seed(3);
    let cache = Rache::new(&fixture.vanilla, shape, &mut rng)?;
    let mut turn = 0usize;
    let mut next = |rng: &mut SecretRng| -> u64 {
        turn += 1;
        match values.len() {
            0 => {
                let mut bytes = [0; 8];
                rng.fill(&mut bytes);
                (u128::from(u64::from_le_bytes(bytes)) % shape.limit()) as u64
            }
            len => values[turn * STRIDE % len],
        }
    };
    let first = next(&mut rng);
    fixture.check(&name(shape), &cache.encrypt(first, &mut rng)?, &[first as f64])?;
    let vanilla = PreparedMethod::new(fixture, EncryptionMethod::Vanilla)?;
    let message = fixture.message(&vec![1.0; fixture.slots()])?;
    let rache: TimedOperation<'_> = Box::new(|| {
        let value = next(&mut rng);
        stopwatch.seconds(|| cache.encrypt(value, &mut rng))
    });
    let mut samples = alternate(repetitions, &mut [rache, vanilla.timed(stopwatch, &message)])?;
    let vanilla = samples.pop().unwrap_or_default();
    Ok(RacheTimes { rache: samples.pop().unwrap_or_default(), vanilla })
}

/// Distance between two measured rows of a table; coprime to the number of rows of every table.
const STRIDE: usize = 7919;
