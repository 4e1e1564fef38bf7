//! Keys and time of `a.ravel()[p].reshape(a.shape)` for an encrypted matrix (a vector, if it has one row), in square
//! tiles and as rows of entries: `permutation ROWS COLUMNS [PRESET]`.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use ndarray::Array3;
use unspoken_encrypted_matrix::{Graph, Operation};
use unspoken_matrix::{Axes, Options, Program, ProgramSource, Secret};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut extent =
        || -> Result<usize, Box<dyn std::error::Error>> { Ok(arguments.next().ok_or("needed ROWS COLUMNS")?.parse()?) };
    let shape = (extent()?, extent()?);
    let preset = arguments.next();
    for one_row in [false, true] {
        measure(shape, preset.clone(), one_row)?;
    }
    Ok(())
}

fn measure(shape: (usize, usize), preset: Option<String>, one_row: bool) -> Result<(), Box<dyn std::error::Error>> {
    let length = shape.0 * shape.1;
    // A fixed permutation without structure: sorted by a multiplicative hash.
    let mut source: Vec<usize> = (0..length).collect();
    source.sort_by_key(|&index| (index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));

    let mut graph = Graph::new();
    let a = graph.input("a", shape)?;
    let row = graph.push(Operation::Reshape((1, length)), &[a])?;
    let permuted = graph.push(Operation::Columns(source.clone()), &[row])?;
    graph.push(Operation::Reshape(shape), &[permuted])?;
    let axes = Axes::MATRIX;
    let options = Options { preset, batch: 1, one_row: Some(one_row), ..Options::default() };
    let begin = Instant::now();
    let program = Program::plan(ProgramSource { graph, inputs: vec![axes], output: axes, options })?;
    let planned = begin.elapsed();

    let (secret, go) = (Secret::generate()?, AtomicBool::new(false));
    let values = Array3::from_shape_fn((1, shape.0, shape.1), |(_, r, c)| (r * shape.1 + c) as f64 / length as f64);
    let signature = program.signature();
    let inputs = secret.encrypt(signature, &[("a".into(), values)])?;
    let keys = secret.keys(&[signature], |_, _| {}, &go)?;
    // The first run encodes the masks.
    let begin = Instant::now();
    let result = program.run(&keys, &[&inputs], |_, _| {}, &go)?;
    let first = begin.elapsed();
    let begin = Instant::now();
    program.run(&keys, &[&inputs], |_, _| {}, &go)?;
    let second = begin.elapsed();
    let found = secret.decrypt(&result)?;
    let errors = source
        .iter()
        .enumerate()
        .map(|(to, &from)| (found[[0, to / shape.1, to % shape.1]] - from as f64 / length as f64).abs());
    let (rows, columns) = signature.layout().tile();
    println!(
        "{length} entries in tiles of {rows} x {columns}, {}: {} keys of {:.1} MB, {} key switches, levels {} to {}, \
         planned in {planned:.2?}, first run {first:.2?}, second run {second:.2?}, error {:.1e} below {:.1e}",
        signature.preset(),
        keys.len(),
        signature.key_bytes() as f64 / 1e6,
        program.key_switches(),
        signature.level(),
        program.output_level(),
        errors.fold(0.0, f64::max),
        result.error()
    );
    Ok(())
}
