//! Memory of this machine.

/// Bytes of memory that processes can have without swapping: the machine's, or the control group's if it has fewer.
pub fn free_memory() -> Option<u64> {
    let machine = available(&std::fs::read_to_string("/proc/meminfo").ok()?)?;
    let group = |name: &str| std::fs::read_to_string(format!("/sys/fs/cgroup/memory.{name}")).ok();
    let number = |text: String| text.trim().parse::<u64>().ok();
    let limit = group("max").and_then(number);
    let left = limit.map(|limit| limit.saturating_sub(group("current").and_then(number).unwrap_or(0)));
    Some(left.unwrap_or(machine).min(machine))
}

/// Bytes of memory that processes can have at most: the machine's, or the control group's if it has fewer.
pub fn all_memory() -> Option<u64> {
    let machine = field(&std::fs::read_to_string("/proc/meminfo").ok()?, "MemTotal:")?;
    let limit = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    let limit = limit.and_then(|text| text.trim().parse::<u64>().ok());
    Some(limit.unwrap_or(machine).min(machine))
}

/// The line `MemAvailable` of `/proc/meminfo`, in bytes.
fn available(meminfo: &str) -> Option<u64> {
    field(meminfo, "MemAvailable:")
}

/// A line of `/proc/meminfo`, in bytes.
fn field(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1 << 10)
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
}
