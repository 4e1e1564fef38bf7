//! A network of the shape of ResNet-20 (3 x 32 x 32 pixels, 16, 32 and 64 channels, three residual blocks each, ten
//! classes) with random weights and pictures: where it is bootstrapped, and what it needs. With `run`, one picture runs
//! encrypted, with weights that are kept as far as there is memory.
//!
//! `cargo run --release -p unspoken-network --example resnet -- [KINK_BITS] [BLOCKS] [PRESET...]`
//! `cargo run --release -p unspoken-network --example resnet -- run PRESET MIB [KINK_BITS] [BLOCKS]`

mod encrypted;

use std::time::Instant;

use ndarray::{Array2, s};
use unspoken_ckks::{Bootstrap, CostModel, Encoder, Preset};
use unspoken_network::{
    Design, Function, Network, NetworkBuilder, NetworkError, Options, Program, Ranges, SparseMatrix, ValueId,
};

const KERNEL: usize = 3;
const PRESETS: [&str; 2] = ["n16_boot_depth15_scale40", "n16_boot_depth21_scale35"];

/// Channels and side of a picture.
type Shape = (usize, usize);

/// A normal number.
fn normal(rng: &mut fastrand::Rng) -> f64 {
    (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (std::f64::consts::TAU * rng.f64()).cos()
}

/// Kernels of `size x size` pixels with normal weights of this deviation, over pictures with zeros around.
fn convolution(
    (channels, side): Shape,
    (out, stride, size): (usize, usize, usize),
    deviation: f64,
    rng: &mut fastrand::Rng,
) -> Result<SparseMatrix, NetworkError> {
    let (to, pad) = (side / stride, size / 2);
    let weights: Vec<f64> = (0..out * channels * size * size).map(|_| deviation * normal(rng)).collect();
    let entries = (0..out * to * to).flat_map(|row| {
        let (o, y, x) = (row / (to * to), row / to % to * stride, row % to * stride);
        let weights = &weights;
        (0..channels * size * size).filter_map(move |i| {
            let (c, dy, dx) = (i / (size * size), i / size % size, i % size);
            let (y, x) = ((y + dy).checked_sub(pad)?, (x + dx).checked_sub(pad)?);
            let inside = y < side && x < side;
            inside.then(|| (row, c * side * side + y * side + x, weights[o * channels * size * size + i]))
        })
    });
    SparseMatrix::new((out * to * to, channels * side * side), entries)
}

fn resnet(blocks: usize) -> Result<Network, NetworkError> {
    let mut rng = fastrand::Rng::with_seed(1);
    let mut builder = NetworkBuilder::new();
    // The weights of a trained network with its batch norms folded: values keep their size.
    let he = |channels: usize, part: f64| part * (2.0 / (channels * KERNEL * KERNEL) as f64).sqrt();
    let input = builder.input("pixels", 3 * 32 * 32)?;
    let (mut side, mut channels) = (32, 16);
    let add = |builder: &mut NetworkBuilder, terms: Vec<(ValueId, SparseMatrix)>| {
        let size = terms[0].1.rows();
        builder.affine(terms, vec![0.02; size])
    };
    let first = convolution((3, side), (channels, 1, KERNEL), he(3, 1.0), &mut rng)?;
    let mut x = add(&mut builder, vec![(input, first)])?;
    x = builder.function(x, Function::Relu)?;
    for out in [16, 32, 64] {
        for block in 0..blocks {
            let stride = if block == 0 && out > 16 { 2 } else { 1 };
            let a = convolution((channels, side), (out, stride, KERNEL), he(channels, 1.0), &mut rng)?;
            let hidden = add(&mut builder, vec![(x, a)])?;
            let hidden = builder.function(hidden, Function::Relu)?;
            let b = convolution((out, side / stride), (out, 1, KERNEL), he(out, 0.7), &mut rng)?;
            let skip = match stride {
                1 => SparseMatrix::diagonal(&vec![0.7; out * side * side])?,
                _ => convolution((channels, side), (out, stride, 1), (1.0 / channels as f64).sqrt(), &mut rng)?,
            };
            let sum = add(&mut builder, vec![(x, skip), (hidden, b)])?;
            x = builder.function(sum, Function::Relu)?;
            (side, channels) = (side / stride, out);
        }
    }
    let pixels = side * side;
    let mean = (0..channels * pixels).map(|i| (i / pixels, i, 1.0 / pixels as f64));
    let mean = SparseMatrix::new((channels, channels * pixels), mean)?;
    let pooled = add(&mut builder, vec![(x, mean)])?;
    let weights: Vec<f64> = (0..10 * channels).map(|_| normal(&mut rng) / (channels as f64).sqrt()).collect();
    let dense = SparseMatrix::dense((10, channels), |row, column| weights[row * channels + column])?;
    let scores = add(&mut builder, vec![(pooled, dense)])?;
    builder.finish(&[("scores", scores)])?.fused()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let run = (arguments.first().is_some_and(|first| first == "run") && arguments.len() > 2).then(|| {
        arguments.remove(0);
        (arguments.remove(0), arguments.remove(0))
    });
    let bits: f64 = arguments.first().map_or(Ok(8.0), |bits| bits.parse())?;
    let blocks: usize = arguments.get(1).map_or(Ok(3), |blocks| blocks.parse())?;
    let presets: Vec<&str> = match arguments.get(2..).filter(|names| !names.is_empty()) {
        Some(names) => names.iter().map(String::as_str).collect(),
        None => PRESETS.to_vec(),
    };
    let start = Instant::now();
    let network = resnet(blocks)?;
    let mut rng = fastrand::Rng::with_seed(2);
    let pictures = Array2::from_shape_simple_fn((8, 3 * 32 * 32), || normal(&mut rng));
    let options = Options { kink_error: (-bits).exp2(), ..Options::default() };
    let design = Design::new(&network, &Ranges::of(&network, &[pictures.view()])?, &options)?;
    println!("{} steps, {} levels, in {:.0} s", network.steps().len(), design.depth(), start.elapsed().as_secs_f64());
    if let Some((preset, mib)) = run {
        return measure(&network, &design, &preset, mib.parse()?, &pictures);
    }
    for name in presets {
        let start = Instant::now();
        let parameters = Preset::find(name)?.build()?;
        let program = Program::counted(&design, &parameters, 1)?;
        let (keys, ring) = (program.key_plan(), parameters.ring());
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        println!("\n{name}, planned in {:.0} s", start.elapsed().as_secs_f64());
        println!("  inputs at level {}, query {:.2} MB", program.input_level(), megabytes(program.query_bytes()));
        let own = program.bootstrap().map(Bootstrap::key_plan).unwrap_or_default();
        for (what, keys) in [("keys", keys), ("of them of bootstraps", &own)] {
            println!(
                "  {} {what}: {:.0} MB in memory, {:.0} MB on the wire",
                keys.len(),
                megabytes(keys.memory_bytes(ring)),
                megabytes(keys.wire_bytes(ring))
            );
        }
        println!(
            "  memory: {:.0} MB of weights and matrices, {:.0} MB for a run",
            megabytes(program.prepared_bytes()),
            megabytes(program.working_bytes())
        );
        let bootstraps: f64 = program.steps().iter().map(|step| step.bootstrap_seconds).sum();
        println!(
            "  {} bootstraps; predicted {:.1} s on one core, {bootstraps:.1} s of them for bootstraps",
            program.bootstraps(),
            program.seconds(&CostModel::nominal(&parameters))
        );
        println!(
            "  {:<36} {:>7} {:>8} {:>9} {:>9} {:>10}",
            "step", "level", "vectors", "diagonals", "seconds", "refreshed"
        );
        for step in program.steps() {
            let refreshed: usize = step.refreshed.iter().map(|(_, vectors)| vectors).sum();
            let level = format!("{} -> {}", step.level, step.output_level);
            println!(
                "  {:<36} {level:>7} {:>8} {:>9} {:>9.2} {refreshed:>10}",
                step.what, step.vectors, step.products, step.seconds
            );
        }
    }
    Ok(())
}

fn measure(
    network: &Network,
    design: &Design,
    preset: &str,
    mib: u64,
    pictures: &Array2<f64>,
) -> Result<(), Box<dyn std::error::Error>> {
    let parameters = Preset::find(preset)?.build()?;
    let program = Program::new(design, &parameters, 1)?.within(design, mib << 20)?;
    println!(
        "{preset}: {} bootstraps, {} keys, {} MiB of memory, predicted {:.1} s, nominal on one core {:.1} s",
        program.bootstraps(),
        program.key_plan().len(),
        program.memory() >> 20,
        program.seconds(&CostModel::measure(&parameters)?),
        program.seconds(&CostModel::nominal(&parameters))
    );
    let one = pictures.slice(s![..1, ..]);
    let simulation = program.simulate(network, &Encoder::new(&parameters), &[one], 1)?;
    println!("  simulated noise {:.1e}, of polynomials {:.1e}", simulation.noise, simulation.approximation);
    let (found, seconds) = encrypted::run(&program, one, 1)?;
    let values = [found.values];
    let (noise, all) = (program.distance(&values, &simulation.exact), program.distance(&values, &network.run(&[one])?));
    println!("  measured {seconds:.1} s, noise {noise:.1e}, with polynomials {all:.1e}");
    Ok(())
}
