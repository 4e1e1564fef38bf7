//! Respire's own program (github.com/AMACB/respire), if the user has installed it as `.peers/respire/256m256` or
//! similar. It uses one thread, times its own phases and checks its own results.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::failure;
use crate::harness::Harness;
use crate::machine::available_memory_bytes;

/// Bytes of memory per byte of records according to its authors ("around 17x"), plus a margin.
const MEMORY_PER_BYTE: u64 = 18;

/// Names of its timed phases, for each phase of our answers; none for our selectors, which are part of its expansion.
const PHASES: [&[&str]; 5] = [
    &["answer_query_expand_reg", "answer_query_expand_gsw", "answer_query_expand_reg_to_gsw"],
    &[],
    &["answer_first_dim"],
    &["answer_fold", "answer_rotate"],
    &["answer_project", "answer_compress"],
];

/// Its measurements: its own names and seconds, for each trial.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Respire {
    trials: Vec<Vec<(String, f64)>>,
}

impl Respire {
    pub(crate) const NAME: &str = "Respire's program";

    /// Runs the named program for this many trials; `None` if the program is missing, peers are disabled or memory is
    /// short.
    pub(crate) fn measure(
        harness: &mut Harness<'_>,
        program: &str,
        bytes: u64,
        trials: usize,
    ) -> anyhow::Result<Option<Self>> {
        let path = program_path(&harness.options.root, program);
        if !harness.options.peers || !path.exists() {
            harness.progress(format!("Respire is not measured: no {}", path.display()));
            return Ok(None);
        }
        if available_memory_bytes().is_some_and(|free| free < MEMORY_PER_BYTE * bytes) {
            harness.progress(format!("Respire is not measured: it needs {} bytes of memory", MEMORY_PER_BYTE * bytes));
            return Ok(None);
        }
        harness.progress(format!("Respire's {program}"));
        let done = Command::new(&path)
            .arg(trials.to_string())
            .stdin(Stdio::null())
            .output()
            .map_err(|error| failure(Self::NAME, format!("cannot start: {error}")))?;
        let said = String::from_utf8_lossy(&done.stderr);
        if !done.status.success() || said.contains("protocol failed") {
            return Err(failure(Self::NAME, "it failed, or found a wrong record"));
        }
        Self::read(&said, trials).map(Some)
    }

    /// Parses the program's output.
    fn read(said: &str, trials: usize) -> anyhow::Result<Self> {
        let mut found: Vec<Vec<(String, f64)>> = Vec::new();
        let mut within = false;
        for line in said.lines() {
            let Some((name, time)) = line.strip_prefix("    ").and_then(|line| line.split_once(": ")) else {
                within = line == "Trial times:";
                if within {
                    found.push(Vec::new());
                }
                continue;
            };
            if let (true, Some(trial)) = (within, found.last_mut()) {
                let seconds = seconds(time).ok_or_else(|| failure(Self::NAME, format!("a time of '{time}'")))?;
                trial.push((name.to_owned(), seconds));
            }
        }
        let complete = |trial: &Vec<(String, f64)>| {
            PHASES.iter().copied().flatten().all(|phase| trial.iter().any(|(name, _)| name == phase))
        };
        if found.len() != trials || !found.iter().all(complete) {
            return Err(failure(Self::NAME, format!("{} trials with all phases, needed {trials}", found.len())));
        }
        Ok(Respire { trials: found })
    }

    /// Seconds of the server's work, for each trial.
    pub(crate) fn answers(&self) -> Vec<f64> {
        self.sums(|name| name.starts_with("answer_"))
    }

    /// Seconds of one of our phases, for each trial; `None` if Respire has no such phase.
    pub(crate) fn phase(&self, phase: usize) -> Option<Vec<f64>> {
        let names = PHASES.get(phase).filter(|names| !names.is_empty())?;
        Some(self.sums(|name| names.contains(&name)))
    }

    fn sums(&self, wanted: impl Fn(&str) -> bool) -> Vec<f64> {
        let sum = |trial: &Vec<(String, f64)>| trial.iter().filter(|(name, _)| wanted(name)).map(|(_, s)| s).sum();
        self.trials.iter().map(sum).collect()
    }
}

fn program_path(root: &Path, program: &str) -> PathBuf {
    root.join(".peers/respire").join(program)
}

/// A duration as Rust's `Debug` writes it: `1.5s`, `26.571748ms`, `582.594µs` or `12ns`.
fn seconds(text: &str) -> Option<f64> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(digits);
    let unit = match unit {
        "s" => 1.0,
        "ms" => 1e-3,
        "µs" => 1e-6,
        "ns" => 1e-9,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIAL: &str = "Trial times:\n    query: 440.16µs\n    answer_query_expand_reg: 74.5ms\n    \
        answer_query_expand_gsw: 1.25s\n    answer_query_expand_reg_to_gsw: 500ns\n    answer_first_dim: 31ms\n    \
        answer_fold: 184ms\n    answer_rotate: 1ms\n    answer_project: 6ms\n    answer_compress: 4ms\n    \
        extract: 24.948µs\n    total: 588.269456ms\nTrial time (end-to-end): 590.081965ms\n========\n";

    #[test]
    fn what_it_prints_is_understood() {
        let said = format!("Init times:\n    encode: 1.3s\n{TRIAL}{TRIAL}Summary times:\n    query: 1s mean, 0ns\n");
        let found = Respire::read(&said, 2).unwrap();
        let answer = 0.0745 + 1.25 + 5e-7 + 0.031 + 0.184 + 0.001 + 0.006 + 0.004;
        assert!(found.answers().iter().all(|seconds| (seconds - answer).abs() < 1e-12), "{found:?}");
        assert_eq!(found.answers().len(), 2);
        assert_eq!(found.phase(2), Some(vec![0.031; 2]));
        assert_eq!(found.phase(1), None);
        let parts: f64 = [0, 2, 3, 4].map(|phase| found.phase(phase).unwrap()[0]).iter().sum();
        assert!((parts - answer).abs() < 1e-12, "the phases are all of it");
    }

    #[test]
    fn anything_else_is_refused() {
        for said in [TRIAL.to_owned(), TRIAL.replace("answer_fold", "fold"), TRIAL.replace("31ms", "31 hours")] {
            assert!(Respire::read(&said, if said == TRIAL { 3 } else { 1 }).is_err());
        }
    }
}
