//! Seeded random streams. They decide how a network is trained and are no secret.

use chacha20::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

/// What a stream is for: two uses of one seed never share numbers.
#[derive(Clone, Copy)]
pub(crate) enum Stream {
    Start = 1,
    Order = 2,
    Shifts = 3,
}

/// One stream of pseudo-random numbers, the same on every machine.
pub(crate) struct Random(ChaCha8Rng);

impl Random {
    pub(crate) fn new(seed: u64, stream: Stream) -> Self {
        let mut generator = ChaCha8Rng::seed_from_u64(seed);
        generator.set_stream(stream as u64);
        Self(generator)
    }

    /// Uniform in `[0, bound)`, to within a bias of `bound / 2^64`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.0.next_u64()) * bound as u128) >> 64) as usize
    }

    /// Uniform in `[-width, width)`.
    pub(crate) fn symmetric(&mut self, width: f32) -> f32 {
        let unit = (self.0.next_u32() >> 8) as f32 / (1 << 24) as f32;
        (2.0 * unit - 1.0) * width
    }

    /// Fisher-Yates.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}
