//! `unspoken embed report`

use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::json;
use unspoken_client::transport::Cancel;
use unspoken_embedding::{
    Accuracy, CompressedTable, EmbeddingTable, Quality, RecurrentOptions, RecurrentProgress, ReviewTask, Shape,
    UNKNOWN_NAMES,
};
use unspoken_store::Dataset;

use super::TableArguments;
use crate::commands::seed::seed;
use crate::interrupt;
use crate::progress::Bars;

/// Measure the loss of compression: the error of the embeddings, and the accuracy of a classifier that uses them
///
/// The classifier is a logistic regression on a text's mean embedding, or recurrent: an LSTM cell that reads the
/// embeddings in order, as in the paper. It is trained and tested on reviews, with the original table and with each
/// compressed table.
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
    /// Seed of the split, and of the recurrent classifier
    #[arg(long, default_value_t = 0, value_parser = seed, allow_negative_numbers = true)]
    seed: u64,
    /// The classifier
    #[arg(long, value_enum, default_value = "mean", requires = "reviews")]
    classifier: Classifier,
    /// Print one JSON object per compressed table
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    recurrent: RecurrentArguments,
}

/// A classifier over embeddings.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Classifier {
    /// Logistic regression on the mean embedding
    Mean,
    /// An LSTM cell and a linear layer
    Recurrent,
}

/// Options of the recurrent classifier.
#[derive(clap::Args)]
#[command(next_help_heading = "Classifier recurrent")]
struct RecurrentArguments {
    /// Hidden numbers of the cell
    #[arg(long, default_value_t = RecurrentOptions::default().hidden)]
    hidden: usize,
    /// Tokens of a review that are read
    #[arg(long, default_value_t = RecurrentOptions::default().max_tokens)]
    max_tokens: usize,
    /// Reviews to train with, chosen at random; a tenth of them chooses the best epoch
    #[arg(long, default_value_t = RecurrentOptions::default().reviews)]
    train_reviews: usize,
    /// Epochs
    #[arg(long, default_value_t = RecurrentOptions::default().epochs)]
    epochs: usize,
    /// Reviews of a batch
    #[arg(long, default_value_t = RecurrentOptions::default().batch)]
    batch: usize,
    /// Learning rate
    #[arg(long, default_value_t = RecurrentOptions::default().rate)]
    rate: f32,
}

/// The classification task and the classifier.
struct Downstream {
    task: ReviewTask,
    /// The options, if the classifier is recurrent.
    recurrent: Option<RecurrentOptions>,
    cancel: Cancel,
}

impl Downstream {
    fn new(arguments: &Arguments, reviews: &Path, table: &EmbeddingTable) -> anyhow::Result<Self> {
        let reviews = Dataset::read_csv(reviews, b',', &arguments.text_column, &arguments.label_column)?;
        let task = ReviewTask::new(&reviews, table.tokens(), arguments.test_share, arguments.seed)?;
        let given = &arguments.recurrent;
        let recurrent = (arguments.classifier == Classifier::Recurrent).then_some(RecurrentOptions {
            seed: arguments.seed,
            hidden: given.hidden,
            max_tokens: given.max_tokens,
            reviews: given.train_reviews,
            epochs: given.epochs,
            batch: given.batch,
            rate: given.rate,
        });
        Ok(Downstream { task, recurrent, cancel: interrupt::on_ctrl_c()? })
    }

    fn accuracy(&self, table: &EmbeddingTable) -> anyhow::Result<Accuracy> {
        let Some(options) = &self.recurrent else { return Ok(self.task.accuracy(table)?) };
        let mut bars = Bars::new();
        let mut show = |progress: &RecurrentProgress| bars.review_epoch(progress);
        let accuracy = self.task.recurrent_accuracy(table, options, &mut show, self.cancel.flag())?;
        bars.finish();
        Ok(accuracy)
    }

    /// The classifier, and what it is trained with.
    fn describe(&self) -> String {
        let (train, test) = self.task.len();
        match &self.recurrent {
            None => format!("classifier on mean embeddings, {train} reviews to train, {test} held out"),
            Some(options) => format!(
                "LSTM with {} hidden numbers on {} tokens at most, {} reviews to train for {} epochs, {test} held out",
                options.hidden,
                options.max_tokens,
                options.reviews.min(train),
                options.epochs
            ),
        }
    }
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
    let downstream =
        arguments.reviews.as_ref().map(|reviews| Downstream::new(arguments, reviews, &table)).transpose()?;
    let uncompressed = downstream.as_ref().map(|downstream| downstream.accuracy(&table)).transpose()?;
    if !arguments.json {
        print_header(&table, downstream.as_ref().zip(uncompressed));
    }
    for (path, model) in &models {
        let same = if added(model) { &table } else { &plain };
        let quality = model.quality(same).with_context(|| format!("cannot compare {}", path.display()))?;
        let compressed = match &downstream {
            Some(downstream) => Some(downstream.accuracy(&model.decompress()?)?),
            None => None,
        };
        let accuracy = compressed.zip(uncompressed);
        print(arguments.json, model, &quality, accuracy);
    }
    Ok(())
}

fn print_header(table: &EmbeddingTable, downstream: Option<(&Downstream, Accuracy)>) {
    println!("{} tokens, {} numbers each", table.tokens().len(), table.width());
    if let Some((downstream, uncompressed)) = downstream {
        println!("{}: accuracy {:.4} uncompressed", downstream.describe(), uncompressed.held_out);
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
