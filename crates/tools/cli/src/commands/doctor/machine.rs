//! Processor, memory and clock.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use unspoken_ring::Backend;

use super::finding::{Finding, size};
use crate::memory::{all_memory, free_memory};

/// Before this program was written. A clock that is behind it is wrong.
const WRITTEN: &str = "2026-11-01T00:00:00Z";

/// Time by which clocks of file systems and machines may differ.
const SLACK: Duration = Duration::from_secs(120);

/// Made by a daemon of systemd when it has set the clock.
const SYNCHRONISED: &str = "/run/systemd/timesync/synchronized";

/// Processor and memory.
pub fn examine() -> Vec<Finding> {
    vec![processor(), memory()]
}

fn processor() -> Finding {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = cpuinfo.lines().find_map(|line| Some(line.strip_prefix("model name")?.split_once(':')?.1.trim()));
    let name = name.unwrap_or("a processor without a name");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let available: Vec<_> =
        Backend::ALL.into_iter().filter(|backend| backend.is_available()).map(Backend::name).collect();
    let used = Backend::detect();
    let found = format!("{name}, {cores} cores; kernels {}, used {}", available.join(" "), used.name());
    match used {
        Backend::Portable => Finding::warning(
            "processor",
            found,
            "answers take several times as long as with AVX2: take a machine with AVX2 or AVX-512, or let the virtual \
             machine show it",
        ),
        _ => Finding::ok("processor", found),
    }
}

fn memory() -> Finding {
    match (free_memory(), all_memory()) {
        (Some(free), Some(all)) => Finding::ok("memory", format!("{} of {} are free", size(free), size(all))),
        _ => Finding::warning(
            "memory",
            "this system does not say how much it has",
            "compare limits.memory_bytes (--memory-mib) with the machine by hand",
        ),
    }
}

/// The clock: keys, tokens of sessions and certificates expire by it. `files` were written before now.
pub fn clock(files: &[PathBuf]) -> Finding {
    let is_set = std::path::Path::new(SYNCHRONISED).exists();
    let newest = files.iter().filter_map(|path| Some((path.metadata().ok()?.modified().ok()?, path))).max();
    clock_at(SystemTime::now(), is_set, newest.map(|(time, path)| (time, path.display().to_string())))
}

fn clock_at(now: SystemTime, is_set: bool, newest: Option<(SystemTime, String)>) -> Finding {
    let date = |time| humantime::format_rfc3339_seconds(time).to_string();
    let remedy = "set the clock, for instance by NTP: keys and certificates expire by it";
    let written = humantime::parse_rfc3339(WRITTEN).unwrap_or(SystemTime::UNIX_EPOCH);
    if now < written {
        return Finding::problem("clock", format!("it is {}, before this program was written", date(now)), remedy);
    }
    if let Some((time, path)) = newest
        && time.duration_since(now).is_ok_and(|ahead| ahead > SLACK)
    {
        let found = format!("it is {}, and {path} was changed at {}", date(now), date(time));
        return Finding::warning("clock", found, remedy);
    }
    let source = if is_set { ", set by systemd-timesyncd" } else { "" };
    Finding::ok("clock", format!("it is {}{source}", date(now)))
}

#[cfg(test)]
mod tests {
    use super::super::finding::State;
    use super::*;

    #[test]
    fn a_clock_that_is_behind_is_named() {
        let at = |text: &str| humantime::parse_rfc3339(text).unwrap();
        let now = at("2026-12-01T12:00:00Z");
        assert_eq!(clock_at(now, true, None).state, State::Ok);
        let said = clock_at(at("1970-01-01T00:03:00Z"), false, None);
        assert_eq!(said.state, State::Problem);
        let said = clock_at(now, false, Some((at("2026-12-01T13:00:00Z"), "cert.pem".into())));
        assert!(said.state == State::Warning && said.found.contains("cert.pem"), "{said}");
        let said = clock_at(now, false, Some((at("2026-12-01T12:00:10Z"), "cert.pem".into())));
        assert_eq!(said.state, State::Ok);
    }

    #[test]
    fn processor_and_memory_have_a_line_each() {
        let lines: Vec<_> = examine().iter().map(ToString::to_string).collect();
        assert!(lines[0].contains(Backend::detect().name()) && lines.len() == 2, "{lines:?}");
    }
}
