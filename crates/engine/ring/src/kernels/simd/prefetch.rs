//! Prefetching.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

/// Prefetches `words` words of a slice, from `at` on. Positions past the end are harmless.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn prefetch(slice: &[u32], at: usize, words: usize) {
    for line in (at..at + words).step_by(16) {
        // SAFETY: every x86-64 machine has the instruction; it does not access memory, so every address is allowed.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(slice.as_ptr().wrapping_add(line).cast()) };
    }
}

/// WebAssembly has no instruction that prefetches.
#[cfg(target_arch = "wasm32")]
#[inline(always)]
pub(super) fn prefetch(_slice: &[u32], _at: usize, _words: usize) {}
