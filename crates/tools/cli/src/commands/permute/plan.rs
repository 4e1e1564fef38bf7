//! `unspoken permute plan`

use clap::ValueEnum;
use unspoken_ckks::{CostModel, Preset};
use unspoken_permute::{Packing, PermutationTask};

use super::subject::Subject;

/// The parameter set to plan for by default.
const DEFAULT_PRESET: &str = "n15_real_depth17_scale30";

/// Packing of a vector that is shorter than the number of slots
#[derive(Clone, Copy, ValueEnum)]
enum PackingArgument {
    /// Repeated to fill all slots
    Repeated,
    /// Many vectors side by side, all with the same permutation
    Blocks,
}

/// Show the plan of a permutation of encrypted slots, and the reasons for it
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    subject: Subject,
    /// Seed of the random permutation
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Parameter set; `unspoken params` lists them
    #[arg(long, default_value = DEFAULT_PRESET)]
    preset: String,
    /// Packing of a vector that is shorter than the number of slots
    #[arg(long, value_enum, default_value = "repeated")]
    packing: PackingArgument,
    /// Level of the input [default: the highest]
    #[arg(long)]
    level: Option<usize>,
    /// Level of the result
    #[arg(long, default_value_t = 1)]
    output_level: usize,
    /// Most rotation keys that a plan may use
    #[arg(long)]
    max_keys: Option<usize>,
    /// Show every strategy at every depth with its costs, measured on one thread of this machine
    #[arg(long)]
    explain: bool,
    /// Print the plan as JSON
    #[arg(long, conflicts_with = "explain")]
    json: bool,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let given = arguments.subject.permutation(arguments.seed)?;
    let parameters = Preset::find(&arguments.preset)?.build()?;
    let packing = match arguments.packing {
        PackingArgument::Repeated => Packing::Repeated,
        PackingArgument::Blocks => Packing::Blocks,
    };
    let mut task = PermutationTask::new(&given.permutation, packing, &parameters, arguments.output_level);
    task.factors = &given.factors;
    task.max_keys = arguments.max_keys;
    task.input_level = arguments.level.unwrap_or(task.input_level);
    let one_thread = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
    let model = one_thread.install(|| CostModel::measure(&parameters))?;
    if arguments.explain {
        println!("{}, preset {}, {} slots", given.title, parameters.name(), parameters.slots());
        print!("{}", task.explain(&parameters, &model)?);
        return Ok(());
    }
    let best = task.plan(&parameters, &model)?;
    if arguments.json {
        println!("{}", serde_json::to_string(&best.plan)?);
        return Ok(());
    }
    let [hoisted, whole] = best.estimate.total_rotations();
    println!(
        "{}: {}, {} levels, {} rotations ({hoisted} of them from shared digits), {} masks, {} keys, {:.0} ms predicted",
        given.title,
        best.plan.strategy(),
        best.estimate.depth,
        hoisted + whole,
        best.estimate.masks,
        best.estimate.keys.len(),
        best.seconds * 1e3,
    );
    Ok(())
}
