//! `unspoken-polynomial`

use clap::Parser;
use serde_json::{Value, json};
use unspoken_ckks::{Complex64, Encoder, Polynomial, Preset, Simulator, evaluate};
use unspoken_slim::{LevelStability, SlimEvaluation, SquareTree};

/// Approximate a function by a polynomial, and compare two ways to evaluate it encrypted
///
/// The polynomial interpolates the function at Chebyshev nodes: it is right on the interval and explodes outside. Slim
/// evaluation is for few values: it decomposes the polynomial into sums of squares, recursively, and computes the parts
/// side by side in slots that would be idle. The command prints the error of the approximation, what the squares do to
/// errors, and products, key switches and levels beside baby steps and giant steps (Paterson-Stockmeyer).
#[derive(Parser)]
struct Arguments {
    /// The function
    #[arg(long, value_enum)]
    function: Function,
    /// The interval: its smallest and its largest number
    #[arg(long, num_args = 2, required = true, value_names = ["LOW", "HIGH"], allow_negative_numbers = true)]
    interval: Vec<f64>,
    /// Degree. Slim evaluation raises it to a power of two
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..=256))]
    degree: u16,
    /// Levels of squares [default: leaves of degree 4, as far as the slots suffice]
    #[arg(long, value_name = "J")]
    depth: Option<usize>,
    /// Number of values, a power of two
    #[arg(long, value_name = "N", default_value_t = 256)]
    values: usize,
    /// Parameters that products and key switches are counted for: see `unspoken params`
    #[arg(long, value_name = "NAME", default_value = "n16_depth20_scale58")]
    preset: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Function {
    /// 1 / sqrt(x), of normalisations
    InverseSqrt,
    /// x / (1 + exp(-x)), of the feed-forward network
    Silu,
    /// exp(x), of attention
    Exp,
}

impl Function {
    fn at(self, x: f64) -> f64 {
        match self {
            Function::InverseSqrt => 1.0 / x.sqrt(),
            Function::Silu => x / (1.0 + (-x).exp()),
            Function::Exp => x.exp(),
        }
    }
}

/// Points at which the function and its polynomial are compared, and the tree and the polynomial.
const POINTS: usize = 10_000;
const EXACT_POINTS: usize = 257;

/// The degree of leaves by default: there products and rotations balance.
const LEAF_DEGREE: usize = 4;

/// The level of the results. Only differences of levels are printed.
const OUTPUT_LEVEL: usize = 0;

/// Work of one way to evaluate.
struct Work {
    name: &'static str,
    products: u64,
    key_switches: u64,
    keys: usize,
    levels: usize,
}

/// Errors of the approximation.
struct Approximation {
    absolute: f64,
    /// Relative to the function's value. None if the function has a zero in the interval.
    relative: Option<f64>,
    /// The largest absolute value of the polynomial.
    largest: f64,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let [low, high] = arguments.interval[..] else { anyhow::bail!("--interval: found {:?}", arguments.interval) };
    anyhow::ensure!(
        low < high && low.is_finite() && high.is_finite(),
        "--interval: found {low} {high}, needed two numbers, the smaller first"
    );
    if let Function::InverseSqrt = arguments.function {
        anyhow::ensure!(
            low > 0.0,
            "--interval: found {low} {high}, needed positive numbers for an inverse square root"
        );
    }
    let f = |x| arguments.function.at(x);
    let polynomial = Polynomial::chebyshev_approximation(f, low, high, arguments.degree.into())?;
    let parameters = Preset::find(&arguments.preset)?.build()?;
    let depth = arguments.depth.unwrap_or_else(|| {
        let leaves = polynomial.degree().next_power_of_two() / LEAF_DEGREE;
        let room = parameters.slots() / arguments.values.max(1);
        leaves.min(room).max(2).ilog2() as usize
    });
    let tree = SquareTree::new(&polynomial, depth)?;
    let approximation = approximation(&tree, f, (low, high));
    let (exactness, stability) = (tree.log2_exactness(EXACT_POINTS), tree.stability());

    let (encoder, scale) = (Encoder::new(&parameters), parameters.scale());
    let slim = SlimEvaluation::new(&parameters, &[&tree], arguments.values, OUTPUT_LEVEL, scale)?;
    let simulator = Simulator::counting(&encoder);
    let input = simulator.encrypt(&[], OUTPUT_LEVEL + polynomial.depth(), scale)?;
    evaluate(&simulator, &input, &polynomial)?;
    let work = [
        Work {
            name: "slim",
            products: slim.cost().tensors,
            key_switches: slim.cost().total_key_switches(),
            keys: slim.key_plan().len(),
            levels: slim.levels(),
        },
        Work {
            name: "baby steps, giant steps",
            products: simulator.cost().tensors,
            key_switches: simulator.cost().total_key_switches(),
            keys: simulator.key_plan().len(),
            levels: polynomial.depth(),
        },
    ];
    if arguments.json {
        println!("{}", object(&tree, &approximation, exactness, &stability, &work));
    } else {
        describe(&tree, &approximation, exactness, &stability, &work);
    }
    Ok(())
}

/// Compares the polynomial that the tree evaluates with the function.
fn approximation(tree: &SquareTree, f: impl Fn(f64) -> f64, (low, high): (f64, f64)) -> Approximation {
    let coefficients: Vec<Complex64> = tree.coefficients().iter().map(|c| Complex64::from(*c)).collect();
    let polynomial = Polynomial::chebyshev(&coefficients, low, high);
    let mut found = Approximation { absolute: 0.0, relative: Some(0.0), largest: 0.0 };
    let mut sign = 0.0;
    for i in 0..=POINTS {
        let x = low + (high - low) * i as f64 / POINTS as f64;
        let (exact, value) = (f(x), polynomial.as_ref().map_or(f64::NAN, |p| p.at(Complex64::from(x)).re));
        let error = (value - exact).abs();
        found.absolute = found.absolute.max(error);
        found.largest = found.largest.max(value.abs());
        // Values of both signs, or a zero.
        if exact == 0.0 || sign * exact < 0.0 {
            found.relative = None;
        }
        sign = exact.signum();
        found.relative = found.relative.map(|most| most.max(error / exact.abs()));
    }
    found
}

/// What is printed with `--json`.
fn object(
    tree: &SquareTree,
    approximation: &Approximation,
    exactness: f64,
    stability: &[LevelStability],
    work: &[Work; 2],
) -> Value {
    let level = |level: &LevelStability| {
        json!({
            "level": level.level, "largest_shift": level.largest_shift, "largest_sum": level.largest_sum,
            "bits_lost": level.bits_lost, "bits_lost_to_the_end": level.measured,
        })
    };
    let way = |work: &Work| {
        json!({
            "products": work.products, "key_switches": work.key_switches, "keys": work.keys, "levels": work.levels,
        })
    };
    json!({
        "degree": tree.degree(), "depth": tree.depth(), "leaf_degree": tree.leaf_degree(), "added": tree.added(),
        "log2_error": approximation.absolute.log2(), "log2_relative_error": approximation.relative.map(f64::log2),
        "largest": approximation.largest, "log2_exactness": exactness,
        "decomposition": stability.iter().map(level).collect::<Vec<_>>(),
        "slim": way(&work[0]), "baby_giant": way(&work[1]),
    })
}

/// What is printed without `--json`.
fn describe(
    tree: &SquareTree,
    approximation: &Approximation,
    exactness: f64,
    stability: &[LevelStability],
    work: &[Work; 2],
) {
    let relative =
        approximation.relative.map_or("none, the function has a zero".into(), |e| format!("2^{:.1}", e.log2()));
    println!("polynomial  degree {}, largest absolute value {:.4}", tree.degree(), approximation.largest);
    println!("error       2^{:.1} absolute, relative {relative}", approximation.absolute.log2());
    if tree.added() != 0.0 {
        println!("added       {:.2e} to the leading coefficient, which the error contains", tree.added());
    }
    println!("squares     depth {}, {} leaves of degree {}", tree.depth(), 1 << tree.depth(), tree.leaf_degree());
    println!("exactness   2^{exactness:.1} of the largest value, in exact arithmetic");
    println!(
        "\n{:5} {:>12} {:>16} {:>10} {:>16}",
        "level", "largest m", "largest |U|+|V|", "bits lost", "lost to the end"
    );
    for level in stability {
        println!(
            "{:5} {:>12.4} {:>16.4} {:>10.2} {:>16.2}",
            level.level, level.largest_shift, level.largest_sum, level.bits_lost, level.measured
        );
    }
    println!("\n{:24} {:>9} {:>13} {:>5} {:>7}", "", "products", "key switches", "keys", "levels");
    for work in work {
        println!("{:24} {:>9} {:>13} {:>5} {:>7}", work.name, work.products, work.key_switches, work.keys, work.levels);
    }
}
