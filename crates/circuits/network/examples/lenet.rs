//! LeNet-5 with square activations (or ReLU) as sparse matrices: chosen parameters, predicted and measured seconds.
//!
//! `cargo run --release -p unspoken-network --example lenet -- ROWS [square|relu] [run]`

mod encrypted;

use std::time::Instant;

use ndarray::{Array2, s};
use unspoken_ckks::CostModel;
use unspoken_network::{
    Design, Function, Network, NetworkBuilder, NetworkError, Options, Ranges, SparseMatrix, ValueId, Wishes, choose,
};

/// Channels and side of a square picture.
type Shape = (usize, usize);

fn convolution(
    (channels, side): Shape,
    out: usize,
    kernel: usize,
    pad: usize,
) -> Result<(SparseMatrix, Shape), NetworkError> {
    let mut rng = fastrand::Rng::with_seed(out as u64);
    let width = (6.0 / (channels * kernel * kernel) as f64).sqrt();
    let weights: Vec<f64> = (0..out * channels * kernel * kernel).map(|_| width * (2.0 * rng.f64() - 1.0)).collect();
    let to = side + 2 * pad + 1 - kernel;
    let mut entries = Vec::new();
    for o in 0..out {
        for (y, x) in (0..to * to).map(|p| (p / to, p % to)) {
            for (c, k) in (0..channels * kernel * kernel).map(|i| (i / (kernel * kernel), i % (kernel * kernel))) {
                let (row, column) = (y + k / kernel, x + k % kernel);
                if (pad..side + pad).contains(&row) && (pad..side + pad).contains(&column) {
                    let input = c * side * side + (row - pad) * side + column - pad;
                    let weight = weights[(o * channels + c) * kernel * kernel + k];
                    entries.push((o * to * to + y * to + x, input, weight));
                }
            }
        }
    }
    Ok((SparseMatrix::new((out * to * to, channels * side * side), entries)?, (out, to)))
}

fn pooling((channels, side): Shape) -> Result<(SparseMatrix, Shape), NetworkError> {
    let half = side / 2;
    let entries = (0..channels * side * side).map(|input| {
        let (c, y, x) = (input / (side * side), input / side % side, input % side);
        (c * half * half + y / 2 * half + x / 2, input, 0.25)
    });
    Ok((SparseMatrix::new((channels * half * half, channels * side * side), entries)?, (channels, half)))
}

fn lenet(function: Function) -> Result<Network, NetworkError> {
    let mut builder = NetworkBuilder::new();
    let mut shape = (1, 28);
    let mut value = builder.input("pixels", 784)?;
    let affine = |builder: &mut NetworkBuilder, value: ValueId, matrix: SparseMatrix| {
        let bias = vec![0.05; matrix.rows()];
        builder.affine(vec![(value, matrix)], bias)
    };
    for (out, pad) in [(6, 2), (16, 0)] {
        let (matrix, to) = convolution(shape, out, 5, pad)?;
        value = affine(&mut builder, value, matrix)?;
        value = builder.function(value, function)?;
        let (matrix, half) = pooling(to)?;
        value = affine(&mut builder, value, matrix)?;
        shape = half;
    }
    let mut rng = fastrand::Rng::with_seed(7);
    let mut size = shape.0 * shape.1 * shape.1;
    for (layer, to) in [120, 84, 10].into_iter().enumerate() {
        if layer > 0 {
            value = builder.function(value, function)?;
        }
        let width = (6.0 / size as f64).sqrt();
        let weights: Vec<f64> = (0..size * to).map(|_| width * (2.0 * rng.f64() - 1.0)).collect();
        value =
            affine(&mut builder, value, SparseMatrix::dense((to, size), |row, column| weights[row * size + column])?)?;
        size = to;
    }
    builder.finish(&[("scores", value)])?.fused()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let rows: usize = arguments.first().map_or(Ok(4), |rows| rows.parse())?;
    let has = |word: &str| arguments.iter().any(|argument| argument == word);
    let function = if has("relu") { Function::Relu } else { Function::Power(2) };
    let network = lenet(function)?;
    let mut rng = fastrand::Rng::with_seed(3);
    let pictures = Array2::from_shape_simple_fn((128, 784), || rng.f64());
    let options = Options { kink_error: 2f64.powi(-6), ..Options::default() };
    let design = Design::new(&network, &Ranges::of(&network, &[pictures.view()])?, &options)?;
    let start = Instant::now();
    let wishes = Wishes { rows: Some(rows), ..Wishes::default() };
    let choice = choose(&design, &[pictures.view()], &wishes)?;
    let program = &choice.program;
    println!(
        "{} steps, {} levels: {} for {} rows in {:.0} s, {} keys, weights {:.0} MB, query {} KB",
        network.steps().len(),
        design.depth(),
        program.parameters().name(),
        program.batch(),
        start.elapsed().as_secs_f64(),
        program.key_plan().len(),
        program.prepared_bytes() as f64 / 1e6,
        program.query_bytes() / 1000
    );
    for step in program.steps() {
        println!("  {}: {} vectors, {} products, {:.2} s", step.what, step.vectors, step.products, step.seconds);
    }
    let predicted = program.seconds(&CostModel::measure(program.parameters())?);
    println!("  predicted {predicted:.2} s, nominal {:.2} s, noise {:.1e}", choice.seconds, choice.simulation.noise);
    if !has("run") {
        return Ok(());
    }
    let few = pictures.slice(s![..rows.min(128), ..]);
    let (found, seconds) = encrypted::run(program, few, 2)?;
    let distance = program.distance(&[found.values], &network.run(&[few])?);
    println!("  measured {seconds:.2} s, largest error {distance:.1e} of the range");
    Ok(())
}
