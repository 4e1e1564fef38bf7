//! Runs a program under valgrind's memcheck and reads its reports.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;

/// Innermost frames of a report that are kept.
const FRAMES: usize = 32;

/// What to install where valgrind is absent.
pub const INSTALL: &str = "constant-time needs valgrind; install it (Debian, Ubuntu: apt-get install valgrind; Fedora: \
                           dnf install valgrind)";

/// A branch or an address that depends on undefined data.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Report {
    /// The kind of use: `branch` or `address`.
    pub kind: &'static str,
    /// Functions with file and line, the innermost first; inlined functions are frames, too.
    pub frames: Vec<String>,
    /// Number of the frames that are one function of the machine code: the function itself, and the functions inlined
    /// into it.
    pub innermost: usize,
}

/// What a run under memcheck gave.
#[derive(Debug)]
pub struct Run {
    /// Distinct reports.
    pub reports: BTreeSet<Report>,
    /// What the program wrote to standard error, if it failed.
    pub failure: Option<String>,
}

/// Version of the installed valgrind; `None` if it cannot be run.
pub fn version() -> Option<String> {
    let output = Command::new("valgrind").arg("--version").output().ok().filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok().map(|text| text.trim().into())
}

/// Runs this program with `arguments` under memcheck, at most `limit`. `log` is a file for the reports.
pub fn run(arguments: &[&str], log: &Path, limit: Duration) -> anyhow::Result<Run> {
    let errors = log.with_extension("stderr");
    let mut child = Command::new("valgrind")
        .args(["--tool=memcheck", "--leak-check=no", "--error-limit=no", "--num-callers=40", "--error-exitcode=0"])
        .arg(format!("--log-file={}", log.display()))
        .arg(std::env::current_exe()?)
        .args(arguments)
        // One thread: valgrind runs one at a time anyway.
        .env("RAYON_NUM_THREADS", "1")
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(&errors)?)
        .spawn()
        .context(INSTALL)?;
    let end = Instant::now() + limit;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if Instant::now() >= end {
            child.kill()?;
            child.wait()?;
            break None;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let failure = match status {
        Some(status) if status.success() => None,
        Some(status) => Some(format!("{status}: {}", std::fs::read_to_string(&errors)?.trim())),
        None => Some(format!("not finished after {} s; allow more with --seconds", limit.as_secs())),
    };
    Ok(Run { reports: read(&String::from_utf8_lossy(&std::fs::read(log)?)), failure })
}

/// The reports in a log of memcheck about branches and addresses. Reports about the content of memory that system calls
/// write are left out: what leaves the process is not examined here, only the time.
fn read(log: &str) -> BTreeSet<Report> {
    let mut reports = BTreeSet::new();
    let (mut report, mut first_address): (Option<Report>, _) = (None, None);
    for line in log.lines() {
        let text =
            line.trim_start_matches('=').trim_start_matches(|c: char| c.is_ascii_digit()).trim_start_matches('=');
        let text = text.trim();
        if let Some((address, function)) = frame(text) {
            if let Some(report) = report.as_mut().filter(|report| report.frames.len() < FRAMES) {
                report.frames.push(function.into());
                report.innermost += usize::from(*first_address.get_or_insert(address) == address);
            }
            continue;
        }
        reports.extend(report.take());
        first_address = None;
        report = kind(text).map(|kind| Report { kind, frames: Vec::new(), innermost: 0 });
    }
    reports.extend(report);
    reports
}

/// The kind of use that the first line of a report names.
fn kind(text: &str) -> Option<&'static str> {
    if text.starts_with("Conditional jump or move depends on uninitialised") {
        Some("branch")
    } else if text.starts_with("Use of uninitialised value") {
        Some("address")
    } else if text.starts_with("Syscall param") && !text.contains("points to") {
        Some("argument of a system call")
    } else {
        None
    }
}

/// Address and function of a line such as `at 0x1234: name (file.rs:12)`.
fn frame(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix("at 0x").or_else(|| text.strip_prefix("by 0x"))?.split_once(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_read() {
        let log = "==7== Memcheck, a memory error detector\n==7== \n\
                   ==7== Conditional jump or move depends on uninitialised value(s)\n\
                   ==7==    at 0x12: {closure#0} (leak.rs:21)\n==7==    by 0x12: count (leak.rs:20)\n\
                   ==7==    by 0x34: leak::run (leak.rs:12)\n==7== \n\
                   ==7== Use of uninitialised value of size 8\n==7==    at 0x56: look_up (a.rs:1)\n==7== \n\
                   ==7== Syscall param write(buf) points to uninitialised byte(s)\n==7==    at 0x78: write (b.rs:1)\n\
                   ==7== ERROR SUMMARY: 3 errors from 3 contexts\n";
        let report = |kind, innermost, frames: &[&str]| Report {
            kind,
            frames: frames.iter().map(|frame| (*frame).into()).collect(),
            innermost,
        };
        let expected = [
            report("branch", 2, &["{closure#0} (leak.rs:21)", "count (leak.rs:20)", "leak::run (leak.rs:12)"]),
            report("address", 1, &["look_up (a.rs:1)"]),
        ];
        assert_eq!(read(log), BTreeSet::from(expected));
    }
}
