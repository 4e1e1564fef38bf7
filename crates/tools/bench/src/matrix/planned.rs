//! Whether the planner was right: its choice beside every plan it considered and would have been allowed.

use std::time::Duration;

use unspoken_ckks::Evaluator;
use unspoken_permute::{Candidate, Explanation, Permutation, PreparedPermutation, Verdict};
use unspoken_ring::SecretRng;
use unspoken_rlwe::KeyPlan;

use super::permutations::{Bench, times};
use crate::clock::{Effort, median};
use crate::error::BenchError;
use crate::row::{Metric, params};
use crate::session::Session;

/// The planner's choice over the fastest plan: 1 if it is the fastest.
const RATIO: Metric = Metric::less("planned_over_the_fastest_candidate", "times");

/// How many of the fastest plans are timed once more, in turn with the planner's choice.
const FINALISTS: usize = 3;

/// Plans predicted to take so many times as long as the planner's choice are not timed: no prediction is that wrong.
const HOPELESS: f64 = 1.6;

/// Most plans that are timed with `--quick`: those predicted to be fastest.
const QUICK: usize = 5;

/// Repetitions of the first round, in which every plan is timed by itself.
const FIRST: usize = 2;

/// Every plan that is allowed, once: the planner's choice first, then by predicted time.
fn allowed(explanation: &Explanation) -> Vec<&Candidate> {
    let mut plans: Vec<&Candidate> = Vec::new();
    for row in explanation.rows().iter().filter(|row| row.verdict == Verdict::Allowed) {
        if plans.iter().all(|known| known.plan != row.candidate.plan) {
            plans.push(&row.candidate);
        }
    }
    plans
}

/// Times every plan that is not predicted to be far slower (with `--quick` a few), then the fastest in turn with the
/// planner's choice: the largest of the medians of the paired ratios.
pub(super) fn run(
    session: &mut Session<'_>,
    bench: &Bench,
    case: &str,
    permutation: &Permutation,
    output_level: usize,
    explanation: &Explanation,
) -> Result<(), BenchError> {
    let mut plans = allowed(explanation);
    let candidates = plans.len();
    let most = plans.first().map_or(0.0, |planned| HOPELESS * planned.seconds);
    plans.retain(|candidate| candidate.seconds <= most);
    if session.options.quick {
        plans.truncate(QUICK);
    }
    let Some((planned, others)) = plans.split_first() else { return Ok(()) };
    let mut rng = SecretRng::insecure_from_seed(7);
    let input = bench.input(permutation, &mut rng)?;
    let effort = Effort { least: FIRST, most: FIRST, budget: Duration::ZERO };
    let mut ranking: Vec<(f64, &Candidate)> = Vec::with_capacity(others.len());
    for (number, candidate) in others.iter().enumerate() {
        session.note(format!("{case}: plan {} of {}, {}", number + 2, plans.len(), candidate.plan.strategy()));
        let keys = bench.keys(&candidate.estimate.keys, &mut rng)?;
        let evaluator = Evaluator::new(&bench.encoder, &keys);
        let (prepared, _) = bench.ready(&evaluator, &input, case, candidate, output_level)?;
        let samples = times(session, effort, &evaluator, &input, &[prepared])?;
        ranking.push((samples.iter().flatten().copied().fold(f64::INFINITY, f64::min), candidate));
    }
    ranking.sort_by(|a, b| a.0.total_cmp(&b.0));
    let finalists: Vec<&Candidate> =
        std::iter::once(*planned).chain(ranking.iter().take(FINALISTS).map(|(_, candidate)| *candidate)).collect();
    let mut keys = KeyPlan::new();
    finalists.iter().for_each(|candidate| keys.extend(&candidate.estimate.keys));
    let keys = bench.keys(&keys, &mut rng)?;
    let evaluator = Evaluator::new(&bench.encoder, &keys);
    session.note(format!("{case}: the fastest in turn"));
    let ready = finalists
        .iter()
        .map(|candidate| bench.ready(&evaluator, &input, case, candidate, output_level).map(|(prepared, _)| prepared));
    let ready: Vec<PreparedPermutation> = ready.collect::<Result<_, _>>()?;
    let samples = times(session, session.slow_effort(), &evaluator, &input, &ready)?;
    let Some((ours, rivals)) = samples.split_first() else { return Ok(()) };
    let ratio = |theirs: &Vec<f64>| median(&ours.iter().zip(theirs).map(|(a, b)| a / b).collect::<Vec<_>>());
    // Beside itself it is 1.
    let (mut worst, mut fastest, mut seconds) = (1.0, *planned, median(ours));
    for (theirs, candidate) in rivals.iter().zip(&finalists[1..]) {
        if ratio(theirs) > worst {
            (worst, fastest, seconds) = (ratio(theirs), candidate, median(theirs));
        }
    }
    let parameters = bench.encoder.parameters();
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
        "candidates": candidates, "timed": plans.len(), "timed_in_turn": finalists.len(), "repetitions": ours.len(),
        "clock": session.clock().name(), "threads": 1,
        "planned": describe(planned), "planned_ms": median(ours) * 1e3, "planned_predicted_ms": planned.seconds * 1e3,
        "fastest": describe(fastest), "fastest_ms": seconds * 1e3, "fastest_predicted_ms": fastest.seconds * 1e3,
    };
    session.fact(RATIO, case, worst, None, params);
    Ok(())
}
