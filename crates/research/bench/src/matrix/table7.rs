//! Random permutations (paper, Table 7): ours and the multi-group network against the collapsed Benes network.

use unspoken_permute::{Candidate, Packing, Permutation, PermutationTask, Strategy};

use super::permutations::{ComparedPlan, PermutationFixture};
use super::planned;
use crate::harness::Harness;

/// The level of every result.
const OUTPUT_LEVEL: usize = 1;

/// Bits of the length times this is the number of keys of the published Benes network: with a key for each giant step
/// it does not exist within fewer.
const PUBLISHED_KEYS_PER_BIT: usize = 2;

/// Seed of the permutation.
const SEED: u64 = 1;

/// One length, with about as many keys as its base-2 logarithm.
pub(super) fn run(harness: &mut Harness<'_>, fixture: &PermutationFixture, log2_length: u32) -> anyhow::Result<()> {
    let parameters = fixture.encoder.parameters();
    let permutation = Permutation::random(1 << log2_length, SEED)?;
    let most = log2_length as usize;
    harness.progress(format!("random permutation of 2^{log2_length}: planning"));
    let task = PermutationTask {
        max_keys: Some(most),
        ..PermutationTask::new(&permutation, Packing::Repeated, parameters, OUTPUT_LEVEL)
    };
    let explanation = task.explain(parameters, &fixture.model)?;
    let Some(ours) = explanation.best() else { return Ok(()) };
    let mut plans = vec![ComparedPlan::ours("planned", ours)];
    if let Some(benes) = explanation.best_of(Strategy::Benes) {
        plans.push(ComparedPlan::ours("Benes, one key for the giant steps of a stage", benes));
    }
    let published = |candidate: &&Candidate| {
        candidate.plan.strategy() == Strategy::Benes
            && candidate.estimate.separate_keys <= PUBLISHED_KEYS_PER_BIT * most
            && OUTPUT_LEVEL + candidate.estimate.depth <= task.input_level
    };
    let candidates = explanation.rows().iter().map(|row| &row.candidate).filter(published);
    if let Some(benes) = candidates.min_by(|a, b| a.seconds.total_cmp(&b.seconds)) {
        plans.push(ComparedPlan::published("Benes, a key for each giant step, twice as many keys", benes));
    }
    if let Some(network) = explanation.best_of(Strategy::Network) {
        plans.push(ComparedPlan::ours("multi-group network", network));
    }
    let case = format!("random permutation, n = 2^{log2_length}");
    fixture.compare(harness, &case, &permutation, OUTPUT_LEVEL, &plans)?;
    planned::run(harness, fixture, &case, &permutation, OUTPUT_LEVEL, &explanation)
}
