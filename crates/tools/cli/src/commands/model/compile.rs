//! `unspoken compile`

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use unspoken_model::{CompileOptions, CompiledModel, InputShape, Interface};
use unspoken_onnx::Network;

use super::tables::{self, Tables};
use crate::progress::{Bars, note};

/// Compile an ONNX model for private predictions
///
/// `unspoken serve --model DIR` serves what it writes; `unspoken ask` asks it. The calibration has rows like those of
/// clients: they decide the ranges in which polynomials replace functions. A part of the model that cannot be served
/// is named before any work. Without --preset the one with the fewest predicted seconds is chosen; one that bootstraps,
/// if the model needs more levels than others have.
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
    #[arg(long, value_name = "ROWS", default_value_t = CompileOptions::DEFAULT.batch)]
    batch: usize,
    /// Parameter set
    #[arg(long, value_name = "NAME")]
    preset: Option<String>,
    /// Factor by which ranges are wider than in the calibration
    #[arg(long, value_name = "FACTOR", default_value_t = CompileOptions::DEFAULT.margin)]
    margin: f64,
    /// Precision of functions with a kink, such as ReLU: the mean error over the calibration, as bits of their range
    #[arg(long, value_name = "BITS", default_value_t = CompileOptions::DEFAULT.kink_bits)]
    kink_bits: f64,
    /// Precision of smooth functions: the largest error, as bits of their range
    #[arg(long, value_name = "BITS", default_value_t = CompileOptions::DEFAULT.smooth_bits)]
    smooth_bits: f64,
    /// Serve all weights as they are. Otherwise layers are fitted again to what polynomials give them, where that makes
    /// results more precise: dense ones get new weights, others a factor and a shift for each result
    #[arg(long)]
    keep_weights: bool,
    /// Memory of weights, keys of one client, and one run, at most, in MiB
    #[arg(long, value_name = "MIB", default_value_t = CompileOptions::DEFAULT.memory_mib)]
    memory_mib: u64,
    /// Show each function with its polynomial, each layer that was fitted again, and each bootstrap with its predicted
    /// seconds
    #[arg(long)]
    explain: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    crate::allocator::keep_freed_memory();
    anyhow::ensure!(!arguments.out.exists(), "--out: {} exists; name a new directory", arguments.out.display());
    let (options, wishes) = arguments.options().checked()?;
    let model = Network::load(&arguments.model).with_context(|| arguments.model.display().to_string())?;
    let interface = Interface::of(&model)?;
    let Tables { rows, columns } = tables::read(&arguments.calibration, &interface.inputs).context("--calibration")?;
    let elements = names_for_clients(&interface.inputs, columns);
    let views: Vec<_> = rows.iter().map(|table| table.view()).collect();
    let mut bars = Bars::new();
    let mut show = |step| bars.compiling(step);
    let compiled = CompiledModel::compile_with(&model, &views, options, &wishes, &mut show, &Arc::default())?;
    let compiled = compiled.with_elements(elements)?;
    bars.finish();
    compiled.save(&arguments.out)?;
    if arguments.json {
        println!("{}", compiled.report.to_json());
        return Ok(());
    }
    let report = &compiled.report;
    match arguments.explain {
        true => print!("{}", report.explain()),
        false => print!("{report}"),
    }
    println!("written     to {} in {:.1} s", arguments.out.display(), report.compile_seconds);
    println!("serve it    unspoken serve --model {}", arguments.out.display());
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

impl Arguments {
    fn options(&self) -> CompileOptions {
        CompileOptions {
            batch: self.batch,
            preset: self.preset.clone(),
            margin: self.margin,
            kink_bits: self.kink_bits,
            smooth_bits: self.smooth_bits,
            keep_weights: self.keep_weights,
            memory_mib: self.memory_mib,
        }
    }
}
