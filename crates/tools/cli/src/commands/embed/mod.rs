//! `unspoken embed`

mod ask;
mod compress;
mod report;
mod train;

use std::path::PathBuf;

use anyhow::Context;
use unspoken_embedding::{EmbeddingTable, Source};

/// Compress embedding tables, measure the loss, look up embeddings privately, and train linear heads over them
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
}

/// Runs the command.
pub fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::Compress(arguments) => compress::run(arguments),
        Command::Report(arguments) => report::run(arguments),
        Command::Ask(arguments) => ask::run(arguments),
        Command::Train(arguments) => train::run(arguments),
    }
}

/// The embedding table.
#[derive(clap::Args)]
pub struct TableArguments {
    /// The table: a NumPy array (.npy), a safetensors file, or the lines of GloVe and word2vec, a token and its numbers
    /// (.txt or .vec). Numbers of 16, 32 or 64 bits
    #[arg(long)]
    table: PathBuf,
    /// The tokens: a text file with one token per line, or a tokenizer.json; none for .txt and .vec, which have them
    #[arg(long)]
    tokens: Option<PathBuf>,
    /// Name of the tensor in a safetensors file
    #[arg(long)]
    tensor: Option<String>,
    /// Use only this many rows and tokens, from the beginning of the table: without rows that pad it, for instance
    #[arg(long)]
    rows: Option<usize>,
}

impl TableArguments {
    /// All rows of a table.
    pub fn new(table: PathBuf, tokens: Option<PathBuf>, tensor: Option<String>) -> Self {
        TableArguments { table, tokens, tensor, rows: None }
    }

    /// Reads the table.
    pub fn read(&self) -> anyhow::Result<EmbeddingTable> {
        let source = self.source()?;
        Ok(match self.rows {
            Some(rows) => source.read_first(rows)?,
            None => source.read()?,
        })
    }

    fn source(&self) -> anyhow::Result<Source> {
        let table = self.table.clone();
        let tokens = || {
            self.tokens.clone().with_context(|| format!("{} has no tokens; name them with --tokens", table.display()))
        };
        Ok(match table.extension().and_then(|extension| extension.to_str()) {
            Some("npy") => Source::Npy { tokens: tokens()?, table },
            Some("safetensors") => {
                let tensor =
                    self.tensor.clone().context("a safetensors file holds many tensors; name one with --tensor")?;
                Source::Safetensors { tokens: tokens()?, table, tensor }
            }
            Some("txt" | "vec") => {
                anyhow::ensure!(
                    self.tokens.is_none(),
                    "found --tokens with {}, whose lines have their tokens; leave --tokens out",
                    table.display()
                );
                Source::Text { table }
            }
            _ => anyhow::bail!("{} ends in none of .npy, .safetensors, .txt, .vec", table.display()),
        })
    }
}
