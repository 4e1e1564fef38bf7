//! `unspoken embed compress`

use std::fmt::Display;
use std::time::Instant;

use anyhow::Context;
use unspoken_embedding::{
    CompressOptions, CompressedTable, EmbeddingError, EmbeddingTable, GumbelOptions, Progress, compress,
    compress_by_gumbel,
};

use super::TableArguments;
use crate::commands::model_output::ModelOutput;
use crate::commands::seed::seed;
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
    #[command(flatten)]
    out: ModelOutput,
    /// Columns of each subtable: an even number from 2 to 4096; the lookup pads it to a power of two
    #[arg(long)]
    columns: usize,
    /// Number of subtables
    #[arg(long, default_value_t = 4)]
    subtables: usize,
    /// How columns are found
    #[arg(long, value_enum, default_value = "additive")]
    method: Method,
    /// Seed; the same seed gives the same compressed table
    #[arg(long, default_value_t = 0, value_parser = seed, allow_negative_numbers = true)]
    seed: u64,
    /// Add a row `<unk>` for tokens missing from the table: the mean of all rows. No effect if the table has such a
    /// row
    #[arg(long)]
    add_unknown: bool,
    #[command(flatten)]
    additive: AdditiveArguments,
    #[command(flatten)]
    gumbel: GumbelArguments,
}

/// A method of compression.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Method {
    /// Additive quantisation: alternating search for columns and least squares
    Additive,
    /// Shu and Nakayama's encoder network with Gumbel noise
    Gumbel,
}

/// The help of an option that has a default with its own method.
fn with_default(help: &str, default: impl Display) -> String {
    format!("{help} [default: {default}]")
}

/// Options of additive quantisation.
#[derive(clap::Args)]
#[command(next_help_heading = "Method additive")]
struct AdditiveArguments {
    #[arg(long, help = with_default("Rounds of refinement", CompressOptions::default().rounds))]
    rounds: Option<usize>,
    #[arg(
        long,
        help = with_default("Changes tried for each token's columns in each round", CompressOptions::default().trials)
    )]
    trials: Option<usize>,
}

/// Options of the encoder network.
#[derive(clap::Args)]
#[command(next_help_heading = "Method gumbel")]
struct GumbelArguments {
    #[arg(long, help = with_default("Epochs of training", GumbelOptions::default().epochs))]
    epochs: Option<usize>,
    #[arg(long, help = with_default("Rows of a batch", GumbelOptions::default().batch))]
    batch: Option<usize>,
    #[arg(long, help = with_default("Learning rate", GumbelOptions::default().rate))]
    rate: Option<f32>,
    #[arg(long, help = with_default("Temperature of the softmax", GumbelOptions::default().temperature))]
    temperature: Option<f32>,
}

impl Arguments {
    /// Refuses options of the method that was not chosen.
    fn check(&self) -> anyhow::Result<()> {
        let (additive, gumbel) = (&self.additive, &self.gumbel);
        let options = [
            ("rounds", Method::Additive, additive.rounds.is_some()),
            ("trials", Method::Additive, additive.trials.is_some()),
            ("epochs", Method::Gumbel, gumbel.epochs.is_some()),
            ("batch", Method::Gumbel, gumbel.batch.is_some()),
            ("rate", Method::Gumbel, gumbel.rate.is_some()),
            ("temperature", Method::Gumbel, gumbel.temperature.is_some()),
        ];
        for (name, method, given) in options {
            let needed = if method == Method::Additive { "additive" } else { "gumbel" };
            anyhow::ensure!(
                !given || method == self.method,
                "found --{name}, an option of --method {needed}; name that method or leave the option out"
            );
        }
        Ok(())
    }

    fn compress(
        &self,
        table: &EmbeddingTable,
        progress: &mut dyn FnMut(&Progress),
        cancel: &std::sync::atomic::AtomicBool,
    ) -> Result<CompressedTable, EmbeddingError> {
        let (seed, subtables, columns) = (self.seed, self.subtables, self.columns);
        match self.method {
            Method::Additive => {
                let defaults = CompressOptions::default();
                let rounds = self.additive.rounds.unwrap_or(defaults.rounds);
                let trials = self.additive.trials.unwrap_or(defaults.trials);
                let options = CompressOptions { seed, subtables, columns, rounds, trials, ..defaults };
                compress(table, &options, progress, cancel)
            }
            Method::Gumbel => {
                let (given, defaults) = (&self.gumbel, GumbelOptions::default());
                let options = GumbelOptions {
                    seed,
                    subtables,
                    columns,
                    epochs: given.epochs.unwrap_or(defaults.epochs),
                    batch: given.batch.unwrap_or(defaults.batch),
                    rate: given.rate.unwrap_or(defaults.rate),
                    temperature: given.temperature.unwrap_or(defaults.temperature),
                };
                compress_by_gumbel(table, &options, progress, cancel)
            }
        }
    }
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    arguments.check()?;
    let out = arguments.out.checked()?;
    let table = arguments.table.read()?;
    let table = if arguments.add_unknown { table.with_unknown()? } else { table };
    let cancel = interrupt::on_ctrl_c()?;
    let mut bars = Bars::new();
    let start = Instant::now();
    let compressed = arguments.compress(&table, &mut |progress| bars.compression(progress), cancel.flag())?;
    bars.finish();
    compressed.save(out).with_context(|| format!("cannot write {}", out.display()))?;
    println!(
        "compressed {} embeddings of {} numbers in {:.1} s, wrote {}",
        table.tokens().len(),
        table.width(),
        start.elapsed().as_secs_f64(),
        out.display()
    );
    println!("relative error {:.4}", compressed.quality(&table)?.relative_error);
    Ok(())
}
