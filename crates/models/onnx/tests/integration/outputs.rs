//! Outputs as bytes: the same answers, damaged bytes, and what is refused.

use fastrand::Rng;
use ndarray::{ArrayD, IxDyn};
use serde_json::{Value, json};
use unspoken_onnx::{Activation, Answer, Finish, Network, Operation, Outputs};

use crate::build::{model, node, read, weights};
use crate::models::{expected, folder, inputs_of};

/// Numbers that results may hold.
const NUMBERS: [f32; 8] = [0.5, -3.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, f32::MAX, -1e-40];
/// Rows of a batch of results.
const ROWS: usize = 2;

fn load(name: &str) -> Network {
    Network::load(&folder().join(format!("{name}.onnx"))).expect("a model")
}

/// The outputs of all models, with their names.
fn all_outputs() -> Vec<(String, Outputs)> {
    expected().into_keys().map(|name| (name.clone(), Outputs::of(&load(&name)))).collect()
}

/// Reads bytes; if they are accepted, finishes with numbers of all kinds.
fn try_out(bytes: &[u8], shapes: &[Vec<usize>]) -> bool {
    let Ok(outputs) = Outputs::from_bytes(bytes, shapes) else { return false };
    for rows in [0, ROWS] {
        let mut numbers = NUMBERS.into_iter().cycle();
        let mut result = |row: &Vec<usize>| {
            ArrayD::from_shape_simple_fn([&[rows], &row[..]].concat(), || numbers.next().unwrap_or_default())
        };
        let results: Vec<ArrayD<f32>> = shapes.iter().map(&mut result).collect();
        if let Ok(answers) = outputs.finish(&results) {
            assert_eq!(answers.len(), outputs.as_slice().len());
        }
    }
    true
}

#[test]
fn outputs_from_bytes_give_the_same_answers() {
    for (name, expected) in &expected() {
        let network = load(name);
        let outputs = Outputs::of(&network);
        let bytes = outputs.to_bytes();
        let again = Outputs::from_bytes(&bytes, outputs.result_shapes()).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(again.to_bytes(), bytes, "{name}");
        let results = network.run(&inputs_of(expected)).expect("results");
        let answers = network.answer(&inputs_of(expected)).expect("answers");
        assert_eq!(outputs.finish(&results).expect("answers"), answers, "{name}");
        assert_eq!(again.finish(&results).expect("answers"), answers, "{name}");
        assert!(try_out(&bytes, outputs.result_shapes()), "{name}");
    }
}

#[test]
fn numbers_are_exact_and_limits_may_be_infinite() {
    let numbers = [0.1, f32::MAX, f32::MIN_POSITIVE, 1e-45, -0.0, 16_777_217.0, 1.0 / 3.0];
    let nodes = [
        node("MatMul", &["x", "w"], &["a"]),
        node("Softmax", &["a"], &["b"]),
        node("Add", &["b", "c"], &["d"]),
        node("Clip", &["d", "", "high"], &["e"]),
        node("Clip", &["e", "low"], &["y"]),
    ];
    let limits = [weights("high", &[], &[0.3]), weights("low", &[], &[-0.3])];
    let tensors = [&[weights("w", &[1, 7], &[1.0; 7]), weights("c", &[7], &numbers)], &limits[..]].concat();
    let outputs = Outputs::of(&read(&model(&[1], &nodes, &tensors)).expect("a network"));
    let again = Outputs::from_bytes(&outputs.to_bytes(), outputs.result_shapes()).expect("outputs");
    let mut found = Vec::new();
    for step in &again.as_slice()[0].steps {
        let Finish::Compute(operation) = &step.finish else { continue };
        match &**operation {
            Operation::Affine { shift, .. } => found.extend(shift.iter().copied()),
            Operation::Activation(Activation::Clip { low, high }) => found.extend([*low, *high]),
            other => panic!("{other:?}"),
        }
    }
    let needed = [&numbers[..], &[f32::NEG_INFINITY, 0.3, -0.3, f32::INFINITY]].concat();
    let bits = |numbers: &[f32]| numbers.iter().map(|number| number.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&found), bits(&needed), "{found:?}");
}

#[test]
fn bytes_damaged_at_any_place_do_no_harm() {
    let mut accepted = 0;
    for (_, outputs) in all_outputs() {
        let (bytes, shapes) = (outputs.to_bytes(), outputs.result_shapes());
        for place in 0..bytes.len() {
            assert!(!try_out(&bytes[..place], shapes), "a part of JSON");
            let mut shorter = bytes.clone();
            shorter.remove(place);
            accepted += usize::from(try_out(&shorter, shapes));
            for byte in [bytes[place] ^ 1, bytes[place] ^ 0x80, b'0', b'9', b'-', b']'] {
                let mut damaged = bytes.clone();
                damaged[place] = byte;
                accepted += usize::from(try_out(&damaged, shapes));
            }
        }
    }
    assert!(accepted > 1000, "{accepted} changes of labels and numbers");
}

/// Calls with each value of a JSON document.
fn each(value: &mut Value, call: &mut impl FnMut(&mut Value)) {
    call(value);
    match value {
        Value::Array(list) => list.iter_mut().for_each(|value| each(value, call)),
        Value::Object(map) => map.values_mut().for_each(|value| each(value, call)),
        _ => {}
    }
}

#[test]
fn parts_of_other_outputs_do_no_harm() {
    let seeds: Vec<(Value, Vec<Vec<usize>>)> = all_outputs()
        .into_iter()
        .map(|(_, outputs)| {
            (serde_json::from_slice(&outputs.to_bytes()).expect("JSON"), outputs.result_shapes().to_vec())
        })
        .collect();
    let mut parts =
        vec![json!(0), json!(1), json!(2), json!(8), json!(-1), json!(1 << 20), json!(u64::MAX), json!(1e39)];
    parts.extend([
        json!(null),
        json!([]),
        json!([0, 0]),
        json!([1, 1, 1, 1, 1, 1, 1, 1, 1]),
        json!("Not"),
        json!({"Votes": {"classes": 2}}),
    ]);
    for (seed, _) in &seeds {
        each(&mut seed.clone(), &mut |part| parts.push(part.clone()));
    }
    let (mut rng, mut accepted) = (Rng::with_seed(7), 0);
    for _ in 0..20_000 {
        let (mut document, shapes) = seeds[rng.usize(..seeds.len())].clone();
        for _ in 0..rng.usize(1..=3) {
            let mut values = 0;
            each(&mut document, &mut |_| values += 1);
            let mut left = rng.usize(..values);
            let part = &parts[rng.usize(..parts.len())];
            each(&mut document, &mut |value| {
                if left == 0 {
                    *value = part.clone();
                }
                left = left.wrapping_sub(1);
            });
        }
        accepted += usize::from(try_out(document.to_string().as_bytes(), &shapes));
    }
    assert!(accepted > 100, "{accepted} documents");
}

/// The message with which outputs are refused, for a result with rows of shape `[2, 3]`.
fn refusal(outputs: &Value) -> String {
    refusal_of(outputs.to_string().as_bytes(), &[vec![2, 3]])
}

fn refusal_of(bytes: &[u8], shapes: &[Vec<usize>]) -> String {
    let message = Outputs::from_bytes(bytes, shapes).expect_err("a refusal").to_string();
    assert!(message.len() < 500 && message.starts_with("read the outputs of a network: "), "{message}");
    message
}

#[track_caller]
fn assert_refused(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "{message:?} has no {part:?}");
    }
}

/// An output `y` of these steps, the last of which has this shape.
fn output(steps: &[Value], shape: &[usize]) -> Value {
    let source = steps.len().checked_sub(1).map_or(json!({"Result": 0}), |last| json!({"Step": last}));
    json!({"name": "y", "source": source, "steps": steps, "shape": shape})
}

/// A step that computes from the result.
fn step(finish: Value, shape: &[usize]) -> Value {
    json!({"finish": finish, "inputs": [{"Result": 0}], "shape": shape})
}

/// A step that computes from these values.
fn step_of(finish: Value, inputs: Value, shape: &[usize]) -> Value {
    json!({"finish": finish, "inputs": inputs, "shape": shape})
}

#[track_caller]
fn assert_step_refused(finish: Value, shape: &[usize], parts: &[&str]) {
    let message = refusal(&json!([output(&[step(finish, shape)], shape)]));
    assert_refused(&message, &["output \"y\", step 0"]);
    assert_refused(&message, parts);
}

#[test]
fn each_limit_is_kept() {
    let bytes = [b"[".repeat(1 << 20), b"]".to_vec()].concat();
    assert_refused(&refusal_of(&bytes, &[]), &["1048577 bytes", "at most 1048576"]);
    assert_refused(&refusal_of(&bytes[1..], &[]), &["the bytes", "sequence"]);
    assert_refused(&refusal(&json!([])), &["0 outputs", "1 to 64"]);
    let named = |name: String, steps: usize| {
        let steps = vec![step(json!("Not"), &[2, 3]); steps];
        json!({"name": name, "source": {"Result": 0}, "steps": steps, "shape": [2, 3]})
    };
    let many = |count: usize, steps: usize| (0..count).map(|place| named(place.to_string(), steps)).collect::<Value>();
    assert!(try_out(many(64, 16).to_string().as_bytes(), &[vec![2, 3]]));
    assert_refused(&refusal(&many(65, 0)), &["65 outputs"]);
    assert_refused(&refusal(&many(41, 25)), &["1025 steps", "at most 1024"]);
    assert_refused(&refusal(&json!([named("n".repeat(1025), 0)])), &["a name of 1025 bytes", "at most 1024"]);
    assert_refused(&refusal(&json!([named("n".into(), 0), named("n".into(), 0)])), &["two outputs \"n\""]);
    let places = [step(json!({"ArgMax": {"axis": 1, "keep": false, "last": false}}), &[2])];
    let label = |labels: Value| {
        let label = step_of(json!({"Label": labels}), json!([{"Step": 0}]), &[2]);
        json!([output(&[&places[..], &[label]].concat(), &[2])])
    };
    assert_refused(&refusal(&label(json!({"Texts": ["l".repeat(1025)]}))), &["step 1", "a label of 1025 bytes"]);
    assert_refused(&refusal(&label(json!({"Integers": []}))), &["step 1", "0 labels"]);
    assert!(try_out(label(json!({"Texts": ["a", "l".repeat(1024)]})).to_string().as_bytes(), &[vec![2, 3]]));
}

#[test]
fn sizes_are_limited() {
    let reshape = || json!({"Compute": "Reshape"});
    assert_step_refused(reshape(), &[1, 1, 1, 1, 1, 1, 1, 2, 3], &["at most 8 axes"]);
    assert_step_refused(reshape(), &[usize::MAX, usize::MAX], &["1048576 numbers"]);
    assert_step_refused(reshape(), &[0, 6], &["the shape [0, 6]"]);
    for (shape, part) in [(vec![(1 << 20) + 1], "1048576 numbers"), (vec![1; 9], "8 axes"), (vec![0], "one element")] {
        let output = json!([output(&[], &shape)]);
        assert_refused(&refusal_of(output.to_string().as_bytes(), &[shape]), &["result 0", part]);
    }
    let affine = |scale: Value| json!({"Compute": {"Affine": {"scale": scale, "shift": tensor(&[1, 1])}}});
    assert_step_refused(affine(tensor(&[1; 9])), &[2, 3], &["at most 8 axes"]);
    assert_step_refused(affine(json!({"v": 1, "dim": [1, 0], "data": []})), &[2, 3], &["the shape [1, 0]"]);
    let mut dishonest = tensor(&[1, 1]);
    dishonest["dim"] = json!([1 << 30, 1 << 30]);
    let output_of = |finish: Value| json!([output(&[step(finish, &[2, 3])], &[2, 3])]);
    assert_refused(&refusal(&output_of(affine(dishonest))), &["the bytes", "dimension must match"]);
    let large = [vec![1 << 20]];
    let tanh = |count| vec![step(json!({"Compute": {"Activation": "Tanh"}}), &large[0]); count];
    let outputs = |count| json!([output(&tanh(count), &large[0])]).to_string();
    assert!(
        Outputs::from_bytes(outputs(7).as_bytes(), &large).is_ok(),
        "a result and an output, and two for each step"
    );
    assert_refused(&refusal_of(outputs(8).as_bytes(), &large), &["too many numbers", "16777216"]);
    // A long label of each of many integers.
    let integer = step(json!("Integer"), &[1 << 15]);
    let label = step_of(json!({"Label": {"Texts": ["l".repeat(1024)]}}), json!([{"Step": 0}]), &[1 << 15]);
    let json = json!([output(&[integer, label], &[1 << 15])]).to_string();
    assert_refused(&refusal_of(json.as_bytes(), &[vec![1 << 15]]), &["\"y\":", "too many numbers"]);
}

/// A constant of ones.
fn tensor(shape: &[usize]) -> Value {
    json!({"v": 1, "dim": shape, "data": vec![1.0; shape.iter().product()]})
}

#[test]
fn layers_are_refused_by_name() {
    for layer in ["Linear", "Conv", "AveragePool", "MaxPool", "Transpose", "Pad", "LayerNorm", "Embedding", "Surprise"]
    {
        let output = output(&[step(json!({"Compute": {layer: {}}}), &[2, 3])], &[2, 3]);
        assert_refused(&refusal(&json!([output])), &["the bytes", &format!("unknown variant `{layer}`")]);
    }
    let mut field = output(&[], &[2, 3]);
    field["surprise"] = json!(1);
    assert_refused(&refusal(&json!([field])), &["unknown field `surprise`"]);
}

#[test]
fn operands_are_earlier_values_of_the_right_kind() {
    let of = |finish: Value, inputs: Value| {
        refusal(&json!([output(&[step(json!("Integer"), &[2, 3]), step_of(finish, inputs, &[2, 3])], &[2, 3])]))
    };
    assert_refused(&of(json!("Not"), json!([{"Step": 1}])), &["step 1", "the value of step 1", "one of the 1 before"]);
    assert_refused(&of(json!("Not"), json!([{"Result": 1}])), &["result 1"]);
    assert_refused(&of(json!("Not"), json!([])), &["0 operands"]);
    assert_refused(&of(json!("Where"), json!([{"Result": 0}])), &["1 operands", "needed 3"]);
    assert_refused(&of(json!({"Compute": "Add"}), json!([{"Result": 0}])), &["1 operands", "needed 2"]);
    assert_refused(&of(json!("Not"), json!([{"Step": 0}])), &["found integers, needed numbers"]);
    assert_refused(&of(json!("Number"), json!([{"Result": 0}])), &["found numbers, needed integers"]);
    let scores = json!({"Scores": {"Integers": [1, 2, 3, 4, 5, 6]}});
    let flat = [step(json!({"Compute": "Reshape"}), &[6]), step_of(scores, json!([{"Step": 0}]), &[6])];
    let again = step_of(json!({"Compute": "Reshape"}), json!([{"Step": 1}]), &[2, 3]);
    assert_refused(&refusal(&json!([output(&[&flat[..], &[again]].concat(), &[2, 3])])), &["numbers with labels"]);
    assert_refused(&refusal(&json!([output(&flat, &[2, 3])])), &["output \"y\":", "[2, 3]", "[6]"]);
    let mut later = output(&flat, &[6]);
    later["source"] = json!({"Step": 2});
    assert_refused(&refusal(&json!([later])), &["the value of step 2"]);
}

#[test]
fn shapes_axes_and_constants_fit() {
    assert_step_refused(json!("Not"), &[3, 2], &["the shape [3, 2]", "needed [2, 3]"]);
    assert_step_refused(json!({"Softmax": {"axis": 2}}), &[2, 3], &["axis 2", "[2, 3]"]);
    assert_step_refused(json!({"LogSoftmax": {"axis": usize::MAX}}), &[2, 3], &["axis 18446744073709551615"]);
    let arg_max = |axis: usize, keep| json!({"ArgMax": {"axis": axis, "keep": keep, "last": true}});
    assert_step_refused(arg_max(2, true), &[2, 1], &["axis 2"]);
    assert_step_refused(arg_max(1, false), &[2, 1], &["[2, 1]", "needed [2]"]);
    assert_step_refused(json!({"Votes": {"classes": 4}}), &[], &["each pair of 4 classes"]);
    assert_step_refused(json!({"Votes": {"classes": u64::MAX}}), &[], &["each pair"]);
    assert_step_refused(json!({"Scores": {"Integers": [1, 2]}}), &[2, 3], &["2 labels for rows of shape [2, 3]"]);
    let compute = |operation: Value| json!({"Compute": operation});
    assert_step_refused(compute(json!("Reshape")), &[7], &["[[2, 3]]"]);
    assert_step_refused(compute(json!({"Concat": {"axis": 2}})), &[2, 3], &["along axis 2"]);
    assert_step_refused(compute(json!({"Select": {"axis": 1, "places": [3]}})), &[2, 1], &["axis 1", "[2, 3]"]);
    assert_step_refused(compute(json!({"Select": {"axis": 2, "places": [0]}})), &[2, 3], &["axis 2"]);
    assert_step_refused(compute(json!({"Select": {"axis": 1, "places": []}})), &[2, 1], &["0 places"]);
    for axes in [json!([]), json!([1, 0]), json!([1, 1]), json!([2])] {
        let reduce = json!({"Reduce": {"mean": true, "axes": axes, "keep": true}});
        assert_step_refused(compute(reduce), &[2, 1], &["axes"]);
    }
    let slopes = |slope: Value| compute(json!({"Activation": {"PRelu": {"slope": slope}}}));
    assert_step_refused(slopes(tensor(&[2, 4])), &[2, 3], &["[2, 4]"]);
    assert_step_refused(slopes(tensor(&[3])), &[2, 3], &["[3]"]);
    let affine = json!({"Affine": {"scale": tensor(&[1, 1]), "shift": tensor(&[4, 1])}});
    assert_step_refused(compute(affine), &[2, 3], &["[4, 1]"]);
    let clip = json!({"Activation": {"Clip": {"low": 1.0, "high": 0.0}}});
    assert_step_refused(compute(clip), &[2, 3], &["limits 1 and 0"]);
    for number in ["1e39", "-1e39", "NaN"] {
        let power = step(json!({"Compute": {"Activation": {"Power": {"exponent": "E"}}}}), &[2, 3]);
        let json = json!([output(&[power], &[2, 3])]).to_string().replace("\"E\"", number);
        assert_refused(&refusal_of(json.as_bytes(), &[vec![2, 3]]), &["the bytes", "line 1"]);
    }
}

#[test]
fn results_of_another_network_are_an_error() {
    let outputs = Outputs::of(&load("mlp-zipmap"));
    let zeros = |shape: &[usize]| ArrayD::zeros(IxDyn(shape));
    for results in [vec![], vec![zeros(&[])], vec![zeros(&[2, 4])], vec![zeros(&[2, 3]), zeros(&[2, 3])]] {
        let message = outputs.finish(&results).expect_err("an error").to_string();
        assert!(message.contains("results of shapes") && message.contains("[[3]]"), "{message}");
    }
    let several = Outputs::of(&load("one-versus-rest"));
    let mut results: Vec<ArrayD<f32>> =
        several.result_shapes().iter().map(|row| ArrayD::zeros([&[ROWS], &row[..]].concat())).collect();
    assert!(several.finish(&results).is_ok());
    results[0] = ArrayD::zeros([&[ROWS + 1], &several.result_shapes()[0][..]].concat());
    assert!(several.finish(&results).expect_err("an error").to_string().contains("as many rows each"));
    // A class beyond the labels is an error when it occurs.
    let label = step_of(json!({"Label": {"Integers": [5]}}), json!([{"Step": 0}]), &[2, 3]);
    let json = json!([output(&[step(json!("Integer"), &[2, 3]), label], &[2, 3])]).to_string();
    let outputs = Outputs::from_bytes(json.as_bytes(), &[vec![2, 3]]).expect("outputs");
    let answers = outputs.finish(&[zeros(&[1, 2, 3])]).expect("answers");
    assert_eq!(answers, [Answer::Integers(ArrayD::from_elem(IxDyn(&[1, 2, 3]), 5))]);
    let ones = ArrayD::from_elem(IxDyn(&[1, 2, 3]), 1.0);
    assert!(outputs.finish(&[ones]).expect_err("an error").to_string().contains("without a label"));
}
