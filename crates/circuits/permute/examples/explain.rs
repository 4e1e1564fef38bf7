//! Prints the planner's table.
//!
//! Usage: `explain PRESET random LOG2_LENGTH [MAX_KEYS]` or `explain PRESET transpose DIMENSION [MAX_KEYS]`.

use std::io::Write;
use std::time::Instant;

use unspoken_ckks::{CostModel, Preset};
use unspoken_permute::{Packing, Permutation, PermutationTask, factors};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let preset = arguments.next().unwrap_or_else(|| "n15_real_depth17_scale30".into());
    let kind = arguments.next().unwrap_or_else(|| "random".into());
    let size = arguments.next().map_or(Ok(9), |text| text.parse::<usize>())?;
    let max_keys = arguments.next().map(|text| text.parse()).transpose()?;
    let parameters = Preset::find(&preset)?.build()?;
    let (permutation, known) = match kind.as_str() {
        "random" => (Permutation::random(1 << size.min(24), 1)?, Vec::new()),
        "transpose" => (Permutation::transpose(size, size)?, factors::transpose(size)?),
        other => return Err(format!("'{other}' is neither 'random' nor 'transpose'").into()),
    };
    let packing = if known.is_empty() { Packing::Repeated } else { Packing::Blocks };
    let task =
        PermutationTask { max_keys, factors: &known, ..PermutationTask::new(&permutation, packing, &parameters, 1) };
    let model = CostModel::nominal(&parameters);
    let start = Instant::now();
    let explanation = task.explain(&parameters, &model)?;
    let seconds = start.elapsed().as_secs_f64();
    writeln!(std::io::stdout(), "{} plans in {seconds:.1} s, {explanation}", explanation.rows().len())?;
    let start = Instant::now();
    task.plan_stages(&parameters, &model)?;
    writeln!(std::io::stdout(), "the best plan of stages alone in {:.1} s", start.elapsed().as_secs_f64())?;
    Ok(())
}
