//! `unspoken llama report`

use std::path::PathBuf;

use anyhow::Context;
use serde_json::{Value, json};
use unspoken_llama_model::{InputError, LoadedModel, Model, PrefixSearch, Step, Tokenizer, find_prefix};

use super::ModelArguments;
use super::picture::{Line, residual_picture};
use super::study::{INPUTS, OUTPUTS, Row, Study, Variant};
use crate::output_file::OutputFile;
use crate::progress::Bars;

/// Tokens with outliers that each round of the search tries as well as the control tokens, and the factor by which a
/// longer prefix must reduce the largest residual.
const OUTLIERS: usize = 8;
const GAIN: f32 = 1.1;

/// Report how large a model's values get, and how much a prefix and rotations reduce them
///
/// Encrypted arithmetic needs values of bounded size. Tokens in front of every text (the prefix) take the outliers of
/// the first tokens; rotations, folded into the weights, spread those of single coordinates. The command searches a
/// prefix, runs the text through the model without and with both, and prints the largest absolute values: the inputs
/// of the functions (Table 1 of "Private Llama inference") and the outputs of the linear maps (Table 2). It also
/// compares the logits of the rotated model with those of the original behind the same prefix.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    /// Text of the kind that the model will see, UTF-8, some thousand words; for instance data/sms/spam_collection.csv
    #[arg(long, value_name = "FILE")]
    text: PathBuf,
    /// Maximum number of tokens of the text that are used, from its start
    #[arg(long, value_name = "N", default_value_t = 2048)]
    tokens: usize,
    /// Number of tokens that are run together, each time behind the prefix
    #[arg(long, value_name = "N", default_value_t = 256)]
    window: usize,
    /// Maximum number of tokens of the text that the search for a prefix uses
    #[arg(long, value_name = "N", default_value_t = 512)]
    search_tokens: usize,
    /// Maximum length of the prefix
    #[arg(long, value_name = "N", default_value_t = 4)]
    prefix_length: usize,
    /// Seed of the rotations
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Draw the residual stream of each layer as SVG
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Overwrite the file of --out
    #[arg(long, requires = "out")]
    force: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let out = arguments.out.as_ref().map(|out| OutputFile::open("--out", out, arguments.force)).transpose()?;
    let text = std::fs::read_to_string(&arguments.text)
        .with_context(|| format!("--text: cannot read {}", arguments.text.display()))?;
    let LoadedModel { model, tokenizer } = arguments.model.load()?;
    let texts = windows(&tokenizer, &text, arguments)?;
    let prefix = search(&model, &tokenizer, &texts, arguments)?;
    let layers = model.config.layers;
    let study = Study::new(model, tokenizer.begin(), &prefix, &texts, arguments.seed)?;
    if let Some(out) = out {
        let title = format!("Residual stream of {}", arguments.model.model.display());
        let lines: Vec<Line> = study.variants.iter().map(|variant| line(variant, layers)).collect();
        out.write(residual_picture(&title, &lines).to_string().as_bytes())?;
    }
    let prefix: Vec<(u32, String)> =
        prefix.iter().map(|id| (*id, tokenizer.token_text(*id).unwrap_or_default())).collect();
    let count = texts.iter().map(Vec::len).sum();
    if arguments.json {
        println!("{}", object(&study, &prefix, count));
    } else {
        describe(&study, &prefix, count);
    }
    Ok(())
}

/// The text in pieces of one window, without the token for its begin.
fn windows(tokenizer: &Tokenizer, text: &str, arguments: &Arguments) -> anyhow::Result<Vec<Vec<u32>>> {
    let mut tokens = tokenizer.encode(text)?;
    if tokenizer.begin().is_some() {
        tokens.remove(0);
    }
    tokens.truncate(arguments.tokens);
    let texts: Vec<Vec<u32>> = tokens.chunks(arguments.window.max(1)).map(<[u32]>::to_vec).collect();
    anyhow::ensure!(
        texts.first().is_some_and(|text| text.len() >= 2),
        "{}: found {} tokens in windows of {}, needed at least 2; name a longer text, or raise --tokens and --window",
        arguments.text.display(),
        tokens.len(),
        arguments.window
    );
    Ok(texts)
}

/// Searches a prefix over the first texts.
fn search(
    model: &Model,
    tokenizer: &Tokenizer,
    texts: &[Vec<u32>],
    arguments: &Arguments,
) -> Result<Vec<u32>, InputError> {
    let count = arguments.search_tokens.div_ceil(arguments.window.max(1)).clamp(1, texts.len());
    let search = PrefixSearch {
        start: tokenizer.begin().into_iter().collect(),
        candidates: tokenizer.controls(),
        outliers: OUTLIERS,
        length: arguments.prefix_length,
        gain: GAIN,
    };
    let mut bars = Bars::new();
    let mut tried = 0;
    let found = find_prefix(model, &texts[..count], &search, |_| {
        tried += 1;
        bars.prefix(tried);
    })?;
    Ok(found.tokens)
}

/// The largest absolute residual before attention and before the feed-forward network of each layer, and at the end.
fn line(variant: &Variant, layers: usize) -> Line {
    let largest = |layer, step| variant.statistics.range(layer, step).map(|range| f64::from(range.largest()));
    let points = (0..=layers).flat_map(|layer| {
        let before = largest(layer, Step::Residual).map(|value| (layer as f64, value));
        let between = largest(layer, Step::MiddleResidual).map(|value| (layer as f64 + 0.5, value));
        before.into_iter().chain(between)
    });
    Line { name: variant.name, points: points.collect() }
}

/// What is printed with `--json`.
fn object(study: &Study, prefix: &[(u32, String)], count: usize) -> Value {
    let numbers = |number: &dyn Fn(&Variant) -> f64| -> Value {
        study.variants.iter().map(|variant| (variant.name.replace(' ', "_"), json!(number(variant)))).collect()
    };
    let table = |rows: &[Row]| -> Value {
        rows.iter().map(|row| (row.name.to_owned(), numbers(&|variant| f64::from(row.largest(variant))))).collect()
    };
    json!({
        "tokens": count,
        "prefix": prefix.iter().map(|(id, text)| json!({ "id": id, "text": text })).collect::<Vec<_>>(),
        "inputs": table(&INPUTS),
        "outputs": table(&OUTPUTS),
        "perplexity": numbers(&|variant| variant.perplexity),
        "logit_error": study.logit_error,
        "same_top_token": study.same_top_token,
    })
}

/// What is printed without `--json`.
fn describe(study: &Study, prefix: &[(u32, String)], count: usize) {
    println!("text        {count} tokens");
    match prefix {
        [] => println!("prefix      none"),
        _ => println!(
            "prefix      {}",
            prefix.iter().map(|(id, text)| format!("{text:?} ({id})")).collect::<Vec<_>>().join(", ")
        ),
    }
    println!(
        "rotation    changes logits by {:.1e} of the largest, and the most likely token at {:.2} % of the positions",
        study.logit_error,
        100.0 * (1.0 - study.same_top_token)
    );
    let names: Vec<&str> = study.variants.iter().map(|variant| variant.name).collect();
    let row = |name: &str, number: &dyn Fn(&Variant) -> f64| {
        let cells = study.variants.iter().zip(&names);
        let cells = cells.map(|(variant, name)| format!("  {:>width$.2}", number(variant), width = name.len().max(9)));
        println!("{name:10}{}", cells.collect::<String>());
    };
    for (title, rows) in [
        ("Table 1: largest absolute inputs of functions", &INPUTS),
        ("Table 2: largest absolute outputs of linear maps", &OUTPUTS),
    ] {
        println!("\n{title}");
        println!("{:10}{}", "", names.iter().map(|name| format!("  {name:>9}")).collect::<String>());
        rows.iter().for_each(|table_row| row(table_row.name, &|variant| f64::from(table_row.largest(variant))));
    }
    println!();
    row("perplexity", &|variant| variant.perplexity);
}
