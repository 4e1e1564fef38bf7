//! Transposes (paper, Table 3): all diagonals at once, against ideal factors at every depth.

use unspoken_permute::{Candidate, Packing, Permutation, PermutationTask, Strategy, factors};

use super::permutations::{ComparedPlan, PermutationFixture};
use super::planned;
use crate::harness::Harness;

/// The paper's depths, and the key counts of its two baby-step settings: for the baseline and for its own method.
const DEPTHS: std::ops::RangeInclusive<usize> = 2..=5;
const BASELINE_KEYS: [usize; 2] = [38, 30];

const BASELINE: &str = "Jiang et al.: all diagonals";

/// One dimension: at each depth, all results are at the same level, which is `depth` levels below the highest.
pub(super) fn run(harness: &mut Harness<'_>, fixture: &PermutationFixture, dimension: usize) -> anyhow::Result<()> {
    let parameters = fixture.encoder.parameters();
    let permutation = Permutation::transpose(dimension, dimension)?;
    let known = factors::transpose(dimension)?;
    for depth in DEPTHS {
        let output_level = parameters.max_level() - depth;
        let task = PermutationTask {
            factors: &known,
            ..PermutationTask::new(&permutation, Packing::Repeated, parameters, output_level)
        };
        let mut candidates = task.candidates(parameters, &fixture.model)?;
        candidates.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        let find = |allowed: &dyn Fn(&Candidate) -> bool| candidates.iter().find(|candidate| allowed(candidate));
        let Some(ours) = find(&|c| {
            let fewest = BASELINE_KEYS.into_iter().min().unwrap_or(usize::MAX);
            c.plan.strategy() == Strategy::Factors && c.plan.depth() <= depth && c.estimate.keys.len() <= fewest
        }) else {
            continue;
        };
        let mut plans = vec![ComparedPlan::ours("factors", ours)];
        for most in BASELINE_KEYS {
            let baseline =
                find(&|c| c.plan.strategy() == Strategy::Diagonals && c.estimate.separate_keys <= most + most / 10);
            let name = format!("{BASELINE}, about {most} keys");
            plans.extend(baseline.map(|baseline| ComparedPlan::published(&name, baseline)));
        }
        let case = format!("transpose, d = {dimension}, depth {depth}");
        fixture.compare(harness, &case, &permutation, output_level, &plans)?;
        let task =
            PermutationTask { max_keys: BASELINE_KEYS.into_iter().min(), input_level: parameters.max_level(), ..task };
        let explanation = task.explain(parameters, &fixture.model)?;
        planned::run(harness, fixture, &case, &permutation, output_level, &explanation)?;
    }
    Ok(())
}
