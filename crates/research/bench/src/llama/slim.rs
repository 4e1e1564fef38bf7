//! Polynomials of few values: sums of squares side by side in idle slots, beside Paterson and Stockmeyer's method (baby
//! steps and giant steps).

use unspoken_ckks::{
    Arithmetic, Bootstrap, Ciphertext, CkksParameters, Complex64, Cost, CostModel, Encoder, ErrorStatistics, Evaluator,
    Polynomial, Preset, Simulator, evaluate,
};
use unspoken_encrypted_llama::WEIGHT_BITS;
use unspoken_ring::SecretRng;
use unspoken_rlwe::{EvaluationKeys, KeyPlan, SecretKey};
use unspoken_slim::{SlimEvaluation, SquareTree};

use crate::clock::alternate;
use crate::error::wrong;
use crate::harness::Harness;
use crate::matrix::CountedMetric;
use crate::row::{Metric, params};

const TIME: Metric = Metric::less("time", "s");
const MULTIPLICATIONS: Metric = Metric::less("multiplications", "products");
const KEY_SWITCHES: Metric = Metric::less("key_switches", "switches");
const LEVELS: Metric = Metric::less("levels", "levels");
const KEYS: Metric = Metric::less("keys", "keys");
const LOG2_ERROR: Metric = Metric::less("log2_error", "bits");

const STEPS: &str = "Paterson and Stockmeyer";

/// The degrees of the polynomials by steps. Sums of squares have a degree one higher, which takes the same number of
/// levels.
const DEGREES: [usize; 3] = [31, 63, 127];

/// Largest allowed distance of a result from the polynomial, relative to its largest value.
const TOLERANCE: f64 = 1.0 / 1024.0;

#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    preset: &'static str,
    /// Values of a vector, repeated through its slots.
    values: usize,
}

/// Factors of softmax for 16 tokens and 16 heads.
pub(super) const FULL: Case = Case { preset: "n16_boot_depth15_scale40", values: 256 };
pub(super) const QUICK: Case = Case { preset: "insecure_n11_boot_depth15_scale40", values: 8 };

enum Way {
    Steps(Polynomial),
    Slim(Box<SlimEvaluation>),
}

impl Way {
    fn run<A: Arithmetic>(&self, arithmetic: &A, input: &A::Vector) -> anyhow::Result<A::Vector> {
        Ok(match self {
            Way::Steps(polynomial) => evaluate(arithmetic, input, polynomial)?,
            Way::Slim(slim) => slim.apply(arithmetic, input)?,
        })
    }

    /// The level of inputs for results at `level`.
    fn input_level(&self, level: usize) -> usize {
        match self {
            Way::Steps(polynomial) => level + polynomial.depth(),
            Way::Slim(slim) => slim.input_level(),
        }
    }
}

/// A way to evaluate, with its input and its keys.
struct Prepared {
    way: Way,
    cost: Cost,
    keys: KeyPlan,
    evaluation: EvaluationKeys,
    input: Ciphertext,
    error: f64,
}

struct Fixture {
    encoder: Encoder,
    secret: SecretKey,
    values: usize,
    /// Level of the results: they can be bootstrapped.
    level: usize,
}

/// The function `1 / sqrt(x)` on an interval that suits the degree.
fn low(degree: usize) -> f64 {
    if degree >= 127 { 1.0 / 900.0 } else { 1.0 / 30.0 }
}

fn polynomial(degree: usize) -> anyhow::Result<Polynomial> {
    Ok(Polynomial::chebyshev_approximation(|x| 1.0 / x.sqrt(), low(degree), 1.0, degree)?)
}

pub(super) fn run(harness: &mut Harness<'_>, case: Case) -> anyhow::Result<()> {
    let parameters = Preset::find(case.preset)?.build()?;
    let mut rng = SecretRng::insecure_from_seed(6);
    let secret = SecretKey::generate(parameters.rlwe(), &mut rng)?;
    let level = Bootstrap::for_products(&parameters, WEIGHT_BITS)?.input_level();
    let fixture = Fixture { encoder: Encoder::new(&parameters), secret, values: case.values, level };
    for degree in DEGREES {
        fixture.compare(harness, degree, &mut rng)?;
    }
    Ok(())
}

impl Fixture {
    fn parameters(&self) -> &CkksParameters {
        self.encoder.parameters()
    }

    fn inputs(&self, degree: usize) -> Vec<Complex64> {
        let (low, last) = (low(degree), (self.values - 1).max(1) as f64);
        (0..self.values).map(|v| Complex64::from(low + (1.0 - low) * v as f64 / last)).collect()
    }

    /// Sums of squares of the depth that is predicted to be fastest.
    fn slim(&self, polynomial: &Polynomial, degree: usize) -> anyhow::Result<(SlimEvaluation, usize)> {
        let (parameters, model) = (self.parameters(), CostModel::nominal(self.parameters()));
        let of_depth = |depth: usize| -> anyhow::Result<SlimEvaluation> {
            let tree = SquareTree::new(polynomial, depth)?;
            Ok(SlimEvaluation::new(parameters, &[&tree], self.values, self.level, parameters.scale())?)
        };
        let mut best = (of_depth(1)?, 1);
        for depth in 2..=degree.ilog2() as usize {
            if self.values << depth > parameters.slots() {
                break;
            }
            let slim = of_depth(depth)?;
            if model.seconds(slim.cost()) < model.seconds(best.0.cost()) {
                best = (slim, depth);
            }
        }
        Ok(best)
    }

    /// Counts, encrypts, runs once and compares with the polynomial in the clear.
    fn prepare(&self, way: Way, polynomial: &Polynomial, rng: &mut SecretRng) -> anyhow::Result<Prepared> {
        let (scale, level) = (self.parameters().scale(), way.input_level(self.level));
        let simulator = Simulator::counting(&self.encoder);
        way.run(&simulator, &simulator.encrypt(&[], level, scale)?)?;
        let (cost, keys) = (simulator.cost(), simulator.key_plan());
        let evaluation = EvaluationKeys::generate(&self.secret, &keys, rng)?;
        let inputs = self.inputs(polynomial.degree());
        let plaintext = self.encoder.encode(&inputs, level, scale)?;
        let input = self.encoder.encrypt(&plaintext, &self.secret, rng)?.expand(self.parameters());
        let output = way.run(&Evaluator::new(&self.encoder, &evaluation), &input)?;
        let exact: Vec<Complex64> = inputs.iter().map(|x| polynomial.at(*x)).collect();
        let largest = exact.iter().fold(0.0f64, |most, value| most.max(value.norm()));
        let found = self.encoder.decrypt(&output, &self.secret)?;
        let error = ErrorStatistics::between(&found[..self.values], &exact).worst / largest;
        if error > TOLERANCE || error.is_nan() {
            let case = format!("polynomial of degree {}", polynomial.degree());
            return Err(wrong(case, error, TOLERANCE));
        }
        Ok(Prepared { way, cost, keys, evaluation, input, error })
    }

    fn compare(&self, harness: &mut Harness<'_>, degree: usize, rng: &mut SecretRng) -> anyhow::Result<()> {
        harness.progress(format!("polynomials of degree {degree}: sums of squares"));
        let (steps, squares) = (polynomial(degree)?, polynomial(degree + 1)?);
        let (slim, depth) = self.slim(&squares, degree + 1)?;
        let ours = self.prepare(Way::Slim(Box::new(slim)), &squares, rng)?;
        let baseline = self.prepare(Way::Steps(steps.clone()), &steps, rng)?;
        let stopwatch = harness.stopwatch();
        let operation = |prepared: &Prepared| {
            let evaluator = Evaluator::new(&self.encoder, &prepared.evaluation);
            stopwatch.seconds(|| prepared.way.run(&evaluator, &prepared.input))
        };
        let samples = alternate(
            harness.slow_repetitions(),
            &mut [Box::new(|| operation(&ours)), Box::new(|| operation(&baseline))],
        )?;
        let parameters = self.parameters();
        let params = || {
            params! {
                "preset": parameters.name(), "values": self.values, "degree": degree + 1, "depth": depth,
                "baseline_degree": degree, "output_level": self.level, "interval": [low(degree), 1.0],
                "backend": parameters.ring().backend().name(),
            }
        };
        let case = format!("slim polynomial, degree {degree}");
        harness.timing(TIME, &case, &samples[0], Some((STEPS, &samples[1])), params());
        let counted: [CountedMetric<'_, Prepared>; 5] = [
            (MULTIPLICATIONS, &|prepared| prepared.cost.tensors as f64),
            (KEY_SWITCHES, &|prepared| prepared.cost.total_key_switches() as f64),
            (LEVELS, &|prepared| (prepared.way.input_level(self.level) - self.level) as f64),
            (KEYS, &|prepared| prepared.keys.len() as f64),
            (LOG2_ERROR, &|prepared| prepared.error.log2()),
        ];
        for (metric, value) in counted {
            harness.value(metric, &case, value(&ours), Some((STEPS, value(&baseline))), params());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Suite;
    use crate::harness::test_rows;

    #[test]
    fn slim_polynomials_take_fewer_products_and_as_many_levels() {
        let rows = test_rows(Suite::Llama, |harness| run(harness, QUICK));
        for degree in DEGREES {
            let case = format!("slim polynomial, degree {degree}");
            let value = |metric: &str| {
                let row = rows.iter().find(|row| row.metric == metric && row.case == case);
                row.map(|row| (row.ours, row.baseline.unwrap())).unwrap_or_else(|| panic!("no {metric} of {case}"))
            };
            let (ours, baseline) = value("multiplications");
            assert!(ours < baseline, "{ours} {baseline}");
            let (ours, baseline) = value("levels");
            assert_eq!(ours, baseline);
            assert!(value("time").0 > 0.0);
        }
    }
}
