//! Products of a plaintext matrix with encrypted ones: in slots, one level each, with skewed or plain columns; in
//! slots after the skew of Jiang et al. by rotations; and in coefficients, without keys.

use ndarray::Array2;
use unspoken_ckks::{Arithmetic, Ciphertext, Complex64, Cost, Encoder, Evaluator, Simulator};
use unspoken_encrypted_matrix::{EncryptedMatrixError, Layout, Operand};
use unspoken_papers::{EncryptedRows, RowsProduct, SkewedMatrix, SkewedProduct};
use unspoken_ring::SecretRng;
use unspoken_rlwe::{EvaluationKeys, KeyPlan, SecretKey};

use super::{
    CountedMetric, DEPTH, KEY_BYTES, LOG2_RELATIVE_ERROR, ROTATION_KEYS, TIME_PER_PRODUCT, TOLERANCE, relative_error,
};
use crate::clock::{TimedOperation, alternate, scaled};
use crate::error::wrong;
use crate::harness::Harness;
use crate::row::{Metric, params};

/// Levels that the deepest method needs: every result is this many levels below its input.
const LEVELS: usize = 2;

const KEY_SWITCHES: Metric = Metric::less("key_switches", "switches");

const OURS: &str = "slots, from tau to rows";
const ROWS: &str = "slots, from rows to rows";
const ROTATED: &str = "Jiang et al., plaintext left: tau by rotations first";
const COEFFICIENTS: &str = "coefficients, a ciphertext per row";

/// A prepared product with its input, whose vectors are of type `V`.
enum PlainProduct<V> {
    Slots(Vec<SkewedProduct>, SkewedMatrix<V>),
    Coefficients(RowsProduct, EncryptedRows<V>),
}

enum Output<V> {
    Slots(SkewedMatrix<V>),
    Coefficients(EncryptedRows<V>),
}

impl<V: Clone + Send + Sync> PlainProduct<V> {
    fn apply<A: Arithmetic<Vector = V>>(&self, arithmetic: &A) -> Result<Output<V>, EncryptedMatrixError> {
        match self {
            PlainProduct::Slots(products, x) => {
                let product = |x: SkewedMatrix<V>, product: &SkewedProduct| product.apply(arithmetic, &x);
                products.iter().try_fold(x.clone(), product).map(Output::Slots)
            }
            PlainProduct::Coefficients(product, x) => product.apply(arithmetic, x).map(Output::Coefficients),
        }
    }

    fn depth(&self) -> usize {
        match self {
            PlainProduct::Slots(products, _) => products.len(),
            PlainProduct::Coefficients(..) => 1,
        }
    }
}

/// A named multiplication method and its requirements.
struct ComparedMethod {
    name: &'static str,
    product: PlainProduct<Ciphertext>,
    /// Number of matrices that it multiplies at once.
    at_once: usize,
    keys: KeyPlan,
    cost: Cost,
}

/// The matrices that all methods multiply.
struct Case<'a> {
    encoder: &'a Encoder,
    secret: SecretKey,
    layout: Layout,
    weights: Array2<f64>,
    x: Vec<Array2<f64>>,
    output_level: usize,
}

/// Measures one dimension: a single block, with all matrices at once that fit. The deepest method starts at the level
/// `top`.
pub(crate) fn run(harness: &mut Harness<'_>, encoder: &Encoder, dimension: usize, top: usize) -> anyhow::Result<()> {
    let parameters = encoder.parameters();
    let layout = Layout::new(parameters, dimension, 1)?;
    let value = |seed: usize, (i, j): (usize, usize)| ((i * 31 + j * 17 + seed * 7) % 101) as f64 / 50.0 - 1.0;
    let matrix = |seed: usize| Array2::from_shape_fn((dimension, dimension), |cell| value(seed, cell));
    let at_once = layout.parallel().max(parameters.ring().degree() / dimension);
    let mut rng = SecretRng::insecure_from_seed(11);
    let secret = SecretKey::generate(parameters.rlwe(), &mut rng)?;
    let (weights, x) = (matrix(1), (2..at_once + 2).map(matrix).collect());
    let case = Case { encoder, secret, layout, weights, x, output_level: top - LEVELS };
    let methods = [
        case.slots(OURS, &[1, 0], &mut rng)?,
        case.slots(ROWS, &[0, 0], &mut rng)?,
        case.slots(ROTATED, &[0, 1, 0], &mut rng)?,
        case.coefficients(&mut rng)?,
    ];
    case.compare(harness, &format!("plain product, d = {dimension}"), &methods, &mut rng)
}

impl Case<'_> {
    /// Products from each exponent to the next; all but the last only skew.
    fn slots(&self, name: &'static str, exponents: &[usize], rng: &mut SecretRng) -> anyhow::Result<ComparedMethod> {
        let (parameters, layout, d) = (self.encoder.parameters(), self.layout, self.layout.dim());
        let level = self.output_level + exponents.len() - 1;
        let one = Array2::eye(d);
        let product = |(number, pair): (usize, &[usize])| {
            let weights = if number + 2 == exponents.len() { &self.weights } else { &one };
            let input = Operand { shape: (d, d), level: level - number, scale: parameters.scale() };
            SkewedProduct::new(parameters, layout, input, weights, pair[0], pair[1])
        };
        let products = || exponents.windows(2).enumerate().map(product).collect::<Result<Vec<_>, _>>();
        let x = &self.x[..layout.parallel()];
        let simulator = Simulator::counting(self.encoder);
        let counted = SkewedMatrix::encode(layout, x, exponents[0])?;
        let counted = counted.try_map(|slots| simulator.encrypt(slots, level, parameters.scale()))?;
        PlainProduct::Slots(products()?, counted).apply(&simulator)?;
        let x = SkewedMatrix::encrypt(self.encoder, &self.secret, layout, x, exponents[0], level, rng)?;
        let product = PlainProduct::Slots(products()?, x.expand(parameters));
        let (at_once, keys, cost) = (layout.parallel(), simulator.key_plan(), simulator.cost());
        Ok(ComparedMethod { name, product, at_once, keys, cost })
    }

    /// Matrices side by side: all that fit the coefficients of a row.
    fn coefficients(&self, rng: &mut SecretRng) -> anyhow::Result<ComparedMethod> {
        let (parameters, d, level) = (self.encoder.parameters(), self.layout.dim(), self.output_level + 1);
        let at_once = parameters.ring().degree() / d;
        let x = Array2::from_shape_fn((d, at_once * d), |(row, column)| self.x[column / d][(row, column % d)]);
        let product = || RowsProduct::new(parameters, &self.weights, level, parameters.scale());
        let simulator = Simulator::counting(self.encoder);
        let row = || simulator.encrypt(&[Complex64::default()], level, parameters.scale());
        let counted = EncryptedRows::from_rows(at_once * d, (0..d).map(|_| row()).collect::<Result<_, _>>()?)?;
        PlainProduct::Coefficients(product()?, counted).apply(&simulator)?;
        let x = EncryptedRows::encrypt(self.encoder, &self.secret, &x, level, rng)?.expand(parameters);
        let product = PlainProduct::Coefficients(product()?, x);
        Ok(ComparedMethod { name: COEFFICIENTS, product, at_once, keys: simulator.key_plan(), cost: simulator.cost() })
    }

    /// The largest error of an entry of a result, relative to the largest entry.
    fn error(&self, output: &Output<Ciphertext>) -> anyhow::Result<f64> {
        let d = self.layout.dim();
        let found = match output {
            Output::Slots(matrix) => matrix.decrypt(self.encoder, &self.secret)?,
            Output::Coefficients(rows) => {
                let wide = rows.decrypt(self.encoder, &self.secret)?;
                let part = |p: usize| Array2::from_shape_fn((d, d), |(row, column)| wide[(row, p * d + column)]);
                (0..wide.ncols() / d).map(part).collect()
            }
        };
        Ok(relative_error(found.iter().zip(self.x.iter().map(|x| self.weights.dot(x)))))
    }

    /// Checks the results, then times the first method and its baselines in turn; one set of rows per baseline.
    fn compare(
        &self,
        harness: &mut Harness<'_>,
        case: &str,
        methods: &[ComparedMethod],
        rng: &mut SecretRng,
    ) -> anyhow::Result<()> {
        harness.progress(format!("{case}: keys"));
        let mut plan = KeyPlan::new();
        methods.iter().for_each(|compared| plan.extend(&compared.keys));
        let keys = EvaluationKeys::generate(&self.secret, &plan, rng)?;
        let evaluator = Evaluator::new(self.encoder, &keys);
        let names: Vec<&str> = methods.iter().map(|compared| compared.name).collect();
        harness.progress(format!("{case}: {}", names.join(", ")));
        let mut errors = Vec::with_capacity(methods.len());
        for compared in methods {
            let error = self.error(&compared.product.apply(&evaluator)?)?;
            if error > TOLERANCE {
                let case = format!("{case}, {}", compared.name);
                return Err(wrong(case, error, TOLERANCE));
            }
            errors.push(error);
        }
        let stopwatch = harness.stopwatch();
        let operation = |compared: &ComparedMethod| stopwatch.seconds(|| compared.product.apply(&evaluator));
        let mut operations: Vec<TimedOperation<'_>> =
            methods.iter().map(|compared| Box::new(move || operation(compared)) as TimedOperation<'_>).collect();
        let samples = alternate(harness.slow_repetitions(), &mut operations)?;
        drop(operations);
        let per_product =
            |(samples, compared): (&Vec<f64>, &ComparedMethod)| scaled(samples, 1e3 / compared.at_once as f64);
        let times: Vec<Vec<f64>> = samples.iter().zip(methods).map(per_product).collect();
        let Some(ours) = methods.first() else { return Ok(()) };
        let (parameters, ring) = (self.encoder.parameters(), self.encoder.parameters().ring());
        for (baseline, baseline_times) in methods.iter().zip(&times).skip(1) {
            let params = || {
                params! {
                    "preset": parameters.name(), "d": self.layout.dim(), "at_once": ours.at_once,
                    "baseline_at_once": baseline.at_once, "output_level": self.output_level, "method": ours.name,
                }
            };
            harness.timing(TIME_PER_PRODUCT, case, &times[0], Some((baseline.name, baseline_times)), params());
            let counted: [CountedMetric<'_, ComparedMethod>; 4] = [
                (KEY_SWITCHES, &|compared| compared.cost.total_key_switches() as f64),
                (ROTATION_KEYS, &|compared| compared.keys.len() as f64),
                (KEY_BYTES, &|compared| compared.keys.memory_bytes(ring) as f64),
                (DEPTH, &|compared| compared.product.depth() as f64),
            ];
            for (metric, value) in counted {
                harness.value(metric, case, value(ours), Some((baseline.name, value(baseline))), params());
            }
        }
        let error = errors.first().map_or(f64::NAN, |error| error.log2());
        harness.value(
            LOG2_RELATIVE_ERROR,
            case,
            error,
            None,
            params! { "preset": parameters.name(), "d": self.layout.dim() },
        );
        Ok(())
    }
}
