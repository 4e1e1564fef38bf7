//! Normalisations, means and softmax.

use ndarray::{ArcArray, IxDyn};

use super::call::{axis_of, mixes_rows, row_axis};
use super::elementwise::{affine, constant_for, uniform};
use super::{Call, Data, Kind};
use crate::error::Refusal;
use crate::finish::{Finish, Norm};
use crate::graph::{LayerNorm, Operation};

/// `BatchNormalization` of inference, as a factor and a summand for each channel.
pub(super) fn batch_norm(call: &mut Call) -> Result<Data, Refusal> {
    call.check_operands(5, 5)?;
    call.require("training_mode", 0)?;
    call.attributes.float("momentum")?;
    let epsilon = f64::from(call.attributes.float("epsilon")?.unwrap_or(1e-5));
    let data = call.number(0)?;
    let Some(&channels) = data.shape.first() else { return Err(mixes_rows()) };
    let [scale, shift, mean, variance] = [1, 2, 3, 4]
        .map(|place| call.weights(place, &[channels]))
        .map(|weights| weights.map(|tensor| tensor.iter().copied().collect::<Vec<_>>()));
    let (scale, shift, mean, variance) = (scale?, shift?, mean?, variance?);
    let factor = |channel: usize| f64::from(scale[channel]) / (f64::from(variance[channel]) + epsilon).sqrt();
    let factors: Vec<f32> = (0..channels).map(|channel| factor(channel) as f32).collect();
    let summand = |channel: usize| f64::from(shift[channel]) - f64::from(mean[channel]) * factor(channel);
    let summands: Vec<f32> = (0..channels).map(|channel| summand(channel) as f32).collect();
    let mut shape = vec![1; data.shape.len()];
    shape[0] = channels;
    let tensor = |numbers: Vec<f32>| {
        ArcArray::from_shape_vec(IxDyn(&shape), numbers).map_err(|_| Refusal::broken("no channels", "channels"))
    };
    affine(call, &data, tensor(factors)?, tensor(summands)?)
}

/// `LayerNormalization`.
pub(super) fn layer_norm(call: &mut Call) -> Result<Data, Refusal> {
    call.check_operands(2, 3)?;
    call.require("stash_type", 1)?;
    let data = call.number(0)?;
    let first = row_axis(call.attributes.int("axis")?.unwrap_or(-1), &data.shape)?;
    let axes = data.shape.len() - first;
    let epsilon = call.attributes.float("epsilon")?.unwrap_or(1e-5);
    let scale = constant_for(call.constant(1)?, &data.shape)?;
    let shift = match call.optional_constant(2)? {
        Some(shift) => constant_for(shift, &data.shape)?,
        None => uniform(0.0, &data.shape),
    };
    for factor in [&scale, &shift] {
        if super::broadcast(&data.shape, factor.shape())? != data.shape {
            let found = format!("weights of shape {:?} for rows of shape {:?}", factor.shape(), data.shape);
            return Err(Refusal::broken(found, "weights that broadcast to the rows"));
        }
    }
    let norm = LayerNorm { axes, epsilon, scale, shift };
    call.compute(Operation::LayerNorm(norm), &[&data], data.shape.clone())
}

/// `ReduceMean` and `ReduceSum`.
pub(super) fn reduce(call: &mut Call, mean: bool) -> Result<Data, Refusal> {
    call.check_operands(1, 2)?;
    let data = call.number(0)?;
    let keep = call.flag("keepdims", true)?;
    let axes = call.ints("axes", 1)?.unwrap_or_default();
    if call.flag("noop_with_empty_axes", false)? && axes.is_empty() {
        return Ok(data);
    }
    let mut axes = axes.into_iter().map(|axis| row_axis(axis, &data.shape)).collect::<Result<Vec<_>, _>>()?;
    axes.sort_unstable();
    axes.dedup();
    if axes.is_empty() {
        return Err(mixes_rows());
    }
    let shape = reduced(&data.shape, &axes, keep);
    call.compute(Operation::Reduce { mean, axes, keep }, &[&data], shape)
}

/// A shape with one element along these axes, or without them.
pub(crate) fn reduced(shape: &[usize], axes: &[usize], keep: bool) -> Vec<usize> {
    let size = |(axis, &size): (usize, &usize)| match (axes.contains(&axis), keep) {
        (false, _) => Some(size),
        (true, true) => Some(1),
        (true, false) => None,
    };
    shape.iter().enumerate().filter_map(size).collect()
}

/// `Softmax` and `LogSoftmax`, which a client computes.
pub(super) fn softmax(call: &mut Call, logarithm: bool) -> Result<Data, Refusal> {
    call.check_operands(1, 1)?;
    let data = call.number(0)?;
    // Before set 13, the axes from this one on were normalised together.
    let old = call.state.opset < 13;
    let axis = axis_of(call.attributes.int("axis")?.unwrap_or(if old { 1 } else { -1 }), data.shape.len() + 1)?;
    let axis = axis.checked_sub(1).ok_or_else(mixes_rows)?;
    if old && data.shape[axis + 1..].iter().any(|&size| size != 1) {
        let found = format!("a softmax over axes {axis} to {} of a row", data.shape.len() - 1);
        return Err(Refusal::new(found, "a softmax over one axis", "export with `opset_version=18`"));
    }
    let finish = if logarithm { Finish::LogSoftmax { axis } } else { Finish::Softmax { axis } };
    call.finish(finish, &[&data], data.shape.clone(), Kind::Number)
}

/// `Normalizer` of `ai.onnx.ml`, which a client computes.
pub(super) fn normalizer(call: &mut Call) -> Result<Data, Refusal> {
    call.check_operands(1, 1)?;
    let data = call.number(0)?;
    let norm = match call.attributes.text("norm")? {
        Some("L1") => Norm::L1,
        Some("L2") => Norm::L2,
        other => {
            let found = format!("the norm {:?}", other.unwrap_or("MAX"));
            return Err(Refusal::new(found, "L1 or L2", "use another `norm`"));
        }
    };
    if data.shape.len() != 1 {
        return Err(Refusal::broken(format!("rows of shape {:?}", data.shape), "rows with one axis"));
    }
    call.finish(Finish::Normalize(norm), &[&data], data.shape.clone(), Kind::Number)
}

/// `LpNormalization`, which a client computes.
pub(super) fn lp_normalization(call: &mut Call) -> Result<Data, Refusal> {
    call.check_operands(1, 1)?;
    let data = call.number(0)?;
    let norm = match call.attributes.int("p")?.unwrap_or(2) {
        1 => Norm::L1,
        2 => Norm::L2,
        other => return Err(Refusal::broken(format!("the norm p={other}"), "1 or 2")),
    };
    let axis = row_axis(call.attributes.int("axis")?.unwrap_or(-1), &data.shape)?;
    if axis + 1 != data.shape.len() {
        let found = format!("a norm over axis {axis} of rows of shape {:?}", data.shape);
        return Err(Refusal::new(found, "a norm over the last axis", "transpose around it"));
    }
    call.finish(Finish::Normalize(norm), &[&data], data.shape.clone(), Kind::Number)
}

/// `ArgMax`, which a client computes.
pub(super) fn arg_max(call: &mut Call) -> Result<Data, Refusal> {
    call.check_operands(1, 1)?;
    let data = call.number(0)?;
    let axis = row_axis(call.attributes.int("axis")?.unwrap_or(0), &data.shape)?;
    let (keep, last) = (call.flag("keepdims", true)?, call.flag("select_last_index", false)?);
    let shape = reduced(&data.shape, &[axis], keep);
    call.finish(Finish::ArgMax { axis, keep, last }, &[&data], shape, Kind::Integer)
}
