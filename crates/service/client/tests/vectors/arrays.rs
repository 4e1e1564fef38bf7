//! `vectors/arrays.json`.

use std::collections::BTreeMap;

use ndarray::{Array2, Array3, ArrayView2, Axis};
use serde_json::{Map, Value, json};
use unspoken_encrypted_matrix::{Graph, Operation};
use unspoken_matrix::{Axes, MatrixClient, MatrixServer, NamedArrays, Options, Program, ProgramSource};
use unspoken_protocol::ClientHalf;

use crate::case::{Bytes, Case, Clear, Known, Plan, check, directory_of};

struct Arrays;

const PRESET: &str = "insecure_n11_real_depth17_scale30";
const PROGRAM: &str = "program";
const PRODUCT: &str = "a product of encrypted matrices";
const PERMUTATION: &str = "a permutation of entries";

fn weights() -> Array2<f64> {
    Array2::from_shape_fn((3, 2), |(i, j)| (7 * i + 3 * j) as f64 / 10.0 - 0.9)
}

const ORDER: [usize; 5] = [4, 0, 0, 2, 1];

fn options(batch: usize) -> Options {
    Options { preset: Some(PRESET.into()), batch, ..Options::default() }
}

/// `(a @ b) @ weights + 1`, `a` with a batch and `b` without.
fn product() -> Program {
    let mut graph = Graph::new();
    let (a, b) = (graph.input("a", (2, 3)).unwrap(), graph.input("b", (3, 3)).unwrap());
    let product = graph.push(Operation::MatMul, &[a, b]).unwrap();
    let weighted = graph.push(Operation::TimesRight(weights()), &[product]).unwrap();
    let ones = graph.push(Operation::Constant(Array2::ones((2, 2))), &[]).unwrap();
    graph.push(Operation::Add, &[weighted, ones]).unwrap();
    let (inputs, output) = (vec![Axes::BATCH, Axes::MATRIX], Axes::BATCH);
    Program::plan(ProgramSource { graph, inputs, output, options: options(2) }).unwrap()
}

/// Entries of a vector in another order, times 3.
fn permutation() -> Program {
    let mut graph = Graph::new();
    let x = graph.input("x", (1, 5)).unwrap();
    let ordered = graph.push(Operation::Columns(ORDER.into()), &[x]).unwrap();
    graph.push(Operation::Scale(3.0), &[ordered]).unwrap();
    let row = Axes { batch: false, rows: false, columns: true };
    let source = ProgramSource { graph, inputs: vec![row], output: row, options: options(1) };
    Program::plan(source).unwrap()
}

fn array(value: &Value) -> Array3<f64> {
    let nested: Vec<Vec<Vec<f64>>> = serde_json::from_value(value.clone()).unwrap();
    let shape = (nested.len(), nested[0].len(), nested[0][0].len());
    Array3::from_shape_vec(shape, nested.into_iter().flatten().flatten().collect()).unwrap()
}

fn nested(array: &Array3<f64>) -> Value {
    let rows = |matrix: ArrayView2<f64>| matrix.outer_iter().map(|row| row.to_vec()).collect::<Vec<_>>();
    json!(array.outer_iter().map(rows).collect::<Vec<_>>())
}

/// What the program of a case computes.
fn computed(name: &str, inputs: &NamedArrays) -> Array3<f64> {
    let input = |name: &str| &inputs.iter().find(|(found, _)| found == name).unwrap().1;
    match name {
        PRODUCT => {
            let (a, b) = (input("a"), input("b").index_axis(Axis(0), 0));
            let mut all = Array3::zeros((2, 2, 2));
            for (mut place, a) in all.outer_iter_mut().zip(a.outer_iter()) {
                place.assign(&(a.dot(&b).dot(&weights()) + 1.0));
            }
            all
        }
        PERMUTATION => input("x").select(Axis(2), &ORDER).mapv(|entry| 3.0 * entry),
        other => panic!("no program {other}"),
    }
}

impl Known for Arrays {
    const NAME: &'static str = "arrays";
    const ABOUT: &'static str = "Expressions of encrypted matrices: programs, their encrypted inputs, and results.";
    type Client = MatrixClient;
    type Server = MatrixServer;
    type Asked = NamedArrays;

    fn plans() -> Vec<Plan> {
        let plan = |name, program: Program, arrays: Value| Plan {
            name,
            server: json!({ "preset": PRESET }),
            options: Map::new(),
            model: BTreeMap::from([(PROGRAM.into(), Bytes(program.to_bytes()))]),
            questions: vec![json!({ "arrays": arrays })],
        };
        let a = json!([[[0.5, -1.0, 0.25], [0.0, 0.75, -0.5]], [[1.0, 0.125, -0.25], [-0.75, 0.5, 1.0]]]);
        let b = json!([[[0.1, -0.2, 0.3], [1.0, 0.0, -0.6], [-0.9, 0.8, 0.7]]]);
        vec![
            plan(PRODUCT, product(), json!({ "a": a, "b": b })),
            plan(PERMUTATION, permutation(), json!({ "x": [[[0.1, -0.2, 0.3, 1.0, -1.0]]] })),
        ]
    }

    fn server(case: &Case) -> MatrixServer {
        let server = MatrixServer::open(&directory_of(case).path().join(PROGRAM), None, true, None).unwrap();
        assert_eq!(server.program().signature().preset(), case.server["preset"].as_str().unwrap());
        server
    }

    fn model(_case: &Case) {}

    fn question(question: &Value) -> NamedArrays {
        let arrays = question["arrays"].as_object().unwrap();
        arrays.iter().map(|(name, values)| (name.clone(), array(values))).collect()
    }

    fn answer(result: Array3<f64>) -> Value {
        json!({ "array": nested(&result) })
    }

    fn clear(case: &Case, client: &MatrixClient) -> Option<Clear> {
        let answer = |question: &Value| Self::answer(computed(&case.name, &Self::question(question)));
        let error = client.description().error_bound();
        Some(Clear { answers: case.questions.iter().map(answer).collect(), error })
    }
}

#[test]
fn matrices_are_computed_as_in_the_vectors() {
    check::<Arrays>();
}
