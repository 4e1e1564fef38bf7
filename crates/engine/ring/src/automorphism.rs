//! Galois automorphisms `X -> X^g` as permutations of the evaluation domain.

use crate::kind::RingKind;
use crate::ntt::bit_reverse;

/// Lanes of one block of a [`Permutation`].
pub(crate) const LANES: usize = 16;

/// `target[i] = source[pi(i)]` for the automorphism `X -> X^g`.
///
/// With `f` the bit reversal of a position, an automorphism is the affine map `f -> g f + c mod n`. In bit-reversed
/// order such a map sends each aligned block of 16 positions to another aligned block, and permutes the positions
/// inside the block by one of 16 fixed shuffles. So the table has one block number and one shuffle number per block.
pub(crate) struct Permutation {
    /// For each target block of 16, the source block.
    pub(crate) source_block: Vec<u32>,
    /// For each target block, which of `shuffles` to apply.
    pub(crate) shuffle: Vec<u8>,
    /// Lane `l` of the target comes from lane `shuffles[s][l]` of the source. All lanes of a half come from one half,
    /// and all lanes of a quarter from one quarter.
    pub(crate) shuffles: [[u32; LANES]; LANES],
}

impl Permutation {
    /// The permutation of the automorphism `X -> X^galois` of the ring; `galois` is odd, and 1 modulo 4 in the
    /// conjugate-invariant ring.
    pub(crate) fn new(degree: usize, kind: RingKind, galois: u64) -> Self {
        let bits = degree.trailing_zeros();
        let offset = match kind {
            RingKind::Standard => (galois - 1) / 2,
            RingKind::ConjugateInvariant => (galois - 1) / 4,
        };
        let mask = degree as u64 - 1;
        let source = |position: usize| {
            let f = bit_reverse(position, bits) as u64;
            bit_reverse((galois.wrapping_mul(f).wrapping_add(offset) & mask) as usize, bits)
        };
        // In lane 0 of a block the top four bits of f are zero, so the top four bits of its image are the shuffle's
        // offset.
        let blocks = (0..degree / LANES).map(|block| source(block * LANES));
        let (source_block, shuffle) = blocks.map(|s| ((s / LANES) as u32, bit_reverse(s % LANES, 4) as u8)).unzip();
        let shuffles = std::array::from_fn(|carry| {
            std::array::from_fn(|lane| {
                let high = bit_reverse(lane, 4) as u64;
                bit_reverse((galois.wrapping_mul(high).wrapping_add(carry as u64) & 15) as usize, 4) as u32
            })
        });
        Permutation { source_block, shuffle, shuffles }
    }

    /// `pi(i)`.
    pub(crate) fn source_of(&self, position: usize) -> usize {
        let (block, lane) = (position / LANES, position % LANES);
        let lane = self.shuffles[usize::from(self.shuffle[block])][lane];
        self.source_block[block] as usize * LANES + lane as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_form_equals_the_affine_map() {
        for (kind, step) in [(RingKind::Standard, 2), (RingKind::ConjugateInvariant, 4)] {
            for degree in [512usize, 2048] {
                let order = step * degree as u64;
                for galois in [1, 5, 25, 5u64.pow(9) % order, order - 3, order - step + 1] {
                    if kind == RingKind::ConjugateInvariant && galois % 4 != 1 {
                        continue;
                    }
                    let bits = degree.trailing_zeros();
                    let exponent = |i: usize| step * bit_reverse(i, bits) as u64 + 1;
                    let permutation = Permutation::new(degree, kind, galois);
                    for i in 0..degree {
                        assert_eq!(exponent(permutation.source_of(i)), exponent(i) * galois % order);
                    }
                }
            }
        }
    }
}
