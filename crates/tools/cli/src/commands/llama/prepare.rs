//! `unspoken llama prepare`

use std::path::PathBuf;

use anyhow::Context;
use serde_json::{Value, json};
use unspoken_llama_model::{
    EscapeCount, Escapes, LoadedModel, MARGINS, Model, Preparation, Sharing, Statistics, Step, perplexity_behind,
    rotate,
};

use super::ModelArguments;
use super::text::{TextArguments, named, prefix_line};

/// Find a model's prefix, rotate it, and measure the ranges that its values keep
///
/// Encrypted arithmetic replaces functions by polynomials, which are right on intervals only. The command searches a
/// prefix and rotates the model as `unspoken llama report` does. Then it measures the range of each coordinate at each
/// step of each layer over the first part of the text, and counts over the rest, the held-out text, how many values
/// leave these ranges and how far: widened by the margin, ranges should hold them all. The directory gets the prefix,
/// the seed of the rotations and the margin (preparation.json), and the ranges (ranges.safetensors, a tensor of the
/// smallest and the largest values for each layer and step).
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    text: TextArguments,
    /// Share of the text that is held out, in percent
    #[arg(long, value_name = "N", default_value_t = 25, value_parser = clap::value_parser!(u8).range(1..=90))]
    held_out: u8,
    /// Factor by which ranges are widened [default: the smallest of those counted that holds all held-out values]
    #[arg(long, value_name = "FACTOR")]
    margin: Option<f32>,
    /// Directory for the preparation. It must not exist yet
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What held-out text showed.
struct HeldOut {
    tokens: usize,
    perplexity: f64,
    /// With a range for each coordinate, and one for all coordinates of a layer and step.
    by_coordinate: Escapes,
    by_step: Escapes,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let out = &arguments.out;
    anyhow::ensure!(!out.exists(), "--out: {} exists; name a new directory", out.display());
    if let Some(margin) = arguments.margin {
        anyhow::ensure!(margin >= 1.0 && margin.is_finite(), "--margin: found {margin}, needed a number of at least 1");
    }
    let LoadedModel { mut model, tokenizer } = arguments.model.load()?;
    let texts = arguments.text.windows(&tokenizer)?;
    let (calibration, held_out) = split(&texts, arguments.held_out)?;
    let prefix = arguments.text.search(&model, &tokenizer, calibration)?;
    rotate(&model.config, &mut model.weights, arguments.text.seed);
    let mut statistics = Statistics::new();
    let perplexity = perplexity_behind(&model, &prefix, calibration, &mut statistics)?;
    let seen = held_out_escapes(&model, &prefix, held_out, &statistics)?;
    let margin = arguments.margin.or(seen.by_coordinate.margin()).with_context(|| {
        let most = MARGINS[MARGINS.len() - 1];
        format!(
            "held-out values are outside their ranges widened by {most}: {}; use more text (--tokens), a longer prefix \
             (--prefix-length), or name a --margin",
            worst(&seen.by_coordinate)
        )
    })?;
    let preparation = Preparation { prefix: prefix.clone(), seed: arguments.text.seed, margin, statistics };
    preparation.save(out, &model.config)?;
    let (prefix, tokens) = (named(&tokenizer, &prefix), calibration.iter().map(Vec::len).sum());
    if arguments.json {
        println!("{}", object(&prefix, tokens, perplexity, margin, &seen));
    } else {
        describe(&prefix, tokens, perplexity, margin, &seen);
    }
    Ok(())
}

/// Windows of text.
type Windows = [Vec<u32>];

/// The first windows, and the last ones as held-out text.
fn split(texts: &Windows, percent: u8) -> anyhow::Result<(&Windows, &Windows)> {
    let held_out = (texts.len() * usize::from(percent)).div_ceil(100);
    let (calibration, held_out) = texts.split_at(texts.len() - held_out);
    let long_enough = |texts: &Windows| texts.iter().any(|text| text.len() >= 2);
    anyhow::ensure!(
        long_enough(calibration) && long_enough(held_out),
        "found {} windows of text, needed two or more: name a longer text, raise --tokens or lower --window",
        texts.len()
    );
    Ok((calibration, held_out))
}

fn held_out_escapes(
    model: &Model,
    prefix: &[u32],
    texts: &Windows,
    statistics: &Statistics,
) -> anyhow::Result<HeldOut> {
    let mut escapes = (Escapes::new(statistics, Sharing::Coordinate), Escapes::new(statistics, Sharing::Step));
    let perplexity = perplexity_behind(model, prefix, texts, &mut escapes)?;
    let (by_coordinate, by_step) = escapes;
    Ok(HeldOut { tokens: texts.iter().map(Vec::len).sum(), perplexity, by_coordinate, by_step })
}

/// The step that needs the largest margin, and that margin.
fn worst(escapes: &Escapes) -> String {
    let most = escapes.counts().max_by(|(_, a), (_, b)| a.needed.total_cmp(&b.needed));
    most.map_or_else(String::new, |(step, count)| format!("{step} needs {:.1}", count.needed))
}

/// What is printed with `--json`.
fn object(prefix: &[(u32, String)], tokens: usize, perplexity: f64, margin: f32, seen: &HeldOut) -> Value {
    let counts = |escapes: &Escapes| -> Value {
        let row = |(step, count): (Step, EscapeCount)| {
            let numbers = json!({ "values": count.values, "beyond": count.beyond, "margin_needed": count.needed });
            (step.to_string(), numbers)
        };
        escapes.counts().map(row).collect()
    };
    json!({
        "prefix": prefix.iter().map(|(id, text)| json!({ "id": id, "text": text })).collect::<Vec<_>>(),
        "tokens": tokens, "perplexity": perplexity, "margin": margin, "margins": MARGINS,
        "held_out": {
            "tokens": seen.tokens, "perplexity": seen.perplexity,
            "by_coordinate": counts(&seen.by_coordinate), "by_step": counts(&seen.by_step),
        },
    })
}

/// What is printed without `--json`.
fn describe(prefix: &[(u32, String)], tokens: usize, perplexity: f64, margin: f32, seen: &HeldOut) {
    println!("prefix      {}", prefix_line(prefix));
    println!("calibrated  on {tokens} tokens, perplexity {perplexity:.2}");
    println!("held out    {} tokens, perplexity {:.2}", seen.tokens, seen.perplexity);
    println!("margin      {margin}");
    for (title, escapes) in [
        ("Held-out values beyond the range of their coordinate, widened by", &seen.by_coordinate),
        ("Held-out values beyond the range of their layer and step, widened by", &seen.by_step),
    ] {
        println!("\n{title}");
        let margins: String = MARGINS.iter().map(|margin| format!(" {margin:>8}")).collect();
        println!("{:16} {:>12}{margins} {:>8}", "", "values", "needed");
        for (step, count) in escapes.counts() {
            let beyond: String = count.beyond.iter().map(|count| format!(" {count:>8}")).collect();
            println!("{:16} {:>12}{beyond} {:>8.2}", step.to_string(), count.values, count.needed);
        }
    }
}
