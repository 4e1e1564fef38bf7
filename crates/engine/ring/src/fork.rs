//! Detection of forked processes. A value that was made before a fork and is for one use must not be used on both
//! sides.

use std::sync::atomic::{AtomicU64, Ordering};

static GENERATION: AtomicU64 = AtomicU64::new(0);

/// A number that changes in a forked child process, and nowhere else. An owner of a single-use value stores the number
/// with the value, and discards the value when the number has changed.
///
/// Two mechanisms detect a fork: a handler that the C library calls in the child, and, on Linux, a page of memory that
/// the kernel zeroes in the child, for children made without the C library. On systems without forks the number is
/// constant.
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

    /// A page whose first word is one. In a child that has not called `notice_fork` yet it is zero.
    static VISITED: OnceLock<Option<&'static AtomicU32>> = OnceLock::new();

    pub(super) fn notice_fork() {
        let visited = VISITED.get_or_init(|| {
            // SAFETY: the handler adds to an atomic number, which is allowed in a forked child.
            unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
            emptied_page()
        });
        if let Some(visited) = visited
            && visited.load(Ordering::Acquire) == 0
        {
            // The generation changes first: a thread that reads one must also read the new generation. Two threads may
            // both add, which is harmless: it only discards single-use values once more.
            GENERATION.fetch_add(1, Ordering::Relaxed);
            visited.store(1, Ordering::Release);
        }
    }

    extern "C" fn in_child() {
        GENERATION.fetch_add(1, Ordering::Relaxed);
    }

    /// The first word, set to one, of a page that the kernel zeroes in a child of this process. `None` where the system
    /// has no such pages.
    #[cfg(target_os = "linux")]
    fn emptied_page() -> Option<&'static AtomicU32> {
        const BYTES: usize = 4096;
        // SAFETY: this maps new memory and checks for `MAP_FAILED` before it uses it. The page is page-aligned, zeroed,
        // not shared, and never unmapped, so it is a valid atomic for the rest of the process; the kernel zeroes it in
        // a child before the child runs.
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

        /// Runs `child` in a forked process and returns its exit status.
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
