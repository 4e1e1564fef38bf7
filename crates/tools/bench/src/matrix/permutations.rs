//! Permutations made ready with a client's keys, timed in turn.

use unspoken_ckks::{Ciphertext, Complex64, CostModel, Encoder, ErrorStatistics, Evaluator};
use unspoken_permute::{Candidate, Permutation, PreparedPermutation};
use unspoken_ring::SecretRng;
use unspoken_rlwe::{EvaluationKeys, KeyPlan, SecretKey};

use crate::clock::{Contender, Effort, alternate, scaled};
use crate::error::BenchError;
use crate::row::{Metric, params};
use crate::session::Session;

/// Largest error of an entry; entries are up to 1.
const TOLERANCE: f64 = 1e-2;

const TIME: Metric = Metric::less("time", "ms");
const KEYS: Metric = Metric::less("rotation_keys", "keys");
const KEY_BYTES: Metric = Metric::less("key_bytes", "bytes");
const ROTATIONS: Metric = Metric::less("rotations", "rotations");
const SHARED: Metric = Metric::less("rotations_from_shared_digits", "rotations");
const MASKS: Metric = Metric::less("masks", "masks");
const DEPTH: Metric = Metric::less("depth", "levels");
const ERROR: Metric = Metric::less("log2_error", "bits");

/// What is counted, and how.
type Fact<'a> = (Metric, &'a dyn Fn(&Entry<'_>) -> f64);

/// A client.
pub(super) struct Bench {
    pub(super) encoder: Encoder,
    pub(super) model: CostModel,
    secret: SecretKey,
}

/// A plan under a name, and the keys it is said to need.
pub(super) struct Entry<'a> {
    pub(super) name: String,
    pub(super) candidate: &'a Candidate,
    /// As its authors count them.
    pub(super) keys: usize,
}

impl<'a> Entry<'a> {
    /// With the keys it is run with.
    pub(super) fn ours(name: &str, candidate: &'a Candidate) -> Self {
        Entry { name: name.into(), candidate, keys: candidate.estimate.keys.len() }
    }

    /// With a key for each giant step, as published; it runs with one for each stage.
    pub(super) fn published(name: &str, candidate: &'a Candidate) -> Self {
        Entry { name: name.into(), candidate, keys: candidate.estimate.separate_keys }
    }
}

impl Bench {
    pub(super) fn new(encoder: Encoder) -> Result<Self, BenchError> {
        let secret = SecretKey::generate(encoder.parameters().rlwe(), &mut SecretRng::insecure_from_seed(5))?;
        let model = CostModel::nominal(encoder.parameters());
        Ok(Bench { encoder, model, secret })
    }

    /// Times the entries in turn; the rows show the first beside each of the others.
    pub(super) fn contest(
        &self,
        session: &mut Session<'_>,
        case: &str,
        permutation: &Permutation,
        output_level: usize,
        entries: &[Entry<'_>],
    ) -> Result<(), BenchError> {
        let parameters = self.encoder.parameters();
        session.note(format!("{case}: keys"));
        let mut rng = SecretRng::insecure_from_seed(6);
        let mut plan = KeyPlan::new();
        entries.iter().for_each(|entry| plan.extend(&entry.candidate.estimate.keys));
        let keys = self.keys(&plan, &mut rng)?;
        let evaluator = Evaluator::new(&self.encoder, &keys);
        let input = self.input(permutation, &mut rng)?;
        let mut ready: Vec<PreparedPermutation> = Vec::new();
        let mut errors = Vec::new();
        for Entry { name, candidate, .. } in entries {
            session.note(format!("{case}: {name}"));
            let (prepared, error) =
                self.ready(&evaluator, &input, &format!("{case}, {name}"), candidate, output_level)?;
            ready.push(prepared);
            errors.push(error);
        }
        let samples = times(session, session.slow_effort(), &evaluator, &input, &ready)?;
        let times: Vec<Vec<f64>> = samples.iter().map(|samples| scaled(samples, 1e3)).collect();
        for (rival, times_of_rival) in entries.iter().zip(&times).skip(1) {
            let params = || {
                params! {
                    "preset": parameters.name(), "n": permutation.len(), "output_level": output_level,
                    "plan": entries[0].candidate.plan.strategy().to_string(),
                    "baseline_plan": rival.candidate.plan.strategy().to_string(),
                    "predicted_ms": entries[0].candidate.seconds * 1e3,
                    "baseline_predicted_ms": rival.candidate.seconds * 1e3,
                }
            };
            session.timing(TIME, case, &times[0], Some((&rival.name, times_of_rival)), params());
            let ring = parameters.ring();
            let whole = |entry: &Entry<'_>| entry.candidate.estimate.total_rotations();
            let facts: [Fact<'_>; 6] = [
                (ROTATIONS, &|entry| whole(entry).iter().sum::<u64>() as f64),
                (SHARED, &|entry| whole(entry)[0] as f64),
                (KEYS, &|entry| entry.keys as f64),
                (KEY_BYTES, &|entry| entry.candidate.estimate.keys.memory_bytes(ring) as f64),
                (MASKS, &|entry| entry.candidate.estimate.masks as f64),
                (DEPTH, &|entry| entry.candidate.estimate.depth as f64),
            ];
            for (metric, value) in facts {
                session.fact(metric, case, value(&entries[0]), Some((&rival.name, value(rival))), params());
            }
        }
        let error = errors.first().map_or(f64::NAN, |error: &f64| error.log2());
        session.fact(ERROR, case, error, None, params! { "preset": parameters.name() });
        Ok(())
    }
    /// A vector to permute, and the result.
    pub(super) fn input(&self, permutation: &Permutation, rng: &mut SecretRng) -> Result<Input, BenchError> {
        let parameters = self.encoder.parameters();
        let values: Vec<Complex64> =
            (0..permutation.len()).map(|i| ((i * 37 % 1009) as f64 / 504.5 - 1.0).into()).collect();
        let expected = permutation.apply(&values)?;
        let plaintext = self.encoder.encode(&values, parameters.max_level(), parameters.scale())?;
        Ok(Input { vector: self.encoder.encrypt(&plaintext, &self.secret, rng)?.expand(parameters), expected })
    }

    /// A plan made ready, run once and compared; with its error.
    pub(super) fn ready(
        &self,
        evaluator: &Evaluator<'_>,
        input: &Input,
        case: &str,
        candidate: &Candidate,
        output_level: usize,
    ) -> Result<(PreparedPermutation, f64), BenchError> {
        let parameters = self.encoder.parameters();
        let prepared = PreparedPermutation::new(parameters, &candidate.plan, output_level, parameters.scale())?;
        let output = prepared.apply(evaluator, &input.vector)?;
        let found = self.encoder.decrypt(&output, &self.secret)?;
        let error = ErrorStatistics::between(&found[..input.expected.len()], &input.expected).worst;
        if error.is_nan() || error > TOLERANCE {
            return Err(BenchError::Wrong { case: case.into(), found: error, needed: TOLERANCE });
        }
        Ok((prepared, error))
    }

    /// Keys for one plan.
    pub(super) fn keys(&self, plan: &KeyPlan, rng: &mut SecretRng) -> Result<EvaluationKeys, BenchError> {
        Ok(EvaluationKeys::generate(&self.secret, plan, rng)?)
    }
}

/// An encrypted vector, and what its permutation is.
pub(super) struct Input {
    vector: Ciphertext,
    expected: Vec<Complex64>,
}

/// Seconds of plans made ready, in turn.
pub(super) fn times(
    session: &Session<'_>,
    effort: Effort,
    evaluator: &Evaluator<'_>,
    input: &Input,
    ready: &[PreparedPermutation],
) -> Result<Vec<Vec<f64>>, BenchError> {
    let run = |prepared: &PreparedPermutation| -> Result<f64, BenchError> {
        let (result, seconds) = session.clock().time_in(&session.single, || prepared.apply(evaluator, &input.vector));
        result.map(|_: Ciphertext| seconds).map_err(BenchError::from)
    };
    let mut contenders: Vec<Contender<'_>> =
        ready.iter().map(|prepared| Box::new(move || run(prepared)) as Contender<'_>).collect();
    alternate(effort, &mut contenders)
}
