//! Products of a plaintext matrix with encrypted ones: in slots at a level each, however the columns are skewed, with the
//! skew of Jiang et al. by rotations first, and in coefficients without keys.

use ndarray::Array2;
use unspoken_ckks::{Arithmetic, Ciphertext, Complex64, Cost, Encoder, Evaluator, Simulator};
use unspoken_matrix::{EncryptedRows, Layout, MatrixError, Operand, RowsProduct, SkewedMatrix, SkewedProduct};
use unspoken_ring::SecretRng;
use unspoken_rlwe::{EvaluationKeys, KeyPlan, SecretKey};

use crate::clock::{Contender, alternate, scaled};
use crate::error::BenchError;
use crate::row::{Metric, params};
use crate::session::Session;

/// Largest error of an entry, relative to the largest.
const TOLERANCE: f64 = 1e-2;

/// The levels that the deepest way spends: every result is this far below the highest level.
const DEPTH: usize = 2;

const TIME: Metric = Metric::less("time_per_product", "ms");
const KEYS: Metric = Metric::less("rotation_keys", "keys");
const KEY_BYTES: Metric = Metric::less("key_bytes", "bytes");
const SWITCHES: Metric = Metric::less("key_switches", "switches");
const LEVELS: Metric = Metric::less("depth", "levels");
const ERROR: Metric = Metric::less("log2_relative_error", "bits");

const OURS: &str = "slots, from tau to rows";
const ROWS: &str = "slots, from rows to rows";
const ROTATED: &str = "Jiang et al., plaintext left: tau by rotations first";
const COEFFICIENTS: &str = "coefficients, a ciphertext per row";

/// What is counted, and how.
type Fact<'a> = (Metric, &'a dyn Fn(&Entry) -> f64);

/// A way to multiply, with its input of type `V`.
enum Way<V> {
    Slots(Vec<SkewedProduct>, SkewedMatrix<V>),
    Coefficients(RowsProduct, EncryptedRows<V>),
}

enum Output<V> {
    Slots(SkewedMatrix<V>),
    Coefficients(EncryptedRows<V>),
}

impl<V: Clone + Send + Sync> Way<V> {
    fn apply<A: Arithmetic<Vector = V>>(&self, arithmetic: &A) -> Result<Output<V>, MatrixError> {
        match self {
            Way::Slots(products, x) => {
                let product = |x: SkewedMatrix<V>, product: &SkewedProduct| product.apply(arithmetic, &x);
                products.iter().try_fold(x.clone(), product).map(Output::Slots)
            }
            Way::Coefficients(product, x) => product.apply(arithmetic, x).map(Output::Coefficients),
        }
    }

    fn depth(&self) -> usize {
        match self {
            Way::Slots(products, _) => products.len(),
            Way::Coefficients(..) => 1,
        }
    }
}

/// What a way takes, and what it does at once.
struct Entry {
    name: &'static str,
    way: Way<Ciphertext>,
    at_once: usize,
    keys: KeyPlan,
    cost: Cost,
}

/// What all ways multiply.
struct Case<'a> {
    encoder: &'a Encoder,
    secret: SecretKey,
    layout: Layout,
    weights: Array2<f64>,
    x: Vec<Array2<f64>>,
}

/// One dimension: a single block, as many matrices at once as there is room for.
pub(super) fn run(session: &mut Session<'_>, encoder: &Encoder, dimension: usize) -> Result<(), BenchError> {
    let parameters = encoder.parameters();
    let layout = Layout::new(parameters, dimension, 1)?;
    let value = |seed: usize, (i, j): (usize, usize)| ((i * 31 + j * 17 + seed * 7) % 101) as f64 / 50.0 - 1.0;
    let matrix = |seed: usize| Array2::from_shape_fn((dimension, dimension), |cell| value(seed, cell));
    let at_once = layout.parallel().max(parameters.ring().degree() / dimension);
    let mut rng = SecretRng::insecure_from_seed(11);
    let secret = SecretKey::generate(parameters.rlwe(), &mut rng)?;
    let case = Case { encoder, secret, layout, weights: matrix(1), x: (2..at_once + 2).map(matrix).collect() };
    let entries = [
        case.slots(OURS, &[1, 0], &mut rng)?,
        case.slots(ROWS, &[0, 0], &mut rng)?,
        case.slots(ROTATED, &[0, 1, 0], &mut rng)?,
        case.coefficients(&mut rng)?,
    ];
    case.contest(session, &format!("plain product, d = {dimension}"), &entries, &mut rng)
}

impl Case<'_> {
    fn output_level(&self) -> usize {
        self.encoder.parameters().max_level() - DEPTH
    }

    /// Products from each exponent to the next: all but the last only skew.
    fn slots(&self, name: &'static str, exponents: &[usize], rng: &mut SecretRng) -> Result<Entry, BenchError> {
        let (parameters, layout, d) = (self.encoder.parameters(), self.layout, self.layout.dim());
        let level = self.output_level() + exponents.len() - 1;
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
        Way::Slots(products()?, counted).apply(&simulator)?;
        let x = SkewedMatrix::encrypt(self.encoder, &self.secret, layout, x, exponents[0], level, rng)?;
        let way = Way::Slots(products()?, x.expand(parameters));
        Ok(Entry { name, way, at_once: layout.parallel(), keys: simulator.key_plan(), cost: simulator.cost() })
    }

    /// Matrices side by side, as many as fit a row of coefficients.
    fn coefficients(&self, rng: &mut SecretRng) -> Result<Entry, BenchError> {
        let (parameters, d, level) = (self.encoder.parameters(), self.layout.dim(), self.output_level() + 1);
        let at_once = parameters.ring().degree() / d;
        let x = Array2::from_shape_fn((d, at_once * d), |(row, column)| self.x[column / d][(row, column % d)]);
        let product = || RowsProduct::new(parameters, &self.weights, level, parameters.scale());
        let simulator = Simulator::counting(self.encoder);
        let row = || simulator.encrypt(&[Complex64::default()], level, parameters.scale());
        let counted = EncryptedRows::from_rows(at_once * d, (0..d).map(|_| row()).collect::<Result<_, _>>()?)?;
        Way::Coefficients(product()?, counted).apply(&simulator)?;
        let x = EncryptedRows::encrypt(self.encoder, &self.secret, &x, level, rng)?.expand(parameters);
        let way = Way::Coefficients(product()?, x);
        Ok(Entry { name: COEFFICIENTS, way, at_once, keys: simulator.key_plan(), cost: simulator.cost() })
    }

    /// The largest error of an entry of a result, relative to the largest entry.
    fn relative_error(&self, output: &Output<Ciphertext>) -> Result<f64, BenchError> {
        let d = self.layout.dim();
        let found = match output {
            Output::Slots(matrix) => matrix.decrypt(self.encoder, &self.secret)?,
            Output::Coefficients(rows) => {
                let wide = rows.decrypt(self.encoder, &self.secret)?;
                let part = |p: usize| Array2::from_shape_fn((d, d), |(row, column)| wide[(row, p * d + column)]);
                (0..wide.ncols() / d).map(part).collect()
            }
        };
        let (mut worst, mut largest) = (0.0f64, 0.0f64);
        for (found, x) in found.iter().zip(&self.x) {
            let exact = self.weights.dot(x);
            largest = exact.iter().fold(largest, |max, x| max.max(x.abs()));
            worst =
                (found - &exact).iter().fold(worst, |max, x| if x.is_nan() { f64::INFINITY } else { max.max(x.abs()) });
        }
        Ok(worst / largest)
    }

    /// Checks every entry, then times the first and the others in turn; rows against each of the others.
    fn contest(
        &self,
        session: &mut Session<'_>,
        case: &str,
        entries: &[Entry],
        rng: &mut SecretRng,
    ) -> Result<(), BenchError> {
        session.note(format!("{case}: keys"));
        let mut plan = KeyPlan::new();
        entries.iter().for_each(|entry| plan.extend(&entry.keys));
        let keys = EvaluationKeys::generate(&self.secret, &plan, rng)?;
        let evaluator = Evaluator::new(self.encoder, &keys);
        session.note(format!("{case}: {}", entries.iter().map(|entry| entry.name).collect::<Vec<_>>().join(", ")));
        let mut errors = Vec::with_capacity(entries.len());
        for entry in entries {
            let error = self.relative_error(&entry.way.apply(&evaluator)?)?;
            if error > TOLERANCE {
                let case = format!("{case}, {}", entry.name);
                return Err(BenchError::Wrong { case, found: error, needed: TOLERANCE });
            }
            errors.push(error);
        }
        let (clock, effort, single) = (session.clock(), session.slow_effort(), &session.single);
        let time = |entry: &Entry| {
            let (result, seconds) = clock.time_in(single, || entry.way.apply(&evaluator));
            result.map(|_| seconds).map_err(BenchError::from)
        };
        let mut contenders: Vec<Contender<'_>> =
            entries.iter().map(|entry| Box::new(move || time(entry)) as Contender<'_>).collect();
        let samples = alternate(effort, &mut contenders)?;
        drop(contenders);
        let per_product = |(samples, entry): (&Vec<f64>, &Entry)| scaled(samples, 1e3 / entry.at_once as f64);
        let times: Vec<Vec<f64>> = samples.iter().zip(entries).map(per_product).collect();
        let Some(ours) = entries.first() else { return Ok(()) };
        let (parameters, ring) = (self.encoder.parameters(), self.encoder.parameters().ring());
        for (rival, their_times) in entries.iter().zip(&times).skip(1) {
            let params = || {
                params! {
                    "preset": parameters.name(), "d": self.layout.dim(), "at_once": ours.at_once,
                    "baseline_at_once": rival.at_once, "output_level": self.output_level(), "way": ours.name,
                }
            };
            session.timing(TIME, case, &times[0], Some((rival.name, their_times)), params());
            let facts: [Fact<'_>; 4] = [
                (SWITCHES, &|entry| entry.cost.total_key_switches() as f64),
                (KEYS, &|entry| entry.keys.len() as f64),
                (KEY_BYTES, &|entry| entry.keys.memory_bytes(ring) as f64),
                (LEVELS, &|entry| entry.way.depth() as f64),
            ];
            for (metric, value) in facts {
                session.fact(metric, case, value(ours), Some((rival.name, value(rival))), params());
            }
        }
        let error = errors.first().map_or(f64::NAN, |error| error.log2());
        session.fact(ERROR, case, error, None, params! { "preset": parameters.name(), "d": self.layout.dim() });
        Ok(())
    }
}
