//! Random permutations (paper, Table 7): ours and the multi-group network against the collapsed Benes network.

use unspoken_permute::{Packing, Permutation, Strategy, Task};

use super::permutations::{ComparedPlan, PermutationFixture};
use super::planned;
use crate::error::BenchError;
use crate::harness::Harness;

/// The level of every result.
const OUTPUT_LEVEL: usize = 1;

/// Seed of the permutation.
const SEED: u64 = 1;

/// One length, with about as many keys as its base-2 logarithm.
pub(super) fn run(harness: &mut Harness<'_>, fixture: &PermutationFixture, log2_length: u32) -> Result<(), BenchError> {
    let parameters = fixture.encoder.parameters();
    let permutation = Permutation::random(1 << log2_length, SEED)?;
    let most = log2_length as usize;
    harness.progress(format!("random permutation of 2^{log2_length}: planning"));
    let task = Task { max_keys: Some(most), ..Task::new(&permutation, Packing::Repeated, parameters, OUTPUT_LEVEL) };
    let explanation = task.explain(parameters, &fixture.model)?;
    let Some(ours) = explanation.best() else { return Ok(()) };
    let mut plans = vec![ComparedPlan::ours("planned", ours)];
    if let Some(benes) = explanation.best_of(Strategy::Benes) {
        plans.push(ComparedPlan::ours("Benes, one key for the giant steps of a stage", benes));
    }
    if let Some(network) = explanation.best_of(Strategy::Network) {
        plans.push(ComparedPlan::ours("multi-group network", network));
    }
    let case = format!("random permutation, n = 2^{log2_length}");
    fixture.compare(harness, &case, &permutation, OUTPUT_LEVEL, &plans)?;
    planned::run(harness, fixture, &case, &permutation, OUTPUT_LEVEL, &explanation)
}
