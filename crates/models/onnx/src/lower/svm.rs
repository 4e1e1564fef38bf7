//! Support vector machines of `ai.onnx.ml`, with linear and polynomial kernels.

use ndarray::Ix2;

use super::classes::{labelled, labels_of, no_features, no_transform, tensor, unknown_transform};
use super::elementwise::{affine, power_of, uniform};
use super::linear::linear;
use super::{Call, Data, Kind, Value};
use crate::error::Refusal;
use crate::finish::Finish;
use crate::graph::{Operation, Tensor};
use crate::limits::{MAX_ROW, product};

/// A kernel: `(gamma * <x, v> + shift)^degree`, or `<x, v>`.
enum Kernel {
    Linear,
    Polynomial { gamma: f32, shift: f32, degree: f32 },
}

/// `SVMRegressor`.
pub(super) fn regressor(call: &mut Call) -> Result<Data, Refusal> {
    call.check_operands(1, 1)?;
    call.require("one_class", 0)?;
    no_transform(call)?;
    let kernel = kernel_of(call)?;
    let (data, features) = features_of(call)?;
    let coefficients = call.attributes.floats("coefficients")?.unwrap_or_default();
    let vectors = call.attributes.floats("support_vectors")?.unwrap_or_default();
    let supports = call.attributes.int("n_supports")?.unwrap_or(0);
    let rho = call.attributes.floats("rho")?.unwrap_or_default();
    let count = coefficients.len();
    if usize::try_from(supports) != Ok(count) || count == 0 || rho.len() != 1 {
        let found = format!("{count} coefficients, {supports} support vectors and {} `rho`", rho.len());
        return Err(Refusal::broken(found, "a coefficient for each support vector, and one `rho`"));
    }
    scores(call, &data, kernel, (count, features, vectors), tensor(&[1, count], coefficients)?, rho)
}

/// `SVMClassifier` without probabilities: labels and scores.
pub(super) fn classifier(call: &mut Call) -> Result<Vec<Value>, Refusal> {
    call.check_operands(1, 1)?;
    let transform = call.attributes.text("post_transform")?.unwrap_or("NONE");
    if transform != "NONE" {
        return Err(unknown_transform(transform));
    }
    if call.attributes.has("prob_a") || call.attributes.has("prob_b") {
        let found = "probabilities of a support vector machine";
        return Err(Refusal::new(found, "scores", "train with `probability=False`, or use `CalibratedClassifierCV`"));
    }
    let labels = labels_of(call, "classlabels_ints", "classlabels_strings")?;
    let kernel = kernel_of(call)?;
    let (data, features) = features_of(call)?;
    let per_class = call.attributes.ints("vectors_per_class")?.unwrap_or_default();
    let coefficients = call.attributes.floats("coefficients")?.unwrap_or_default();
    let vectors = call.attributes.floats("support_vectors")?.unwrap_or_default();
    let rho = call.attributes.floats("rho")?.unwrap_or_default();
    let classes = labels.len();
    let matrix = pair_matrix(per_class, &coefficients, classes)?;
    let (pairs, count) = (matrix.shape()[0], matrix.shape()[1]);
    if rho.len() != pairs {
        return Err(Refusal::broken(format!("{} `rho`", rho.len()), format!("{pairs}, one for each pair of classes")));
    }
    // Then onnxruntime takes the score of a pair for a probability.
    let all_positive = coefficients.iter().chain(&rho).all(|&number| number >= 0.0);
    let scores = scores(call, &data, kernel, (count, features, vectors), matrix, rho)?;
    let place = call.finish(Finish::Votes { classes }, &[&scores], Vec::new(), Kind::Integer)?;
    let label = labelled(call, labels, &place)?;
    let scores = if pairs == 1 { both_classes(call, &scores, all_positive)? } else { scores };
    Ok(vec![Value::Data(label), Value::Data(scores)])
}

/// The scores of both classes from the score of their pair. As in onnxruntime, the score of the second class is
/// positive where the first class wins.
fn both_classes(call: &mut Call, score: &Data, all_positive: bool) -> Result<Data, Refusal> {
    if all_positive {
        let found = "two classes whose coefficients are all positive";
        return Err(Refusal::new(found, "coefficients of both signs", "train with both classes"));
    }
    let negative = affine(call, score, uniform(-1.0, &score.shape), uniform(0.0, &score.shape))?;
    call.compute(Operation::Concat { axis: 0 }, &[&negative, score], vec![2])
}

/// The matrix from values of the kernel to a score for each pair of classes.
fn pair_matrix(per_class: &[i64], coefficients: &[f32], classes: usize) -> Result<Tensor, Refusal> {
    let wrong = || Refusal::broken("support vectors unlike the classes", "vectors and coefficients of each class");
    let counts: Option<Vec<usize>> = per_class.iter().map(|&count| usize::try_from(count).ok()).collect();
    let counts = counts.filter(|counts| counts.len() == classes).ok_or_else(wrong)?;
    let total = counts.iter().try_fold(0usize, |total, &count| total.checked_add(count)).ok_or_else(wrong)?;
    if total == 0 || total.checked_mul(classes - 1) != Some(coefficients.len()) {
        return Err(wrong());
    }
    let pairs = classes * (classes - 1) / 2;
    let mut matrix = vec![0.0; product(&[pairs, total], MAX_ROW)?];
    let starts: Vec<usize> = (0..classes).map(|class| counts[..class].iter().sum()).collect();
    let mut rows = matrix.chunks_exact_mut(total);
    for first in 0..classes {
        for second in first + 1..classes {
            let Some(row) = rows.next() else { return Err(wrong()) };
            for (class, other) in [(first, second - 1), (second, first)] {
                let own = starts[class]..starts[class] + counts[class];
                let from = &coefficients[other * total..(other + 1) * total];
                row[own.clone()].copy_from_slice(&from[own]);
            }
        }
    }
    tensor(&[pairs, total], matrix)
}

/// Kernel values with support vectors `[count, features]`, times a matrix, plus `rho`.
fn scores(
    call: &mut Call,
    data: &Data,
    kernel: Kernel,
    (count, features, mut vectors): (usize, usize, Vec<f32>),
    matrix: Tensor,
    rho: Vec<f32>,
) -> Result<Data, Refusal> {
    if count.checked_mul(features) != Some(vectors.len()) {
        let found = format!("{} numbers in `support_vectors`", vectors.len());
        return Err(Refusal::broken(found, format!("{features} for each of {count} vectors")));
    }
    call.count_folded(matrix.shape(), 4)?;
    let rho = tensor(&[rho.len()], rho)?;
    let values = match kernel {
        Kernel::Linear => {
            let rows = matrix.shape()[0];
            call.count_folded(&[rows, features], 4)?;
            let vectors = tensor(&[count, features], vectors)?;
            let weight = product_of(&matrix, &vectors)?;
            return linear(call, data, weight, Some(rho));
        }
        Kernel::Polynomial { gamma, shift, degree } => {
            vectors.iter_mut().for_each(|number| *number *= gamma);
            let shifts = tensor(&[count], vec![shift; count])?;
            let inner = linear(call, data, tensor(&[count, features], vectors)?, Some(shifts))?;
            power_of(call, inner, degree)?
        }
    };
    linear(call, &values, matrix, Some(rho))
}

/// The product of two matrices.
fn product_of(left: &Tensor, right: &Tensor) -> Result<Tensor, Refusal> {
    let matrix = |tensor: &Tensor| tensor.view().into_dimensionality::<Ix2>().ok().map(|view| view.mapv(f64::from));
    match (matrix(left), matrix(right)) {
        (Some(left), Some(right)) => Ok(left.dot(&right).mapv(|number| number as f32).into_dyn().into_shared()),
        _ => Err(Refusal::broken("a tensor of other axes", "a matrix")),
    }
}

fn kernel_of(call: &Call) -> Result<Kernel, Refusal> {
    let parameters = call.attributes.floats("kernel_params")?.unwrap_or_default();
    match (call.attributes.text("kernel_type")?.unwrap_or("LINEAR"), &parameters[..]) {
        ("LINEAR", _) => Ok(Kernel::Linear),
        ("POLY", &[gamma, shift, degree]) if degree.fract() == 0.0 && (1.0..=64.0).contains(&degree) => {
            Ok(Kernel::Polynomial { gamma, shift, degree })
        }
        ("POLY", _) => {
            let found = format!("the parameters {:?} of a polynomial kernel", &parameters[..parameters.len().min(8)]);
            Err(Refusal::broken(found, "gamma, a shift, and a degree from 1 to 64"))
        }
        (other, _) => {
            let found = format!("a kernel of type {other:?}");
            Err(Refusal::new(found, "the kernels LINEAR and POLY", "train with `kernel=\"poly\"`"))
        }
    }
}

fn features_of(call: &Call) -> Result<(Data, usize), Refusal> {
    let data = call.number(0)?;
    match data.shape[..] {
        [features] => Ok((data, features)),
        _ => Err(no_features(&data)),
    }
}
