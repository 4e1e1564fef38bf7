//! Time of random permutations against the number of keys: the planner's choice and the Benes network within each
//! number.

use unspoken_ckks::Evaluator;
use unspoken_permute::{Candidate, Explanation, Packing, Permutation, PermutationTask, Strategy, Verdict};
use unspoken_ring::SecretRng;
use unspoken_rlwe::KeyPlan;

use super::permutations::{PermutationFixture, times};
use crate::clock::scaled;
use crate::harness::Harness;
use crate::row::{Metric, params};

/// The level of every result.
const OUTPUT_LEVEL: usize = 1;

/// Seed of the permutation.
const SEED: u64 = 1;

/// Numbers of keys, in halves of the bits of the length.
const HALVES_OF_BITS: [usize; 5] = [2, 3, 4, 6, 8];

const TIME: Metric = Metric::less("time_by_keys", "ms");

/// A number of keys, the fastest plan within it, and the fastest Benes network.
struct Point<'a> {
    most_keys: usize,
    planned: &'a Candidate,
    benes: &'a Candidate,
}

/// The points of the curve, without repeated points.
fn points(explanation: &Explanation, bits: usize) -> Vec<Point<'_>> {
    let mut found: Vec<Point<'_>> = Vec::new();
    for halves in HALVES_OF_BITS {
        let most_keys = bits * halves / 2;
        let within = |candidate: &&Candidate| candidate.estimate.keys.len() <= most_keys;
        let allowed = explanation.rows().iter().filter(|row| row.verdict == Verdict::Allowed);
        // The fastest first.
        let candidates: Vec<&Candidate> = allowed.map(|row| &row.candidate).filter(within).collect();
        let benes = candidates.iter().find(|candidate| candidate.plan.strategy() == Strategy::Benes);
        let (Some(&planned), Some(&benes)) = (candidates.first(), benes) else { continue };
        let repeats = |last: &Point<'_>| last.planned.plan == planned.plan && last.benes.plan == benes.plan;
        if !found.last().is_some_and(repeats) {
            found.push(Point { most_keys, planned, benes });
        }
    }
    found
}

/// Times both plans of every point of the curve of one length in turn.
pub(super) fn run(harness: &mut Harness<'_>, fixture: &PermutationFixture, log2_length: u32) -> anyhow::Result<()> {
    let parameters = fixture.encoder.parameters();
    let permutation = Permutation::random(1 << log2_length, SEED)?;
    harness.progress(format!("random permutation of 2^{log2_length}: plans by number of keys"));
    let task = PermutationTask::new(&permutation, Packing::Repeated, parameters, OUTPUT_LEVEL);
    let explanation = task.explain(parameters, &fixture.model)?;
    for Point { most_keys, planned, benes } in points(&explanation, log2_length as usize) {
        let case = format!("random permutation, n = 2^{log2_length}, at most {most_keys} keys");
        harness.progress(&case);
        let mut rng = SecretRng::insecure_from_seed(9);
        let mut keys = KeyPlan::new();
        [planned, benes].iter().for_each(|candidate| keys.extend(&candidate.estimate.keys));
        let keys = fixture.keys(&keys, &mut rng)?;
        let evaluator = Evaluator::new(&fixture.encoder, &keys);
        let input = fixture.input(&permutation, &mut rng)?;
        let mut ready = Vec::new();
        for candidate in [planned, benes] {
            ready.push(fixture.ready(&evaluator, &input, &case, candidate, OUTPUT_LEVEL)?.0);
        }
        let samples = times(harness, harness.slow_repetitions(), &evaluator, &input, &ready)?;
        let [ours, theirs] = [&samples[0], &samples[1]].map(|seconds| scaled(seconds, 1e3));
        let params = params! {
            "preset": parameters.name(), "plan": planned.plan.strategy().to_string(), "depth": planned.estimate.depth,
            "keys": planned.estimate.keys.len(), "baseline_keys": benes.estimate.keys.len(),
            "baseline_depth": benes.estimate.depth,
        };
        harness.timing(TIME, case, &ours, Some(("Benes, one key for the giant steps of a stage", &theirs)), params);
    }
    Ok(())
}
