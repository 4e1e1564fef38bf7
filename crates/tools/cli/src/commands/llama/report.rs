//! `unspoken llama report`

use std::path::PathBuf;

use serde_json::{Value, json};
use unspoken_llama_files::LoadedModel;
use unspoken_llama_model::Step;

use super::ModelArguments;
use super::picture::{Line, residual_picture};
use super::study::{INPUTS, OUTPUTS, Row, Study, Variant};
use super::text::{RotationArguments, TextArguments, named, prefix_line};
use crate::output_file::OutputFile;

/// Report how large a model's values get, and how much a prefix and rotations reduce them
///
/// Encrypted arithmetic needs values of bounded size. Tokens in front of every text (the prefix) take the outliers of
/// the first tokens; rotations, folded into the weights, spread the outliers of single coordinates. The command
/// searches a prefix, runs the text through the model without and with both, and prints the largest absolute values:
/// the inputs of the functions (Table 1 of "Private Llama inference") and the outputs of the linear maps (Table 2). It
/// also compares the logits of the rotated model and of the original, after the same prefix.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    text: TextArguments,
    #[command(flatten)]
    rotation: RotationArguments,
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
    let LoadedModel { model, tokenizer } = arguments.model.load()?;
    let texts = arguments.text.windows(&tokenizer, arguments.rotation.room(&model.config))?;
    let prefix = arguments.rotation.search(&model, &tokenizer, &texts)?;
    let layers = model.config.layers;
    let study = Study::new(model, tokenizer.begin(), &prefix, &texts, arguments.rotation.seed)?;
    if let Some(out) = out {
        let title = format!("Residual stream of {}", arguments.model.path().display());
        let lines: Vec<Line> = study.variants.iter().map(|variant| line(variant, layers)).collect();
        out.write(residual_picture(&title, &lines).to_string().as_bytes())?;
    }
    let prefix = named(&tokenizer, &prefix);
    let count = texts.iter().map(Vec::len).sum();
    if arguments.json {
        println!("{}", object(&study, &prefix, count));
    } else {
        describe(&study, &prefix, count);
    }
    Ok(())
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
    println!("prefix      {}", prefix_line(prefix));
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
