//! Products made ready with a client's keys, timed in turn.

use ndarray::Array2;
use unspoken_ckks::{Ciphertext, CostModel, Encoder, Evaluator};
use unspoken_matrix::{EncryptedMatrix, Estimate, Layout, Product, Task, estimates};
use unspoken_ring::SecretRng;
use unspoken_rlwe::{EvaluationKeys, KeyPlan, SecretKey};

use crate::clock::{Contender, alternate, scaled};
use crate::error::BenchError;
use crate::row::{Metric, params};
use crate::session::Session;

/// Largest error of an entry, relative to the largest.
const TOLERANCE: f64 = 1e-2;

/// The levels that the deepest method spends: every result is this far below the highest level.
const DEPTH: usize = 3;

const TIME: Metric = Metric::less("time_per_product", "ms");
const KEYS: Metric = Metric::less("rotation_keys", "keys");
const KEY_BYTES: Metric = Metric::less("key_bytes", "bytes");
const SWITCHES: Metric = Metric::less("key_switches_per_product", "switches");
const ERROR: Metric = Metric::less("log2_relative_error", "bits");

/// A client.
pub(super) struct Workshop {
    pub(super) encoder: Encoder,
    secret: SecretKey,
    model: CostModel,
}

/// One way to multiply: ours, or a baseline under its name.
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) layout: Layout,
    pub(super) estimate: Estimate,
}

/// An entry with its inputs.
struct Ready {
    product: Product,
    factors: [EncryptedMatrix<Ciphertext>; 2],
    relative_error: f64,
}

impl Workshop {
    pub(super) fn new(encoder: Encoder) -> Result<Self, BenchError> {
        let secret = SecretKey::generate(encoder.parameters().rlwe(), &mut SecretRng::insecure_from_seed(8))?;
        let model = CostModel::nominal(encoder.parameters());
        Ok(Workshop { encoder, secret, model })
    }

    /// The layout of `d x d` matrices in this many blocks, if it fits.
    pub(super) fn layout(&self, dimension: usize, blocks: usize) -> Option<Layout> {
        Layout::new(self.encoder.parameters(), dimension, blocks).ok()
    }

    /// Every method of a layout, the one predicted to be fastest first. All end at the same level.
    pub(super) fn methods(&self, layout: Layout) -> Result<Vec<Estimate>, BenchError> {
        let output_level = self.encoder.parameters().max_level() - DEPTH;
        let shape = (layout.dim(), layout.dim(), layout.dim());
        let task = Task { layout, shape, output_level, most_keys: None };
        Ok(estimates(&self.encoder, &self.model, &task)?)
    }

    /// Encrypts inputs, multiplies once and compares with the clear product.
    fn ready(&self, entry: &Entry, keys: &EvaluationKeys, rng: &mut SecretRng) -> Result<Ready, BenchError> {
        let (layout, d) = (entry.layout, entry.layout.dim());
        let parameters = self.encoder.parameters();
        let batch = |seed: usize| -> Vec<Array2<f64>> {
            let value = |p: usize, (i, j): (usize, usize)| ((i * 31 + j * 17 + p * 7 + seed) % 101) as f64 / 50.0 - 1.0;
            (0..layout.parallel()).map(|p| Array2::from_shape_fn((d, d), |cell| value(p, cell))).collect()
        };
        let clear = [batch(1), batch(2)];
        let mut encrypt = |matrices: &[Array2<f64>]| {
            let level = entry.estimate.level;
            let seeded = EncryptedMatrix::encrypt(&self.encoder, &self.secret, layout, matrices, level, rng)?;
            Ok::<_, BenchError>(seeded.expand(parameters))
        };
        let factors = [encrypt(&clear[0])?, encrypt(&clear[1])?];
        let scales = [parameters.scale(); 2];
        let product = Product::new(parameters, layout, entry.estimate.method, entry.estimate.level, scales)?;
        let result = product.apply(&Evaluator::new(&self.encoder, keys), &factors[0], &factors[1])?;
        let found = result.decrypt(&self.encoder, &self.secret)?;
        let (mut worst, mut largest) = (0.0f64, 0.0f64);
        for ((a, b), found) in clear[0].iter().zip(&clear[1]).zip(&found) {
            let exact = a.dot(b);
            largest = exact.iter().fold(largest, |max, x| max.max(x.abs()));
            worst =
                (found - &exact).iter().fold(worst, |max, x| if x.is_nan() { f64::INFINITY } else { max.max(x.abs()) });
        }
        let relative_error = worst / largest;
        if relative_error > TOLERANCE {
            let case = format!("{}, d = {d}, {} blocks", entry.estimate.method, layout.blocks());
            return Err(BenchError::Wrong { case, found: relative_error, needed: TOLERANCE });
        }
        Ok(Ready { product, factors, relative_error })
    }

    /// Times the first entry and the baselines after it in turn; rows against each baseline, or alone if there is none.
    pub(super) fn contest(&self, session: &mut Session<'_>, case: &str, entries: &[Entry]) -> Result<(), BenchError> {
        session.note(format!("{case}: keys"));
        let mut rng = SecretRng::insecure_from_seed(9);
        let mut plan = KeyPlan::new();
        entries.iter().for_each(|entry| plan.extend(&entry.estimate.keys));
        let keys = EvaluationKeys::generate(&self.secret, &plan, &mut rng)?;
        session.note(format!(
            "{case}: {}",
            entries.iter().map(|e| e.estimate.method.to_string()).collect::<Vec<_>>().join(", ")
        ));
        let ready = entries.iter().map(|entry| self.ready(entry, &keys, &mut rng));
        let ready = ready.collect::<Result<Vec<Ready>, BenchError>>()?;
        let (clock, effort) = (session.clock(), session.slow_effort());
        let (evaluator, single) = (Evaluator::new(&self.encoder, &keys), &session.single);
        let contender = |ready: &Ready| {
            let (result, seconds) =
                clock.time_in(single, || ready.product.apply(&evaluator, &ready.factors[0], &ready.factors[1]));
            result.map(|_| seconds).map_err(BenchError::from)
        };
        let mut contenders: Vec<Contender<'_>> =
            ready.iter().map(|ready| Box::new(move || contender(ready)) as Contender<'_>).collect();
        let samples = alternate(effort, &mut contenders)?;
        drop(contenders);
        let per_product: Vec<Vec<f64>> = samples
            .iter()
            .zip(entries)
            .map(|(samples, entry)| scaled(samples, 1e3 / entry.layout.parallel() as f64))
            .collect();
        let rivals: Vec<Option<usize>> =
            if entries.len() > 1 { (1..entries.len()).map(Some).collect() } else { vec![None] };
        for rival in rivals {
            let params = || self.params(&entries[0], rival.map(|rival| &entries[rival]));
            let name = rival.map_or("", |rival| entries[rival].name.as_str());
            let times = rival.map(|rival| (name, per_product[rival].as_slice()));
            session.timing(TIME, case, &per_product[0], times, params());
            let fact = |value: &dyn Fn(&Entry) -> f64| (value(&entries[0]), rival.map(|r| (name, value(&entries[r]))));
            let ring = self.encoder.parameters().ring();
            let (ours, theirs) = fact(&|entry| entry.estimate.rotation_keys() as f64);
            session.fact(KEYS, case, ours, theirs, params());
            let (ours, theirs) = fact(&|entry| entry.estimate.keys.memory_bytes(ring) as f64);
            session.fact(KEY_BYTES, case, ours, theirs, params());
            let switches =
                |entry: &Entry| entry.estimate.cost.total_key_switches() as f64 / entry.layout.parallel() as f64;
            let (ours, theirs) = fact(&switches);
            session.fact(SWITCHES, case, ours, theirs, params());
        }
        let error = ready.first().map_or(0.0, |ready| ready.relative_error.log2());
        session.fact(ERROR, case, error, None, self.params(&entries[0], None));
        Ok(())
    }

    fn params(&self, ours: &Entry, rival: Option<&Entry>) -> serde_json::Map<String, serde_json::Value> {
        let mut map = params! {
            "preset": self.encoder.parameters().name(), "d": ours.layout.dim(), "blocks": ours.layout.blocks(),
            "at_once": ours.layout.parallel(), "method": ours.estimate.method.to_string(),
            "level": ours.estimate.level, "output_level": self.encoder.parameters().max_level() - DEPTH,
        };
        if let Some(rival) = rival {
            map.extend(params! {
                "baseline_at_once": rival.layout.parallel(), "baseline_blocks": rival.layout.blocks(),
                "baseline_method": rival.estimate.method.to_string(), "baseline_level": rival.estimate.level,
            });
        }
        map
    }
}
