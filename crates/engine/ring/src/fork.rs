//! Which side of a fork this is: what was made before one must not be used on both.

use std::sync::atomic::{AtomicU64, Ordering};

static GENERATION: AtomicU64 = AtomicU64::new(0);

/// A number that changes in a process that was forked from another, and only there. Whoever holds something to be used
/// once keeps the number with it, and throws it away when the number has changed.
///
/// Two things tell: a handler that the C library calls in the child, and, on Linux, a page of memory that the kernel
/// gives the child empty, for children made without the C library. Where there are no forks the number is constant.
pub fn process_generation() -> u64 {
    #[cfg(unix)]
    unix::notice_fork();
    GENERATION.load(Ordering::Relaxed)
}

#[cfg(unix)]
mod unix {
    #![expect(unsafe_code, reason = "calls of the C library that notice a fork")]

    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::GENERATION;

    /// A page that begins with a one, and in a child that was not here yet with a zero.
    static VISITED: OnceLock<Option<&'static AtomicU32>> = OnceLock::new();

    pub(super) fn notice_fork() {
        let visited = VISITED.get_or_init(|| {
            // SAFETY: the handler adds to an atomic number, which may be done in a forked child.
            unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
            emptied_page()
        });
        if let Some(visited) = visited
            && visited.load(Ordering::Acquire) == 0
        {
            // The number first: whoever finds the one must find the new number. Two threads may both add, which only
            // refuses once more.
            GENERATION.fetch_add(1, Ordering::Relaxed);
            visited.store(1, Ordering::Release);
        }
    }

    extern "C" fn in_child() {
        GENERATION.fetch_add(1, Ordering::Relaxed);
    }

    /// The first word, one, of a page that a child of this process finds zeroed; `None` where the system has no such
    /// pages.
    #[cfg(target_os = "linux")]
    fn emptied_page() -> Option<&'static AtomicU32> {
        const BYTES: usize = 4096;
        // SAFETY: asks for new memory; `MAP_FAILED` is looked for before it is used. It is never unmapped,
        // page-aligned, zeroed and shared by nothing else, so that it is a valid atomic for ever; the kernel zeroes it
        // in a child before that runs.
        unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let page = libc::mmap(std::ptr::null_mut(), BYTES, protection, flags, -1, 0);
            if page == libc::MAP_FAILED {
                return None;
            }
            if libc::madvise(page, BYTES, libc::MADV_WIPEONFORK) != 0 {
                libc::munmap(page, BYTES);
                return None;
            }
            let visited = &*page.cast::<AtomicU32>();
            visited.store(1, Ordering::Release);
            Some(visited)
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn emptied_page() -> Option<&'static AtomicU32> {
        None
    }

    #[cfg(test)]
    mod tests {
        use super::super::process_generation;
        use crate::SecretRng;

        /// Runs `child` in a forked process and gives its exit status.
        fn in_fork(raw: bool, child: impl FnOnce() -> i32) -> i32 {
            // SAFETY: the child computes and exits without unwinding into the test's threads.
            unsafe {
                let pid =
                    if raw { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) as i32 } else { libc::fork() };
                if pid == 0 {
                    libc::_exit(child());
                }
                let mut status = 0;
                libc::waitpid(pid, &mut status, 0);
                libc::WEXITSTATUS(status)
            }
        }

        #[test]
        #[cfg(target_os = "linux")]
        fn a_child_is_another_generation_and_draws_other_numbers() {
            let before = process_generation();
            let mut rng = SecretRng::from_os().unwrap();
            for raw in [false, true] {
                let mut pipe = [0; 2];
                // SAFETY: `pipe` has room for two descriptors.
                assert_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0);
                let mut draw = || {
                    let mut bytes = [0u8; 8];
                    rng.fill(&mut bytes);
                    u64::from_le_bytes(bytes)
                };
                let status = in_fork(raw, || {
                    let draw = draw();
                    // SAFETY: eight readable bytes.
                    unsafe { libc::write(pipe[1], (&raw const draw).cast(), 8) };
                    i32::from(process_generation() != before)
                });
                assert_eq!(status, 1, "raw: {raw}");
                let mut child = 0u64;
                // SAFETY: eight writable bytes.
                assert_eq!(unsafe { libc::read(pipe[0], (&raw mut child).cast(), 8) }, 8);
                assert_ne!(child, draw());
                assert_eq!(process_generation(), before);
            }
        }
    }
}
