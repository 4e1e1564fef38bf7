//! Memory for limbs: aligned, recycled, and wiped if it held a secret; or memory of a device.

#![expect(unsafe_code, reason = "aligned memory of its own")]

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, handle_alloc_error};
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use unspoken_device::{Buffer, Device, DeviceCopy};
use zeroize::optimization_barrier;

use crate::error::RingError;

/// Least bytes of a buffer that asks for huge pages, which avoid TLB misses in the transform's column pass. Only Linux
/// is asked.
const HUGE_PAGE: usize = 2 << 20;
const CACHE_LINE: usize = 64;

/// A zeroed, cache-line-aligned array of `u32`.
pub(crate) struct AlignedWords {
    pointer: *mut u32,
    len: usize,
}

// SAFETY: the buffer owns its memory and hands out references only through `&self`/`&mut self`.
unsafe impl Send for AlignedWords {}
// SAFETY: shared access is read-only.
unsafe impl Sync for AlignedWords {}

impl AlignedWords {
    /// The layout of `len` words.
    fn layout(len: usize) -> Layout {
        // Where `usize` has 32 bits, the bytes of a length may not fit it.
        let bytes = len.max(1).saturating_mul(size_of::<u32>());
        let alignment = if Self::is_huge(bytes) { HUGE_PAGE } else { CACHE_LINE };
        Layout::from_size_align(bytes, alignment).unwrap_or_else(|_| handle_alloc_error(Layout::new::<u32>()))
    }

    /// Whether a buffer of `bytes` bytes asks for huge pages.
    fn is_huge(bytes: usize) -> bool {
        cfg!(target_os = "linux") && bytes >= HUGE_PAGE
    }

    pub(crate) fn zeroed(len: usize) -> Self {
        let layout = Self::layout(len);
        let bytes = layout.size();
        if !Self::is_huge(bytes) {
            // SAFETY: the layout has a non-zero size.
            let pointer = unsafe { alloc_zeroed(layout) }.cast::<u32>();
            return if pointer.is_null() { handle_alloc_error(layout) } else { AlignedWords { pointer, len } };
        }
        // SAFETY: the layout has a non-zero size.
        let pointer = unsafe { alloc(layout) }.cast::<u32>();
        if pointer.is_null() {
            handle_alloc_error(layout);
        }
        // The advice comes before the first write: the write decides the size of the pages.
        // SAFETY: advice on memory we own; failure is harmless and ignored.
        #[cfg(target_os = "linux")]
        unsafe {
            libc::madvise(pointer.cast(), bytes, libc::MADV_HUGEPAGE)
        };
        // SAFETY: the memory is `bytes` long, and `len` words fill it.
        unsafe { pointer.write_bytes(0, len) };
        AlignedWords { pointer, len }
    }
}

impl Drop for AlignedWords {
    fn drop(&mut self) {
        // SAFETY: allocated with exactly this layout and not freed before.
        unsafe { dealloc(self.pointer.cast(), Self::layout(self.len)) }
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

/// A pool of buffers, so that an evaluator in its steady state allocates nothing.
///
/// A buffer is reused for its own length and for lengths down to half of it, because a circuit goes down through its
/// levels. When the pool is full, it frees the buffers that were idle for longest.
pub(crate) struct Pool {
    idle: Mutex<IdleBuffers>,
    capacity_words: usize,
}

#[derive(Default)]
struct IdleBuffers {
    /// By length; buffers of one length in the order of their return.
    by_len: BTreeMap<usize, Vec<Idle>>,
    words: usize,
    returned: u64,
}

struct Idle {
    buffer: AlignedWords,
    /// The number of buffers that were returned before.
    since: u64,
}

/// Largest number of words of a buffer that is reused for `len` words.
const fn largest_reused(len: usize) -> usize {
    2 * len
}

impl IdleBuffers {
    /// The shortest buffer that is long enough and not too long; of equal ones, the buffer that was returned last.
    fn take(&mut self, len: usize) -> Option<AlignedWords> {
        let (&length, buffers) = self.by_len.range_mut(len..=largest_reused(len)).next()?;
        let idle = buffers.pop();
        if buffers.is_empty() {
            self.by_len.remove(&length);
        }
        self.words -= length;
        idle.map(|idle| idle.buffer)
    }

    /// Removes the buffer that was idle for longest.
    fn remove_oldest(&mut self) -> Option<AlignedWords> {
        let first = |(&len, buffers): (&usize, &Vec<Idle>)| Some((buffers.first()?.since, len));
        let (_, length) = self.by_len.iter().filter_map(first).min()?;
        let buffers = self.by_len.get_mut(&length)?;
        let idle = buffers.remove(0);
        if buffers.is_empty() {
            self.by_len.remove(&length);
        }
        self.words -= length;
        Some(idle.buffer)
    }
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

    fn idle(&self) -> MutexGuard<'_, IdleBuffers> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Frees all idle buffers.
    pub(crate) fn release_idle(&self) {
        let idle = std::mem::take(&mut *self.idle());
        drop(idle);
    }

    /// A buffer of `len` words with unspecified contents.
    pub(crate) fn take(self: &Arc<Self>, len: usize) -> Words {
        let recycled = self.idle().take(len);
        let buffer = recycled.unwrap_or_else(|| AlignedWords::zeroed(len));
        Words {
            buffer: Some(buffer),
            device: None,
            copy: DeviceCopy::default(),
            len,
            pool: Arc::clone(self),
            secret: false,
        }
    }

    /// Words that only a device has.
    pub(crate) fn on_device(self: &Arc<Self>, buffer: Buffer) -> Words {
        self.of_device(Arc::new(buffer))
    }

    /// Words that only a device has, and perhaps others who do not change them.
    pub(crate) fn of_device(self: &Arc<Self>, buffer: Arc<Buffer>) -> Words {
        let (len, copy) = (buffer.len(), DeviceCopy::default());
        Words { buffer: None, device: Some(buffer), copy, len, pool: Arc::clone(self), secret: false }
    }

    fn give_back(&self, buffer: AlignedWords) {
        let len = buffer.len();
        let mut freed = Vec::new();
        let mut idle = self.idle();
        if len > self.capacity_words {
            return;
        }
        while idle.words + len > self.capacity_words {
            freed.extend(idle.remove_oldest());
        }
        let since = idle.returned;
        idle.returned += 1;
        idle.words += len;
        idle.by_len.entry(len).or_default().push(Idle { buffer, since });
        // The system takes its time to take memory back, so the lock is released first.
        drop(idle);
        drop(freed);
    }
}

/// A buffer of a [`Pool`]. A dropped buffer returns to the pool, wiped first if it is marked secret.
///
/// The words of a ring on a device are on the device or in this memory. Words in this memory are copied to the device
/// at their first use there.
pub(crate) struct Words {
    /// At least `len` words; none if only a device has them.
    buffer: Option<AlignedWords>,
    /// The words, if only a device has them.
    device: Option<Arc<Buffer>>,
    /// Their copy on a device, if they are here.
    copy: DeviceCopy,
    len: usize,
    pool: Arc<Pool>,
    secret: bool,
}

/// Operations fetch words before they read them.
const NOT_HERE: &str = "words in the memory of this process";

impl Words {
    /// Marks the contents secret: they are wiped before the memory is reused.
    pub(crate) fn mark_secret(&mut self) {
        self.inherit(true);
    }

    /// Marks the contents secret if an operand that they are computed from is secret.
    pub(crate) fn inherit(&mut self, operand_is_secret: bool) {
        self.secret |= operand_is_secret;
        if self.secret {
            self.copy = DeviceCopy::default();
        }
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
        if self.buffer.is_none() {
            let (device, copy, pool) = (self.device.clone(), DeviceCopy::default(), Arc::clone(&self.pool));
            return Words { buffer: None, device, copy, len: self.len, pool, secret: self.secret };
        }
        let mut copy = self.pool.take(self.len());
        copy.copy_from_slice(self);
        copy.secret = self.secret;
        copy
    }

    /// How many there are, wherever they are.
    pub(crate) fn count(&self) -> usize {
        self.len
    }

    /// Whether they are in the memory of this process.
    pub(crate) fn is_here(&self) -> bool {
        self.buffer.is_some()
    }

    /// The same words on a device. Words that are here are copied there, and the address is valid until the end of the
    /// operation.
    ///
    /// # Errors
    /// [`RingError::SecretOnDevice`] if they are secret, or if the device failed.
    pub(crate) fn on(&self, device: &Device) -> Result<Arc<Buffer>, RingError> {
        if self.secret {
            return Err(RingError::SecretOnDevice);
        }
        let Some(buffer) = &self.device else { return Ok(self.copy.on::<u32>(device, self)?) };
        device.note_use(buffer);
        Ok(Arc::clone(buffer))
    }

    /// The words on a device, to be changed there: nobody else has them.
    ///
    /// # Errors
    /// As for [`Words::on`].
    pub(crate) fn on_to_change(&mut self, device: &Device) -> Result<&Buffer, RingError> {
        if self.secret {
            return Err(RingError::SecretOnDevice);
        }
        let buffer = match &mut self.device {
            Some(buffer) => buffer,
            there => {
                let words = self.buffer.as_deref().map_or::<&[u32], _>(&[], |words| &words[..self.len]);
                let copy = self.copy.take(device, words)?;
                if let Some(host) = self.buffer.take() {
                    self.pool.give_back(host);
                }
                there.insert(Arc::new(copy))
            }
        };
        device.own(buffer)?;
        Ok(buffer)
    }

    /// A copy in the memory of this process.
    ///
    /// # Errors
    /// If the device failed.
    pub(crate) fn fetched(&self) -> Result<Words, RingError> {
        let mut copy = self.pool.take(self.len);
        match &self.device {
            Some(buffer) => buffer.read(0, &mut copy)?,
            None => copy.copy_from_slice(self),
        }
        copy.secret = self.secret;
        Ok(copy)
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        if let Some(mut buffer) = self.buffer.take() {
            if self.secret {
                let words = &mut buffer[..self.len];
                words.fill(0);
                optimization_barrier::<[u32]>(words);
            }
            self.pool.give_back(buffer);
        }
    }
}

impl Deref for Words {
    type Target = [u32];
    fn deref(&self) -> &[u32] {
        // An operation that reads nothing would give wrong results.
        &self.buffer.as_deref().expect(NOT_HERE)[..self.len]
    }
}

impl DerefMut for Words {
    fn deref_mut(&mut self) -> &mut [u32] {
        // A device has them as they were.
        self.copy = DeviceCopy::default();
        &mut self.buffer.as_deref_mut().expect(NOT_HERE)[..self.len]
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
        let used = pool.take(49);
        assert_eq!(pool.idle.lock().unwrap().words, 100, "a buffer more than twice as long is not taken");
        pool.release_idle();
        let left = |pool: &Pool| {
            let idle = pool.idle.lock().unwrap();
            (idle.words, idle.by_len.len())
        };
        assert_eq!(left(&pool), (0, 0));
        // A buffer that was in use then is kept for reuse as before.
        drop(used);
        assert_eq!(left(&pool), (49, 1));
    }

    #[test]
    fn longer_buffers_are_reused_and_the_oldest_are_freed() {
        let pool = Pool::new(900);
        let addresses: Vec<_> = {
            let taken = [100, 80].map(|len| pool.take(len));
            taken.iter().map(|words| words.as_ptr()).collect()
        };
        let words = pool.take(79);
        assert_eq!((words.as_ptr(), words.len()), (addresses[1], 79));
        drop(words);
        // The buffer of 100 words is the oldest now, and there is no room for all.
        drop(pool.take(130));
        let idle = pool.idle.lock().unwrap();
        assert_eq!(idle.by_len.keys().copied().collect::<Vec<_>>(), [80, 130]);
        assert_eq!(idle.words, 210);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn large_buffers_are_aligned() {
        let words = AlignedWords::zeroed(1 << 20);
        assert_eq!(words.as_ptr() as usize % HUGE_PAGE, 0);
    }

    #[test]
    fn buffers_are_aligned() {
        for len in [3, 1 << 20] {
            assert_eq!(AlignedWords::zeroed(len).as_ptr() as usize % CACHE_LINE, 0);
        }
    }
}
