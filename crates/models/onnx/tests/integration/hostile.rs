//! Damaged files, and files that ask for too much.

use prost::Message;
use unspoken_onnx::Network;

use crate::build::proto::TensorProto;
use crate::build::{INT64, assert_refused, integers, model, node, read, refusal, value, weights};
use crate::models::folder;

#[test]
fn every_truncation_of_a_model_is_refused_or_read() {
    for name in ["mlp-21", "logistic-zipmap", "normed-11"] {
        let bytes = std::fs::read(folder().join(format!("{name}.onnx"))).expect("a model");
        for end in 0..bytes.len() {
            // The last field is the operator sets, or a part that only describes.
            if let Ok(network) = Network::from_bytes(bytes[..end].to_vec()) {
                assert!(end > bytes.len() / 2 && !network.outputs().is_empty(), "{name}, {end} of {}", bytes.len());
            }
        }
    }
    let message = Network::from_bytes(vec![0xff; 100]).expect_err("a refusal").to_string();
    assert!(message.contains("damaged protobuf"), "{message}");
}

#[test]
fn weights_that_are_not_finite_are_refused_by_name() {
    for number in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let bad = weights("layer.weight", &[2, 2], &[1.0, 1.0, number, 1.0]);
        let nodes = [node("MatMul", &["x", "layer.weight"], &["y"])];
        assert_refused(&model(&[2], &nodes, &[bad]), &["tensor \"layer.weight\"", &number.to_string(), "number 2"]);
    }
    let double = TensorProto { data_type: 11, double_data: vec![1e300], dims: vec![1], ..weights("w", &[], &[]) };
    assert_refused(&model(&[1], &[node("Add", &["x", "w"], &["y"])], &[double]), &["tensor \"w\"", "inf"]);
    let nodes = [node("Div", &["x", "zero"], &["y"])];
    assert_refused(&model(&[2], &nodes, &[weights("zero", &[], &[0.0])]), &["the Div", "inf"]);
}

#[test]
fn sizes_are_checked_before_anything_is_allocated() {
    let sized = |dims: &[i64]| model(&[2], &[node("Add", &["x", "w"], &["y"])], &[weights("w", dims, &[1.0])]);
    assert_refused(&sized(&[1 << 40, 1 << 40]), &["tensor \"w\"", "at most 8 axes"]);
    assert_refused(&sized(&[i64::MAX, i64::MAX, 0]), &["tensor \"w\"", "at most 8 axes"]);
    assert_refused(&sized(&[1; 9]), &["at most 8 axes"]);
    assert_refused(&sized(&[-1]), &["negative"]);
    assert_refused(&sized(&[2]), &["1 elements", "[2]"]);
    assert_refused(&sized(&[1 << 29]), &["1 elements"]);
    let large = |shape: &[i64]| {
        let nodes = [node("ConstantOfShape", &["s"], &["a"]), node("Add", &["x", "a"], &["y"])];
        model(&[2], &nodes, &[integers("s", shape)])
    };
    assert!(read(&large(&[1, 2])).is_ok());
    assert_refused(&large(&[1 << 30, 1]), &["the ConstantOfShape"]);
    assert_refused(&large(&[1 << 62, 4]), &["the ConstantOfShape"]);
    assert_refused(&large(&[-2]), &["negative size"]);
    let mut wide = model(&[1 << 20, 1 << 20], &[node("Relu", &["x"], &["y"])], &[]);
    assert_refused(&wide, &["input \"x\"", "16777216 numbers"]);
    let graph = wide.graph.as_mut().expect("a graph");
    graph.input = vec![value("x", 1, &[0, 1 << 20])];
    graph.node = vec![node("Pad", &["x"], &["y"]).ints("pads", &[0, 0, 0, 1 << 24])];
    assert_refused(&wide, &["the Pad", "16777216 numbers"]);
}

#[test]
fn constants_from_constants_are_limited_together() {
    // Each constant is small enough; all together are not.
    let mut nodes: Vec<_> =
        (0..64).map(|place| node("ConstantOfShape", &["s"], &[format!("c{place}").as_str()])).collect();
    nodes.push(node("Relu", &["x"], &["y"]));
    assert_refused(&model(&[2], &nodes, &[integers("s", &[1 << 21])]), &["bytes of constants"]);
}

#[test]
fn names_are_unique_and_values_come_before_their_use() {
    let twice = [node("Relu", &["x"], &["y"]), node("Tanh", &["x"], &["y"])];
    assert_refused(&model(&[2], &twice, &[]), &["the Tanh", "second value", "\"y\""]);
    let cycle = [node("Add", &["x", "b"], &["a"]), node("Relu", &["a"], &["b"]), node("Tanh", &["b"], &["y"])];
    assert_refused(&model(&[2], &cycle, &[]), &["the Add", "\"b\"", "cycle"]);
    let own = [node("Add", &["x", "y"], &["y"])];
    assert_refused(&model(&[2], &own, &[]), &["the Add", "cycle"]);
    assert_refused(&model(&[2], &[node("Relu", &["z"], &["y"])], &[]), &["\"z\"", "nothing computes"]);
    assert_refused(&model(&[2], &[node("Relu", &["x"], &["x"])], &[]), &["second value"]);
    let mask = [node("Dropout", &["x"], &["a", "mask"]), node("Relu", &["mask"], &["y"])];
    assert_refused(&model(&[2], &mask, &[]), &["\"mask\"", "optional output"]);
    let same = [weights("w", &[], &[1.0]), weights("w", &[], &[2.0])];
    assert_refused(&model(&[2], &[node("Add", &["x", "w"], &["y"])], &same), &["tensor \"w\""]);
    let long = "n".repeat(2000);
    assert_refused(&model(&[2], &[node("Relu", &["x"], &[&long])], &[]), &["a name of 2000 bytes"]);
    assert!(refusal(&model(&[2], &[node("Relu", &["x"], &[&long])], &[])).len() < 700, "long names are shortened");
}

#[test]
fn tensors_have_their_numbers_once_and_in_the_right_field() {
    let add = |tensor: TensorProto| model(&[2], &[node("Add", &["x", "w"], &["y"])], &[tensor]);
    let good = weights("w", &[2], &[1.0, 2.0]);
    assert!(read(&add(good.clone())).is_ok());
    let raw = TensorProto { raw_data: Some(vec![0; 8].into()), float_data: vec![], ..good.clone() };
    assert!(read(&add(raw.clone())).is_ok());
    let both = TensorProto { float_data: vec![1.0, 2.0], ..raw.clone() };
    assert_refused(&add(both), &["more than one field"]);
    let short = TensorProto { raw_data: Some(vec![0; 7].into()), ..raw };
    assert_refused(&add(short), &["7 bytes", "8 bytes"]);
    let other = TensorProto { float_data: vec![], double_data: vec![1.0, 2.0], ..good.clone() };
    assert_refused(&add(other), &["field of another type"]);
    assert_refused(&add(TensorProto { data_type: 14, float_data: vec![], ..good.clone() }), &["COMPLEX64"]);
    assert_refused(&add(TensorProto { data_type: 77, ..good.clone() }), &["type of numbers 77"]);
    assert_refused(&add(TensorProto { segment: Some(Default::default()), ..good.clone() }), &["segments"]);
    let huge = TensorProto { data_type: 13, uint64_data: vec![u64::MAX; 2], float_data: vec![], ..good };
    assert_refused(&add(huge), &["2^63"]);
}

#[test]
fn typed_fields_of_all_numbers_are_read() {
    let tensor = |data_type, change: &dyn Fn(&mut TensorProto)| {
        let mut tensor = TensorProto { data_type, ..weights("w", &[1], &[]) };
        change(&mut tensor);
        let nodes = [node("Cast", &["w"], &["v"]).int("to", 1), node("Add", &["x", "v"], &["y"])];
        let network = read(&model(&[1], &nodes, &[tensor])).expect("a network");
        network.run(&[ndarray::ArrayD::zeros(ndarray::IxDyn(&[1, 1]))]).expect("a result")[0].sum()
    };
    assert_eq!(tensor(10, &|tensor| tensor.int32_data = vec![0x4200]), 3.0);
    assert_eq!(tensor(16, &|tensor| tensor.int32_data = vec![0x4040]), 3.0);
    assert_eq!(tensor(10, &|tensor| tensor.raw_data = Some(vec![0x00, 0x42].into())), 3.0);
    assert_eq!(tensor(16, &|tensor| tensor.raw_data = Some(vec![0x40, 0x40].into())), 3.0);
    assert_eq!(tensor(11, &|tensor| tensor.double_data = vec![3.0]), 3.0);
    assert_eq!(tensor(INT64, &|tensor| tensor.int64_data = vec![-3]), -3.0);
    assert_eq!(tensor(6, &|tensor| tensor.int32_data = vec![-3]), -3.0);
    assert_eq!(tensor(3, &|tensor| tensor.raw_data = Some(vec![0xfd].into())), -3.0);
    assert_eq!(tensor(2, &|tensor| tensor.raw_data = Some(vec![0xfd].into())), 253.0);
    assert_eq!(tensor(13, &|tensor| tensor.uint64_data = vec![3]), 3.0);
    assert_eq!(tensor(9, &|tensor| tensor.int32_data = vec![1]), 1.0);
}

#[test]
fn deep_nesting_does_not_exhaust_the_stack() {
    // A graph in an attribute of a graph, and so on; the field of graphs is not decoded.
    let mut nested = vec![0x0a, 0x00];
    for field in [0x32, 0x2a, 0x0a].into_iter().cycle().take(3000) {
        let mut outer = vec![field];
        prost::encoding::encode_varint(nested.len() as u64, &mut outer);
        outer.extend(&nested);
        nested = outer;
    }
    let mut bytes = model(&[2], &[node("Relu", &["x"], &["y"])], &[]).encode_to_vec();
    bytes.push(0x3a);
    prost::encoding::encode_varint(nested.len() as u64, &mut bytes);
    bytes.extend(&nested);
    assert!(Network::from_bytes(bytes).is_err());
}
