//! The client's steps.

use ndarray::{ArrayD, ArrayViewMut1, Axis, Zip};

use super::compute;
use super::operations::unlike;
use crate::error::{OnnxError, run_error};
use crate::finish::{Answer, Comparison, Finish, FinishStep, Labels, Norm, Output, Source};
use crate::graph::Operation;

/// Computes an output from results.
pub(super) fn finish(output: &Output, results: &[ArrayD<f32>]) -> Result<Answer, OnnxError> {
    let mut values: Vec<Answer> = Vec::new();
    let find = |values: &[Answer], source: Source| {
        let value = match source {
            Source::Result(place) => results.get(place).cloned().map(Answer::Numbers),
            Source::Step(place) => values.get(place).cloned(),
        };
        value.ok_or_else(|| run_error(format!("{} results", results.len()), "all results of the network"))
    };
    for step in &output.steps {
        let operands = step.inputs.iter().map(|&source| find(&values, source)).collect::<Result<Vec<_>, _>>()?;
        values.push(apply(step, operands)?);
    }
    let answer = find(&values, output.source)?;
    let found = row_shape(&answer);
    if found == output.shape { Ok(answer) } else { Err(unlike(found, &output.shape)) }
}

fn row_shape(answer: &Answer) -> &[usize] {
    let shape = match answer {
        Answer::Numbers(array) | Answer::Scores { numbers: array, .. } => array.shape(),
        Answer::Integers(array) => array.shape(),
        Answer::Texts(array) => array.shape(),
    };
    shape.get(1..).unwrap_or_default()
}

fn apply(step: &FinishStep, operands: Vec<Answer>) -> Result<Answer, OnnxError> {
    let reshapes = matches!(&step.finish, Finish::Compute(operation) if matches!(**operation, Operation::Reshape));
    if let (true, [answer]) = (reshapes, &operands[..]) {
        return reshape(answer, &step.shape);
    }
    if let (Finish::Number | Finish::Label(_), [Answer::Integers(integers)]) = (&step.finish, &operands[..]) {
        return match &step.finish {
            Finish::Label(labels) => label(labels, integers),
            _ => Ok(Answer::Numbers(integers.mapv(|integer| integer as f32))),
        };
    }
    let numbers = |answer| match answer {
        Answer::Numbers(array) => Ok(array),
        _ => Err(run_error("labels", "numbers")),
    };
    let operands = operands.into_iter().map(numbers).collect::<Result<Vec<_>, _>>()?;
    of_numbers(step, &operands)
}

/// A step whose operands are numbers.
fn of_numbers(step: &FinishStep, operands: &[ArrayD<f32>]) -> Result<Answer, OnnxError> {
    let Some(x) = operands.first() else { return Err(run_error("no operand", "an operand")) };
    let truth = |value: bool| f32::from(u8::from(value));
    let numbers = match &step.finish {
        Finish::Compute(operation) => compute(operation, &operands.iter().collect::<Vec<_>>(), &step.shape)?,
        Finish::Softmax { axis } => lanes(x, *axis, |lane| softmax(lane, false))?,
        Finish::LogSoftmax { axis } => lanes(x, *axis, |lane| softmax(lane, true))?,
        Finish::Normalize(norm) => lanes(x, x.ndim().saturating_sub(2), |lane| normalize(lane, *norm))?,
        Finish::Compare { comparison, threshold } => x.mapv(|x| truth(compare(*comparison, x, *threshold))),
        Finish::Where => choose(operands)?,
        Finish::Not => x.mapv(|x| truth(x == 0.0)),
        Finish::Truth => x.mapv(|x| truth(x != 0.0)),
        Finish::Integer => return Ok(Answer::Integers(x.mapv(|x| x as i64))),
        Finish::Scores(labels) => return Ok(Answer::Scores { labels: labels.clone(), numbers: x.clone() }),
        Finish::ArgMax { axis, keep, last } => return arg_max(x, *axis, *keep, *last),
        Finish::Votes { classes } => return votes(x, *classes),
        Finish::Number | Finish::Label(_) => return Err(run_error("numbers", "integers")),
    };
    Ok(Answer::Numbers(numbers))
}

fn reshape(answer: &Answer, row: &[usize]) -> Result<Answer, OnnxError> {
    fn reshaped<T: Clone>(array: &ArrayD<T>, row: &[usize]) -> Result<ArrayD<T>, OnnxError> {
        let shape = [&[array.shape().first().copied().unwrap_or_default()], row].concat();
        let array = array.to_shape(shape).map_err(|_| unlike(array.shape(), row))?;
        Ok(array.into_owned())
    }
    Ok(match answer {
        Answer::Numbers(array) => Answer::Numbers(reshaped(array, row)?),
        Answer::Integers(array) => Answer::Integers(reshaped(array, row)?),
        Answer::Texts(array) => Answer::Texts(reshaped(array, row)?),
        Answer::Scores { .. } => return Err(run_error("numbers with labels", "numbers or labels")),
    })
}

/// Changes each lane along an axis of a row.
fn lanes(x: &ArrayD<f32>, axis: usize, change: impl Fn(ArrayViewMut1<f32>)) -> Result<ArrayD<f32>, OnnxError> {
    if axis + 1 >= x.ndim() {
        return Err(unlike(x.shape(), &[axis]));
    }
    let mut result = x.clone();
    result.lanes_mut(Axis(axis + 1)).into_iter().for_each(change);
    Ok(result)
}

fn softmax(mut lane: ArrayViewMut1<f32>, logarithm: bool) {
    let greatest = lane.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = lane.iter().map(|&x| f64::from(x - greatest).exp()).sum();
    lane.mapv_inplace(|x| {
        let shifted = f64::from(x - greatest);
        (if logarithm { shifted - sum.ln() } else { shifted.exp() / sum }) as f32
    });
}

fn normalize(mut lane: ArrayViewMut1<f32>, norm: Norm) {
    let size: f64 = match norm {
        Norm::L1 => lane.iter().map(|&x| f64::from(x.abs())).sum(),
        Norm::L2 => lane.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt(),
    };
    if size != 0.0 {
        lane.mapv_inplace(|x| (f64::from(x) / size) as f32);
    }
}

fn compare(comparison: Comparison, x: f32, threshold: f32) -> bool {
    match comparison {
        Comparison::Less => x < threshold,
        Comparison::LessOrEqual => x <= threshold,
        Comparison::Greater => x > threshold,
        Comparison::GreaterOrEqual => x >= threshold,
        Comparison::Equal => x == threshold,
    }
}

fn choose(operands: &[ArrayD<f32>]) -> Result<ArrayD<f32>, OnnxError> {
    let [condition, then, other] = operands else { return Err(run_error("other operands", "three operands")) };
    if condition.shape() != then.shape() || then.shape() != other.shape() {
        return Err(unlike(then.shape(), condition.shape()));
    }
    let mut result = other.clone();
    let choose = |result: &mut f32, condition: &f32, then: &f32| {
        if *condition != 0.0 {
            *result = *then;
        }
    };
    Zip::from(&mut result).and(condition).and(then).for_each(choose);
    Ok(result)
}

fn arg_max(x: &ArrayD<f32>, axis: usize, keep: bool, last: bool) -> Result<Answer, OnnxError> {
    if axis + 1 >= x.ndim() {
        return Err(unlike(x.shape(), &[axis]));
    }
    let places = x.map_axis(Axis(axis + 1), |lane| {
        let better = |best: (i64, f32), (place, &x): (usize, &f32)| {
            if x > best.1 || (last && x == best.1) { (place as i64, x) } else { best }
        };
        lane.iter().enumerate().fold((0, f32::NEG_INFINITY), better).0
    });
    Ok(Answer::Integers(if keep { places.insert_axis(Axis(axis + 1)) } else { places }))
}

fn votes(x: &ArrayD<f32>, classes: usize) -> Result<Answer, OnnxError> {
    let pairs: Vec<(usize, usize)> =
        (0..classes).flat_map(|first| (first + 1..classes).map(move |second| (first, second))).collect();
    if x.ndim() != 2 || x.shape()[1] != pairs.len() {
        return Err(unlike(x.shape(), &[pairs.len()]));
    }
    let winner = |scores: ndarray::ArrayView1<f32>| {
        let mut votes = vec![0u32; classes];
        for (&score, &(first, second)) in scores.iter().zip(&pairs) {
            votes[if score > 0.0 { first } else { second }] += 1;
        }
        // The first of those with most votes.
        let best = votes.iter().copied().max().unwrap_or_default();
        votes.iter().position(|&count| count == best).unwrap_or_default() as i64
    };
    Ok(Answer::Integers(x.map_axis(Axis(1), winner)))
}

fn label(labels: &Labels, places: &ArrayD<i64>) -> Result<Answer, OnnxError> {
    fn of_each<T: Clone>(labels: &[T], places: &ArrayD<i64>) -> Result<ArrayD<T>, OnnxError> {
        let of = |place: &i64| usize::try_from(*place).ok().and_then(|place| labels.get(place)).cloned();
        let found: Option<Vec<T>> = places.iter().map(of).collect();
        let found = found.ok_or_else(|| run_error("a class without a label", format!("{} classes", labels.len())))?;
        ArrayD::from_shape_vec(places.raw_dim(), found).map_err(|_| unlike(places.shape(), &[]))
    }
    Ok(match labels {
        Labels::Integers(labels) => Answer::Integers(of_each(labels, places)?),
        Labels::Texts(labels) => Answer::Texts(of_each(labels, places)?),
    })
}
