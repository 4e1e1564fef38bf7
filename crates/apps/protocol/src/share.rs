//! Noise for decrypted values that leave their owner.

use unspoken_ckks::ErrorStatistics;
use unspoken_ring::SecretRng;
use unspoken_rlwe::RlweError;

use crate::error::ProtocolError;
use crate::transfer::OUTPUT_ROUNDING;

/// Maximum number of bits by which noise may exceed the error. More would promise more than samples from 53 random bits
/// keep.
const MAX_BITS: u32 = 45;

/// Values are rounded to multiples of the noise's standard deviation divided by this.
const STEPS_PER_DEVIATION: f64 = 8.0;

/// A bound of the errors of answers, from the errors in simulations of their circuit: the larger of 4 times the largest
/// error and 16 times the root mean square, plus 16 times the rounding of [`write_output`](crate::write_output).
pub fn simulated_error_bound(simulated: &[ErrorStatistics]) -> f64 {
    let worst = simulated.iter().map(|error| error.worst).fold(0.0, f64::max);
    let mean_square = simulated.iter().map(|error| error.rms.powi(2)).sum::<f64>() / simulated.len().max(1) as f64;
    (4.0 * worst).max(16.0 * mean_square.sqrt()) + 16.0 * OUTPUT_ROUNDING
}

/// Gaussian noise that hides the error of decrypted values of CKKS.
///
/// A decrypted value is the exact value plus a small error, which depends on the secret key. Anyone who sees enough
/// decrypted values and knows the ciphertexts can compute the key (Li and Micciancio, 2021). The defence is noise that
/// is much larger than the error (Li, Micciancio, Schultz and Sorrell, 2022). The noise here has the standard deviation
/// `error_bound * 2^bits`. The result is rounded to multiples of an eighth of this deviation, so that the last digits
/// of a floating-point number reveal nothing about the error.
///
/// **Guarantee.** If no error exceeds `error_bound`, then `n` shared numbers are distributed as if they had been
/// computed from the exact values, up to a statistical distance of `sqrt(n) / 2 * 2^-bits`. (The Kullback-Leibler
/// divergence of two such Gaussians is at most `2^-(2 bits) / 2`; it adds up over `n` numbers; then Pinsker's
/// inequality applies.) The samples have 53 random bits, so their tail is cut at 8.57 standard deviations. A Gaussian
/// lies beyond with a probability of less than `2^-56`, so the cut adds at most `n * 2^-52` to the distance. So `n`
/// counts all numbers that are ever shared under one key, and each share of a value needs noise of its own. An
/// `error_bound` from a simulator holds for honest computations. The noise is no defence against a service that returns
/// wrong ciphertexts and then sees what they decrypt to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SharingNoise {
    deviation: f64,
}

impl SharingNoise {
    /// Noise that exceeds errors of at most `error_bound` by `bits` bits.
    ///
    /// # Errors
    /// If the bound is not positive and finite, `bits` is not from 1 to 45, or the noise is not finite.
    pub fn new(error_bound: f64, bits: u32) -> Result<Self, ProtocolError> {
        if !(error_bound > 0.0 && error_bound.is_finite()) {
            let needed = "a positive one; a service of an earlier version does not send it";
            return Err(ProtocolError::mismatch("bound of the error", error_bound, needed));
        }
        if !(1..=MAX_BITS).contains(&bits) {
            return Err(ProtocolError::mismatch("bits of noise", bits, format!("1 to {MAX_BITS}")));
        }
        let deviation = error_bound * f64::from(bits).exp2();
        if !deviation.is_finite() {
            let needed = "one whose noise is a finite number; do not trust this service";
            return Err(ProtocolError::mismatch("bound of the error", error_bound, needed));
        }
        Ok(SharingNoise { deviation })
    }

    /// Standard deviation of the noise.
    pub fn deviation(&self) -> f64 {
        self.deviation
    }

    /// A lower bound of the probability that the largest of these noisy values was the largest before the noise; 0
    /// where nothing can be said. Nothing is assumed about the values except that their magnitudes were at most `most`.
    /// The bound follows from the noisy values and `most` alone, so whoever may see these may see the bound.
    ///
    /// The noise of a difference of two values has the variance `2 deviation^2`, so with a distance `d` from the
    /// largest value, another value was larger before with a probability of at most `exp(-d^2 / (4 deviation^2)) / 2`.
    /// Values of at most `most` cannot have been further apart than `2 most`: a larger distance is noise.
    pub fn certainty(&self, noisy: &[f64], most: f64) -> f64 {
        let largest = noisy.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let distance = |value: f64| (largest - value).min(2.0 * most);
        let overtaken = |value: &f64| 0.5 * (-(distance(*value) / (2.0 * self.deviation)).powi(2)).exp();
        // The largest itself contributes one half.
        let others = noisy.iter().map(overtaken).sum::<f64>() - 0.5;
        (1.0 - others).max(0.0)
    }

    /// Adds fresh noise to each value, and rounds it.
    ///
    /// # Errors
    /// If the operating system has no randomness.
    pub fn add(&self, values: &mut [f64]) -> Result<(), ProtocolError> {
        let mut rng = SecretRng::from_os().map_err(RlweError::from)?;
        let step = self.deviation / STEPS_PER_DEVIATION;
        for value in values {
            *value = ((*value + self.deviation * gaussian(&mut rng)) / step).round() * step;
        }
        Ok(())
    }
}

/// A Gaussian sample of standard deviation 1, by the method of Box and Muller.
fn gaussian(rng: &mut SecretRng) -> f64 {
    let mut uniform = || {
        let mut bytes = [0; 8];
        rng.fill(&mut bytes);
        // In (0, 1].
        ((u64::from_le_bytes(bytes) >> 11) + 1) as f64 / (1u64 << 53) as f64
    };
    let radius = (-2.0 * uniform().ln()).sqrt();
    radius * (std::f64::consts::TAU * uniform()).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_has_its_deviation_and_hides_errors() {
        let noise = SharingNoise::new(1e-6, 10).unwrap();
        assert!((noise.deviation() - 1.024e-3).abs() < 1e-12);
        let (exact, count) = (0.5, 40_000);
        let shared = |value: f64| {
            let mut values = vec![value; count];
            noise.add(&mut values).unwrap();
            let step = noise.deviation() / STEPS_PER_DEVIATION;
            assert!(values.iter().all(|value| (value / step - (value / step).round()).abs() < 1e-6));
            let mean = values.iter().sum::<f64>() / count as f64;
            let deviation = (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / count as f64).sqrt();
            (mean, deviation / noise.deviation())
        };
        let (mean, deviation) = shared(exact);
        assert!((mean - exact).abs() < 5.0 * noise.deviation() / (count as f64).sqrt(), "{mean}");
        assert!((deviation - 1.0).abs() < 0.03, "{deviation}");
        // The largest error moves the distribution by a thousandth of its standard deviation.
        let (moved, _) = shared(exact + 1e-6);
        assert!((moved - mean).abs() < 8.0 * noise.deviation() / (count as f64).sqrt(), "{moved}");
    }

    #[test]
    fn certainty_is_a_bound_of_how_often_the_largest_stays_so() {
        let noise = SharingNoise::new(1.0, 3).unwrap();
        assert_eq!(noise.certainty(&[5.0, 5.0], 1e3), 0.5);
        assert_eq!(noise.certainty(&[5.0; 3], 1e3), 0.0);
        assert!(noise.certainty(&[0.0, 200.0], 1e3) > 0.999_999);
        // Values that are far apart compared with their difference, as if nothing were known before.
        let mut rng = SecretRng::from_os().unwrap();
        let (mut tried, mut kept, mut promised) = (0, 0, 0.0);
        for _ in 0..20_000 {
            let exact = [60.0 * gaussian(&mut rng), 60.0 * gaussian(&mut rng), 60.0 * gaussian(&mut rng)];
            let mut noisy = exact;
            noise.add(&mut noisy).unwrap();
            let largest = |values: &[f64; 3]| (1..3).fold(0, |best, i| if values[i] > values[best] { i } else { best });
            tried += 1;
            kept += usize::from(largest(&exact) == largest(&noisy));
            promised += noise.certainty(&noisy, 1e3);
        }
        let (kept, promised) = (kept as f64 / f64::from(tried), promised / f64::from(tried));
        assert!(promised < kept + 0.01 && promised > kept - 0.08, "{promised} {kept}");
    }

    #[test]
    fn labels_that_are_nothing_but_noise_are_never_certain() {
        // The noise is wider than the values can be: the largest noisy value says nothing, however far it is ahead.
        let noise = SharingNoise::new(1.0, 10).unwrap();
        let mut most = 0.0f64;
        for i in 0..2_000 {
            let mut noisy = [f64::from(i % 2), 0.5];
            noise.add(&mut noisy).unwrap();
            most = most.max(noise.certainty(&noisy, 1.0));
        }
        assert!((0.49..0.51).contains(&most), "{most}");
    }

    #[test]
    fn a_bound_that_is_none_is_refused() {
        for (bound, bits) in [(0.0, 10), (f64::NAN, 10), (f64::INFINITY, 10), (1e-6, 0), (1e-6, 46), (1e300, 45)] {
            assert!(SharingNoise::new(bound, bits).is_err(), "{bound} {bits}");
        }
        assert!(SharingNoise::new(1e-6, 45).is_ok());
    }
}
