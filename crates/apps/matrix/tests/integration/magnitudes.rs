//! Results of random expressions over all magnitudes: within the stated bound, or refused before anything is computed.

use std::sync::atomic::AtomicBool;

use ndarray::{Array2, Array3, Axis as Along};
use unspoken_encrypted_matrix::{Axis, Graph, Operation};
use unspoken_matrix::{Axes, EncryptedResult, MatrixError, Options, Program, ProgramSource, Secret};

static GO: AtomicBool = AtomicBool::new(false);
const PRESETS: [&str; 2] = ["insecure_n11_real_depth9_scale50", "insecure_n11_real_depth17_scale30"];
const SIDE: usize = 3;

/// Numbers from a seed (SplitMix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// In [-1, 1].
    fn unit(&mut self) -> f64 {
        2.0 * ((self.next() >> 11) as f64 / (1u64 << 53) as f64) - 1.0
    }

    fn matrix(&mut self, size: f64) -> Array2<f64> {
        Array2::from_shape_simple_fn((SIDE, SIDE), || size * self.unit())
    }
}

/// A random expression of two square inputs.
fn expression(numbers: &mut Numbers) -> Graph {
    let mut graph = Graph::new();
    graph.input("a", (SIDE, SIDE)).unwrap();
    graph.input("b", (SIDE, SIDE)).unwrap();
    for _ in 0..1 + numbers.below(4) {
        let size = 10f64.powi(numbers.below(7) as i32 - 3);
        let nodes = graph.nodes().len();
        // The last node is always used.
        let (last, other) = (nodes - 1, numbers.below(nodes));
        let (operation, operands) = match numbers.below(10) {
            0 => (Operation::Add, vec![last, other]),
            1 => (Operation::Subtract, vec![other, last]),
            2 | 3 => (Operation::Multiply, vec![last, other]),
            4 | 5 => (Operation::MatMul, vec![last, other]),
            6 => (Operation::Transpose, vec![last]),
            7 => (Operation::TimesLeft(numbers.matrix(size)), vec![last]),
            8 => (Operation::Scale(-size), vec![last]),
            _ => (Operation::Columns(vec![2, 0, 1]), vec![last]),
        };
        graph.push(operation, &operands).unwrap();
    }
    if numbers.below(3) == 0 {
        let last = graph.nodes().len() - 1;
        graph.push(Operation::Sum(Axis::Columns), &[last]).unwrap();
    }
    graph
}

fn evaluate(graph: &Graph, inputs: &[Array2<f64>]) -> Array2<f64> {
    let mut inputs = inputs.iter();
    let mut values: Vec<Array2<f64>> = Vec::new();
    for node in graph.nodes() {
        let of = |index: usize| &values[node.operands()[index]];
        let value = match node.operation() {
            Operation::Input { .. } => inputs.next().unwrap().clone(),
            Operation::Add => of(0) + of(1),
            Operation::Subtract => of(0) - of(1),
            Operation::Multiply => of(0) * of(1),
            Operation::MatMul => of(0).dot(of(1)),
            Operation::Transpose => of(0).t().to_owned(),
            Operation::TimesLeft(weights) => weights.dot(of(0)),
            Operation::Scale(factor) => *factor * of(0),
            Operation::Columns(columns) => of(0).select(Along(1), columns),
            Operation::Sum(_) => of(0).sum_axis(Along(1)).insert_axis(Along(1)),
            other => panic!("{other:?}"),
        };
        values.push(value);
    }
    values.pop().unwrap()
}

fn planned(graph: Graph, preset: &str, largest: f64) -> Result<Program, MatrixError> {
    let inputs = graph.inputs().map(|_| Axes::MATRIX).collect();
    let options = Options { preset: Some(preset.into()), batch: 1, largest: Some(largest), ..Options::default() };
    Program::plan(ProgramSource { graph, inputs, output: Axes::MATRIX, options })
}

fn computed(
    program: &Program,
    secret: &Secret,
    inputs: &[(String, Array3<f64>)],
) -> Result<EncryptedResult, MatrixError> {
    let encrypted = secret.encrypt(program.signature(), inputs)?;
    let keys = secret.keys(&[program.signature()], |_, _| {}, &GO)?;
    program.run(&keys, &[&encrypted], |_, _| {}, &GO)
}

#[test]
fn results_are_within_their_bound_or_refused() {
    let (mut numbers, secret) = (Numbers(13), Secret::generate().unwrap());
    let (mut refused, mut right) = (0, 0);
    for round in 0..90 {
        let largest = 10f64.powi(round % 15 - 6);
        let graph = expression(&mut numbers);
        let program = match planned(graph.clone(), PRESETS[round as usize % 2], largest) {
            Ok(program) => program,
            Err(error) => {
                let text = error.to_string();
                assert!(text.contains("largest=") || text.contains("levels"), "{text}");
                refused += 1;
                continue;
            }
        };
        // Random entries, and the largest ones.
        let signs = if numbers.below(2) == 0 { numbers.matrix(1.0) } else { Array2::ones((SIDE, SIDE)) };
        let inputs = [largest * &signs, largest * signs.mapv(f64::abs)];
        let named: Vec<(String, Array3<f64>)> = graph
            .inputs()
            .zip(&inputs)
            .map(|((name, _), values)| (name.into(), values.clone().insert_axis(Along(0))))
            .collect();
        let result = match computed(&program, &secret, &named) {
            Ok(result) => result,
            Err(error) => {
                assert!(matches!(error, MatrixError::Magnitude { .. }), "{error}");
                refused += 1;
                continue;
            }
        };
        let (found, exact) = (secret.decrypt(&result).unwrap(), evaluate(&graph, &inputs));
        let error = (&found.index_axis(Along(0), 0) - &exact).iter().fold(0.0f64, |worst, x| worst.max(x.abs()));
        assert!(error <= result.error(), "{round}: {error:e}, bound {:e}", result.error());
        assert!(result.error() < result.largest());
        assert!(exact.iter().all(|value| value.abs() <= result.largest() * (1.0 + 1e-9)), "{round}");
        right += 1;
    }
    assert!(right >= 30 && refused >= 5, "{right} right, {refused} refused");
}

/// Weights of one absolute value have nearly no rounding error if their signs are dropped, as the bound does.
#[test]
fn the_bound_holds_for_weights_that_differ_in_sign_only() {
    const WIDTH: usize = 16;
    const LARGEST: f64 = 1e6;
    let (mut numbers, secret) = (Numbers(5), Secret::generate().unwrap());
    let mut sign = || if numbers.below(2) == 0 { -1.0 } else { 1.0 };
    let mut graph = Graph::new();
    graph.input("a", (WIDTH, 1)).unwrap();
    let weights = Array2::from_shape_simple_fn((WIDTH, WIDTH), || 0.001 * sign());
    graph.push(Operation::TimesLeft(weights.clone()), &[0]).unwrap();
    let program = planned(graph, PRESETS[0], LARGEST).unwrap();
    let input = Array2::from_shape_simple_fn((WIDTH, 1), || LARGEST * sign());
    let result = computed(&program, &secret, &[("a".into(), input.clone().insert_axis(Along(0)))]).unwrap();
    let found = secret.decrypt(&result).unwrap();
    let error =
        (&found.index_axis(Along(0), 0) - &weights.dot(&input)).iter().fold(0.0f64, |worst, x| worst.max(x.abs()));
    assert!(error <= result.error(), "{error:e}, bound {:e}", result.error());
    // The bound is of the size of the rounding: noise of the encryption is far smaller here.
    assert!(result.error() < 100.0 * error, "{error:e}, bound {:e}", result.error());
}

#[test]
fn large_products_get_the_level_they_need() {
    let secret = Secret::generate().unwrap();
    let product = || {
        let mut graph = Graph::new();
        let (a, b) = (graph.input("a", (2, 2)).unwrap(), graph.input("b", (2, 2)).unwrap());
        graph.push(Operation::Multiply, &[a, b]).unwrap();
        graph
    };
    let small = planned(product(), PRESETS[0], 1.0).unwrap();
    let large = planned(product(), PRESETS[0], 1e8).unwrap();
    assert!(large.output_level() > small.output_level());
    let values = |size: f64| ["a", "b"].map(|name| (name.to_owned(), Array3::from_elem((1, 2, 2), size)));
    let result = computed(&large, &secret, &values(1e8)).unwrap();
    let found = secret.decrypt(&result).unwrap();
    assert!(found.iter().all(|value| (value - 1e16).abs() <= result.error()) && result.error() < 1e6, "{found}");

    // Entries that were not declared are refused with their index and without their value.
    let mut beyond = values(1.0);
    beyond[1].1[[0, 1, 0]] = 123_456.0;
    let error = secret.encrypt(small.signature(), &beyond).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("'b' with an entry beyond 1e0 at index [1, 0]") && !error.contains("123456"), "{error}");
    beyond[1].1[[0, 1, 0]] = f64::NAN;
    assert!(secret.encrypt(small.signature(), &beyond).is_err());

    // What fits no level names the step; what is lost in noise names its size.
    let mut graph = product();
    for _ in 0..5 {
        let last = graph.nodes().len() - 1;
        graph.push(Operation::Multiply, &[last, last]).unwrap();
    }
    let error = planned(graph, PRESETS[0], 1e8).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("multiply of") && error.contains("values up to") && error.contains("largest="), "{error}");
    let error = planned(product(), PRESETS[0], 1e-9).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("entries up to 1.00e-18") && error.contains("below the error"), "{error}");
    for largest in [0.0, -1.0, f64::INFINITY, f64::NAN] {
        assert!(planned(product(), PRESETS[0], largest).is_err());
    }
}

#[test]
fn a_result_beyond_its_bound_is_not_decrypted() {
    let secret = Secret::generate().unwrap();
    let mut graph = Graph::new();
    let a = graph.input("a", (2, 2)).unwrap();
    graph.push(Operation::Scale(3.0), &[a]).unwrap();
    let triple = planned(graph, PRESETS[0], 2.0).unwrap();
    let inputs = [("a".to_owned(), Array3::from_elem((1, 2, 2), 2.0))];
    let result = computed(&triple, &secret, &inputs).unwrap();
    assert!((secret.decrypt(&result).unwrap() - 6.0).iter().all(|error| error.abs() <= result.error()));
    // Other bounds for the same ciphertexts: entries up to 5, and errors as large as the entries.
    let bytes = result.to_bytes();
    let changed = |from: f64, to: f64| {
        let position = bytes.windows(8).position(|window| window == from.to_le_bytes()).unwrap();
        let mut changed = bytes[..bytes.len() - 32].to_vec();
        changed[position..position + 8].copy_from_slice(&to.to_le_bytes());
        let checksum = blake3::hash(&changed);
        changed.extend(checksum.as_bytes());
        secret.decrypt(&EncryptedResult::from_bytes(&changed, true).unwrap()).unwrap_err().to_string()
    };
    let error = changed(result.largest(), 5.0);
    assert!(error.contains("beyond the bound of the result"), "{error}");
    let error = changed(result.error(), 9.0);
    assert!(error.contains("errors up to 9.0e0"), "{error}");
}
