//! `unspoken compile`

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use serde_json::{Value, json};
use unspoken_ckks::Preset;
use unspoken_model::{CompiledModel, InputShape, Interface, Report};
use unspoken_network::{Approximation, Options, Wishes};
use unspoken_onnx::Network;

use super::tables::{self, Tables};
use crate::progress::note;

/// Compile an ONNX model for private predictions
///
/// `unspoken serve --model DIR` serves what it writes; `unspoken ask` asks it. The calibration has rows like those of
/// clients: they decide the ranges in which polynomials replace functions. A part of the model that cannot be served
/// is named before any work. Without --preset the one with the fewest predicted seconds is chosen.
#[derive(clap::Args)]
pub struct Arguments {
    /// ONNX file, as torch.onnx.export and skl2onnx write it
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Rows like those of clients: npz, npy, csv, json or jsonl
    #[arg(long, value_name = "FILE")]
    calibration: PathBuf,
    /// Directory to write
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Rows of a query, rounded up to a power of two. Fewer make shorter queries, more take less time for each row
    #[arg(long, value_name = "ROWS", default_value_t = 128)]
    batch: usize,
    /// Parameter set
    #[arg(long, value_name = "NAME")]
    preset: Option<String>,
    /// Factor by which ranges are wider than in the calibration
    #[arg(long, value_name = "FACTOR", default_value_t = 1.25)]
    margin: f64,
    /// Precision of functions with a kink, such as ReLU: the mean error over the calibration, as bits of their range
    #[arg(long, value_name = "BITS", default_value_t = 9.0)]
    kink_bits: f64,
    /// Precision of smooth functions: the largest error, as bits of their range
    #[arg(long, value_name = "BITS", default_value_t = 12.0)]
    smooth_bits: f64,
    /// Memory of weights, keys of one client, and one run, at most, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 8192)]
    memory_mib: u64,
    /// Show each function with its polynomial
    #[arg(long)]
    explain: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let start = Instant::now();
    anyhow::ensure!(!arguments.out.exists(), "--out: {} exists; name a new directory", arguments.out.display());
    for (name, bits) in [("--kink-bits", arguments.kink_bits), ("--smooth-bits", arguments.smooth_bits)] {
        anyhow::ensure!((1.0..=30.0).contains(&bits), "{name}: found {bits}, needed 1 to 30");
    }
    let insecure = arguments.preset.as_deref().is_some_and(|name| Preset::find(name).is_ok_and(Preset::is_insecure));
    anyhow::ensure!(!insecure, "--preset: found an insecure set, needed one of 128 bits; `unspoken params` lists them");
    let model = Network::load(&arguments.model).with_context(|| arguments.model.display().to_string())?;
    let interface = Interface::of(&model)?;
    let Tables { rows, columns } = tables::read(&arguments.calibration, &interface.inputs).context("--calibration")?;
    let elements = names_for_clients(&interface.inputs, columns);
    let views: Vec<_> = rows.iter().map(|table| table.view()).collect();
    let options = Options {
        margin: arguments.margin,
        kink_error: (-arguments.kink_bits).exp2(),
        smooth_error: (-arguments.smooth_bits).exp2(),
        ..Options::default()
    };
    let wishes = Wishes {
        presets: arguments.preset.iter().cloned().collect(),
        rows: Some(arguments.batch),
        memory: arguments.memory_mib << 20,
        ..Wishes::default()
    };
    let (compiled, report) = CompiledModel::compile(&model, &views, options, &wishes)?;
    let compiled = compiled.with_elements(elements)?;
    compiled.save(&arguments.out)?;
    let seconds = start.elapsed().as_secs_f64();
    match arguments.json {
        true => println!("{}", object(&compiled, &report, seconds)),
        false => describe(arguments, &compiled, &report, (rows[0].nrows(), seconds)),
    }
    Ok(())
}

/// The names of columns that clients will see; none for an input whose columns have no names that fit.
fn names_for_clients(inputs: &[InputShape], columns: Vec<Vec<String>>) -> Vec<Vec<String>> {
    let checked = |(input, elements): (&InputShape, Vec<String>)| {
        // The name of such an input is that of its column.
        if elements.len() == 1 && elements[0] == input.name {
            return Vec::new();
        }
        let named = InputShape { elements, ..input.clone() };
        match named.check_elements() {
            Ok(()) => named.elements,
            Err(error) => {
                note(&format!("warning     clients see no names of columns: {error}"));
                Vec::new()
            }
        }
    };
    inputs.iter().zip(columns).map(checked).collect()
}

fn object(model: &CompiledModel, report: &Report, seconds: f64) -> Value {
    let function = |one: &Approximation| {
        json!({
            "function": format!("{:?}", one.function), "degree": one.degree, "levels": one.depth,
            "largest_error": one.largest, "mean_error": one.rms,
        })
    };
    json!({
        "id": model.id().to_string(), "preset": model.preset, "batch": model.batch, "levels": report.levels,
        "query_bytes": report.query_bytes, "key_bytes": report.key_bytes, "weight_bytes": report.memory[0],
        "working_bytes": report.memory[1], "seconds_on_one_core": report.seconds,
        "error_of_polynomials": report.simulation.approximation, "error_of_noise": report.simulation.noise,
        "rows_outside": report.simulation.outside, "constant_inputs": report.constant_inputs,
        "functions": report.approximations.iter().map(function).collect::<Vec<_>>(), "compile_seconds": seconds,
    })
}

fn describe(arguments: &Arguments, model: &CompiledModel, report: &Report, (rows, seconds): (usize, f64)) {
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    println!(
        "model       {} inputs, {} outputs",
        model.interface.inputs.len(),
        model.interface.outputs.as_slice().len()
    );
    println!("calibrated  on {rows} rows, with a margin of {}", arguments.margin);
    println!("preset      {}, {} levels, {} rows a query", model.preset, report.levels, model.batch);
    println!("query       {:.2} MB, keys {:.2} MB, once", megabytes(report.query_bytes), megabytes(report.key_bytes));
    println!(
        "memory      {:.1} MB of weights, {:.1} MB for a run",
        megabytes(report.memory[0]),
        megabytes(report.memory[1])
    );
    println!("predicted   {:.3} s a query on one core", report.seconds);
    println!(
        "error       {:.1e} by polynomials and {:.1e} by noise, as parts of the ranges of results, on calibration rows",
        report.simulation.approximation, report.simulation.noise
    );
    for (name, elements) in &report.constant_inputs {
        println!("warning     input {name:?} never varies in {} of its numbers", elements.len());
    }
    if arguments.explain {
        println!("\n{:<28} {:>7} {:>7} {:>14} {:>12}", "function", "degree", "levels", "largest error", "mean error");
        for one in &report.approximations {
            let function = format!("{:?}", one.function);
            println!("{function:<28} {:>7} {:>7} {:>14.1e} {:>12.1e}", one.degree, one.depth, one.largest, one.rms);
        }
        println!();
    }
    println!("written     to {} in {seconds:.1} s", arguments.out.display());
    println!("serve it    unspoken serve --model {}", arguments.out.display());
}
