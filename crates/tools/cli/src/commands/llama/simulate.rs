//! `unspoken llama simulate`

use std::path::PathBuf;

use anyhow::Context;
use serde_json::{Value, json};
use unspoken_ckks::Preset;
use unspoken_llama::{Comparison, Design, EngineNoise, Noise, Simulation};
use unspoken_llama_files::LoadedModel;
use unspoken_llama_model::round_weights;

use super::ModelArguments;
use super::choices::ChoiceArguments;
use super::tables::{
    comparison_object, describe_comparison, describe_design, describe_escapes, describe_header, design_object,
};
use super::text::{SampleArguments, read_tokens, samples};
use crate::progress::Bars;
use unspoken_offers::preparation::load;

/// Predict how well a prepared model does when it is encrypted
///
/// Runs text through the circuit of private inference as encrypted arithmetic would compute it: with the polynomials of
/// the preparation in place of functions, and with noise on each result. The noise has a standard deviation of 2^-BITS
/// times the largest value of the result's coordinate or head. With --scale, the engine's operations at that scale and
/// its bootstraps give the noise. Prints the perplexity at each precision (Table 3 of "Private Llama inference") beside
/// the perplexity of the model in the clear, how often both name the same most likely token, and how many values left
/// the intervals of their polynomials; then the degrees and intervals (Table 4). With --temperature it also compares
/// tokens that are chosen at random, with the same random numbers. Use text that `unspoken llama prepare` has not seen.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    /// Directory that `unspoken llama prepare` wrote for this model
    #[arg(long, value_name = "DIR")]
    preparation: PathBuf,
    /// Text that the preparation has not seen, UTF-8
    #[arg(long, value_name = "FILE")]
    text: PathBuf,
    #[command(flatten)]
    sizes: SampleArguments,
    /// Precisions in bits of each value's range
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [16.0, 14.0, 12.0, 11.0, 10.0, 9.0])]
    bits: Vec<f64>,
    /// Bits of the integers that weights are rounded to, sign included, with a scale for each row; without it weights
    /// are not rounded
    #[arg(long, value_name = "BITS", value_parser = clap::value_parser!(u32).range(2..=24))]
    weight_bits: Option<u32>,
    /// Simulate the noise of the engine as well, with values at a scale of 2^BITS
    #[arg(long, value_name = "BITS", value_delimiter = ',')]
    scale: Vec<f64>,
    /// Precision of bootstraps in bits, for --scale
    #[arg(long, value_name = "BITS", default_value_t = 16.0)]
    bootstrap_bits: f64,
    /// Parameter set whose ring and keys have the noise, for --scale
    #[arg(long, value_name = "NAME", default_value = "n16_boot_depth10_scale50")]
    preset: String,
    #[command(flatten)]
    choices: ChoiceArguments,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let wrong = arguments.bits.iter().find(|bits| !(**bits >= 0.0 && **bits <= 60.0));
    if let Some(bits) = wrong {
        anyhow::bail!("--bits: found {bits}, needed numbers from 0 to 60");
    }
    let bits = arguments.bootstrap_bits;
    anyhow::ensure!((0.0..=60.0).contains(&bits), "--bootstrap-bits: found {bits}, needed a number from 0 to 60");
    if let Some(scale) = arguments.scale.iter().find(|scale| !(1.0..=60.0).contains(*scale)) {
        anyhow::bail!("--scale: found {scale}, needed numbers from 1 to 60");
    }
    let preparation = load(&arguments.preparation)?;
    let LoadedModel { model, tokenizer } = arguments.model.load()?;
    let what = || format!("--preparation: {} and --model", arguments.preparation.display());
    let model = preparation.rotated(model).with_context(what)?;
    let design = preparation.design()?;
    let most = preparation.options.tokens.unwrap_or(model.config.context);
    let sizes = arguments.sizes.sizes(most.saturating_sub(preparation.prefix.len())).with_context(|| {
        format!("--preparation is for sessions of {most} tokens with the prefix; prepare with longer windows for more")
    })?;
    let least = preparation.least_public.unwrap_or(0);
    anyhow::ensure!(
        sizes.public >= least,
        "--public: found {}, needed {least} or more, for which the preparation is",
        sizes.public
    );
    let windows = arguments.sizes.windows(&read_tokens(&arguments.text, &tokenizer)?, sizes);
    let windows = windows.with_context(|| format!("--text: {}", arguments.text.display()))?;
    let samples = samples(&preparation.prefix, &windows, sizes.public);
    let noises = noises(arguments, &design)?;
    let served = arguments.weight_bits.map(|bits| {
        let mut served = model.clone();
        round_weights(&mut served.weights, bits);
        served
    });
    let mut bars = Bars::new();
    let count = samples.len();
    let progress = |done| bars.windows("simulating", done, count);
    let kinds: Vec<Noise> = noises.iter().map(|(_, noise)| noise.clone()).collect();
    let simulation = Simulation {
        circuit: &preparation.circuit(),
        model: &model,
        served: served.as_ref().unwrap_or(&model),
        design: &design,
        chunk: arguments.sizes.chunk,
    };
    let results = simulation.compare(&kinds, &samples, progress)?;
    bars.finish();
    let chosen = arguments.choices.compare(&simulation, &kinds, &samples, &mut bars)?;
    bars.finish();
    let (clear, simulated) = (&results[0], &results[1..]);
    if arguments.json {
        let mut object = object(&design, &noises, clear, simulated);
        object["choices"] = chosen.map_or(Value::Null, |chosen| chosen.object(&noises));
        println!("{object}");
    } else {
        describe(&design, &noises, clear, simulated);
        chosen.iter().for_each(|chosen| chosen.describe(&noises));
    }
    Ok(())
}

/// No noise, the noise of each precision, and the noise of the engine at each scale, with names.
fn noises(arguments: &Arguments, design: &Design) -> anyhow::Result<Vec<(String, Noise)>> {
    let mut noises = vec![("polynomials alone".to_owned(), Noise::None)];
    noises.extend(arguments.bits.iter().map(|bits| (format!("2^-{bits}"), Noise::Bits(*bits))));
    if !arguments.scale.is_empty() {
        let parameters = Preset::find(&arguments.preset)?.build()?;
        for scale in &arguments.scale {
            let bits = arguments.bootstrap_bits;
            let noise = EngineNoise::new(&parameters, *scale, bits, design)?;
            noises.push((format!("scale {scale}, boot {bits}"), Noise::Engine(noise)));
        }
    }
    Ok(noises)
}

/// What is printed with `--json`.
fn object(design: &Design, noises: &[(String, Noise)], clear: &Comparison, simulated: &[Comparison]) -> Value {
    let row =
        |((name, _), comparison): (&(String, Noise), &Comparison)| (name.clone(), comparison_object(comparison, clear));
    json!({
        "tokens": clear.tokens,
        "perplexity": clear.perplexity(),
        "precisions": noises.iter().zip(simulated).map(row).collect::<Value>(),
        "polynomials": design_object(design),
    })
}

/// What is printed without `--json`.
fn describe(design: &Design, noises: &[(String, Noise)], clear: &Comparison, simulated: &[Comparison]) {
    println!("text        {} private tokens", clear.tokens);
    println!("\nTable 3: perplexity at each precision");
    describe_header("precision");
    describe_comparison("model in the clear", clear, clear);
    for ((name, _), comparison) in noises.iter().zip(simulated) {
        describe_comparison(name, comparison, clear);
    }
    if let Some(polynomials) = simulated.first().filter(|comparison| comparison.escaped() > 0) {
        println!("\nEscapes with polynomials alone");
        describe_escapes(polynomials);
    }
    describe_design(design);
}
