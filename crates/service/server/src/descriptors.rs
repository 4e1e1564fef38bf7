//! File descriptors of the process: the limit on them, and the errors when they run out.
//!
//! `Server::bind` raises the soft limit of open files to the hard one. The service allows as many connections as this
//! limit, less 128 descriptors for files. If descriptors run out nevertheless, requests are refused with 503 and
//! `Retry-After`.

use std::io;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that connections leave for files of the key store, databases that change, and the service itself.
const KEPT: u64 = 128;

/// The soft limit where there is no hard one: the highest that Linux allows by default.
const MOST: u64 = 1 << 20;

/// Raises the soft limit on open descriptors of this process to the hard limit. Returns the limit that holds then;
/// `None` if there is none.
pub(crate) fn raise_limit() -> Option<u64> {
    let found = getrlimit(Resource::Nofile);
    let wanted = found.maximum.unwrap_or(MOST);
    let raised = Rlimit { current: Some(wanted), maximum: found.maximum };
    if found.current.is_some_and(|current| current < wanted)
        && let Err(error) = setrlimit(Resource::Nofile, raised)
    {
        tracing::warn!(%error, "cannot raise the limit of open files");
    }
    getrlimit(Resource::Nofile).current
}

/// Number of connections for which there are descriptors: all descriptors, less the open ones and a number for files.
pub(crate) fn room_for_connections(limit: Option<u64>) -> usize {
    let Some(limit) = limit else { return usize::MAX };
    // Where descriptors cannot be counted, few are open at the start.
    let open = std::fs::read_dir("/proc/self/fd").map_or(16, |entries| entries.count() as u64);
    let free = limit.saturating_sub(open);
    // With a small limit, half of it stays for files.
    usize::try_from(free - KEPT.min(free / 2)).unwrap_or(usize::MAX)
}

/// Whether an error says that too many files are open in the process or the system. Both pass when others are closed.
pub(crate) fn ran_out(error: &io::Error) -> bool {
    Errno::from_io_error(error).is_some_and(|code| code == Errno::MFILE || code == Errno::NFILE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_descriptors_for_files() {
        assert_eq!(room_for_connections(None), usize::MAX);
        assert!((700..1024 - KEPT as usize).contains(&room_for_connections(Some(1024))));
        let few = room_for_connections(Some(100));
        assert!(few <= 50, "{few}");
        assert_eq!(room_for_connections(Some(0)), 0);
    }

    #[test]
    fn too_many_open_files_are_told_from_failures() {
        assert!(ran_out(&Errno::MFILE.into()) && ran_out(&Errno::NFILE.into()));
        assert!(!ran_out(&Errno::IO.into()) && !ran_out(&io::Error::other("too many open files")));
    }
}
