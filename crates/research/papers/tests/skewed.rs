//! Skewed matrices and their products with plaintexts, encrypted with exactly the counted keys.

#[path = "../../../circuits/encrypted-matrix/tests/integration/common/mod.rs"]
mod common;

use common::{COMPLEX, Client, LEVEL, Matrices, REAL, random, worst};
use ndarray::Array2;
use unspoken_ckks::{Arithmetic, Ciphertext, CkksParameters, Complex64, Evaluator, Simulator};
use unspoken_encrypted_matrix::{EncryptedMatrixError, Layout, LinearMap, Operand};
use unspoken_papers::{SkewedMatrix, SkewedProduct};
use unspoken_rlwe::EvaluationKeys;

const BITS: i32 = 26;

fn encrypt(
    client: &mut Client,
    layout: Layout,
    matrices: &Matrices,
    exponent: usize,
    level: usize,
) -> SkewedMatrix<Ciphertext> {
    let Client { encoder, secret, rng } = client;
    let seeded = SkewedMatrix::encrypt(encoder, secret, layout, matrices, exponent, level, rng);
    seeded.unwrap().expand(encoder.parameters())
}

fn decrypt(client: &Client, matrix: &SkewedMatrix<Ciphertext>) -> Matrices {
    matrix.decrypt(&client.encoder, &client.secret).unwrap()
}

/// A chain of products.
fn run<A: Arithmetic>(
    arithmetic: &A,
    products: &[SkewedProduct],
    x: SkewedMatrix<A::Vector>,
) -> Result<SkewedMatrix<A::Vector>, EncryptedMatrixError> {
    products.iter().try_fold(x, |x, product| product.apply(arithmetic, &x))
}

fn ready(
    parameters: &CkksParameters,
    layout: Layout,
    rows: usize,
    columns: usize,
    layers: &[(Array2<f64>, usize, usize)],
) -> Vec<SkewedProduct> {
    let shapes = std::iter::once(rows).chain(layers.iter().map(|(weights, ..)| weights.nrows()));
    let input = |(number, rows)| Operand { shape: (rows, columns), level: LEVEL - number, scale: parameters.scale() };
    let inputs = shapes.enumerate().map(input);
    let product = |(input, (weights, from, to)): (Operand, &(Array2<f64>, usize, usize))| {
        SkewedProduct::new(parameters, layout, input, weights, *from, *to).unwrap()
    };
    inputs.zip(layers).map(product).collect()
}

/// Counts a chain, generates exactly its keys, runs it encrypted and compares the result. Each layer uses one level.
fn check(client: &mut Client, layout: Layout, shape: (usize, usize), layers: &[(Array2<f64>, usize, usize)]) {
    let parameters = client.parameters().clone();
    let products = ready(&parameters, layout, shape.0, shape.1, layers);
    let x = random(shape, layout.parallel().min(5), 1);
    let (first, last) = (layers[0].1, layers[layers.len() - 1].2);

    let simulator = Simulator::counting(&client.encoder);
    let encoded = SkewedMatrix::encode(layout, &x, first).unwrap();
    assert_eq!(encoded.decode(), x);
    let counted = encoded.try_map(|slots| simulator.encrypt(slots, LEVEL, parameters.scale())).unwrap();
    let counted = run(&simulator, &products, counted).unwrap();

    let keys = client.keys(&simulator.key_plan());
    let encrypted = encrypt(client, layout, &x, first, LEVEL);
    let evaluator = Evaluator::new(&client.encoder, &keys);
    let found = run(&evaluator, &products, encrypted).unwrap();
    let (level, scale) = found.level_and_scale(&evaluator).unwrap();
    assert_eq!((level, scale), counted.level_and_scale(&simulator).unwrap());
    assert_eq!(level, LEVEL - layers.len(), "one level for each product");
    assert!((scale / parameters.scale() - 1.0).abs() < 1e-12);
    assert_eq!((found.exponent(), counted.exponent()), (last % layout.dim(), last % layout.dim()));
    assert_eq!(found.shape(), (layers[layers.len() - 1].0.nrows(), shape.1));

    let product = |x: &Array2<f64>| layers.iter().fold(x.clone(), |x, (weights, ..)| weights.dot(&x));
    let expected: Matrices = x.iter().map(product).collect();
    let error = worst(&decrypt(client, &found), &expected);
    assert!(error < 2f64.powi(-BITS + 2 * layers.len() as i32), "{shape:?} {}: 2^{:.1}", layout.dim(), error.log2());
    // The tiles have the declared skew, and all slots outside them are zero.
    let exact = SkewedMatrix::encode(layout, &expected, last).unwrap();
    let (mut slots, mut wanted) = (Vec::new(), Vec::new());
    found.try_map(|tile| client.open(tile).map(|tile| slots.extend(tile))).unwrap();
    let mut collect = |tile: &Vec<Complex64>| {
        wanted.extend(tile.iter().map(|z| z.re));
        Ok::<_, EncryptedMatrixError>(())
    };
    exact.try_map(&mut collect).unwrap();
    assert_eq!(slots.len(), wanted.len());
    let off = slots.iter().zip(&wanted).map(|(a, b): (&f64, &f64)| (a - b).abs()).fold(0.0, f64::max);
    assert!(off < 2f64.powi(-BITS + 2 * layers.len() as i32), "{shape:?}: 2^{:.1}", off.log2());
}

fn weights(shape: (usize, usize), seed: usize) -> Array2<f64> {
    random(shape, 1, seed).remove(0)
}

#[test]
fn every_pair_of_exponents() {
    let mut client = Client::new(REAL);
    for (d, blocks) in [(1, 1), (2, 1), (4, 1), (4, 2)] {
        let layout = Layout::new(client.parameters(), d, blocks).unwrap();
        for (from, to) in (0..d * (d + 1)).map(|pair| (pair % (d + 1), pair / (d + 1))) {
            check(&mut client, layout, (d, d), &[(weights((d, d), 2), from, to)]);
        }
    }
}

#[test]
fn chains_lower_the_exponent_by_one_a_level() {
    for preset in [REAL, COMPLEX] {
        let mut client = Client::new(preset);
        let layout = Layout::new(client.parameters(), 8, 1).unwrap();
        let layers: Vec<_> = (0..4).rev().map(|l| (weights((8, 8), l), l + 1, l)).collect();
        check(&mut client, layout, (8, 8), &layers);
        // The exponent may also stay the same, and the last product may change it to any other.
        let layers = [(weights((8, 8), 1), 3, 3), (weights((8, 8), 2), 3, 3), (weights((8, 8), 3), 3, 0)];
        check(&mut client, layout, (8, 8), &layers);
    }
}

#[test]
fn any_shape_in_tiles() {
    let mut client = Client::new(REAL);
    for blocks in [1, 2] {
        let layout = Layout::new(client.parameters(), 4, blocks).unwrap();
        for (rows, inner, columns) in [(1, 1, 1), (3, 5, 2), (1, 9, 1), (5, 4, 11), (8, 3, 4)] {
            let layers = [(weights((rows, inner), 2), 2, 1), (weights((6, rows), 3), 1, 0)];
            check(&mut client, layout, (inner, columns), &layers);
        }
    }
}

#[test]
fn a_skew_costs_nothing() {
    let client = Client::new(REAL);
    let parameters = client.parameters();
    let layout = Layout::new(parameters, 16, 1).unwrap();
    let (x, weights) = (random((16, 16), layout.parallel(), 1), weights((16, 16), 2));
    let input = Operand { shape: (16, 16), level: LEVEL, scale: parameters.scale() };
    let count = |from: usize, to: usize| {
        let simulator = Simulator::counting(&client.encoder);
        let x = SkewedMatrix::encode(layout, &x, from).unwrap();
        let x = x.try_map(|slots| simulator.encrypt(slots, LEVEL, parameters.scale())).unwrap();
        let product = SkewedProduct::new(parameters, layout, input, &weights, from, to).unwrap();
        product.apply(&simulator, &x).unwrap();
        assert_eq!(simulator.key_plan(), product.key_plan());
        (simulator.cost(), simulator.key_plan())
    };
    let simulator = Simulator::counting(&client.encoder);
    let plain = common::simulated(&simulator, layout, &x, LEVEL);
    LinearMap::times_left(parameters, layout, input, &weights).unwrap().apply(&simulator, &plain).unwrap();
    for (from, to) in [(0, 0), (1, 0), (3, 2), (0, 1), (5, 5)] {
        assert_eq!(count(from, to), (simulator.cost(), simulator.key_plan()), "{from} to {to}");
    }
    // Far fewer rotations than 15, one for each diagonal.
    assert!(simulator.cost().total_key_switches() < 10, "{:?}", simulator.cost());
}

#[test]
fn refusals_say_what_was_found_and_what_would_do() {
    let mut client = Client::new(REAL);
    let parameters = client.parameters().clone();
    let layout = Layout::new(&parameters, 8, 1).unwrap();
    let (x, weights) = (random((8, 8), 2, 1), weights((8, 8), 2));
    let input = |shape, level| Operand { shape, level, scale: parameters.scale() };
    let product = SkewedProduct::new(&parameters, layout, input((8, 8), LEVEL), &weights, 2, 1).unwrap();
    let keys = client.keys(&product.key_plan());
    let message = |error: EncryptedMatrixError| error.to_string();

    let at = |client: &mut Client, exponent| encrypt(client, layout, &x, exponent, LEVEL);
    let (right, wrong) = (at(&mut client, 10), at(&mut client, 1));
    let evaluator = Evaluator::new(&client.encoder, &keys);
    let once = product.apply(&evaluator, &right).unwrap();
    assert_eq!(once.exponent(), 1);
    for other in [&wrong, &once] {
        let error = message(product.apply(&evaluator, other).unwrap_err());
        assert!(error.contains("found exponent 1; needed exponent 2"), "{error}");
    }
    let error = message(once.into_plain().unwrap_err());
    assert!(error.contains("found exponent 1; needed exponent 0"), "{error}");

    let none = EvaluationKeys::new();
    let error = message(product.apply(&Evaluator::new(&client.encoder, &none), &right).unwrap_err());
    assert_eq!(error.matches("Galois key").count(), product.key_plan().len(), "{error}");

    let narrow = encrypt(&mut client, layout, &random((8, 3), 2, 1), 2, LEVEL);
    let evaluator = Evaluator::new(&client.encoder, &keys);
    assert!(message(product.apply(&evaluator, &narrow).unwrap_err()).contains("(8, 3)"));
    let other = Layout::new(&parameters, 4, 1).unwrap();
    let other = encrypt(&mut client, other, &x, 2, LEVEL);
    let evaluator = Evaluator::new(&client.encoder, &keys);
    assert!(message(product.apply(&evaluator, &other).unwrap_err()).contains("tiles of 4"));

    let error = SkewedProduct::new(&parameters, layout, input((8, 8), 0), &weights, 1, 0).err().unwrap();
    assert!(matches!(error, EncryptedMatrixError::Depth { found: 0, needed: 1, .. }), "{error}");
    let error = SkewedProduct::new(&parameters, layout, input((7, 8), 3), &weights, 1, 0).err().unwrap();
    assert_eq!(message(error), "matmul: (8, 8) @ (7, 8): inner dimensions 8 and 7 differ");
    let infinite = Array2::from_elem((8, 8), f64::INFINITY);
    assert!(SkewedProduct::new(&parameters, layout, input((8, 8), 3), &infinite, 1, 0).is_err());
    assert!(SkewedMatrix::<Vec<Complex64>>::encode(layout, &[], 1).is_err());
}

#[test]
fn what_works_entry_by_entry_does_not_mind_the_skew() {
    let mut client = Client::new(REAL);
    let parameters = client.parameters().clone();
    let layout = Layout::new(&parameters, 4, 1).unwrap();
    let (x, first, second) = (random((4, 4), 3, 1), weights((4, 4), 2), weights((4, 4), 3));
    let input = |level| Operand { shape: (4, 4), level, scale: parameters.scale() };
    let simulator = Simulator::counting(&client.encoder);
    let product = |level, weights, from| SkewedProduct::new(&parameters, layout, input(level), weights, from, from - 1);
    let before = product(LEVEL, &first, 2).unwrap();
    // A square has the squared scale over the modulus of its level.
    let squared = parameters.scale() * parameters.scale() / parameters.level_modulus(LEVEL - 1);
    let input = Operand { scale: squared, ..input(LEVEL - 2) };
    let after = SkewedProduct::new(&parameters, layout, input, &second, 1, 0).unwrap();

    fn network<A: Arithmetic>(
        arithmetic: &A,
        [before, after]: [&SkewedProduct; 2],
        x: &SkewedMatrix<A::Vector>,
    ) -> Result<SkewedMatrix<A::Vector>, EncryptedMatrixError> {
        let hidden = before.apply(arithmetic, x)?;
        after.apply(arithmetic, &hidden.try_map(|tile| arithmetic.multiply(tile, tile))?)
    }
    let encoded = SkewedMatrix::encode(layout, &x, 2).unwrap();
    let counted = encoded.try_map(|slots| simulator.encrypt(slots, LEVEL, parameters.scale())).unwrap();
    network(&simulator, [&before, &after], &counted).unwrap();
    let keys = client.keys(&simulator.key_plan());
    let encrypted = encrypt(&mut client, layout, &x, 2, LEVEL);
    let result = network(&Evaluator::new(&client.encoder, &keys), [&before, &after], &encrypted).unwrap();
    let plain: Matrices = client.decrypt(&result.into_plain().unwrap());
    let expected: Matrices = x.iter().map(|x| second.dot(&first.dot(x).mapv(|entry| entry * entry))).collect();
    assert!(worst(&plain, &expected) < 2f64.powi(-BITS + 4));
}
