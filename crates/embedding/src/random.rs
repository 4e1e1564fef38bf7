//! Seeded random streams. They decide how a table is compressed and are no secret.

use chacha20::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

/// One stream of pseudo-random numbers, the same on every machine. Streams of one seed never share numbers.
pub(crate) struct Random(ChaCha8Rng);

impl Random {
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let mut generator = ChaCha8Rng::seed_from_u64(seed);
        generator.set_stream(stream);
        Self(generator)
    }

    /// Uniform in `[0, bound)`, to within a bias of `bound / 2^64`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.0.next_u64()) * bound as u128) >> 64) as usize
    }

    /// `count` distinct numbers below `bound`, or all of them if there are not so many, in random order.
    pub(crate) fn distinct(&mut self, count: usize, bound: usize) -> Vec<usize> {
        let mut all: Vec<usize> = (0..bound).collect();
        let count = count.min(bound);
        for first in 0..count {
            all.swap(first, first + self.below(bound - first));
        }
        all.truncate(count);
        all
    }
}
