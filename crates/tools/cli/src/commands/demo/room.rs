//! Memory and disk space of this machine.

use std::path::Path;

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

/// Bytes of memory that processes can have without swapping: those of the machine, or of its control group if that has
/// fewer.
fn free_memory() -> Option<u64> {
    let machine = available(&std::fs::read_to_string("/proc/meminfo").ok()?)?;
    let group = |name: &str| std::fs::read_to_string(format!("/sys/fs/cgroup/memory.{name}")).ok();
    let number = |text: String| text.trim().parse::<u64>().ok();
    let limit = group("max").and_then(number);
    let left = limit.map(|limit| limit.saturating_sub(group("current").and_then(number).unwrap_or(0)));
    Some(left.unwrap_or(machine).min(machine))
}

/// The line `MemAvailable` of `/proc/meminfo`, in bytes.
fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1 << 10)
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
    fn the_memory_of_a_machine_is_read() {
        let text = "MemTotal:       24684084 kB\nMemFree:         100 kB\nMemAvailable:   2048 kB\n";
        assert_eq!(available(text), Some(2048 << 10));
        for text in ["", "MemAvailable:\n", "MemAvailable: many kB\n"] {
            assert_eq!(available(text), None);
        }
    }

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
