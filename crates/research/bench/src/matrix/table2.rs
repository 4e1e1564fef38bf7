//! Rotations by level (paper, Table 2): the multi-group network with no steps collapsed, and the Benes network of at
//! most its depth. Nothing is timed.

use std::collections::BTreeMap;

use unspoken_ckks::{CostModel, Encoder};
use unspoken_permute::{Network, Packing, Permutation, PermutationPlan, PermutationTask, Strategy, estimate};

use crate::harness::Harness;
use crate::row::{Metric, params};

/// The level of every result.
const OUTPUT_LEVEL: usize = 1;

/// Seed of the permutation.
const SEED: u64 = 1;

const ROTATIONS: Metric = Metric::less("rotations_by_level", "rotations");

/// Rotations of one level: those from shared digits, and the others.
type Rotations = BTreeMap<usize, [u64; 2]>;

/// One row for each level above the result, up to the depth of the deeper network.
pub(super) fn run(harness: &mut Harness<'_>, encoder: &Encoder, log2_length: u32) -> anyhow::Result<()> {
    let parameters = encoder.parameters();
    let permutation = Permutation::random(1 << log2_length, SEED)?;
    harness.progress(format!("random permutation of 2^{log2_length}: rotations by level"));
    let network = Network::new(&permutation, Packing::Repeated, 0, 0)?;
    let plan = PermutationPlan::network(Packing::Repeated, permutation.len(), network)?;
    let network = estimate(&plan, parameters, OUTPUT_LEVEL)?;
    let task = PermutationTask {
        input_level: OUTPUT_LEVEL + network.depth,
        ..PermutationTask::new(&permutation, Packing::Repeated, parameters, OUTPUT_LEVEL)
    };
    let explanation = task.explain(parameters, &CostModel::nominal(parameters))?;
    let benes = explanation.best_of(Strategy::Benes).map(|benes| benes.estimate.rotations.clone()).unwrap_or_default();
    let case = format!("random permutation, n = 2^{log2_length}");
    let count = |rotations: &Rotations, level| rotations.get(&level).copied().unwrap_or_default();
    for level in OUTPUT_LEVEL..=task.input_level {
        let [ours, theirs] = [&network.rotations, &benes].map(|rotations| count(rotations, level));
        let params = params! {
            "preset": parameters.name(), "level": level - OUTPUT_LEVEL, "shared": ours[0], "baseline_shared": theirs[0],
        };
        let [ours, theirs] = [ours, theirs].map(|[shared, own]| (shared + own) as f64);
        let baseline = Some(("Benes of at most the network's depth", theirs));
        harness.value(
            ROTATIONS,
            format!("{case}, {} levels above the result", level - OUTPUT_LEVEL),
            ours,
            baseline,
            params,
        );
    }
    Ok(())
}
