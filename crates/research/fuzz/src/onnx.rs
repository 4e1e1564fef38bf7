//! Targets for ONNX models with their external data, and for the outputs that a client gets.

use ndarray::{ArrayD, IxDyn};
use unspoken_onnx::{InputKind, Network, Node, Operation, Outputs};

use crate::Target;
use crate::files::{self, Directory};

/// The model, and the file of external data that the seed with one names.
const FILES: [&str; 2] = ["model.onnx", "external-18.data"];

/// Rows of the batch that an accepted network computes.
const ROWS: usize = 2;
/// Networks with more products than this are not run.
const MAX_WORK: usize = 1 << 20;

/// `Network::load`: values come before their use; a small network computes results of the announced shapes, and the
/// client's steps of its outputs end.
pub static MODEL: Target = Target {
    name: "onnx_model",
    run: |data| {
        let directory = Directory::of(data, &FILES);
        let Ok(network) = Network::load(&directory.path().join(FILES[0])) else { return false };
        let inputs = network.inputs().len();
        for (place, node) in network.nodes().iter().enumerate() {
            assert!(node.inputs.iter().all(|value| value.index() < inputs + place), "a value before it is computed");
        }
        let sizes = network.inputs().iter().map(|input| input.shape.iter().product::<usize>());
        if sizes.chain(network.nodes().iter().map(work)).sum::<usize>() <= MAX_WORK {
            check_run(&network);
        }
        true
    },
    // Lengths inside protobuf are left as they are.
    repair: |data| *data = files::join(files::copied(data, FILES.len()).iter().map(Vec::as_slice)),
    seeds: || {
        let seed = |(model, external): &(&[u8], &[u8])| files::join([*model, *external].into_iter());
        SEEDS.iter().map(seed).collect()
    },
};

/// Numbers that results of a network may hold.
const NUMBERS: [f32; 8] = [0.5, -3.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, f32::MAX, -1e-40];

/// `Outputs::from_bytes`, after the shapes of the results as JSON: what is accepted is the same again, and finishes
/// with any numbers.
pub static OUTPUTS: Target = Target {
    name: "onnx_outputs",
    run: |data| {
        let parts = files::copied(data, 2);
        let Ok(shapes) = serde_json::from_slice::<Vec<Vec<usize>>>(&parts[0]) else { return false };
        let Ok(outputs) = Outputs::from_bytes(&parts[1], &shapes) else { return false };
        let bytes = outputs.to_bytes();
        // Numbers may have been written with more digits.
        assert!(Outputs::from_bytes(&bytes, &shapes).is_ok_and(|again| again.to_bytes() == bytes));
        let mut numbers = NUMBERS.into_iter().cycle();
        let mut number = || numbers.next().unwrap_or_default();
        let result = |row: &Vec<usize>| ArrayD::from_shape_simple_fn([&[ROWS], &row[..]].concat(), &mut number);
        let results: Vec<ArrayD<f32>> = shapes.iter().map(result).collect();
        // There may be fewer labels than classes.
        if let Ok(answers) = outputs.finish(&results) {
            assert_eq!(answers.len(), outputs.as_slice().len());
        }
        true
    },
    repair: |data| *data = files::join(files::copied(data, 2).iter().map(Vec::as_slice)),
    seeds: || {
        let seed = |(model, _): &(&[u8], &[u8])| {
            let outputs = Outputs::of(&Network::from_bytes(model.to_vec()).expect("a model without external data"));
            let shapes = serde_json::to_vec(outputs.result_shapes()).expect("numbers");
            files::join([&shapes[..], &outputs.to_bytes()].into_iter())
        };
        SEEDS[1..].iter().map(seed).collect()
    },
};

macro_rules! fixture {
    ($name:literal) => {
        include_bytes!(concat!("../../../models/onnx/tests/models/", $name))
    };
}

/// Models of the tests of the reader, with their external data: only the first has some.
const SEEDS: [(&[u8], &[u8]); 10] = [
    (fixture!("external-18.onnx"), fixture!("external-18.data")),
    (fixture!("normed-11.onnx"), &[]),
    (fixture!("residual-17.onnx"), &[]),
    (fixture!("activations-18.onnx"), &[]),
    (fixture!("rearranged-13.onnx"), &[]),
    (fixture!("embedding-13.onnx"), &[]),
    (fixture!("mlp-binary-zipmap.onnx"), &[]),
    (fixture!("one-versus-rest.onnx"), &[]),
    (fixture!("logistic-zipmap.onnx"), &[]),
    (fixture!("svc-poly-zipmap.onnx"), &[]),
];

/// Products of a node for one row.
fn work(node: &Node) -> usize {
    let of_each = match &node.operation {
        Operation::Linear(linear) => linear.weight.shape()[1],
        Operation::Conv(conv) => conv.weight.shape()[1..].iter().product(),
        Operation::AveragePool { window, .. } | Operation::MaxPool(window) => window.kernel.iter().product(),
        _ => 1,
    };
    node.shape.iter().product::<usize>().saturating_mul(of_each)
}

/// Runs a network; indexes are those of first rows.
fn check_run(network: &Network) {
    let batch = |input: &unspoken_onnx::Input| {
        let number = if input.kind == InputKind::Index { 0.0 } else { 0.5 };
        ArrayD::from_elem(IxDyn(&[&[ROWS], &input.shape[..]].concat()), number)
    };
    let inputs: Vec<_> = network.inputs().iter().map(batch).collect();
    let mut seen = 0;
    let results = network.run_observed(&inputs, |node, value| {
        assert_eq!(value.shape(), [&[ROWS], &node.shape[..]].concat());
        seen += 1;
    });
    let results = results.expect("an accepted network computes");
    assert_eq!((seen, results.len()), (network.nodes().len(), network.results().len()));
    for output in network.outputs() {
        // There may be fewer labels than classes.
        let _ = output.finish(&results);
    }
}
