//! The operations that models become.

use unspoken_onnx::{Activation, Finish, InputKind, Labels, Network, Operation, Output};

use crate::build::{integers, model, node, read, weights};
use crate::models::folder;

fn load(name: &str) -> Network {
    Network::load(&folder().join(format!("{name}.onnx"))).expect("a model")
}

/// The names of the operations.
fn operations(network: &Network) -> Vec<String> {
    network.nodes().iter().map(|node| name_of(&node.operation)).collect()
}

fn name_of(operation: &Operation) -> String {
    let text = format!("{operation:?}");
    let text = text.strip_prefix("Activation(").unwrap_or(&text);
    text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned()
}

/// The names of the client's steps.
fn steps(output: &Output) -> Vec<String> {
    let name = |finish: &Finish| match finish {
        Finish::Compute(operation) => name_of(operation),
        other => format!("{other:?}").split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned(),
    };
    output.steps.iter().map(|step| name(&step.finish)).collect()
}

#[test]
fn compositions_of_exporters_become_one_operation() {
    let normed = ["Linear", "LayerNorm", "Gelu", "Linear", "GeluTanh", "LayerNorm", "Linear"];
    for name in ["normed-11", "normed-17", "normed-21"] {
        assert_eq!(operations(&load(name)), normed, "{name}");
    }
    for name in ["activations-11", "activations-18"] {
        let found = operations(&load(name));
        for activation in ["Silu", "Mish", "Softplus", "HardSigmoid", "Elu", "PRelu", "Erf"] {
            assert_eq!(found.iter().filter(|found| *found == activation).count(), 1, "{name}: {found:?}");
        }
        assert!(!found.contains(&"Sigmoid".to_owned()), "{found:?}");
    }
    let found = operations(&load("depthwise-13"));
    assert_eq!(found, ["Conv", "HardSwish", "Conv", "Reduce", "Reshape", "Linear"]);
}

#[test]
fn normalisations_and_scalers_go_into_their_neighbours() {
    let residual = ["Conv", "Relu", "Conv", "LeakyRelu", "Conv", "Add", "Reduce", "Linear"];
    assert_eq!(operations(&load("residual-17")), residual);
    assert_eq!(operations(&load("residual-18")), residual);
    assert_eq!(operations(&load("norm-first-13")), ["Conv", "Reshape", "Linear"]);
    // Padding comes after the summand.
    assert_eq!(operations(&load("norm-padded-13")), ["Affine", "Conv", "Reshape", "Linear"]);
    for name in ["logistic-zipmap", "linear-regression", "svc-linear"] {
        assert_eq!(operations(&load(name)), ["Linear"], "{name}");
    }
    assert_eq!(operations(&load("svc-poly-binary")), ["Linear", "Power", "Linear"]);
}

#[test]
fn a_value_that_two_steps_need_is_not_folded_away() {
    let nodes = [
        node("MatMul", &["x", "w"], &["a"]),
        node("Mul", &["a", "two"], &["b"]),
        node("Relu", &["a"], &["c"]),
        node("Add", &["b", "c"], &["y"]),
    ];
    let tensors = [weights("w", &[2, 2], &[1.0, 2.0, 3.0, 4.0]), weights("two", &[], &[2.0])];
    let network = read(&model(&[2], &nodes, &tensors)).expect("a network");
    assert_eq!(operations(&network), ["Linear", "Affine", "Relu", "Add"]);
}

#[test]
fn probabilities_and_labels_are_left_to_the_client() {
    let mlp = load("mlp-zipmap");
    assert_eq!(operations(&mlp), ["Linear", "Relu", "Linear", "Relu", "Linear"]);
    let [label, scores] = mlp.outputs() else { panic!("two outputs") };
    assert_eq!(
        (label.name.as_str(), steps(label)),
        ("output_label", names(&["Softmax", "ArgMax", "Label", "Reshape"]))
    );
    assert_eq!((scores.name.as_str(), steps(scores)), ("output_probability", names(&["Softmax", "Scores"])));
    let classes = ["setosa", "versicolor", "virginica"].map(str::to_owned).to_vec();
    assert!(matches!(&scores.steps[1].finish, Finish::Scores(Labels::Texts(found)) if *found == classes));

    let binary = load("mlp-binary-arrays");
    assert_eq!(operations(&binary), ["Linear", "Sigmoid", "Linear", "Sigmoid", "Linear"]);
    assert_eq!(steps(&binary.outputs()[1]), names(&["Sigmoid", "Affine", "Concat"]));
    assert_eq!(steps(&load("binary-13").outputs()[0]), names(&["Sigmoid"]));
    assert_eq!(steps(&load("lenet-18").outputs()[0]), names(&["LogSoftmax"]));
    assert_eq!(steps(&load("logistic-zipmap").outputs()[1]), names(&["Softmax", "Normalize", "Scores"]));
    assert_eq!(steps(&load("svc-poly-binary").outputs()[0]), names(&["Votes", "Label"]));
    // All of what skl2onnx computes from votes of pairs.
    assert_eq!(operations(&load("svc-poly-zipmap")), ["Linear", "Power", "Linear"]);
    assert_eq!(load("one-versus-rest").results().len(), 3);
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

#[test]
fn a_sigmoid_inside_a_network_stays() {
    let gate = load("gate-17");
    assert!(operations(&gate).contains(&"Sigmoid".to_owned()));
    assert!(gate.outputs()[0].steps.is_empty());
    // Products with encrypted values are no probabilities.
    let nodes =
        [node("MatMul", &["x", "w"], &["a"]), node("Sigmoid", &["a"], &["b"]), node("Mul", &["x", "b"], &["y"])];
    let network = read(&model(&[2], &nodes, &[weights("w", &[2, 2], &[1.0; 4])])).expect("a network");
    assert_eq!(operations(&network), ["Linear", "Sigmoid", "Mul"]);
}

#[test]
fn inputs_have_names_shapes_and_kinds() {
    let network = load("embedding-18");
    let [input] = network.inputs() else { panic!("one input") };
    assert_eq!((input.name.as_str(), &input.shape[..], input.kind), ("input0", &[5][..], InputKind::Index));
    let shapes: Vec<Vec<usize>> = load("two-inputs-17").inputs().iter().map(|input| input.shape.clone()).collect();
    assert_eq!(shapes, [[3], [2]]);
    assert_eq!(load("input-per-column").inputs().len(), 4);
    let network = load("mlp-fixed-batch");
    assert_eq!(network.inputs()[0].shape, [6], "a fixed batch is a batch");
    let result = network.results()[0];
    assert_eq!(network.shape(result), Some(&[3][..]));
    assert_eq!(result.index(), network.nodes().len());
}

#[test]
fn values_that_no_output_needs_are_dropped() {
    let nodes = [node("Tanh", &["x"], &["unused"]), node("Relu", &["x"], &["y"])];
    assert_eq!(operations(&read(&model(&[2], &nodes, &[])).expect("a network")), ["Relu"]);
}

#[test]
fn shapes_that_exporters_compute_are_worked_out() {
    let nodes = [
        node("Shape", &["x"], &["shape"]),
        node("Gather", &["shape", "zero"], &["rows"]).int("axis", 0),
        node("Gather", &["shape", "two"], &["width"]),
        node("Mul", &["width", "two"], &["twice"]),
        node("Concat", &["rows", "minus", "twice"], &["target"]).int("axis", 0),
        node("Reshape", &["x", "target"], &["y"]),
    ];
    let tensors = [integers("zero", &[0]), integers("two", &[2]), integers("minus", &[-1])];
    let network = read(&model(&[4, 3], &nodes, &tensors)).expect("a network");
    assert_eq!(operations(&network), ["Reshape"]);
    assert_eq!(network.outputs()[0].shape, [2, 6]);
}

#[test]
fn the_rows_of_an_example_stand_for_the_batch() {
    let reshaped = |target: &[i64]| {
        let nodes = [node("Reshape", &["x", "target"], &["y"])];
        read(&model(&[4, 3], &nodes, &[integers("target", target)])).map(|network| network.outputs()[0].shape.clone())
    };
    for target in [&[1, 12][..], &[5, 12], &[0, -1], &[-1, 12]] {
        assert_eq!(reshaped(target).expect("a shape"), [12], "{target:?}");
    }
    // These mix rows, or would for another number of rows.
    for target in [&[1, -1][..], &[-1, 6], &[12, -1], &[2, 6], &[12]] {
        assert!(reshaped(target).is_err(), "{target:?}");
    }
}

#[test]
fn powers_have_names_where_there_are_some() {
    let powers = [0.5, -1.0, 1.0, 3.0].map(|exponent| {
        let nodes = [node("Pow", &["x", "e"], &["a"]), node("Relu", &["a"], &["y"])];
        let network = read(&model(&[2], &nodes, &[weights("e", &[], &[exponent])])).expect("a network");
        match network.nodes().first().map(|node| node.operation.clone()) {
            Some(Operation::Activation(Activation::Power { exponent })) => format!("Power {exponent}"),
            Some(operation) => name_of(&operation),
            None => String::new(),
        }
    });
    assert_eq!(powers, ["Sqrt", "Reciprocal", "Relu", "Power 3"]);
}
