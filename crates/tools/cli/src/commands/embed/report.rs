//! `unspoken embed report`

use std::path::PathBuf;

use anyhow::Context;
use serde_json::json;
use unspoken_embedding::{Accuracy, CompressedTable, EmbeddingTable, Quality, ReviewTask, Shape, UNKNOWN_NAMES};
use unspoken_store::Dataset;

use super::TableArguments;

/// Measure the loss of compression: the error of the embeddings, and the accuracy of a classifier that uses them
///
/// The classifier is a logistic regression on a text's mean embedding. It is trained and tested on reviews, with the
/// original table and with each compressed table.
#[derive(clap::Args)]
pub struct Arguments {
    /// Directories of compressed tables
    #[arg(required = true)]
    directories: Vec<PathBuf>,
    #[command(flatten)]
    table: TableArguments,
    /// CSV file of reviews with two labels
    #[arg(long)]
    reviews: Option<PathBuf>,
    /// Column of the text
    #[arg(long, default_value = "text")]
    text_column: String,
    /// Column of the label
    #[arg(long, default_value = "label")]
    label_column: String,
    /// Share of the reviews that is held out for testing
    #[arg(long, default_value_t = 0.2)]
    test_share: f64,
    /// Seed of the split
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Print one JSON object per compressed table
    #[arg(long)]
    json: bool,
}

/// The classification task, and the accuracy with the uncompressed table.
struct Downstream {
    task: ReviewTask,
    uncompressed: Accuracy,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let plain = arguments.table.read()?;
    let models = arguments.directories.iter().map(|path| Ok((path, CompressedTable::load(path)?)));
    let models = models.collect::<anyhow::Result<Vec<_>>>()?;
    // The compressed table has one more row if `<unk>` was added before compression.
    let count = plain.tokens().len();
    let added = |model: &CompressedTable| {
        model.codes().tokens().len() == count + 1 && model.codes().tokens().as_slice()[count] == UNKNOWN_NAMES[0]
    };
    let table =
        if models.iter().any(|(_, model)| added(model)) { plain.clone().with_unknown()? } else { plain.clone() };
    let downstream = arguments.reviews.as_ref().map(|_| downstream(arguments, &table)).transpose()?;
    if !arguments.json {
        print_header(&table, downstream.as_ref());
    }
    for (path, model) in &models {
        let same = if added(model) { &table } else { &plain };
        let quality = model.quality(same).with_context(|| format!("cannot compare {}", path.display()))?;
        let accuracy = match &downstream {
            Some(downstream) => Some((downstream.task.accuracy(&model.decompress()?)?, downstream.uncompressed)),
            None => None,
        };
        print(arguments.json, model, &quality, accuracy);
    }
    Ok(())
}

fn downstream(arguments: &Arguments, table: &EmbeddingTable) -> anyhow::Result<Downstream> {
    let path = arguments.reviews.as_ref().context("no reviews")?;
    let reviews = Dataset::read_csv(path, &arguments.text_column, &arguments.label_column)?;
    let task = ReviewTask::new(&reviews, table.tokens(), arguments.test_share, arguments.seed)?;
    let uncompressed = task.accuracy(table)?;
    Ok(Downstream { task, uncompressed })
}

fn print_header(table: &EmbeddingTable, downstream: Option<&Downstream>) {
    println!("{} tokens, {} numbers each", table.tokens().len(), table.width());
    if let Some(Downstream { task, uncompressed }) = downstream {
        let (train, test) = task.len();
        println!(
            "classifier on mean embeddings, {train} reviews to train, {test} held out: accuracy {:.4} uncompressed",
            uncompressed.held_out
        );
    }
    println!(
        "{:>9} {:>7} {:>11} {:>11} {:>14} {:>14} {:>11} {:>9}",
        "subtables",
        "columns",
        "client KiB",
        "server KiB",
        "relative error",
        "mean row error",
        "mean cosine",
        "accuracy"
    );
}

/// Prints one line; `accuracy` holds the accuracy with the compressed and with the uncompressed table.
fn print(as_json: bool, model: &CompressedTable, quality: &Quality, accuracy: Option<(Accuracy, Accuracy)>) {
    let Shape { subtables, columns, width } = model.subtables().shape();
    let tokens = model.codes().tokens().len();
    let (client_bytes, server_bytes) = (2 * tokens * subtables, 4 * subtables * columns * width);
    let held_out = accuracy.map(|(compressed, _)| compressed.held_out);
    if as_json {
        let line = json!({
            "tokens": tokens, "width": width, "subtables": subtables, "columns": columns,
            "client_code_bytes": client_bytes, "server_bytes": server_bytes,
            "relative_error": quality.relative_error, "mean_row_error": quality.mean_row_error,
            "mean_cosine": quality.mean_cosine, "accuracy": held_out,
            "accuracy_uncompressed": accuracy.map(|(_, plain)| plain.held_out),
        });
        println!("{line}");
        return;
    }
    println!(
        "{subtables:>9} {columns:>7} {:>11} {:>11} {:>14.4} {:>14.4} {:>11.4} {:>9}",
        client_bytes / 1024,
        server_bytes / 1024,
        quality.relative_error,
        quality.mean_row_error,
        quality.mean_cosine,
        held_out.map_or_else(|| "-".into(), |accuracy| format!("{accuracy:.4}"))
    );
}
