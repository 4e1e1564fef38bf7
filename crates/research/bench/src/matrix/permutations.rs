//! Permutations of an encrypted vector, timed in turn.

use unspoken_ckks::{Ciphertext, Complex64, CostModel, Encoder, ErrorStatistics, Evaluator};
use unspoken_permute::{Candidate, Permutation, PreparedPermutation};
use unspoken_ring::SecretRng;
use unspoken_rlwe::{EvaluationKeys, KeyPlan, SecretKey};

use super::{CountedMetric, DEPTH, KEY_BYTES, ROTATION_KEYS, TOLERANCE};
use crate::clock::{Repetitions, TimedOperation, alternate, scaled};
use crate::error::wrong;
use crate::harness::Harness;
use crate::row::{Metric, params};

const TIME: Metric = Metric::less("time", "ms");
const ROTATIONS: Metric = Metric::less("rotations", "rotations");
const SHARED: Metric = Metric::less("rotations_from_shared_digits", "rotations");
const MASKS: Metric = Metric::less("masks", "masks");
const ERROR: Metric = Metric::less("log2_error", "bits");

/// An encoder with a client's secret, and a cost model.
pub(super) struct PermutationFixture {
    pub(super) encoder: Encoder,
    pub(super) model: CostModel,
    secret: SecretKey,
}

/// A named plan and the number of keys reported for it.
pub(super) struct ComparedPlan<'a> {
    pub(super) name: String,
    pub(super) candidate: &'a Candidate,
    /// Number of keys as the authors of the method count them.
    pub(super) keys: usize,
}

impl<'a> ComparedPlan<'a> {
    /// With the number of keys that it runs with.
    pub(super) fn ours(name: &str, candidate: &'a Candidate) -> Self {
        ComparedPlan { name: name.into(), candidate, keys: candidate.estimate.keys.len() }
    }

    /// With one key per giant step, as published; it runs with one key per stage.
    pub(super) fn published(name: &str, candidate: &'a Candidate) -> Self {
        ComparedPlan { name: name.into(), candidate, keys: candidate.estimate.separate_keys }
    }
}

impl PermutationFixture {
    pub(super) fn new(encoder: Encoder) -> anyhow::Result<Self> {
        let secret = SecretKey::generate(encoder.parameters().rlwe(), &mut SecretRng::insecure_from_seed(5))?;
        let model = CostModel::nominal(encoder.parameters());
        Ok(PermutationFixture { encoder, model, secret })
    }

    /// Times the plans in turn; the rows compare the first one with each of the others.
    pub(super) fn compare(
        &self,
        harness: &mut Harness<'_>,
        case: &str,
        permutation: &Permutation,
        output_level: usize,
        plans: &[ComparedPlan<'_>],
    ) -> anyhow::Result<()> {
        let parameters = self.encoder.parameters();
        harness.progress(format!("{case}: keys"));
        let mut rng = SecretRng::insecure_from_seed(6);
        let mut key_plan = KeyPlan::new();
        plans.iter().for_each(|plan| key_plan.extend(&plan.candidate.estimate.keys));
        let keys = self.keys(&key_plan, &mut rng)?;
        let evaluator = Evaluator::new(&self.encoder, &keys);
        let input = self.input(permutation, &mut rng)?;
        let mut ready: Vec<PreparedPermutation> = Vec::new();
        let mut errors = Vec::new();
        for ComparedPlan { name, candidate, .. } in plans {
            harness.progress(format!("{case}: {name}"));
            let (prepared, error) =
                self.ready(&evaluator, &input, &format!("{case}, {name}"), candidate, output_level)?;
            ready.push(prepared);
            errors.push(error);
        }
        let samples = times(harness, harness.slow_repetitions(), &evaluator, &input, &ready)?;
        let times: Vec<Vec<f64>> = samples.iter().map(|samples| scaled(samples, 1e3)).collect();
        for (baseline, baseline_times) in plans.iter().zip(&times).skip(1) {
            let params = || {
                params! {
                    "preset": parameters.name(), "n": permutation.len(), "output_level": output_level,
                    "plan": plans[0].candidate.plan.strategy().to_string(),
                    "baseline_plan": baseline.candidate.plan.strategy().to_string(),
                    "predicted_ms": plans[0].candidate.seconds * 1e3,
                    "baseline_predicted_ms": baseline.candidate.seconds * 1e3,
                }
            };
            harness.timing(TIME, case, &times[0], Some((&baseline.name, baseline_times)), params());
            let ring = parameters.ring();
            let whole = |plan: &ComparedPlan<'_>| plan.candidate.estimate.total_rotations();
            let counted: [CountedMetric<'_, ComparedPlan<'_>>; 6] = [
                (ROTATIONS, &|plan| whole(plan).iter().sum::<u64>() as f64),
                (SHARED, &|plan| whole(plan)[0] as f64),
                (ROTATION_KEYS, &|plan| plan.keys as f64),
                (KEY_BYTES, &|plan| plan.candidate.estimate.keys.memory_bytes(ring) as f64),
                (MASKS, &|plan| plan.candidate.estimate.masks as f64),
                (DEPTH, &|plan| plan.candidate.estimate.depth as f64),
            ];
            for (metric, value) in counted {
                harness.value(metric, case, value(&plans[0]), Some((&baseline.name, value(baseline))), params());
            }
        }
        let error = errors.first().map_or(f64::NAN, |error: &f64| error.log2());
        harness.value(ERROR, case, error, None, params! { "preset": parameters.name() });
        Ok(())
    }

    /// A vector to permute, and the expected result.
    pub(super) fn input(&self, permutation: &Permutation, rng: &mut SecretRng) -> anyhow::Result<Input> {
        let parameters = self.encoder.parameters();
        let values: Vec<Complex64> =
            (0..permutation.len()).map(|i| ((i * 37 % 1009) as f64 / 504.5 - 1.0).into()).collect();
        let expected = permutation.apply(&values)?;
        let plaintext = self.encoder.encode(&values, parameters.max_level(), parameters.scale())?;
        Ok(Input { vector: self.encoder.encrypt(&plaintext, &self.secret, rng)?.expand(parameters), expected })
    }

    /// A prepared plan that has run once and been checked; with its error.
    pub(super) fn ready(
        &self,
        evaluator: &Evaluator<'_>,
        input: &Input,
        case: &str,
        candidate: &Candidate,
        output_level: usize,
    ) -> anyhow::Result<(PreparedPermutation, f64)> {
        let parameters = self.encoder.parameters();
        let prepared = PreparedPermutation::new(parameters, &candidate.plan, output_level, parameters.scale())?;
        let output = prepared.apply(evaluator, &input.vector)?;
        let found = self.encoder.decrypt(&output, &self.secret)?;
        let error = ErrorStatistics::between(&found[..input.expected.len()], &input.expected).worst;
        if error.is_nan() || error > TOLERANCE {
            return Err(wrong(case, error, TOLERANCE));
        }
        Ok((prepared, error))
    }

    /// Generates the keys for one plan.
    pub(super) fn keys(&self, plan: &KeyPlan, rng: &mut SecretRng) -> anyhow::Result<EvaluationKeys> {
        Ok(EvaluationKeys::generate(&self.secret, plan, rng)?)
    }
}

/// An encrypted vector and its expected permutation.
pub(super) struct Input {
    vector: Ciphertext,
    expected: Vec<Complex64>,
}

/// Seconds of prepared plans, timed in turn.
pub(super) fn times(
    harness: &Harness<'_>,
    repetitions: Repetitions,
    evaluator: &Evaluator<'_>,
    input: &Input,
    ready: &[PreparedPermutation],
) -> anyhow::Result<Vec<Vec<f64>>> {
    let stopwatch = harness.stopwatch();
    let operation = |prepared| -> TimedOperation<'_> {
        Box::new(move || stopwatch.seconds(|| PreparedPermutation::apply(prepared, evaluator, &input.vector)))
    };
    alternate(repetitions, &mut ready.iter().map(operation).collect::<Vec<_>>())
}
