//! Seeded random streams.

use chacha20::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

/// A stream of pseudo-random numbers, the same on every machine. Not for secrets.
pub struct Random(ChaCha8Rng);

impl Random {
    /// A stream of a seed. Streams of one seed never share numbers.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut generator = ChaCha8Rng::seed_from_u64(seed);
        generator.set_stream(stream);
        Self(generator)
    }

    /// Uniform in `[0, bound)`, to within a bias of `bound / 2^64`; 0 if `bound` is.
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.0.next_u64()) * bound as u128) >> 64) as usize
    }

    /// Uniform in `[-width, width)`, in steps of `width / 2^23`.
    pub fn symmetric(&mut self, width: f32) -> f32 {
        let unit = (self.0.next_u32() >> 8) as f32 / (1 << 24) as f32;
        (2.0 * unit - 1.0) * width
    }

    /// Normally distributed with mean 0 and standard deviation 1 (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        // 53 random bits in (0, 1], because the logarithm of 0 is infinite.
        let mut unit = || ((self.0.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
        let (radius, turn) = ((-2.0 * unit().ln()).sqrt(), unit());
        radius * (std::f64::consts::TAU * turn).cos()
    }

    /// Exponentially distributed with mean 1, and above 0. Weights divided by such numbers are largest at an index
    /// drawn in proportion to the weights.
    pub fn exponential(&mut self) -> f64 {
        // 52 random bits and a half, in (0, 1).
        let unit = ((self.0.next_u64() >> 12) as f64 + 0.5) / (1u64 << 52) as f64;
        -unit.ln()
    }

    /// Shuffles the items (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }

    /// `count` distinct numbers below `bound`, or all of them if there are fewer, in random order. Allocates memory for
    /// `bound` numbers.
    pub fn distinct(&mut self, count: usize, bound: usize) -> Vec<usize> {
        let mut all: Vec<usize> = (0..bound).collect();
        let count = count.min(bound);
        for first in 0..count {
            all.swap(first, first + self.below(bound - first));
        }
        all.truncate(count);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_what_they_always_were() {
        // Training with an old seed must give the same model again.
        let mut random = Random::new(7, 3);
        assert_eq!([0; 4].map(|_| random.below(1 << 32)), [779_716_368, 398_849_454, 4_204_794_330, 1_435_456_858]);
        assert_eq!([0; 3].map(|_| random.symmetric(1.0).to_bits()), [3_206_351_090, 3_197_655_740, 3_210_000_258]);
        let mut items = [0, 1, 2, 3, 4, 5, 6, 7];
        random.shuffle(&mut items);
        assert_eq!(items, [1, 6, 0, 7, 5, 3, 4, 2]);
        let mut other = Random::new(7, 4);
        assert_eq!(other.below(1 << 32), 4_247_792_936);
        let mut again = Random::new(7, 3);
        assert_eq!([0; 4].map(|_| again.below(7)), [1, 0, 6, 2]);
        assert_eq!(again.distinct(4, 100), [35, 39, 92, 34]);
    }

    #[test]
    fn numbers_stay_in_their_bounds() {
        let mut random = Random::new(1, 1);
        assert!((0..1000).all(|_| random.below(7) < 7) && random.below(0) == 0);
        let drawn: Vec<f32> = (0..1000).map(|_| random.symmetric(0.5)).collect();
        assert!(drawn.iter().all(|x| (-0.5..0.5).contains(x)));
        assert!(drawn.iter().any(|&x| x < -0.45) && drawn.iter().any(|&x| x > 0.45));
    }

    #[test]
    fn exponential_numbers_draw_in_proportion() {
        let (mut random, odds) = (Random::new(5, 1), [0.1f64, 0.6, 0.3]);
        let mut counts = [0; 3];
        for _ in 0..10_000 {
            let noisy = odds.map(|p| p / random.exponential());
            let best = (0..3).fold(0, |best, j| if noisy[j] > noisy[best] { j } else { best });
            counts[best] += 1;
        }
        assert!(counts.iter().zip(odds).all(|(&count, p)| (f64::from(count) / 1e4 - p).abs() < 0.02), "{counts:?}");
    }

    #[test]
    fn shuffles_and_choices_lose_and_repeat_nothing() {
        let mut random = Random::new(2, 1);
        let mut all = random.distinct(200, 100);
        random.shuffle(&mut all);
        all.sort_unstable();
        assert!(all.into_iter().eq(0..100));
        let mut some = random.distinct(60, 100);
        some.sort_unstable();
        some.dedup();
        assert!(some.len() == 60 && some.iter().all(|&index| index < 100));
    }
}
