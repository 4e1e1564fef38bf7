//! Memory and disk space of this machine.

use std::path::Path;

use crate::memory::free_memory;

/// What the machine lacks of memory, or of disk space below `path`; `None` if it has both.
pub fn lack(memory_bytes: u64, path: &Path, disk_bytes: u64) -> Option<String> {
    let said = |found: u64, what: &str| format!("this machine has {:.1} GB of {what}", found as f64 / 1e9);
    match free_memory() {
        None => return Some("this system does not say how much memory it has".into()),
        Some(found) if found < memory_bytes => return Some(said(found, "memory that is free")),
        Some(_) => {}
    }
    match free_disk(path) {
        Some(found) if found < disk_bytes => Some(said(found, &format!("free disk space at {}", path.display()))),
        _ => None,
    }
}

#[cfg(unix)]
fn free_disk(path: &Path) -> Option<u64> {
    let system = rustix::fs::statvfs(path).ok()?;
    system.f_bavail.checked_mul(system.f_frsize)
}

#[cfg(not(unix))]
fn free_disk(_: &Path) -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lacking_is_named() {
        let here = Path::new(".");
        let said = lack(u64::MAX, here, 0).unwrap();
        assert!(said.starts_with("this "), "{said}");
        if free_memory().is_some() {
            assert_eq!(lack(0, here, 0), None);
            let said = lack(0, here, u64::MAX).unwrap();
            assert!(said.contains("disk space at ."), "{said}");
        }
    }
}
