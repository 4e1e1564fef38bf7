//! The planner's table for a random permutation: `explain PRESET LOG2_LENGTH [MAX_KEYS]`.

use std::time::Instant;

use unspoken_ckks::{CostModel, Preset};
use unspoken_permute::{Packing, Permutation, Task};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let preset = arguments.next().unwrap_or_else(|| "n15_real_depth17_scale30".into());
    let log2 = arguments.next().map_or(Ok(9), |text| text.parse::<u32>())?;
    let max_keys = arguments.next().map(|text| text.parse()).transpose()?;
    let parameters = Preset::find(&preset)?.build()?;
    let permutation = Permutation::random(1 << log2, 1)?;
    let task = Task { max_keys, ..Task::new(&permutation, Packing::Repeated, &parameters, 1) };
    let model = CostModel::nominal(&parameters);
    let start = Instant::now();
    let explanation = task.explain(&parameters, &model)?;
    println!("{} plans in {:.1} s, {explanation}", explanation.rows().len(), start.elapsed().as_secs_f64());
    Ok(())
}
