//! `unspoken plan`

use unspoken_ckks::{
    Bootstrap, CkksParameters, Complex64, CostModel, Encoder, ErrorStatistics, Preset, Simulator, SlotValues,
};
use unspoken_lookup::{Explanation, OutputForm, Task, estimates};

use crate::commands::serve::DEFAULT_PRESET;

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
    /// Show the requirements and the result of a bootstrap of all slots; a simulation in the clear predicts the
    /// precision
    #[arg(long)]
    bootstrap: bool,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let parameters = Preset::find(&arguments.preset)?.build()?;
    if arguments.bootstrap {
        return show_bootstrap(&parameters);
    }
    anyhow::ensure!((4..=4096).contains(&arguments.columns), "{} columns; needed 4 to 4096", arguments.columns);
    let form = if arguments.pairs { OutputForm::Pairs } else { OutputForm::Rows };
    let (subtables, rows, columns) = (arguments.subtables, arguments.rows, arguments.columns.next_power_of_two());
    let task = Task { subtables, rows, columns, form };
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

/// Seed of the simulated values and noise.
const SEED: u64 = 1;

fn show_bootstrap(parameters: &CkksParameters) -> anyhow::Result<()> {
    let plan = Bootstrap::new(parameters, parameters.slots(), SlotValues::Complex)?;
    println!("{plan}");
    let simulator = Simulator::new(&Encoder::new(parameters), SEED);
    let values: Vec<Complex64> = (0..parameters.slots()).map(|j| Complex64::cis((j * j) as f64)).collect();
    let input = simulator.encrypt(&values, plan.input_level(), parameters.scale())?;
    let error = ErrorStatistics::between(plan.simulate_refresh(&simulator, &input)?.noisy(), &values);
    println!(
        "precision  {:.1} bits (root mean square), {:.1} in the worst slot",
        -error.rms.log2(),
        -error.worst.log2()
    );
    Ok(())
}
