//! What is not supported is refused by name.

use crate::build::proto::attribute_proto::AttributeType;
use crate::build::proto::{FunctionProto, ModelProto, NodeProto, SparseTensorProto, TrainingInfoProto};
use crate::build::{FLOAT, INT64, assert_refused, attribute, classical, integers, model, node, read, value, weights};

/// Checks that a model of one node with a row of four is refused, with its name and these parts.
#[track_caller]
fn assert_node_refused(node: NodeProto, parts: &[&str]) {
    let op = node.op_type.clone();
    let tensors = [
        weights("w", &[4, 2], &[1.0; 8]),
        weights("v", &[4], &[1.0; 4]),
        integers("i", &[1]),
        integers("target", &[-1, 2]),
    ];
    let mut all = vec![op.as_str(), "output \"y\""];
    all.extend(parts);
    assert_refused(&model(&[4], &[node], &tensors), &all);
}

fn with_graph(change: impl FnOnce(&mut ModelProto)) -> ModelProto {
    let mut relu = model(&[4], &[node("Relu", &["x"], &["y"])], &[]);
    change(&mut relu);
    relu
}

#[test]
fn operators_that_are_not_supported_are_named_with_what_to_do() {
    assert_node_refused(classical("TreeEnsembleClassifier", &["x"], &["y"]), &["linear model or an MLP"]);
    assert_node_refused(classical("TreeEnsembleRegressor", &["x"], &["y"]), &["linear model or an MLP"]);
    assert_node_refused(node("LSTM", &["x", "w", "w"], &["y"]), &["convolutions"]);
    assert_node_refused(node("If", &["x"], &["y"]), &["without branches and loops"]);
    assert_node_refused(node("Loop", &["x"], &["y"]), &["without branches and loops"]);
    assert_node_refused(node("QuantizeLinear", &["x", "v"], &["y"]), &["before it is quantised"]);
    assert_node_refused(node("NonZero", &["x"], &["y"]), &["README"]);
    let custom = NodeProto { domain: "com.example".to_owned(), ..node("FusedMatMul", &["x", "w"], &["y"]) };
    assert_node_refused(custom, &["com.example", "standard operators"]);
    let overloaded = NodeProto { overload: "other".to_owned(), ..node("Relu", &["x"], &["y"]) };
    assert_node_refused(overloaded, &["overload"]);
}

#[test]
fn attributes_that_are_not_understood_are_named() {
    let relu = || node("Relu", &["x"], &["y"]);
    assert_node_refused(relu().int("surprise", 1), &["\"surprise\"", "understands"]);
    assert_node_refused(node("Elu", &["x"], &["y"]).int("alpha", 1), &["\"alpha\"", "INT", "FLOAT"]);
    assert_node_refused(node("Elu", &["x"], &["y"]).float("alpha", 1.0).float("alpha", 2.0), &["twice"]);
    assert_node_refused(node("Elu", &["x"], &["y"]).float("alpha", f32::NAN), &["NaN"]);
    assert_node_refused(node("Relu", &["x"], &["y"]).with(attribute("body", AttributeType::Graph)), &["\"body\""]);
    let mut reference = attribute("alpha", AttributeType::Float);
    reference.ref_attr_name = "a".to_owned();
    assert_node_refused(node("Elu", &["x"], &["y"]).with(reference), &["function"]);
    assert_node_refused(node("Gemm", &["x", "w"], &["y"]).int("transA", 1), &["transA"]);
    assert_node_refused(node("Gemm", &["x", "w"], &["y"]).int("transB", 2), &["transB"]);
    assert_node_refused(node("Relu", &["x", "x"], &["y"]), &["2 operands"]);
    assert_node_refused(node("Gemm", &["x", ""], &["y"]), &["operands"]);
}

#[test]
fn what_mixes_the_rows_of_a_batch_is_refused() {
    let mixes = "do not mix the rows of a batch";
    assert_node_refused(node("Transpose", &["x"], &["y"]).ints("perm", &[1, 0]), &[mixes]);
    assert_node_refused(node("Transpose", &["x"], &["y"]), &[mixes]);
    assert_node_refused(node("Flatten", &["x"], &["y"]).int("axis", 0), &[mixes]);
    assert_node_refused(node("ReduceMean", &["x"], &["y"]), &[mixes]);
    assert_node_refused(node("Concat", &["x", "x"], &["y"]).int("axis", 0), &[mixes]);
    assert_node_refused(node("Softmax", &["x"], &["y"]).int("axis", 0), &[mixes]);
    assert_node_refused(node("Gather", &["x", "i"], &["y"]), &[mixes]);
    assert_node_refused(node("Unsqueeze", &["x", "i"], &["y"]).ints("axes", &[0]), &["one of both"]);
    assert_node_refused(node("Unsqueeze", &["x"], &["y"]).ints("axes", &[0]), &[mixes]);
    assert_node_refused(node("Slice", &["x", "i", "i"], &["y"]), &[mixes]);
    assert_node_refused(node("Reshape", &["x", "target"], &["y"]), &["[-1, 2]", "number of rows in front"]);
    assert_node_refused(node("MatMul", &["w", "x"], &["y"]), &["operand 0"]);
    // A constant for each row of a fixed batch.
    let mut fixed = model(&[4], &[node("Add", &["x", "c"], &["y"])], &[weights("c", &[2, 4], &[0.0; 8])]);
    if let Some(graph) = &mut fixed.graph {
        graph.input = vec![value("x", FLOAT, &[2, 4])];
    }
    assert_refused(&fixed, &["the Add", "[2, 4]", "batch axis"]);
}

#[test]
fn encrypted_layers_do_not_follow_what_clients_compute() {
    let after = |op: &str| {
        let nodes = [node(op, &["x"], &["a"]).int("axis", 1), node("MatMul", &["a", "w"], &["y"])];
        model(&[4], &nodes, &[weights("w", &[4, 2], &[1.0; 8])])
    };
    assert_refused(&after("Softmax"), &["the MatMul", "after \"Softmax\"", "at the end only"]);
    assert_refused(&after("LogSoftmax"), &["after \"LogSoftmax\""]);
    assert_refused(&after("ArgMax"), &["integers as operand 0"]);
    let nodes = [classical("Normalizer", &["x"], &["a"]).text("norm", "L2"), node("Gemm", &["a", "w"], &["y"])];
    assert_refused(&model(&[4], &nodes, &[weights("w", &[4, 2], &[1.0; 8])]), &["after \"Normalizer\""]);
}

#[test]
fn the_softmax_of_old_operator_sets_is_over_one_axis_only() {
    let softmax = |version, row: &[i64]| {
        let mut model = model(row, &[node("Softmax", &["x"], &["y"]).int("axis", 1)], &[]);
        model.opset_import[0].version = version;
        model
    };
    assert!(read(&softmax(13, &[2, 3])).is_ok() && read(&softmax(12, &[6])).is_ok());
    assert_refused(&softmax(12, &[2, 3]), &["the Softmax", "softmax over one axis", "opset_version=18"]);
}

#[test]
fn constants_and_data_are_not_exchanged() {
    assert_node_refused(node("MatMul", &["x", "x"], &["y"]), &["attention"]);
    assert_node_refused(node("Gemm", &["x", "w", "x"], &["y"]), &["constant bias"]);
    assert_node_refused(node("Pow", &["x", "x"], &["y"]), &["operand 1", "a constant"]);
    assert_node_refused(node("Conv", &["x", "w"], &["y"]), &["[channels, length]"]);
    assert_node_refused(node("Gather", &["w", "x"], &["y"]), &["indexes of an input"]);
    assert_node_refused(node("Pad", &["x"], &["y"]).text("mode", "reflect").ints("pads", &[0, 1, 0, 1]), &["reflect"]);
    assert_node_refused(node("Cast", &["x"], &["y"]).int("to", 8), &["STRING"]);
    assert_node_refused(node("Cast", &["x"], &["y"]).int("to", 14), &["COMPLEX64"]);
    assert_node_refused(node("Add", &["x", "i"], &["y"]), &["floating-point"]);
    assert_node_refused(node("Clip", &["x", "", "v"], &["y"]), &["one number"]);
}

#[test]
fn classical_models_outside_the_supported_ones_are_named() {
    let svm = |kernel: &str| {
        classical("SVMRegressor", &["x"], &["y"])
            .floats("coefficients", &[1.0])
            .floats("support_vectors", &[1.0; 4])
            .floats("rho", &[0.0])
            .floats("kernel_params", &[1.0, 0.0, 3.0])
            .int("n_supports", 1)
            .text("kernel_type", kernel)
    };
    assert!(read(&model(&[4], &[svm("POLY")], &[])).is_ok());
    assert_node_refused(svm("RBF"), &["RBF", "LINEAR and POLY"]);
    assert_node_refused(svm("POLY").int("one_class", 1), &["one_class"]);
    let regressor = |transform| {
        classical("LinearRegressor", &["x"], &["y"]).floats("coefficients", &[1.0; 4]).text("post_transform", transform)
    };
    assert!(read(&model(&[4], &[regressor("NONE")], &[])).is_ok());
    assert_node_refused(regressor("PROBIT"), &["PROBIT"]);
    assert_node_refused(classical("Normalizer", &["x"], &["y"]).text("norm", "MAX"), &["MAX", "L1 or L2"]);
    let one_row = classical("LinearClassifier", &["x"], &["y", "z"]).floats("coefficients", &[1.0; 4]);
    assert_node_refused(one_row.ints("classlabels_ints", &[0, 1]), &["4 coefficients", "each of 2"]);
    let probability = classical("SVMClassifier", &["x"], &["y", "z"]).floats("prob_a", &[1.0]);
    assert_node_refused(probability, &["probability=False"]);
}

#[test]
fn parts_beside_the_graph_are_refused() {
    let function = FunctionProto { name: "f".to_owned() };
    assert_refused(&with_graph(|model| model.functions.push(function)), &["1 functions", "\"f\"", "inline"]);
    assert_refused(&with_graph(|model| model.training_info.push(TrainingInfoProto {})), &["training"]);
    assert_refused(&with_graph(|model| model.ir_version = 2), &["IR version 2"]);
    assert_refused(&with_graph(|model| model.opset_import[0].version = 8), &["operator set 8", "9..=23"]);
    assert_refused(&with_graph(|model| model.opset_import[0].version = 99), &["operator set 99"]);
    assert_refused(&with_graph(|model| model.opset_import[1].version = 9), &["version 9 of ai.onnx.ml"]);
    assert_refused(&with_graph(|model| model.opset_import.clear()), &["no operator set"]);
    assert_refused(&with_graph(|model| model.graph = None), &["no graph"]);
    let graph = |change: fn(&mut crate::build::proto::GraphProto)| {
        with_graph(|model| change(model.graph.as_mut().expect("a graph")))
    };
    assert_refused(&graph(|graph| graph.sparse_initializer.push(SparseTensorProto::default())), &["sparse"]);
    assert_refused(&graph(|graph| graph.output.clear()), &["without outputs"]);
    assert_refused(&graph(|graph| graph.output.push(value("y", FLOAT, &[]))), &["output \"y\"", "twice"]);
    assert_refused(&graph(|graph| graph.output.push(value("z", FLOAT, &[]))), &["output \"z\"", "nothing computes"]);
    assert_refused(&graph(|graph| graph.input.clear()), &["no inputs"]);
}

#[test]
fn inputs_need_a_batch_axis_and_fixed_sizes() {
    let input = |kind, dims: &[i64]| {
        with_graph(|model| model.graph.as_mut().expect("a graph").input = vec![value("x", kind, dims)])
    };
    assert_refused(&input(FLOAT, &[]), &["input \"x\"", "batch axis"]);
    assert_refused(&input(FLOAT, &[2, 0]), &["input \"x\"", "\"rows\"", "only the batch axis dynamic"]);
    assert_refused(&input(FLOAT, &[0, -1]), &["input \"x\"", "-1"]);
    assert_refused(&input(8, &[0, 4]), &["input \"x\"", "STRING"]);
    assert_refused(&input(INT64, &[0, 4]), &["the Relu", "integers of an input"]);
    assert_refused(&input(99, &[0, 4]), &["type 99"]);
    let untyped = with_graph(|model| model.graph.as_mut().expect("a graph").input[0].r#type = None);
    assert_refused(&untyped, &["no tensor"]);
    let two = with_graph(|model| {
        let inputs = vec![value("x", FLOAT, &[2, 4]), value("z", FLOAT, &[3, 4])];
        model.graph.as_mut().expect("a graph").input = inputs;
    });
    assert_refused(&two, &["input \"z\"", "3 rows", "one of 2"]);
}
