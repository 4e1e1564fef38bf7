//! Products of two encrypted matrices, timed in turn.

use ndarray::Array2;
use serde_json::{Map, Value};
use unspoken_ckks::{Ciphertext, CostModel, Encoder, Evaluator};
use unspoken_encrypted_matrix::{EncryptedMatrix, Estimate, Layout, Product, ProductTask, estimates};
use unspoken_ring::SecretRng;
use unspoken_rlwe::{EvaluationKeys, KeyPlan, SecretKey};

use super::{
    CountedMetric, KEY_BYTES, LOG2_RELATIVE_ERROR, ROTATION_KEYS, TIME_PER_PRODUCT, TOLERANCE, relative_error,
};
use crate::clock::{TimedOperation, alternate, scaled};
use crate::error::wrong;
use crate::harness::Harness;
use crate::row::{Metric, params};

/// Levels that the deepest method needs: every result is this many levels below the highest.
const LEVELS: usize = 3;

const KEY_SWITCHES: Metric = Metric::less("key_switches_per_product", "switches");

/// An encoder with a client's secret, and a cost model.
pub(super) struct ProductFixture {
    pub(super) encoder: Encoder,
    secret: SecretKey,
    model: CostModel,
}

/// A multiplication method: ours, or a baseline with its name.
pub(super) struct ComparedProduct {
    pub(super) name: String,
    pub(super) layout: Layout,
    pub(super) estimate: Estimate,
}

/// A product with its inputs.
struct PreparedProduct {
    product: Product,
    factors: [EncryptedMatrix<Ciphertext>; 2],
    relative_error: f64,
}

impl ProductFixture {
    pub(super) fn new(encoder: Encoder) -> anyhow::Result<Self> {
        let secret = SecretKey::generate(encoder.parameters().rlwe(), &mut SecretRng::insecure_from_seed(8))?;
        let model = CostModel::nominal(encoder.parameters());
        Ok(ProductFixture { encoder, secret, model })
    }

    /// The layout of `d x d` matrices in this many blocks, if it fits.
    pub(super) fn layout(&self, dimension: usize, blocks: usize) -> Option<Layout> {
        Layout::new(self.encoder.parameters(), dimension, blocks).ok()
    }

    /// Every method for a layout, the one predicted to be fastest first. All end at the same level.
    pub(super) fn methods(&self, layout: Layout) -> anyhow::Result<Vec<Estimate>> {
        let output_level = self.encoder.parameters().max_level() - LEVELS;
        let shape = (layout.dim(), layout.dim(), layout.dim());
        let task = ProductTask { layout, shape, output_level, most_keys: None };
        Ok(estimates(&self.encoder, &self.model, &task)?)
    }

    /// Encrypts inputs, multiplies once and compares with the product in the clear.
    fn prepare(
        &self,
        compared: &ComparedProduct,
        keys: &EvaluationKeys,
        rng: &mut SecretRng,
    ) -> anyhow::Result<PreparedProduct> {
        let (layout, d) = (compared.layout, compared.layout.dim());
        let parameters = self.encoder.parameters();
        let batch = |seed: usize| -> Vec<Array2<f64>> {
            let value = |p: usize, (i, j): (usize, usize)| ((i * 31 + j * 17 + p * 7 + seed) % 101) as f64 / 50.0 - 1.0;
            (0..layout.parallel()).map(|p| Array2::from_shape_fn((d, d), |cell| value(p, cell))).collect()
        };
        let clear = [batch(1), batch(2)];
        let mut encrypt = |matrices: &[Array2<f64>]| {
            let level = compared.estimate.level;
            let seeded = EncryptedMatrix::encrypt(&self.encoder, &self.secret, layout, matrices, level, rng)?;
            anyhow::Ok(seeded.expand(parameters))
        };
        let factors = [encrypt(&clear[0])?, encrypt(&clear[1])?];
        let scales = [parameters.scale(); 2];
        let product = Product::new(parameters, layout, compared.estimate.method, compared.estimate.level, scales)?;
        let result = product.apply(&Evaluator::new(&self.encoder, keys), &factors[0], &factors[1])?;
        let found = result.decrypt(&self.encoder, &self.secret)?;
        let exact = clear[0].iter().zip(&clear[1]).map(|(a, b)| a.dot(b));
        let relative_error = relative_error(found.iter().zip(exact));
        if relative_error > TOLERANCE {
            let case = format!("{}, d = {d}, {} blocks", compared.estimate.method, layout.blocks());
            return Err(wrong(case, relative_error, TOLERANCE));
        }
        Ok(PreparedProduct { product, factors, relative_error })
    }

    /// Times the first product and the baselines after it in turn; one set of rows per baseline.
    pub(super) fn compare(
        &self,
        harness: &mut Harness<'_>,
        case: &str,
        products: &[ComparedProduct],
    ) -> anyhow::Result<()> {
        harness.progress(format!("{case}: keys"));
        let mut rng = SecretRng::insecure_from_seed(9);
        let mut plan = KeyPlan::new();
        products.iter().for_each(|compared| plan.extend(&compared.estimate.keys));
        let keys = EvaluationKeys::generate(&self.secret, &plan, &mut rng)?;
        let methods: Vec<String> = products.iter().map(|compared| compared.estimate.method.to_string()).collect();
        harness.progress(format!("{case}: {}", methods.join(", ")));
        let prepared = products.iter().map(|compared| self.prepare(compared, &keys, &mut rng));
        let prepared = prepared.collect::<anyhow::Result<Vec<PreparedProduct>>>()?;
        let (stopwatch, evaluator) = (harness.stopwatch(), Evaluator::new(&self.encoder, &keys));
        let operation = |prepared: &'_ PreparedProduct| -> anyhow::Result<f64> {
            let [a, b] = &prepared.factors;
            stopwatch.seconds(|| prepared.product.apply(&evaluator, a, b))
        };
        let mut operations: Vec<TimedOperation<'_>> =
            prepared.iter().map(|prepared| Box::new(move || operation(prepared)) as TimedOperation<'_>).collect();
        let samples = alternate(harness.slow_repetitions(), &mut operations)?;
        drop(operations);
        let per_product = |(samples, compared): (&Vec<f64>, &ComparedProduct)| {
            scaled(samples, 1e3 / compared.layout.parallel() as f64)
        };
        let times: Vec<Vec<f64>> = samples.iter().zip(products).map(per_product).collect();
        let ring = self.encoder.parameters().ring();
        let counted: [CountedMetric<'_, ComparedProduct>; 3] = [
            (ROTATION_KEYS, &|compared| compared.estimate.rotation_keys() as f64),
            (KEY_BYTES, &|compared| compared.estimate.keys.memory_bytes(ring) as f64),
            (KEY_SWITCHES, &|compared| {
                compared.estimate.cost.total_key_switches() as f64 / compared.layout.parallel() as f64
            }),
        ];
        let Some((ours, baselines)) = products.split_first() else { return Ok(()) };
        for (baseline, baseline_times) in baselines.iter().zip(&times[1..]) {
            let params = || self.params(ours, Some(baseline));
            let name = baseline.name.as_str();
            harness.timing(TIME_PER_PRODUCT, case, &times[0], Some((name, baseline_times)), params());
            for (metric, value) in counted {
                harness.value(metric, case, value(ours), Some((name, value(baseline))), params());
            }
        }
        if baselines.is_empty() {
            harness.timing(TIME_PER_PRODUCT, case, &times[0], None, self.params(ours, None));
            for (metric, value) in counted {
                harness.value(metric, case, value(ours), None, self.params(ours, None));
            }
        }
        let error = prepared.first().map_or(0.0, |prepared| prepared.relative_error.log2());
        harness.value(LOG2_RELATIVE_ERROR, case, error, None, self.params(ours, None));
        Ok(())
    }

    fn params(&self, ours: &ComparedProduct, baseline: Option<&ComparedProduct>) -> Map<String, Value> {
        let parameters = self.encoder.parameters();
        let mut map = params! {
            "preset": parameters.name(), "d": ours.layout.dim(), "blocks": ours.layout.blocks(),
            "at_once": ours.layout.parallel(), "method": ours.estimate.method.to_string(),
            "level": ours.estimate.level, "output_level": parameters.max_level() - LEVELS,
        };
        if let Some(baseline) = baseline {
            map.extend(params! {
                "baseline_at_once": baseline.layout.parallel(), "baseline_blocks": baseline.layout.blocks(),
                "baseline_method": baseline.estimate.method.to_string(), "baseline_level": baseline.estimate.level,
            });
        }
        map
    }
}
