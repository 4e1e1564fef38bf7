//! Times slim evaluation beside baby steps and giant steps: `slim [PRESET [DEGREE [LEVEL [VALUES [DEPTH ...]]]]]`.
//!
//! The function is `1 / sqrt(x)` on an interval that suits the degree. Both ways end at LEVEL (default 1) and run
//! encrypted, alternating, on one thread; printed are medians of the time that this thread computes. `evaluate` runs at
//! DEGREE and at DEGREE - 1, which takes a level less.
//!
//! `slim n16_depth20_scale58 128` printed this on a core of an AMD EPYC, while other programs ran on the machine; times
//! are medians of what the thread computed:
//!
//! | way | levels | products | key switches | keys | milliseconds | worst error |
//! | --- | --- | --- | --- | --- | --- | --- |
//! | `evaluate`, degree 127 | 8 | 27 | 20 | 1 | 833 | 2^-31.2 |
//! | `evaluate`, degree 128 | 9 | 26 | 19 | 1 | 880 | 2^-30.7 |
//! | slim, degree 128, depth 3 | 8 | 11 | 13 | 4 | 363 | 2^-31.9 |
//! | slim, degree 128, depth 4 | 8 | 9 | 12 | 5 | 312 | 2^-32.7 |
//! | slim, degree 128, depth 5 | 8 | 7 | 12 | 6 | 282 | 2^-34.2 |
//! | slim, degree 128, depth 6 | 8 | 7 | 13 | 7 | 296 | 2^-32.0 |
//! | slim, degree 128, depth 7 | 8 | 7 | 14 | 8 | 344 | 2^-33.4 |
//! | `evaluate`, degree 63 | 7 | 22 | 15 | 1 | 521 | 2^-38.0 |
//! | `evaluate`, degree 64 | 8 | 17 | 14 | 1 | 508 | 2^-38.0 |
//! | slim, degree 64, depth 4 | 7 | 6 | 10 | 5 | 228 | 2^-37.1 |
//! | `evaluate`, degree 31 | 6 | 13 | 10 | 1 | 316 | 2^-38.0 |
//! | `evaluate`, degree 32 | 7 | 13 | 10 | 1 | 327 | 2^-38.2 |
//! | slim, degree 32, depth 3 | 6 | 5 | 8 | 4 | 182 | 2^-38.0 |
//!
//! So slim evaluation is 3.0, 2.2 and 1.7 times as fast as the faster `evaluate` at degrees 128, 64 and 32. Products
//! and rotations balance at leaves of degree 4. Even and odd polynomials gain less: `evaluate` skips half of their
//! coefficients. The results are as precise as with `evaluate` here: the error of the input, enlarged by the steepest
//! place of the function, exceeds the loss of the squares.

use std::error::Error;

use rustix::time::{ClockId, clock_gettime};
use unspoken_ckks::{
    Arithmetic, Ciphertext, Complex64, Encoder, ErrorStatistics, Evaluator, Polynomial, Preset, Simulator, evaluate,
};
use unspoken_ring::SecretRng;
use unspoken_rlwe::{EvaluationKeys, SecretKey};
use unspoken_slim::{SlimEvaluation, SquareTree};

const RUNS: usize = 5;

type Failure = Box<dyn Error + Send + Sync>;

/// One way to evaluate, its numbers, and the times of its runs in seconds.
struct Row {
    name: String,
    way: Way,
    input: Ciphertext,
    keys: EvaluationKeys,
    counts: String,
    error: f64,
    seconds: Vec<f64>,
}

enum Way {
    Steps(Polynomial),
    Slim(Box<SlimEvaluation>),
}

impl Way {
    fn run<A: Arithmetic>(&self, arithmetic: &A, input: &A::Vector) -> Result<A::Vector, Failure> {
        Ok(match self {
            Way::Steps(polynomial) => evaluate(arithmetic, input, polynomial)?,
            Way::Slim(slim) => slim.apply(arithmetic, input)?,
        })
    }
}

/// Seconds that this thread has computed. Unlike the time of a clock, it leaves out other programs' turns.
fn thread_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let preset = arguments.next().unwrap_or_else(|| "n16_depth20_scale58".into());
    let mut number = |default: usize| arguments.next().map_or(Ok(default), |text| text.parse());
    let (degree, level, values) = (number(128)?, number(1)?, number(256)?);
    let mut depths: Vec<usize> = arguments.map(|text| text.parse()).collect::<Result<_, _>>()?;
    if depths.is_empty() {
        depths = (3..=degree.ilog2() as usize).collect();
    }
    rayon::ThreadPoolBuilder::new().num_threads(1).build()?.install(|| measure(&preset, degree, level, values, &depths))
}

fn measure(preset: &str, degree: usize, level: usize, values: usize, depths: &[usize]) -> Result<(), Failure> {
    let parameters = Preset::find(preset)?.build()?;
    let (encoder, scale) = (Encoder::new(&parameters), parameters.scale());
    let mut rng = SecretRng::insecure_from_seed(1);
    let secret = SecretKey::generate(parameters.rlwe(), &mut rng)?;
    let low = if degree >= 128 { 1.0 / 900.0 } else { 1.0 / 30.0 };
    let f = |x: f64| 1.0 / x.sqrt();
    let place = |v: usize| low + (1.0 - low) * v as f64 / (values - 1).max(1) as f64;
    let inputs: Vec<Complex64> = (0..values).map(|v| place(v).into()).collect();
    let mut rows = Vec::new();
    let mut add = |name: String, way: Way, input_level: usize, polynomial: &Polynomial| -> Result<(), Failure> {
        let simulator = Simulator::counting(&encoder);
        way.run(&simulator, &simulator.encrypt(&[], input_level, scale)?)?;
        let (cost, plan) = (simulator.cost(), simulator.key_plan());
        let counts = format!(
            "{:>6} {:>9} {:>12} {:>5}",
            input_level - level,
            cost.tensors,
            cost.total_key_switches(),
            plan.len()
        );
        let keys = EvaluationKeys::generate(&secret, &plan, &mut rng)?;
        let plaintext = encoder.encode(&inputs, input_level, scale)?;
        let input = encoder.encrypt(&plaintext, &secret, &mut rng)?.expand(&parameters);
        let output = way.run(&Evaluator::new(&encoder, &keys), &input)?;
        let expected: Vec<Complex64> = inputs.iter().map(|x| polynomial.at(*x)).collect();
        let found = encoder.decrypt(&output, &secret)?;
        let error = ErrorStatistics::between(&found[..values], &expected).worst;
        rows.push(Row { name, way, input, keys, counts, error, seconds: Vec::new() });
        Ok(())
    };
    for degree in [degree - 1, degree] {
        let polynomial = Polynomial::chebyshev_approximation(f, low, 1.0, degree)?;
        let way = Way::Steps(polynomial.clone());
        add(format!("evaluate, degree {degree}"), way, level + polynomial.depth(), &polynomial)?;
    }
    let polynomial = Polynomial::chebyshev_approximation(f, low, 1.0, degree)?;
    for &depth in depths {
        let tree = SquareTree::new(&polynomial, depth)?;
        let slim = SlimEvaluation::new(&parameters, &[&tree], values, level, scale)?;
        let input_level = slim.input_level();
        add(format!("slim, degree {degree}, depth {depth}"), Way::Slim(Box::new(slim)), input_level, &polynomial)?;
    }
    for _ in 0..RUNS {
        for row in &mut rows {
            let evaluator = Evaluator::new(&encoder, &row.keys);
            let start = thread_seconds();
            row.way.run(&evaluator, &row.input)?;
            row.seconds.push(thread_seconds() - start);
        }
    }
    println!("{preset}, 1/sqrt(x) on [{low:.5}, 1], {values} values, results at level {level}, {RUNS} runs");
    println!("{:32} levels  products  key switches  keys  milliseconds  times faster  worst error", "");
    let median = |row: &Row| {
        let mut seconds = row.seconds.clone();
        seconds.sort_by(f64::total_cmp);
        seconds[RUNS / 2]
    };
    let slowest = median(&rows[0]);
    for row in &rows {
        let seconds = median(row);
        println!(
            "{:32} {} {:>13.1} {:>13.2}  2^{:.1}",
            row.name,
            row.counts,
            seconds * 1e3,
            slowest / seconds,
            row.error.log2()
        );
    }
    Ok(())
}
