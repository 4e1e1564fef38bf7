//! Evaluation beside values by hand.

use ndarray::{Array, ArrayD, IxDyn, array};
use unspoken_onnx::{Answer, Network};

use crate::build::proto::ModelProto;
use crate::build::{INT64, classical, model, node, read, value, weights};
use crate::models::folder;

fn run(network: &Network, input: ArrayD<f32>) -> ArrayD<f32> {
    network.run(&[input]).expect("a result").remove(0)
}

#[test]
fn a_convolution_is_the_sum_by_hand() {
    let nodes = [node("Conv", &["x", "w", "b"], &["y"]).ints("pads", &[0, 1]).ints("strides", &[2])];
    let tensors = [weights("w", &[1, 2, 2], &[1.0, 10.0, 100.0, 1000.0]), weights("b", &[1], &[0.5])];
    let network = read(&model(&[2, 3], &nodes, &tensors)).expect("a network");
    let found = run(&network, array![[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]].into_dyn());
    assert_eq!(found, array![[[1.0 + 20.0 + 400.0 + 5000.0 + 0.5, 3.0 + 600.0 + 0.5]]].into_dyn());
}

#[test]
fn padding_counts_only_if_asked_for() {
    for (count_include_pad, first) in [(0, 2.0), (1, 1.0)] {
        let pool = node("AveragePool", &["x"], &["y"]).ints("kernel_shape", &[2]).ints("pads", &[1, 0]);
        let nodes = [pool.int("count_include_pad", count_include_pad)];
        let network = read(&model(&[1, 2], &nodes, &[])).expect("a network");
        assert_eq!(run(&network, array![[[2.0, 4.0]]].into_dyn()), array![[[first, 3.0]]].into_dyn());
    }
}

#[test]
fn a_batch_normalisation_adds_epsilon_to_the_variance() {
    let operands = ["x", "scale", "shift", "mean", "variance"];
    let nodes = [node("BatchNormalization", &operands, &["y"]).float("epsilon", 0.25)];
    let numbers = [("scale", 3.0), ("shift", 1.0), ("mean", 2.0), ("variance", 2.0)];
    let tensors = numbers.map(|(name, number)| weights(name, &[1], &[number]));
    let network = read(&model(&[1, 2], &nodes, &tensors)).expect("a network");
    assert_eq!(run(&network, array![[[2.0, 3.5]]].into_dyn()), array![[[1.0, 4.0]]].into_dyn());
}

#[test]
fn each_node_is_shown_with_its_value() {
    let network = Network::load(&folder().join("mlp-11.onnx")).expect("a model");
    let mut shown = Vec::new();
    let input = Array::linspace(-1.0, 1.0, 12).into_shape_with_order(IxDyn(&[2, 6])).expect("a shape");
    let results = network
        .run_observed(&[input], |node, value| {
            assert_eq!(value.shape()[1..], node.shape);
            shown.push((node.output.clone(), value.clone()));
        })
        .expect("results");
    let outputs: Vec<&String> = network.nodes().iter().map(|node| &node.output).collect();
    assert_eq!(shown.iter().map(|(output, _)| output).collect::<Vec<_>>(), outputs);
    assert_eq!(shown.last().map(|(_, value)| value), results.first());
    assert!(shown[1].1.iter().all(|&number| number >= 0.0), "the second node is a ReLU");
}

#[test]
fn rows_of_a_batch_do_not_depend_on_each_other() {
    let network = Network::load(&folder().join("residual-17.onnx")).expect("a model");
    let batch =
        Array::from_shape_fn(IxDyn(&[3, 3, 6, 6]), |place| ((place[0] * 7 + place[3] * 3 + place[2]) % 5) as f32);
    let together = run(&network, batch.clone());
    for row in 0..3 {
        let alone = run(
            &network,
            batch
                .slice_each_axis(|axis| if axis.axis.index() == 0 { (row..row + 1).into() } else { (..).into() })
                .to_owned(),
        );
        assert_eq!(alone.index_axis(ndarray::Axis(0), 0), together.index_axis(ndarray::Axis(0), row));
    }
}

#[test]
fn inputs_that_do_not_fit_are_errors() {
    let network = Network::load(&folder().join("embedding-13.onnx")).expect("a model");
    let wrong = [
        (vec![], "0 inputs"),
        (vec![ArrayD::zeros(IxDyn(&[2, 4]))], "[2, 4]"),
        (vec![ArrayD::zeros(IxDyn(&[]))], "shape []"),
        (vec![ArrayD::from_elem(IxDyn(&[1, 5]), 0.5)], "0.5"),
        (vec![ArrayD::from_elem(IxDyn(&[1, 5]), f32::NAN)], "NaN"),
        (vec![ArrayD::from_elem(IxDyn(&[1, 5]), 10.0)], "index 10"),
        (vec![ArrayD::from_elem(IxDyn(&[1, 5]), -11.0)], "index -11"),
    ];
    for (inputs, part) in wrong {
        let message = network.run(&inputs).expect_err("an error").to_string();
        assert!(message.contains(part), "{message:?} has no {part:?}");
    }
    assert!(network.run(&[ArrayD::from_elem(IxDyn(&[1, 5]), -10.0)]).is_ok(), "the first row, counted from the end");
    assert!(network.outputs()[0].finish(&[]).is_err(), "no results");
    assert!(network.outputs()[0].finish(&[ArrayD::zeros(IxDyn(&[1, 2]))]).is_err(), "two classes of three");
}

#[test]
fn an_empty_batch_has_empty_results() {
    for name in ["lenet-18", "svc-poly-zipmap", "mlp-binary-zipmap", "normed-11"] {
        let network = Network::load(&folder().join(format!("{name}.onnx"))).expect("a model");
        let shape = [&[0], &network.inputs()[0].shape[..]].concat();
        let answers = network.answer(&[ArrayD::zeros(shape)]).expect("answers");
        assert_eq!(answers.len(), network.outputs().len(), "{name}");
    }
}

#[test]
fn equal_scores_give_the_first_class() {
    let nodes = [node("MatMul", &["x", "w"], &["a"]), node("ArgMax", &["a"], &["y"]).int("axis", 1).int("keepdims", 0)];
    let mut equal = model(&[1], &nodes, &[weights("w", &[1, 3], &[1.0, 1.0, 0.0])]);
    let answer =
        |model: &ModelProto| read(model).expect("a network").answer(&[array![[1.0]].into_dyn()]).expect("an answer");
    assert_eq!(answer(&equal), [Answer::Integers(array![0].into_dyn())]);
    if let Some(graph) = &mut equal.graph {
        graph.node[1] = graph.node[1].clone().int("select_last_index", 1);
    }
    assert_eq!(answer(&equal), [Answer::Integers(array![1].into_dyn())]);
}

#[test]
fn a_row_of_zeros_is_normalised_to_itself() {
    let nodes = [classical("Normalizer", &["x"], &["y"]).text("norm", "L2")];
    let network = read(&model(&[2], &nodes, &[])).expect("a network");
    let answers = network.answer(&[array![[0.0, 0.0], [3.0, 4.0]].into_dyn()]).expect("answers");
    assert_eq!(answers, [Answer::Numbers(array![[0.0, 0.0], [0.6, 0.8]].into_dyn())]);
}

#[test]
fn indexes_choose_rows_of_a_table() {
    let mut model =
        model(&[2], &[node("Gather", &["table", "x"], &["y"])], &[weights("table", &[3, 1], &[5.0, 6.0, 7.0])]);
    if let Some(graph) = &mut model.graph {
        graph.input = vec![value("x", INT64, &[0, 2])];
    }
    let network = read(&model).expect("a network");
    assert_eq!(run(&network, array![[2.0, -3.0]].into_dyn()), array![[[7.0], [5.0]]].into_dyn());
}
