//! Linear models, scalers and labels of `ai.onnx.ml`.

use ndarray::{ArcArray, IxDyn};

use super::call::{kind_name, mixes_rows};
use super::elementwise::affine;
use super::linear::linear;
use super::{Call, Data, Kind, Value};
use crate::activation::Activation;
use crate::error::Refusal;
use crate::finish::{Finish, Labels};
use crate::graph::{Operation, Tensor};
use crate::proto::tensor_proto::DataType;

/// `Scaler`: `(x - offset) * scale`.
pub(super) fn scaler(call: &mut Call) -> Result<Data, Refusal> {
    call.check_operands(1, 1)?;
    let data = call.number(0)?;
    let &[features] = &data.shape[..] else { return Err(no_features(&data)) };
    let option = |name: &str, default: f32| {
        let numbers = call.attributes.floats(name)?.unwrap_or_else(|| vec![default]);
        let numbers = if numbers.len() == 1 { vec![numbers[0]; features] } else { numbers };
        if numbers.len() == features { Ok(numbers) } else { Err(wrong_count(name, numbers.len(), features)) }
    };
    let (offset, scale) = (option("offset", 0.0)?, option("scale", 1.0)?);
    let shift = offset.iter().zip(&scale).map(|(offset, scale)| (-f64::from(*offset) * f64::from(*scale)) as f32);
    let shift = tensor(&[features], shift.collect())?;
    affine(call, &data, tensor(&[features], scale)?, shift)
}

/// `LinearRegressor`.
pub(super) fn regressor(call: &mut Call) -> Result<Data, Refusal> {
    call.check_operands(1, 1)?;
    let targets = call.attributes.int("targets")?.unwrap_or(1);
    let targets = usize::try_from(targets).map_err(|_| Refusal::broken("negative `targets`", "a number"))?;
    no_transform(call)?;
    let data = call.number(0)?;
    linear_scores(call, &data, targets)
}

/// `LinearClassifier`: labels and scores.
pub(super) fn classifier(call: &mut Call) -> Result<Vec<Value>, Refusal> {
    call.check_operands(1, 1)?;
    call.attributes.int("multi_class")?;
    let labels = labels_of(call, "classlabels_ints", "classlabels_strings")?;
    let transform = call.attributes.text("post_transform")?.unwrap_or("NONE");
    let data = call.number(0)?;
    let scores = linear_scores(call, &data, labels.len())?;
    let places = Finish::ArgMax { axis: 0, keep: false, last: false };
    let place = call.finish(places, &[&scores], Vec::new(), Kind::Integer)?;
    let label = labelled(call, labels, &place)?;
    let scores = match transform {
        "NONE" => scores,
        "SOFTMAX" => call.finish(Finish::Softmax { axis: 0 }, &[&scores], scores.shape.clone(), Kind::Number)?,
        "LOGISTIC" => call.compute(Operation::Activation(Activation::Sigmoid), &[&scores], scores.shape.clone())?,
        other => return Err(unknown_transform(other)),
    };
    Ok(vec![Value::Data(label), Value::Data(scores)])
}

/// The scores of a linear model, from its attributes.
fn linear_scores(call: &mut Call, data: &Data, targets: usize) -> Result<Data, Refusal> {
    let coefficients = call.attributes.floats("coefficients")?.unwrap_or_default();
    let intercepts = call.attributes.floats("intercepts")?;
    let &[features] = &data.shape[..] else { return Err(no_features(data)) };
    if targets.checked_mul(features) != Some(coefficients.len()) {
        let found = format!("{} coefficients", coefficients.len());
        let needed = format!("{features} for each of {targets} targets or classes");
        return Err(Refusal::new(found, needed, "give each class its own coefficients, also if there are two"));
    }
    let bias = intercepts.map(|intercepts| {
        let count = intercepts.len();
        if count == targets { tensor(&[targets], intercepts) } else { Err(wrong_count("intercepts", count, targets)) }
    });
    linear(call, data, tensor(&[targets, features], coefficients)?, bias.transpose()?)
}

/// The labels of classes in one of two attributes.
pub(super) fn labels_of(call: &Call, ints: &str, strings: &str) -> Result<Labels, Refusal> {
    let labels = match (call.attributes.ints(ints)?, call.attributes.texts(strings)?) {
        (Some(labels), None) => Labels::Integers(labels.to_vec()),
        (None, Some(labels)) => Labels::Texts(labels.into_iter().map(str::to_owned).collect()),
        _ => return Err(Refusal::broken("no labels, or two kinds", format!("`{ints}` or `{strings}`"))),
    };
    if labels.len() < 2 {
        return Err(Refusal::new(format!("{} classes", labels.len()), "at least two", "train with two classes"));
    }
    Ok(labels)
}

/// The label of each place.
pub(super) fn labelled(call: &mut Call, labels: Labels, place: &Data) -> Result<Data, Refusal> {
    let kind = if matches!(labels, Labels::Texts(_)) { Kind::Text } else { Kind::Integer };
    call.finish(Finish::Label(labels), &[place], place.shape.clone(), kind)
}

/// `ZipMap`: a number for each label.
pub(super) fn zip_map(call: &mut Call) -> Result<Data, Refusal> {
    call.check_operands(1, 1)?;
    let labels = labels_of(call, "classlabels_int64s", "classlabels_strings")?;
    let data = call.number(0)?;
    if data.shape != [labels.len()] {
        let found = format!("rows of shape {:?} for {} labels", data.shape, labels.len());
        return Err(Refusal::broken(found, "a number for each label"));
    }
    call.finish(Finish::Scores(labels), &[&data], data.shape.clone(), Kind::Scores)
}

/// `Cast` of a value that depends on the inputs.
pub(super) fn cast(call: &mut Call) -> Result<Data, Refusal> {
    call.check_operands(1, 1)?;
    call.attributes.int("saturate")?;
    let mut data = call.data(0)?;
    let (to, name) = target_type(call)?;
    let shape = data.shape.clone();
    match (data.kind, to) {
        (Kind::Number | Kind::Truth, Kind::Number) => data.kind = Kind::Number,
        (Kind::Integer, Kind::Number) => return call.finish(Finish::Number, &[&data], shape, to),
        (Kind::Number | Kind::Truth, Kind::Integer) => return call.finish(Finish::Integer, &[&data], shape, to),
        (Kind::Number, Kind::Truth) => return call.finish(Finish::Truth, &[&data], shape, to),
        (Kind::Index, Kind::Integer) => {}
        (from, to) if from == to => {}
        (from, _) => {
            let found = format!("a conversion of {} to {name}", kind_name(from));
            let needed = "conversions of numbers, or of labels at the end";
            return Err(Refusal::new(found, needed, "export with inputs of float32"));
        }
    }
    Ok(data)
}

/// The type that `Cast` converts to, and its name.
pub(super) fn target_type(call: &Call) -> Result<(Kind, &'static str), Refusal> {
    let to = call.attributes.int("to")?.and_then(|to| i32::try_from(to).ok());
    let to = to.and_then(|to| DataType::try_from(to).ok());
    let kind = match to {
        Some(DataType::Float | DataType::Double | DataType::Float16 | DataType::Bfloat16) => Kind::Number,
        Some(DataType::Int64 | DataType::Int32) => Kind::Integer,
        Some(DataType::Bool) => Kind::Truth,
        Some(DataType::String) => Kind::Text,
        _ => {
            let found = to.map_or("an unknown type", |to| to.as_str_name());
            return Err(Refusal::new(found, "a conversion to FLOAT, INT64, BOOL or STRING", "use another type"));
        }
    };
    Ok((kind, to.map_or("", |to| to.as_str_name())))
}

/// `Where` with three values that depend on the inputs.
pub(super) fn where_else(call: &mut Call) -> Result<Data, Refusal> {
    call.check_operands(3, 3)?;
    let (condition, then, other) = (call.data(0)?, call.number(1)?, call.number(2)?);
    if condition.kind != Kind::Truth || condition.shape != then.shape || then.shape != other.shape {
        let found = format!("shapes {:?}, {:?} and {:?}", condition.shape, then.shape, other.shape);
        return Err(Refusal::new(found, "truth values and numbers of one shape", "use an activation instead"));
    }
    call.finish(Finish::Where, &[&condition, &then, &other], then.shape.clone(), Kind::Number)
}

/// `Not`.
pub(super) fn not(call: &mut Call) -> Result<Data, Refusal> {
    call.check_operands(1, 1)?;
    let data = call.data(0)?;
    if data.kind != Kind::Truth {
        return Err(Refusal::broken(kind_name(data.kind), "truth values"));
    }
    call.finish(Finish::Not, &[&data], data.shape.clone(), Kind::Truth)
}

/// A tensor of these numbers.
pub(super) fn tensor(shape: &[usize], numbers: Vec<f32>) -> Result<Tensor, Refusal> {
    let found = format!("{} numbers", numbers.len());
    let wrong = |_| Refusal::broken(found, format!("as many as the shape {shape:?} has"));
    ArcArray::from_shape_vec(IxDyn(shape), numbers).map_err(wrong)
}

/// Checks that a regressor returns its scores.
pub(super) fn no_transform(call: &Call) -> Result<(), Refusal> {
    match call.attributes.text("post_transform")? {
        None | Some("NONE") => Ok(()),
        Some(other) => Err(unknown_transform(other)),
    }
}

pub(super) fn unknown_transform(name: &str) -> Refusal {
    let needed = "NONE, or SOFTMAX or LOGISTIC of a linear classifier";
    Refusal::new(format!("the `post_transform` {name:?}"), needed, "export with `raw_scores=True`")
}

/// The features of rows with one axis.
pub(super) fn no_features(data: &Data) -> Refusal {
    if data.shape.is_empty() { mixes_rows() } else { Refusal::broken(format!("rows of {:?}", data.shape), "one axis") }
}

fn wrong_count(name: &str, found: usize, needed: usize) -> Refusal {
    Refusal::broken(format!("{found} numbers in `{name}`"), format!("{needed}"))
}
