//! `unspoken bench`

use std::path::PathBuf;

use unspoken_bench::{Options, Row, Suite};

/// Measure against baselines
///
/// One line per row. `ours` and `baseline` are medians of repetitions that alternated in this run; `ratio` is the median
/// of the pairwise ratios, above 1 where ours is better.
#[derive(clap::Args)]
pub struct Arguments {
    /// What to measure: engine, lookup, matrix, encrypt or pir
    suite: String,
    /// End within a minute: small rings, few repetitions
    #[arg(long)]
    quick: bool,
    /// Measure this part of the suite and no other; may be given several times. Of engine: operations, keys, threads,
    /// transforms, matrix, bootstrap; of matrix: table3, table4, table6, table7, table8, plain; of encrypt: modes, schemes,
    /// tables; of pir: answers, rows, updates,
    /// service
    #[arg(long, value_name = "PART")]
    only: Vec<String>,
    /// One JSON object per row
    #[arg(long)]
    json: bool,
    /// Leave out the baselines of other libraries
    #[arg(long)]
    no_peers: bool,
    /// The directory of a compressed embedding table, for a further case of the lookup suite
    #[arg(long)]
    table: Option<PathBuf>,
    /// The repository, where peers and data are looked for
    #[arg(long, default_value = ".")]
    root: PathBuf,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let suite: Suite = arguments.suite.parse()?;
    let options = Options {
        quick: arguments.quick,
        only: arguments.only.clone(),
        peers: !arguments.no_peers,
        table: arguments.table.clone(),
        root: arguments.root.clone(),
        ..Options::default()
    };
    let mut print = |row: Row| match serde_json::to_string(&row) {
        Ok(line) if arguments.json => println!("{line}"),
        _ => println!("{}", sentence(&row)),
    };
    Ok(unspoken_bench::run(suite, &options, &mut print, &mut |what| eprintln!("{what}"))?)
}

/// One row for people.
fn sentence(row: &Row) -> String {
    let ours = format!("{:44} {:28} {:>12.4} {}", row.case, row.metric, row.ours, row.unit);
    match (row.baseline, row.ratio) {
        (Some(baseline), Some(ratio)) => {
            format!("{ours}  ({} {baseline:.4}, ratio {ratio:.2})", row.baseline_name)
        }
        _ => ours,
    }
}
