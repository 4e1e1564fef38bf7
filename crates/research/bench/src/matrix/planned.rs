//! The planner's choice compared with the other plans that it considered and its limits allow.

use unspoken_ckks::Evaluator;
use unspoken_permute::{Candidate, Explanation, Permutation, PreparedPermutation, Verdict};
use unspoken_ring::SecretRng;
use unspoken_rlwe::KeyPlan;

use super::permutations::{PermutationFixture, times};
use crate::clock::{Repetitions, median};
use crate::harness::Harness;
use crate::row::{Metric, params};

/// Time of the planner's choice over the time of the fastest plan: 1 if it is the fastest.
const RATIO: Metric = Metric::less("planned_over_the_fastest_candidate", "times");

/// Number of plans, the fastest when timed alone, that are timed in turn with the planner's choice.
const TIMED_IN_TURN: usize = 3;

/// Plans predicted to take more than this many times as long as the planner's choice are not timed.
const SLOWEST_PREDICTED: f64 = 1.6;

/// Most plans that are timed with `--quick`: the plans predicted to be fastest.
const QUICK: usize = 5;

/// Repetitions of each plan when timed alone.
const REPETITIONS_ALONE: Repetitions = Repetitions::exactly(2);

/// Every allowed plan, once: the planner's choice first, then by predicted time.
fn allowed(explanation: &Explanation) -> Vec<&Candidate> {
    let mut plans: Vec<&Candidate> = Vec::new();
    for row in explanation.rows().iter().filter(|row| row.verdict == Verdict::Allowed) {
        if plans.iter().all(|known| known.plan != row.candidate.plan) {
            plans.push(&row.candidate);
        }
    }
    plans
}

/// Times the plans alone (with `--quick` only some), then the fastest ones in turn with the planner's choice. Reports
/// the largest of the medians of the paired ratios.
pub(super) fn run(
    harness: &mut Harness<'_>,
    fixture: &PermutationFixture,
    case: &str,
    permutation: &Permutation,
    output_level: usize,
    explanation: &Explanation,
) -> anyhow::Result<()> {
    let mut plans = allowed(explanation);
    let candidates = plans.len();
    let most = plans.first().map_or(0.0, |planned| SLOWEST_PREDICTED * planned.seconds);
    plans.retain(|candidate| candidate.seconds <= most);
    if harness.options.quick {
        plans.truncate(QUICK);
    }
    let Some((planned, others)) = plans.split_first() else { return Ok(()) };
    let mut rng = SecretRng::insecure_from_seed(7);
    let input = fixture.input(permutation, &mut rng)?;
    let mut ranking: Vec<(f64, &Candidate)> = Vec::with_capacity(others.len());
    for (number, candidate) in others.iter().enumerate() {
        harness.progress(format!("{case}: plan {} of {}, {}", number + 2, plans.len(), candidate.plan.strategy()));
        let keys = fixture.keys(&candidate.estimate.keys, &mut rng)?;
        let evaluator = Evaluator::new(&fixture.encoder, &keys);
        let (prepared, _) = fixture.ready(&evaluator, &input, case, candidate, output_level)?;
        let samples = times(harness, REPETITIONS_ALONE, &evaluator, &input, &[prepared])?;
        ranking.push((samples.iter().flatten().copied().fold(f64::INFINITY, f64::min), candidate));
    }
    ranking.sort_by(|a, b| a.0.total_cmp(&b.0));
    let fastest_plans: Vec<&Candidate> =
        std::iter::once(*planned).chain(ranking.iter().take(TIMED_IN_TURN).map(|(_, candidate)| *candidate)).collect();
    let mut keys = KeyPlan::new();
    fastest_plans.iter().for_each(|candidate| keys.extend(&candidate.estimate.keys));
    let keys = fixture.keys(&keys, &mut rng)?;
    let evaluator = Evaluator::new(&fixture.encoder, &keys);
    harness.progress(format!("{case}: the fastest in turn"));
    let ready = fastest_plans.iter().map(|candidate| {
        fixture.ready(&evaluator, &input, case, candidate, output_level).map(|(prepared, _)| prepared)
    });
    let ready: Vec<PreparedPermutation> = ready.collect::<Result<_, _>>()?;
    let samples = times(harness, harness.slow_repetitions(), &evaluator, &input, &ready)?;
    let Some((ours, others)) = samples.split_first() else { return Ok(()) };
    let ratio = |theirs: &Vec<f64>| median(&ours.iter().zip(theirs).map(|(a, b)| a / b).collect::<Vec<_>>());
    // The ratio of the choice to itself is 1.
    let (mut worst, mut fastest, mut seconds) = (1.0, *planned, median(ours));
    for (theirs, candidate) in others.iter().zip(&fastest_plans[1..]) {
        if ratio(theirs) > worst {
            (worst, fastest, seconds) = (ratio(theirs), candidate, median(theirs));
        }
    }
    let parameters = fixture.encoder.parameters();
    let describe = |candidate: &Candidate| {
        let [hoisted, whole] = candidate.estimate.total_rotations();
        format!(
            "{}, depth {}, {hoisted} + {whole} rotations, {} masks",
            candidate.plan.strategy(),
            candidate.estimate.depth,
            candidate.estimate.masks
        )
    };
    let params = params! {
        "preset": parameters.name(), "n": permutation.len(), "output_level": output_level,
        "candidates": candidates, "timed": plans.len(), "timed_in_turn": fastest_plans.len(), "repetitions": ours.len(),
        "clock": harness.clock().name(), "threads": 1,
        "planned": describe(planned), "planned_ms": median(ours) * 1e3, "planned_predicted_ms": planned.seconds * 1e3,
        "fastest": describe(fastest), "fastest_ms": seconds * 1e3, "fastest_predicted_ms": fastest.seconds * 1e3,
    };
    harness.value(RATIO, case, worst, None, params);
    Ok(())
}
