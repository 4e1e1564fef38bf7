//! `unspoken train`

pub mod data;

use std::collections::BTreeMap;

use anyhow::Context;
use data::DataArguments;
use serde_json::json;
use unspoken_fasttext::{ClassWeights, Model, TextCoverage, Tokeniser, TrainOptions, fit};
use unspoken_store::{Dataset, Split};

use crate::commands::model_output::ModelOutput;
use crate::commands::seed::seed;
use crate::interrupt;
use crate::progress::Bars;

/// Train a text classifier from labelled messages
///
/// The data are lines with a label, a tab and a text, a published data set (--format), or a CSV file with a header if
/// columns are named. Words are words of Unicode, in lower case, without digits and punctuation; each character of
/// Chinese, Japanese (but Katakana) and Thai is a word, for which --bigrams helps. The model directory has a client
/// half (vocabulary and codes) and a server half (score tables).
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    data: DataArguments,
    #[command(flatten)]
    out: ModelOutput,
    /// Print the report as one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    optimiser: OptimiserArguments,
}

/// Options of the model.
#[derive(clap::Args)]
#[command(next_help_heading = "Model")]
struct ModelArguments {
    /// Words of a message that the model reads, a power of two; the rest is ignored. Doubling it halves the number of
    /// messages in a query
    #[arg(long, default_value_t = defaults().tokeniser.max_tokens, value_parser = power_of_two)]
    max_tokens: usize,
    /// Use pairs of adjacent words as well; each counts as a word of --max-tokens
    #[arg(long)]
    bigrams: bool,
    /// Words that occur fewer times than this are unknown
    #[arg(long, default_value_t = defaults().min_count)]
    min_count: usize,
    /// Maximum number of known words; the most frequent are kept
    #[arg(long, default_value_t = defaults().max_vocabulary)]
    max_vocabulary: usize,
    /// Subtables per word; a query has one ciphertext for each
    #[arg(long, default_value_t = defaults().subtables)]
    subtables: usize,
    /// Columns per subtable
    #[arg(long, default_value_t = defaults().columns)]
    columns: usize,
    /// Embedding dimension in training; the cost of queries does not depend on it
    #[arg(long, default_value_t = defaults().dimension)]
    dimension: usize,
}

/// Options of the optimiser.
#[derive(clap::Args)]
#[command(next_help_heading = "Optimiser")]
struct OptimiserArguments {
    /// Seed of the split and of training; the same seed gives the same model
    #[arg(long, default_value_t = 0, value_parser = seed, allow_negative_numbers = true)]
    seed: u64,
    /// Epochs before the columns of each word are fixed
    #[arg(long, default_value_t = defaults().relaxed_epochs)]
    relaxed_epochs: usize,
    /// Epochs after that
    #[arg(long, default_value_t = defaults().hard_epochs)]
    hard_epochs: usize,
    /// Messages per batch
    #[arg(long, default_value_t = defaults().batch)]
    batch: usize,
    /// Learning rate of the weights
    #[arg(long, default_value_t = defaults().rate)]
    rate: f32,
    /// Learning rate of the columns of each word
    #[arg(long, default_value_t = defaults().code_rate)]
    code_rate: f32,
    /// Weight decay
    #[arg(long, default_value_t = defaults().weight_decay)]
    weight_decay: f32,
    /// Temperature in the last epoch before the columns are fixed, 0.001 to 1
    #[arg(long, default_value_t = defaults().final_temperature)]
    final_temperature: f32,
    /// Weight of the entropy of each word's columns before they are fixed; 0.002 in the paper for reviews of drugs
    #[arg(long, default_value_t = defaults().entropy_weight)]
    entropy_weight: f32,
    /// Weight of 1 minus the probability of the likeliest column; 0.01 in the paper for reviews of drugs
    #[arg(long, default_value_t = defaults().confidence_weight)]
    confidence_weight: f32,
    /// Share of the words in training that are hidden, so that the model learns what an unknown word means
    #[arg(long, default_value_t = defaults().unknown_share)]
    unknown_share: f32,
    /// Share of the training messages that choose the best epoch
    #[arg(long, default_value_t = defaults().validation_share)]
    validation_share: f64,
    /// How much each class counts: "balanced", so that rare classes count as much as frequent ones, or LABEL=WEIGHT,
    /// separated by commas; 1 for the others [default: every message counts once]
    #[arg(long, value_name = "WEIGHTS", value_parser = class_weights)]
    class_weights: Option<ClassWeights>,
}

/// Reads the value of `--class-weights`.
fn class_weights(text: &str) -> Result<ClassWeights, String> {
    if text == "balanced" {
        return Ok(ClassWeights::Balanced);
    }
    let weight = |part: &str| {
        let (label, weight) = part.rsplit_once('=')?;
        Some((label.to_owned(), weight.parse().ok()?))
    };
    let needed = "needed balanced, or LABEL=WEIGHT separated by commas, for instance spam=2,ham=1";
    let mut weights: BTreeMap<String, f32> = BTreeMap::new();
    for part in text.split(',') {
        let (label, weight) = weight(part).ok_or(needed)?;
        if let Some(first) = weights.insert(label.clone(), weight) {
            return Err(format!("found the weights {first} and {weight} of class {label:?}, needed one"));
        }
    }
    Ok(ClassWeights::Given(weights))
}

fn defaults() -> TrainOptions {
    TrainOptions::default()
}

fn power_of_two(text: &str) -> Result<usize, String> {
    let number: usize = text.parse().map_err(|error| format!("{error}"))?;
    if number.is_power_of_two() { Ok(number) } else { Err("a service needs a power of two, such as 128 or 512".into()) }
}

impl Arguments {
    fn options(&self) -> TrainOptions {
        let (model, optimiser) = (&self.model, &self.optimiser);
        let words = Tokeniser::default().words;
        TrainOptions {
            seed: optimiser.seed,
            tokeniser: Tokeniser { bigrams: model.bigrams, max_tokens: model.max_tokens, words },
            min_count: model.min_count,
            max_vocabulary: model.max_vocabulary,
            unknown_share: optimiser.unknown_share,
            subtables: model.subtables,
            columns: model.columns,
            dimension: model.dimension,
            validation_share: optimiser.validation_share,
            batch: optimiser.batch,
            relaxed_epochs: optimiser.relaxed_epochs,
            hard_epochs: optimiser.hard_epochs,
            rate: optimiser.rate,
            code_rate: optimiser.code_rate,
            weight_decay: optimiser.weight_decay,
            final_temperature: optimiser.final_temperature,
            entropy_weight: optimiser.entropy_weight,
            confidence_weight: optimiser.confidence_weight,
            class_weights: optimiser.class_weights.clone().unwrap_or_default(),
        }
    }
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let (options, out) = (arguments.options(), arguments.out.checked()?);
    let split = arguments.data.read(options.seed)?;
    let cancel = interrupt::on_ctrl_c()?;
    let mut bars = Bars::new();
    let (texts, labels) = (split.train.texts(), split.train.labels());
    let model = fit(texts, labels, &options, &mut |progress| bars.epoch(progress), cancel.flag())?;
    bars.finish();
    model.save(out).with_context(|| format!("cannot write {}", out.display()))?;
    let report = Report::new(&model, &split, out.display().to_string());
    let all = [texts, split.test.texts()].concat();
    for warning in model.encoder().coverage(&all).warnings() {
        eprintln!("warning: {warning}");
    }
    if arguments.json {
        report.print_json()
    } else {
        report.print()
    }
    Ok(())
}

/// What was trained, and what of the messages the model reads.
struct Report {
    /// Where the model is.
    out: String,
    /// The classes, each with its training and its held-out messages.
    classes: Vec<(String, [usize; 2])>,
    vocabulary: usize,
    training: TextCoverage,
    /// Of the held-out messages, if there are any, with the accuracy on them.
    held_out: Option<(TextCoverage, f64)>,
}

impl Report {
    fn new(model: &Model, split: &Split, out: String) -> Self {
        let encoder = model.encoder();
        let coverage = |data: &Dataset| encoder.coverage(data.texts());
        let held_out = (!split.test.is_empty()).then(|| (coverage(&split.test), model.accuracy(&split.test)));
        let count = |data: &Dataset, label: &String| data.labels().iter().filter(|other| *other == label).count();
        let labels = encoder.labels().iter();
        let classes = labels.map(|label| (label.clone(), [&split.train, &split.test].map(|part| count(part, label))));
        let classes = classes.collect();
        // Row 0 stands for unknown words.
        Self { out, classes, vocabulary: encoder.vocabulary().len() - 1, training: coverage(&split.train), held_out }
    }

    fn print(&self) {
        let percent = |share: f64| 100.0 * share;
        println!("trained on {} messages, wrote {}", self.training.texts, self.out);
        if let Some((coverage, accuracy)) = &self.held_out {
            println!("accuracy on {} held-out messages: {accuracy:.4}", coverage.texts);
        }
        let width = self.classes.iter().map(|(label, _)| label.chars().count()).max().unwrap_or(0).max(5);
        println!("{:width$} {:>9} {:>9}", "class", "messages", "held out");
        for (label, [training, held_out]) in &self.classes {
            println!("{label:width$} {training:>9} {held_out:>9}");
        }
        let held_out = self.held_out.map(|(coverage, _)| coverage);
        let known = |coverage: TextCoverage| format!(", {:.1} % of the held-out", percent(coverage.known_share()));
        println!(
            "vocabulary: {} words, which are {:.1} % of the words of the training messages{}",
            self.vocabulary,
            percent(self.training.known_share()),
            held_out.map(known).unwrap_or_default()
        );
        let all = held_out.unwrap_or_default();
        println!(
            "cut after {} words: {} of {} messages",
            self.training.max_tokens,
            self.training.cut + all.cut,
            self.training.texts + all.texts
        );
    }

    fn print_json(&self) {
        let coverage = |coverage: &TextCoverage| {
            json!({
                "messages": coverage.texts,
                "cut": coverage.cut,
                "tokens": coverage.tokens,
                "known_tokens": coverage.known,
                "coverage": coverage.known_share(),
            })
        };
        let report = json!({
            "model": self.out,
            "classes": self.classes.iter().map(|(label, [training, held_out])| json!({
                "label": label,
                "training": training,
                "held_out": held_out,
            })).collect::<Vec<_>>(),
            "vocabulary": self.vocabulary,
            "max_tokens": self.training.max_tokens,
            "training": coverage(&self.training),
            "held_out": self.held_out.as_ref().map(|(held_out, _)| coverage(held_out)),
            "accuracy": self.held_out.map(|(_, accuracy)| accuracy),
        });
        println!("{report}");
    }
}
