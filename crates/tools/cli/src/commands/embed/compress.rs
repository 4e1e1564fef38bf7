//! `unspoken embed compress`

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use unspoken_embedding::{CompressOptions, compress};

use super::TableArguments;
use crate::interrupt;
use crate::progress::Bars;

/// Compress an embedding table for private lookup
///
/// Each embedding becomes a sum of one column of each of a few subtables. The output directory has a client half
/// (tokens and their columns) and a server half (subtables).
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    table: TableArguments,
    /// Directory to write the compressed table to
    #[arg(long)]
    out: PathBuf,
    /// Columns of each subtable: an even number from 2 to 4096; the lookup pads it to a power of two
    #[arg(long)]
    columns: usize,
    /// Number of subtables
    #[arg(long, default_value_t = 4)]
    subtables: usize,
    /// Rounds of refinement
    #[arg(long, default_value_t = CompressOptions::default().rounds)]
    rounds: usize,
    /// Changes tried for each token's columns in each round
    #[arg(long, default_value_t = CompressOptions::default().trials)]
    trials: usize,
    /// Seed; the same seed gives the same compressed table
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Add a row `<unk>` for tokens missing from the table: the mean of all rows. No effect if the table has such a
    /// row
    #[arg(long)]
    add_unknown: bool,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let table = arguments.table.read()?;
    let table = if arguments.add_unknown { table.with_unknown()? } else { table };
    let options = CompressOptions {
        seed: arguments.seed,
        subtables: arguments.subtables,
        columns: arguments.columns,
        rounds: arguments.rounds,
        trials: arguments.trials,
        ..CompressOptions::default()
    };
    let cancel = interrupt::on_ctrl_c()?;
    let mut bars = Bars::new();
    let start = Instant::now();
    let compressed = compress(&table, &options, &mut |progress| bars.compression(progress), cancel.flag())?;
    bars.finish();
    compressed.save(&arguments.out).with_context(|| format!("cannot write {}", arguments.out.display()))?;
    println!(
        "compressed {} embeddings of {} numbers in {:.1} s, wrote {}",
        table.tokens().len(),
        table.width(),
        start.elapsed().as_secs_f64(),
        arguments.out.display()
    );
    println!("relative error {:.4}", compressed.quality(&table)?.relative_error);
    Ok(())
}
