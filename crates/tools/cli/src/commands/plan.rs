//! `unspoken plan`

use unspoken_ckks::{CostModel, Preset};
use unspoken_lookup::{Explanation, LookupTask, OutputForm, estimates};

use crate::commands::plan_bootstrap;
use unspoken_offers::DEFAULT_PRESET;

/// Show the plans of a lookup and their costs, or the requirements and precision of a bootstrap
#[derive(clap::Args)]
pub struct Arguments {
    /// Parameter set; `unspoken params` lists them
    #[arg(long, default_value = DEFAULT_PRESET)]
    preset: String,
    /// Number of subtables
    #[arg(long, default_value_t = 4)]
    subtables: usize,
    /// Rows of a subtable: the number of classes, or the embedding dimension
    #[arg(long, default_value_t = 2)]
    rows: usize,
    /// Columns of a subtable
    #[arg(long, default_value_t = 256)]
    columns: usize,
    /// Put two rows into one ciphertext, in the real and imaginary parts, as classifiers do
    #[arg(long)]
    pairs: bool,
    /// Show every plan with its costs, measured on one thread of this machine, instead of the name of the best plan
    #[arg(long)]
    explain: bool,
    /// Show the requirements, time and result of a bootstrap instead; a simulation in the clear predicts the precision
    #[arg(long)]
    bootstrap: bool,
    /// Compare the presets whose bootstrap gives at least this number of bits
    #[arg(long, requires = "bootstrap", conflicts_with = "preset")]
    bits: Option<f64>,
    /// Search for the shape of a parameter set for these bits, instead of comparing the presets; takes minutes
    #[arg(long, requires = "bits")]
    search: bool,
    /// Number of slots to bootstrap, a power of two; all by default
    #[arg(long, requires = "bootstrap")]
    slots: Option<usize>,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if let Some(bits) = arguments.bits {
        if arguments.search {
            return plan_bootstrap::search(bits, arguments.slots);
        }
        return plan_bootstrap::compare(bits, arguments.slots);
    }
    let parameters = Preset::find(&arguments.preset)?.build()?;
    if arguments.bootstrap {
        return plan_bootstrap::show(&parameters, arguments.slots);
    }
    anyhow::ensure!((4..=4096).contains(&arguments.columns), "{} columns; needed 4 to 4096", arguments.columns);
    let form = if arguments.pairs { OutputForm::Pairs } else { OutputForm::Rows };
    let (subtables, rows, columns) = (arguments.subtables, arguments.rows, arguments.columns.next_power_of_two());
    let task = LookupTask { subtables, rows, columns, form };
    if !arguments.explain {
        println!("{}", unspoken_lookup::best_plan(&parameters, task)?);
        return Ok(());
    }
    let one_thread = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
    let model = one_thread.install(|| CostModel::measure(&parameters))?;
    let found = estimates(&parameters, task, &model);
    anyhow::ensure!(!found.is_empty(), "no plan for {columns} columns fits preset {}", arguments.preset);
    println!(
        "{subtables} subtables of {rows} rows and {columns} columns, {} tokens at once, preset {}",
        parameters.slots(),
        parameters.name()
    );
    print!("{}", Explanation(&found));
    Ok(())
}
