//! `unspoken embed`

mod ask;
mod classify;
mod compress;
mod report;
mod train;

use std::path::PathBuf;

use anyhow::Context;
use unspoken_embedding::{EmbeddingTable, Source};

/// Compress embedding tables, measure the loss, look up embeddings privately, train linear heads over them, and
/// classify texts with them privately
#[derive(clap::Subcommand)]
pub enum Command {
    /// Compress a table
    Compress(compress::Arguments),
    /// Measure the loss of compression
    Report(report::Arguments),
    /// Look up embeddings with an encrypted query to a service
    Ask(ask::Arguments),
    /// Train a linear head over the mean embedding of a text
    Train(train::Arguments),
    /// Classify texts with an encrypted query to a service that has a head over a table
    Classify(classify::Arguments),
}

/// Runs the command.
pub fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::Compress(arguments) => compress::run(arguments),
        Command::Report(arguments) => report::run(arguments),
        Command::Ask(arguments) => ask::run(arguments),
        Command::Train(arguments) => train::run(arguments),
        Command::Classify(arguments) => classify::run(arguments),
    }
}

/// The embedding table.
#[derive(clap::Args)]
struct TableArguments {
    /// The table: a NumPy array (.npy) or a safetensors file
    #[arg(long)]
    table: PathBuf,
    /// The tokens: a text file with one token per line, or a tokenizer.json
    #[arg(long)]
    tokens: PathBuf,
    /// Name of the tensor in a safetensors file
    #[arg(long)]
    tensor: Option<String>,
    /// Use only this many rows, from the beginning of the table
    #[arg(long)]
    rows: Option<usize>,
}

impl TableArguments {
    fn read(&self) -> anyhow::Result<EmbeddingTable> {
        let (table, tokens) = (self.table.clone(), self.tokens.clone());
        let source = match table.extension().and_then(|extension| extension.to_str()) {
            Some("npy") => Source::Npy { table, tokens },
            Some("safetensors") => {
                let tensor =
                    self.tensor.clone().context("a safetensors file holds many tensors; name one with --tensor")?;
                Source::Safetensors { table, tensor, tokens }
            }
            _ => anyhow::bail!("{} ends neither in .npy nor in .safetensors", table.display()),
        };
        let table = source.read()?;
        Ok(match self.rows {
            Some(rows) => table.first_rows(rows)?,
            None => table,
        })
    }
}
