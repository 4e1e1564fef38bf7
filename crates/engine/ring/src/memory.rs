//! Host memory for limbs: aligned, recycled, and wiped if it held a secret.

#![expect(unsafe_code, reason = "aligned memory of its own")]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

use zeroize::optimization_barrier;

/// Least bytes of a buffer that asks for huge pages, which avoid TLB misses in the transform's column pass.
const HUGE_PAGE: usize = 2 << 20;
const CACHE_LINE: usize = 64;

/// A zeroed, cache-line-aligned array of `u32`.
pub(crate) struct AlignedWords {
    pointer: *mut u32,
    len: usize,
    layout: Layout,
}

// SAFETY: the buffer owns its memory and hands out references only through `&self`/`&mut self`.
unsafe impl Send for AlignedWords {}
// SAFETY: shared access is read-only.
unsafe impl Sync for AlignedWords {}

impl AlignedWords {
    pub(crate) fn zeroed(len: usize) -> Self {
        let bytes = len.max(1) * size_of::<u32>();
        let alignment = if bytes >= HUGE_PAGE { HUGE_PAGE } else { CACHE_LINE };
        let Ok(layout) = Layout::from_size_align(bytes, alignment) else { handle_alloc_error(Layout::new::<u32>()) };
        // SAFETY: the layout has a non-zero size.
        let pointer = unsafe { alloc_zeroed(layout) }.cast::<u32>();
        if pointer.is_null() {
            handle_alloc_error(layout);
        }
        #[cfg(target_os = "linux")]
        if alignment == HUGE_PAGE {
            // SAFETY: advice on memory we own; failure is harmless and ignored.
            unsafe { libc::madvise(pointer.cast(), bytes, libc::MADV_HUGEPAGE) };
        }
        AlignedWords { pointer, len, layout }
    }
}

impl Drop for AlignedWords {
    fn drop(&mut self) {
        // SAFETY: allocated with exactly this layout and not freed before.
        unsafe { dealloc(self.pointer.cast(), self.layout) }
    }
}

impl Deref for AlignedWords {
    type Target = [u32];
    fn deref(&self) -> &[u32] {
        // SAFETY: `pointer` is valid for `len` initialised words.
        unsafe { std::slice::from_raw_parts(self.pointer, self.len) }
    }
}

impl DerefMut for AlignedWords {
    fn deref_mut(&mut self) -> &mut [u32] {
        // SAFETY: `pointer` is valid for `len` initialised words and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.pointer, self.len) }
    }
}

/// A pool of buffers, recycled by length, so that an evaluator in its steady state allocates nothing.
pub(crate) struct Pool {
    idle: Mutex<IdleBuffers>,
    capacity_words: usize,
}

#[derive(Default)]
struct IdleBuffers {
    by_len: std::collections::BTreeMap<usize, Vec<AlignedWords>>,
    words: usize,
}

impl Pool {
    /// A pool that keeps at most `capacity_bytes` of idle buffers.
    pub(crate) fn new(capacity_bytes: usize) -> Arc<Self> {
        Arc::new(Pool { idle: Mutex::default(), capacity_words: capacity_bytes / size_of::<u32>() })
    }

    /// Most bytes of idle buffers that the pool keeps.
    pub(crate) fn capacity_bytes(&self) -> usize {
        self.capacity_words * size_of::<u32>()
    }

    /// Frees all idle buffers.
    pub(crate) fn release_idle(&self) {
        let idle = std::mem::take(&mut *self.idle.lock().unwrap_or_else(PoisonError::into_inner));
        drop(idle);
    }

    /// A buffer of `len` words with unspecified contents.
    pub(crate) fn take(self: &Arc<Self>, len: usize) -> Words {
        let recycled = {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            let words = idle.by_len.get_mut(&len).and_then(Vec::pop);
            if words.is_some() {
                idle.words -= len;
            }
            words
        };
        let words = recycled.unwrap_or_else(|| AlignedWords::zeroed(len));
        Words { words: Some(words), pool: Arc::clone(self), secret: false }
    }

    fn give_back(&self, words: AlignedWords) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.words + words.len() <= self.capacity_words {
            idle.words += words.len();
            idle.by_len.entry(words.len()).or_default().push(words);
        }
    }
}

/// A buffer of a [`Pool`]. When it is dropped it returns to the pool, wiped first if it is marked secret.
pub(crate) struct Words {
    words: Option<AlignedWords>,
    pool: Arc<Pool>,
    secret: bool,
}

impl Words {
    /// Marks the contents secret: they are wiped before the memory is reused.
    pub(crate) fn mark_secret(&mut self) {
        self.secret = true;
    }

    /// Marks the contents secret if an operand that they are computed from is secret.
    pub(crate) fn inherit(&mut self, operand_is_secret: bool) {
        self.secret |= operand_is_secret;
    }

    /// Marks the contents public: they are not wiped.
    pub(crate) fn declare_public(&mut self) {
        self.secret = false;
    }

    pub(crate) fn is_secret(&self) -> bool {
        self.secret
    }

    pub(crate) fn belongs_to(&self, pool: &Arc<Pool>) -> bool {
        Arc::ptr_eq(&self.pool, pool)
    }

    pub(crate) fn duplicate(&self) -> Words {
        let mut copy = self.pool.take(self.len());
        copy.copy_from_slice(self);
        copy.secret = self.secret;
        copy
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        if let Some(mut words) = self.words.take() {
            if self.secret {
                words.fill(0);
                optimization_barrier::<[u32]>(&words);
            }
            self.pool.give_back(words);
        }
    }
}

impl Deref for Words {
    type Target = [u32];
    fn deref(&self) -> &[u32] {
        self.words.as_deref().unwrap_or_default()
    }
}

impl DerefMut for Words {
    fn deref_mut(&mut self) -> &mut [u32] {
        self.words.as_deref_mut().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_recycled_and_secrets_wiped() {
        let pool = Pool::new(1 << 20);
        let mut secret = pool.take(100);
        secret.fill(7);
        secret.mark_secret();
        let address = secret.as_ptr();
        drop(secret);
        let again = pool.take(100);
        assert_eq!(again.as_ptr(), address);
        assert!(again.iter().all(|&w| w == 0));
    }

    #[test]
    fn the_pool_is_bounded() {
        let pool = Pool::new(400);
        let (a, b) = (pool.take(100), pool.take(100));
        drop(a);
        drop(b);
        assert_eq!(pool.idle.lock().unwrap().words, 100);
        let used = pool.take(50);
        pool.release_idle();
        let left = |pool: &Pool| {
            let idle = pool.idle.lock().unwrap();
            (idle.words, idle.by_len.len())
        };
        assert_eq!(left(&pool), (0, 0));
        // A buffer that was in use then is kept for reuse as before.
        drop(used);
        assert_eq!(left(&pool), (50, 1));
    }

    #[test]
    fn large_buffers_are_aligned() {
        let words = AlignedWords::zeroed(1 << 20);
        assert_eq!(words.as_ptr() as usize % HUGE_PAGE, 0);
        assert_eq!(AlignedWords::zeroed(3).as_ptr() as usize % CACHE_LINE, 0);
    }
}
