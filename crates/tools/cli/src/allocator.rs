//! The allocator, and when it gives memory back to the system.

/// A service must give back the memory of keys and answers that it has freed, or its limit of memory does not bound the
/// process.
#[cfg(feature = "full")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Freed memory goes back to the system at once. jemalloc reads its options from this symbol.
#[cfg(feature = "full")]
#[expect(unsafe_code, reason = "a symbol by the name that jemalloc looks for, of the type that it expects")]
// SAFETY: jemalloc's own definition of the symbol is weak, and there is no other. It is a pointer to a string with a 0
// at its end.
#[unsafe(export_name = "_rjem_malloc_conf")]
static ALLOCATOR_OPTIONS: &[u8; 34] = b"dirty_decay_ms:0,muzzy_decay_ms:0\0";

/// Milliseconds that freed memory is kept for a command that computes with large tensors: fetching it from the system
/// again for each of them took a third of the time of a pass of a language model.
#[cfg(feature = "full")]
const KEPT_MS: isize = 10_000;

/// Keeps freed memory for a while, for a command that is no service.
pub fn keep_freed_memory() {
    // All arenas that exist, and all that threads will make.
    #[cfg(feature = "full")]
    for option in [&b"arena.4096.dirty_decay_ms\0"[..], &b"arenas.dirty_decay_ms\0"[..]] {
        #[expect(unsafe_code, reason = "jemalloc's options have no safe interface")]
        // SAFETY: the names end with a 0 and are options of the type `ssize_t`.
        let result = unsafe { tikv_jemalloc_ctl::raw::write(option, KEPT_MS) };
        // Without it, commands are slower, and not wrong.
        debug_assert!(result.is_ok(), "{result:?}");
    }
}
