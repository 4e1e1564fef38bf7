//! `unspoken-storm constant-time`

mod cases;
mod declassified;
mod memcheck;
mod valgrind;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::json;
use unspoken_ring::Backend;

use self::cases::{CASES, Case, LEAK};
use self::declassified::{DECLASSIFIED, reason};
use self::valgrind::{INSTALL, Report, Run};
use crate::child;
use crate::verdict::Verdict;

/// Run client code under valgrind with its secrets marked, and report branches and addresses that depend on them
///
/// Each case runs once with the portable kernels and once with those for AVX2; valgrind has no AVX-512. A case is
/// deterministic: repeating it finds nothing new.
#[derive(clap::Args)]
pub struct Arguments {
    /// Run this case only; may be given several times
    #[arg(long = "case", value_name = "NAME")]
    cases: Vec<String>,
    /// Run these kernels only
    #[arg(long, value_enum)]
    kernels: Option<Kernels>,
    /// List the cases, and the functions that may branch on public data
    #[arg(long)]
    list: bool,
    /// Most seconds for one case
    #[arg(long, default_value_t = 300)]
    seconds: u64,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Kernels {
    Portable,
    Avx2,
}

impl Kernels {
    fn backend(self) -> Backend {
        match self {
            Kernels::Portable => Backend::Portable,
            Kernels::Avx2 => Backend::Avx2,
        }
    }
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    if arguments.list {
        CASES.iter().for_each(|case| println!("case        {:18} {}", case.name, case.about));
        DECLASSIFIED.iter().for_each(|known| println!("public      {:18} {}", known.function, known.reason));
        return Ok(ExitCode::SUCCESS);
    }
    if cfg!(not(all(target_arch = "x86_64", target_os = "linux"))) {
        eprintln!("constant-time runs on Linux on x86-64 only");
        return Ok(ExitCode::from(2));
    }
    let Some(version) = valgrind::version() else {
        eprintln!("{INSTALL}");
        return Ok(ExitCode::from(2));
    };
    let chosen = chosen(&arguments.cases)?;
    let limit = Duration::from_secs(arguments.seconds);
    let mut verdict = Verdict::new("constant-time");
    let leak = run_case(&LEAK, Backend::Portable, limit)?;
    let found = leak.reports.iter().any(|report| report.frames.iter().any(|frame| frame.contains("count_odd")));
    anyhow::ensure!(found, "{version} does not report the deliberate leak, so other leaks would be missed: {leak:?}");
    let (mut runs, mut public) = (0, BTreeMap::<&str, usize>::new());
    for kernels in arguments.kernels.map_or(vec![Kernels::Portable, Kernels::Avx2], |one| vec![one]) {
        let backend = kernels.backend();
        if !backend.is_available() {
            eprintln!("skipped     {}: this machine cannot run these kernels", backend.name());
            continue;
        }
        for case in &chosen {
            let start = Instant::now();
            let Run { reports, failure } = run_case(case, backend, limit)?;
            runs += 1;
            let seconds = start.elapsed().as_secs_f64();
            eprintln!("ran         {:18} {:8} {seconds:.1} s, {} reports", case.name, backend.name(), reports.len());
            if let Some(failure) = failure {
                verdict.finding(format!("{} ({}) did not end: {failure}", case.name, backend.name()));
            }
            for report in &reports {
                match reason(report) {
                    Some(known) => *public.entry(known.function).or_default() += 1,
                    None => verdict.finding(finding(case, backend, report)),
                }
            }
        }
    }
    verdict.number("cases", chosen.len());
    verdict.number("runs", runs);
    verdict.number("declassified", json!(public));
    verdict.number("tool", version);
    Ok(verdict.print(arguments.json))
}

/// The cases with these names, or all.
fn chosen(names: &[String]) -> anyhow::Result<Vec<&'static Case>> {
    if names.is_empty() {
        return Ok(CASES.iter().collect());
    }
    let find = |name: &String| cases::find(name).with_context(|| format!("no case '{name}'; see --list"));
    names.iter().map(find).collect()
}

/// Innermost frames of a report that are shown.
const SHOWN_FRAMES: usize = 8;

fn finding(case: &Case, backend: Backend, report: &Report) -> String {
    let frames = report.frames[..report.frames.len().min(SHOWN_FRAMES)].join(" < ");
    format!("{} ({}): {} depends on a secret: {frames}", case.name, backend.name(), report.kind)
}

/// Prepares a case outside valgrind, and runs it under valgrind.
fn run_case(case: &Case, backend: Backend, limit: Duration) -> anyhow::Result<Run> {
    let folder = tempfile::tempdir()?;
    let work = folder.path().join("case");
    std::fs::create_dir(&work)?;
    let directory = work.to_str().context("the temporary directory has a name that is not UTF-8")?;
    let arguments = |step: &'static str| ["child", "constant-time", case.name, backend.name(), step, directory];
    if case.prepare.is_some() {
        child::run(&arguments("prepare")).with_context(|| format!("cannot prepare the case {}", case.name))?;
    }
    valgrind::run(&arguments("run"), &folder.path().join("log"), limit)
}

/// One step of a case, in a process of its own.
#[derive(clap::Args)]
pub struct Step {
    case: String,
    backend: String,
    #[arg(value_parser = ["prepare", "run"])]
    step: String,
    directory: PathBuf,
}

/// Runs a step.
pub fn run_step(step: &Step) -> anyhow::Result<()> {
    let case = cases::find(&step.case).with_context(|| format!("no case '{}'", step.case))?;
    let backend = Backend::ALL.into_iter().find(|backend| backend.name() == step.backend);
    backend.with_context(|| format!("no kernels '{}'", step.backend))?.set_default()?;
    match (step.step.as_str(), case.prepare) {
        ("prepare", Some(prepare)) => prepare(&step.directory),
        ("prepare", None) => Ok(()),
        _ => {
            anyhow::ensure!(memcheck::is_running(), "cases run under valgrind, as `unspoken-storm constant-time`");
            (case.run)(&step.directory)
        }
    }
}
