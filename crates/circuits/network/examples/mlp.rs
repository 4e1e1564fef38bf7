//! Logistic regression and networks with layers of 128, trained on points near ten centres, on 128 encrypted rows:
//! predicted and measured seconds, bytes, errors, and how many labels are those of the network in the clear.
//!
//! `cargo run --release -p unspoken-network --example mlp -- [PRESET]`

mod encrypted;

use std::time::Instant;

use ndarray::{Array1, Array2, ArrayView1, ArrayView2, Axis, s};
use unspoken_ckks::CostModel;
use unspoken_network::{
    Design, Function, Network, NetworkBuilder, Options, Program, Ranges, SparseMatrix, Wishes, choose,
};

/// Rows of a query, and of training and calibration.
const ROWS: usize = 128;
const CALIBRATION: usize = 2048;

/// Repetitions; the fastest one counts.
const REPETITIONS: usize = 3;

/// Passes over the rows, rows of a step, and size of a step of the training.
const PASSES: usize = 20;
const STEP: (usize, f64) = (32, 0.05);

type Error = Box<dyn std::error::Error>;

fn main() -> Result<(), Error> {
    let presets: Vec<String> = std::env::args().skip(1).collect();
    let of_error = |log2: i32| Options { kink_error: 2f64.powi(log2), ..Options::default() };
    let (default, short, long) = (Options::default(), of_error(-7), of_error(-10));
    for (name, sizes, sigmoid, options) in [
        ("logistic regression, 30 features, logits", &[30, 1][..], false, &default),
        ("logistic regression, 30 features, sigmoid", &[30, 1], true, &default),
        ("three layers of 128, short ReLU", &[128, 128, 128, 10], false, &short),
        ("three layers of 128, ReLU", &[128, 128, 128, 10], false, &default),
        ("three layers of 128, long ReLU", &[128, 128, 128, 10], false, &long),
        ("three hidden layers of 128, short ReLU", &[128, 128, 128, 128, 10], false, &short),
        ("three hidden layers of 128, ReLU", &[128, 128, 128, 128, 10], false, &default),
    ] {
        let (rows, labels) = points(sizes[0], *sizes.last().unwrap_or(&1));
        let network = network(&trained(sizes, &rows, &labels), sigmoid)?;
        measure(name, &network, (&rows, &labels), options, &presets)?;
    }
    Ok(())
}

/// Normal noise around a centre for each label (two for one logit).
fn points(features: usize, logits: usize) -> (Array2<f64>, Vec<usize>) {
    let mut rng = fastrand::Rng::with_seed(1);
    let mut normal = move || (0..12).map(|_| rng.f64() - 0.5).sum::<f64>();
    let centres = Array2::from_shape_simple_fn((logits.max(2), features), || 2.5 * normal() / (features as f64).sqrt());
    let labels: Vec<usize> = (0..CALIBRATION + ROWS).map(|row| row % centres.nrows()).collect();
    let rows = Array2::from_shape_fn((labels.len(), features), |(row, i)| centres[(labels[row], i)] + normal());
    (rows, labels)
}

/// Weights and biases after a few passes of gradient descent on the cross entropy.
fn trained(sizes: &[usize], rows: &Array2<f64>, labels: &[usize]) -> Vec<(Array2<f64>, Array1<f64>)> {
    let mut rng = fastrand::Rng::with_seed(2);
    let mut weight = |inputs: usize| (6.0 / inputs as f64).sqrt() * (2.0 * rng.f64() - 1.0);
    let layer =
        |pair: &[usize]| (Array2::from_shape_simple_fn((pair[1], pair[0]), || weight(pair[0])), Array1::zeros(pair[1]));
    let mut layers: Vec<_> = sizes.windows(2).map(layer).collect();
    for start in (0..PASSES).flat_map(|_| (0..CALIBRATION).step_by(STEP.0)) {
        let range = start..start + STEP.0;
        let mut values = vec![rows.slice(s![range.clone(), ..]).to_owned()];
        for (weights, bias) in &layers {
            let input = &values[values.len() - 1];
            let input = if values.len() > 1 { input.mapv(|x| x.max(0.0)) } else { input.clone() };
            values.push(input.dot(&weights.t()) + bias);
        }
        let mut slope = surplus(&values[layers.len()], &labels[range]);
        for (index, (weights, bias)) in layers.iter_mut().enumerate().rev() {
            let input = if index > 0 { values[index].mapv(|x| x.max(0.0)) } else { values[0].clone() };
            let before = slope.dot(&*weights) * values[index].mapv(|x| f64::from(u8::from(x > 0.0)));
            weights.scaled_add(-STEP.1 / STEP.0 as f64, &slope.t().dot(&input));
            bias.scaled_add(-STEP.1 / STEP.0 as f64, &slope.sum_axis(Axis(0)));
            slope = before;
        }
    }
    layers
}

/// Probabilities less the true ones: the slope of the cross entropy.
fn surplus(logits: &Array2<f64>, labels: &[usize]) -> Array2<f64> {
    let mut surplus = logits.clone();
    for (mut row, &label) in surplus.rows_mut().into_iter().zip(labels) {
        if row.len() == 1 {
            row.mapv_inplace(|x| Function::Sigmoid.value(x) - label as f64);
        } else {
            row.mapv_inplace(f64::exp);
            row /= row.sum();
            row[label] -= 1.0;
        }
    }
    surplus
}

/// The network of these layers, with ReLU between them.
fn network(layers: &[(Array2<f64>, Array1<f64>)], sigmoid: bool) -> Result<Network, Error> {
    let mut builder = NetworkBuilder::new();
    let mut value = builder.input("x", layers[0].0.ncols())?;
    for (index, (weights, bias)) in layers.iter().enumerate() {
        if index > 0 {
            value = builder.function(value, Function::Relu)?;
        }
        let matrix = SparseMatrix::dense(weights.dim(), |row, column| weights[(row, column)])?;
        value = builder.affine(vec![(value, matrix)], bias.to_vec())?;
    }
    if sigmoid {
        value = builder.function(value, Function::Sigmoid)?;
    }
    Ok(builder.finish(&[("y", value)])?.fused()?)
}

fn measure(
    name: &str,
    network: &Network,
    (rows, labels): (&Array2<f64>, &[usize]),
    options: &Options,
    presets: &[String],
) -> Result<(), Error> {
    let (calibration, rows) = (rows.slice(s![..CALIBRATION, ..]), rows.slice(s![CALIBRATION.., ..]));
    let design = Design::new(network, &Ranges::of(network, &[calibration])?, options)?;
    println!("{name}: {} levels", design.depth());
    for step in design.approximations() {
        let (largest, rms) = (step.largest.log2(), step.rms.log2());
        println!("  {:?} by degree {}: errors up to 2^{largest:.1}, rms 2^{rms:.1}", step.function, step.degree);
    }
    let wishes = Wishes { rows: Some(ROWS), presets: presets.to_vec(), ..Wishes::default() };
    let start = Instant::now();
    let choice = choose(&design, &[calibration], &wishes)?;
    let (program, simulation) = (&choice.program, &choice.simulation);
    println!(
        "  {} for {} rows, chosen in {:.1} s: query {} KB, {} keys of {:.1} MB, weights {:.0} MB, run {:.0} MB",
        program.parameters().name(),
        program.batch(),
        start.elapsed().as_secs_f64(),
        program.query_bytes() / 1000,
        program.key_plan().len(),
        choice.key_bytes as f64 / 1e6,
        program.prepared_bytes() as f64 / 1e6,
        program.working_bytes() as f64 / 1e6
    );
    println!("  simulated noise {:.1e}, of polynomials {:.1e}", simulation.noise, simulation.approximation);
    let predicted = program.seconds(&CostModel::measure(program.parameters())?);
    println!("  predicted {:.3} s, nominal on one core {:.3} s", predicted, choice.seconds);
    run(network, program, rows, &labels[CALIBRATION..])?;
    let many = choose(&design, &[calibration], &Wishes { rows: None, ..wishes })?;
    let (name, batch) = (many.program.parameters().name(), many.program.batch());
    println!("  most rows per second: {name} for {batch} rows, nominal {:.3} s", many.seconds);
    Ok(())
}

fn run(network: &Network, program: &Program, rows: ArrayView2<'_, f64>, labels: &[usize]) -> Result<(), Error> {
    let (found, best) = encrypted::run(program, rows, REPETITIONS + 1)?;
    let expected = network.run(&[rows])?;
    let one = if expected[0].iter().all(|x| (0.0..=1.0).contains(x)) { 0.5 } else { 0.0 };
    let of_rows = |values: &Array2<f64>| values.rows().into_iter().map(|row| label(row, one)).collect::<Vec<_>>();
    let (found_labels, clear_labels) = (of_rows(&found.values), of_rows(&expected[0]));
    let equal = |a: &[usize], b: &[usize]| a.iter().zip(b).filter(|(a, b)| a == b).count();
    println!(
        "  of {} rows, {} labels are those of the network in the clear; {} are right, in the clear {}; outside: {:?}",
        labels.len(),
        equal(&found_labels, &clear_labels),
        equal(&found_labels, labels),
        equal(&clear_labels, labels),
        found.outside
    );
    let distance = program.distance(&[found.values], &expected);
    println!("  measured {best:.3} s, largest error {distance:.1e} of the range");
    Ok(())
}

/// The largest element, or the side of 0 of the only one (of 1/2 after a sigmoid).
fn label(row: ArrayView1<'_, f64>, one: f64) -> usize {
    match row.as_slice() {
        Some(&[logit]) => usize::from(logit > one),
        _ => (0..row.len()).max_by(|a, b| row[*a].total_cmp(&row[*b])).unwrap_or(0),
    }
}
