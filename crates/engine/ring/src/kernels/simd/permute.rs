//! The blocks that permutations move.

#[cfg(target_arch = "x86_64")]
use super::prefetch::prefetch;
use crate::automorphism::{LANES as BLOCK, Permutation};

/// Number of blocks by which a permutation prefetches its source ahead of use.
#[cfg(target_arch = "x86_64")]
const PREFETCH_PERMUTED: usize = 16;

/// Asserts that a permutation and both limbs have the same degree.
pub(super) fn check_permutation(permutation: &Permutation, source: &[u32], target: &[u32]) {
    let blocks = permutation.source_block.len();
    assert!(permutation.shuffle.len() == blocks && source.len() == blocks * BLOCK && target.len() == source.len());
}

/// The source of a target block.
#[inline(always)]
pub(super) fn source_block<'a>(permutation: &Permutation, source: &'a [u32], block: usize) -> &'a [u32] {
    &source[permutation.source_block[block] as usize * BLOCK..][..BLOCK]
}

/// Prefetches the source of the block [`PREFETCH_PERMUTED`] blocks after `block`.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn prefetch_permuted(permutation: &Permutation, source: &[u32], block: usize) {
    if let Some(&ahead) = permutation.source_block.get(block + PREFETCH_PERMUTED) {
        prefetch(source, ahead as usize * BLOCK, BLOCK);
    }
}
