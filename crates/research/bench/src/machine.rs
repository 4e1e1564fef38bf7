//! Description of the machine that ran the measurements.

use std::fmt;

use unspoken_ring::Backend;

/// The machine, for the head of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineInfo {
    /// The processor's name; `unknown` if the system does not report it.
    pub processor: String,
    /// Number of logical cores that this process may use.
    pub cores: usize,
    /// The backend that the engine chooses on this machine.
    pub backend: &'static str,
}

impl MachineInfo {
    /// Detects this machine.
    pub fn detect() -> Self {
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let name = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
        MachineInfo {
            processor: name.map_or("unknown", |(_, name)| name.trim()).to_owned(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            backend: Backend::detect().name(),
        }
    }
}

impl fmt::Display for MachineInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} cores, {} backend", self.processor, self.cores, self.backend)
    }
}

/// Peak memory of this process so far (the system's high-water mark of resident pages), in bytes; `None` if the
/// system does not report it.
pub fn peak_memory_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

/// Bytes available to a new process without swapping; `None` if the system does not report it.
pub(crate) fn available_memory_bytes() -> Option<u64> {
    let memory = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = memory.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_high_water_mark_rises() {
        let before = peak_memory_bytes().unwrap();
        let block = std::hint::black_box(vec![1u8; before as usize + (64 << 20)]);
        assert!(peak_memory_bytes().unwrap() >= before + (60 << 20), "{}", block.len());
        assert!(MachineInfo::detect().cores >= 1);
        assert!(available_memory_bytes().unwrap() > 1 << 20);
    }
}
