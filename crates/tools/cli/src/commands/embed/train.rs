//! `unspoken embed train`

use std::path::PathBuf;

use serde_json::json;
use unspoken_embedding::{CompressedTable, HeadOptions, LinearHead, TextCoverage, TextReader, TrainedHead};
use unspoken_store::Dataset;

use crate::commands::model_output::ModelOutput;
use crate::commands::seed::seed;
use crate::commands::train::data::DataArguments;
use crate::interrupt;

/// Train a linear head over the mean embedding of a text, from labelled texts
///
/// The head is trained in the clear on the compressed embeddings, by logistic regression. It is a safetensors file with
/// the tensors `weight` (classes x numbers of an embedding) and `bias`, and the names of the classes. Serve it with
/// `unspoken serve --offer classify=DIR,head=FILE`, and ask with `unspoken classify`. The data are as for `unspoken
/// train`.
#[derive(clap::Args)]
pub struct Arguments {
    /// Directory of the compressed table, with both halves
    #[arg(long)]
    model: PathBuf,
    #[command(flatten)]
    data: DataArguments,
    #[command(flatten)]
    out: ModelOutput,
    /// Tokens of a text that the head reads, a power of two; the rest is ignored. Doubling it halves the number of
    /// texts in a query
    #[arg(long, default_value_t = HeadOptions::default().max_tokens)]
    max_tokens: usize,
    /// Weight of the squared weights in the loss: more is safer with few texts
    #[arg(long, default_value_t = HeadOptions::default().ridge)]
    ridge: f64,
    /// Seed of the split
    #[arg(long, default_value_t = 0, value_parser = seed, allow_negative_numbers = true)]
    seed: u64,
    /// Print the report as one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let out = arguments.out.checked()?;
    let table = CompressedTable::load(&arguments.model)?;
    let split = arguments.data.read(arguments.seed)?;
    let cancel = interrupt::on_ctrl_c()?;
    let options = HeadOptions { max_tokens: arguments.max_tokens, ridge: arguments.ridge };
    let (texts, labels) = (split.train.texts(), split.train.labels());
    let TrainedHead { head, coverage, training_accuracy } =
        LinearHead::fit(&table, texts, labels, &options, cancel.flag())?;
    head.save(out)?;
    let reader = TextReader::new(table.codes().tokens());
    let held_out = reader.coverage(split.test.texts(), head.max_tokens());
    let accuracy = accuracy(&head, &table, &reader, &split.test)?;
    for warning in coverage.warnings() {
        eprintln!("warning: {warning}");
    }
    if arguments.json {
        let counts = |coverage: &TextCoverage| {
            json!({
                "texts": coverage.texts,
                "cut": coverage.cut,
                "tokens": coverage.tokens,
                "unknown_tokens": coverage.unknown,
            })
        };
        let report = json!({
            "head": out.display().to_string(),
            "classes": head.classes(),
            "max_tokens": head.max_tokens(),
            "training": counts(&coverage),
            "training_accuracy": training_accuracy,
            "held_out": accuracy.map(|_| counts(&held_out)),
            "accuracy": accuracy,
        });
        println!("{report}");
        return Ok(());
    }
    println!("trained on {} texts, wrote {}", coverage.texts, out.display());
    println!("classes: {}", head.classes().join(", "));
    println!("accuracy on the training texts: {training_accuracy:.4}");
    if let Some(accuracy) = accuracy {
        println!("accuracy on {} held-out texts: {accuracy:.4}", held_out.texts);
    }
    println!(
        "cut after {} tokens: {} of {} texts; not in the table: {} of {} tokens",
        head.max_tokens(),
        coverage.cut + held_out.cut,
        coverage.texts + held_out.texts,
        coverage.unknown + held_out.unknown,
        coverage.tokens + held_out.tokens
    );
    Ok(())
}

/// The fraction of the texts whose label the head predicts in the clear; `None` without texts.
fn accuracy(
    head: &LinearHead,
    table: &CompressedTable,
    reader: &TextReader<'_>,
    data: &Dataset,
) -> anyhow::Result<Option<f64>> {
    let mut right = 0;
    for (text, label) in data.texts().iter().zip(data.labels()) {
        right += usize::from(head.class_of(&head.scores(table, &reader.read(text).ids)?) == label);
    }
    Ok((!data.is_empty()).then(|| right as f64 / data.texts().len() as f64))
}
