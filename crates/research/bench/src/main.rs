//! The `unspoken-bench` command: benchmark suites, and the audit of cached encryption.

mod audit;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{Parser, Subcommand};
use unspoken_bench::{Clock, MachineInfo, Options, Row, Suite};

/// Measure algorithms against baselines
///
/// Prints one line per row. `ours` and `baseline` are medians of repetitions that alternate in one run; `ratio` is
/// the median of the ratios of paired repetitions, above 1 if ours is better.
#[derive(Parser)]
#[command(version, propagate_version = true, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
struct Arguments {
    #[command(flatten)]
    measurement: Option<Measurement>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Attack encryption methods: published ones that are broken, and ours
    #[command(subcommand)]
    Audit(audit::Command),
}

/// Arguments of a benchmark suite.
#[derive(clap::Args)]
struct Measurement {
    /// Suite to measure
    #[arg(value_parser = PossibleValuesParser::new(Suite::ALL.map(Suite::name)), required = true)]
    suite: String,
    /// Finish within a minute: small rings, few repetitions
    #[arg(long)]
    quick: bool,
    /// Measure only this part of the suite; may be given several times
    #[arg(long, value_name = "PART", long_help = parts_help())]
    only: Vec<String>,
    /// Print one JSON object per row
    #[arg(long)]
    json: bool,
    /// Skip the baselines of other libraries
    #[arg(long)]
    no_peers: bool,
    /// Measure CPU time instead of wall-clock time in rows of one thread
    #[arg(long)]
    cpu_time: bool,
    /// Directory of a compressed embedding table, as an additional case of the suite lookup
    #[arg(long)]
    table: Option<PathBuf>,
    /// Directory that `unspoken llama prepare` wrote for 512 tokens or more, for the parts prefill and steps of the
    /// suite llama, which take half an hour each
    #[arg(long, value_name = "DIR", requires = "text")]
    preparation: Option<PathBuf>,
    /// A text that the preparation has not seen, for the same parts
    #[arg(long, value_name = "FILE", requires = "preparation")]
    text: Option<PathBuf>,
    /// Directory of the repository, with peers and data
    #[arg(long, default_value = ".")]
    root: PathBuf,
}

/// Help for `--only`: the parts of each suite.
fn parts_help() -> String {
    let suites = Suite::ALL.into_iter().filter(|suite| !suite.parts().is_empty());
    let lines: Vec<String> = suites.map(|suite| format!("{}: {}", suite.name(), suite.parts().join(", "))).collect();
    format!("Measure only this part of the suite; may be given several times.\n\n{}", lines.join("\n"))
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match (arguments.command, arguments.measurement) {
        (Some(Command::Audit(command)), _) => {
            // `unspoken-bench audit ... | head` ends quietly. Commands that use sockets or child processes keep the
            // error.
            sigpipe::reset();
            audit::run(&command)
        }
        (None, Some(measurement)) => measure(&measurement),
        (None, None) => Ok(()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a suite and prints its rows.
fn measure(arguments: &Measurement) -> anyhow::Result<()> {
    let suite: Suite = arguments.suite.parse()?;
    let options = Options {
        quick: arguments.quick,
        only: arguments.only.clone(),
        peers: !arguments.no_peers,
        clock: if arguments.cpu_time { Clock::Cpu } else { Clock::Wall },
        table: arguments.table.clone(),
        preparation: arguments.preparation.clone(),
        text: arguments.text.clone(),
        root: arguments.root.clone(),
        ..Options::default()
    };
    eprintln!("{}", MachineInfo::detect());
    let mut print = |row: Row| match serde_json::to_string(&row) {
        Ok(line) if arguments.json => println!("{line}"),
        _ => println!("{}", text_line(&row)),
    };
    unspoken_bench::run(suite, &options, &mut print, &mut |progress| eprintln!("{progress}"))
}

/// A row as text.
fn text_line(row: &Row) -> String {
    let ours = format!("{:44} {:28} {:>12.4} {}", row.case, row.metric, row.ours, row.unit);
    match (row.baseline, row.ratio) {
        (Some(baseline), Some(ratio)) => {
            format!("{ours}  ({} {baseline:.4}, ratio {ratio:.2})", row.baseline_name)
        }
        _ => ours,
    }
}
