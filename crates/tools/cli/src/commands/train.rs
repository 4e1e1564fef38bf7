//! `unspoken train`

use std::path::PathBuf;

use anyhow::Context;
use unspoken_fasttext::{TrainOptions, fit};
use unspoken_store::Dataset;

use crate::interrupt;
use crate::progress::Bars;

/// Train a text classifier from labelled messages
///
/// The data are lines with a label, a tab and a text, or a CSV file with a header if its name ends in .csv and
/// columns are named. The model directory has a client half (vocabulary and codes) and a server half (score tables).
#[derive(clap::Args)]
pub struct Arguments {
    /// File of labelled messages
    #[arg(long)]
    data: PathBuf,
    /// Directory to write the model to
    #[arg(long)]
    out: PathBuf,
    /// CSV column of the text; if given, the file is read as CSV
    #[arg(long, requires = "label_column")]
    text_column: Option<String>,
    /// CSV column of the label
    #[arg(long, requires = "text_column")]
    label_column: Option<String>,
    /// Seed of the split and of training; the same seed gives the same model
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Share of the messages held out for testing
    #[arg(long, default_value_t = 0.1)]
    test_share: f64,
    /// Subtables per token
    #[arg(long, default_value_t = 4)]
    subtables: usize,
    /// Columns per subtable
    #[arg(long, default_value_t = 256)]
    columns: usize,
    /// Embedding dimension
    #[arg(long, default_value_t = 50)]
    dimension: usize,
    /// Tokens that occur fewer times than this are unknown
    #[arg(long, default_value_t = 1)]
    min_count: usize,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let path = &arguments.data;
    let data = match (&arguments.text_column, &arguments.label_column) {
        (Some(text), Some(label)) => Dataset::read_csv(path, text, label)?,
        _ => Dataset::read_tab_separated(path)?,
    };
    let split = data.split(0.0, arguments.test_share, arguments.seed)?;
    let options = TrainOptions {
        seed: arguments.seed,
        subtables: arguments.subtables,
        columns: arguments.columns,
        dimension: arguments.dimension,
        min_count: arguments.min_count,
        ..TrainOptions::default()
    };
    let cancel = interrupt::on_ctrl_c()?;
    let mut bars = Bars::new();
    let (texts, labels) = (split.train.texts(), split.train.labels());
    let model = fit(texts, labels, &options, &mut |progress| bars.epoch(progress), cancel.flag())?;
    bars.finish();
    model.save(&arguments.out).with_context(|| format!("cannot write {}", arguments.out.display()))?;
    println!("trained on {} messages, wrote {}", split.train.len(), arguments.out.display());
    if !split.test.is_empty() {
        println!("accuracy on {} held-out messages: {:.4}", split.test.len(), model.accuracy(&split.test));
    }
    Ok(())
}
