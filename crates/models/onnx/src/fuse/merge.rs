//! Constants of two neighbours as constants of one, computed with 64 bits.

use ndarray::{ArcArray, ArrayD, Axis, Dimension, IxDyn};

use crate::graph::{Conv, Linear, Tensor};
use crate::lower::broadcast;

/// `scale * (first * x + summand) + shift` as one factor and one summand, of at most `most` numbers each.
pub(super) fn then(
    (first, summand): (&Tensor, &Tensor),
    (scale, shift): (&Tensor, &Tensor),
    most: usize,
) -> Option<(Tensor, Tensor)> {
    let factor = combine(first, scale, most, |first, scale| first * scale)?;
    let scaled = combine(summand, scale, most, |summand, scale| summand * scale)?;
    let sum = combine(&scaled, shift, most, |scaled, shift| scaled + shift)?;
    Some((to_f32(&factor)?, to_f32(&sum)?))
}

/// A linear operation, then a factor and a summand for each output.
pub(super) fn after_linear(linear: &Linear, scale: &Tensor, shift: &Tensor) -> Option<Linear> {
    let outputs = linear.weight.shape()[0];
    let last = scale.ndim().checked_sub(1)?;
    let (scale, shift) = (along(scale, last, outputs)?, along(shift, last, outputs)?);
    let weight = to_f32(&scaled_along(&linear.weight, 0, &scale))?;
    Some(Linear { weight, bias: Some(bias_after(linear.bias.as_ref(), &scale, &shift)?) })
}

/// A factor and a summand for each element of the last axis, then a linear operation.
pub(super) fn before_linear(linear: &Linear, scale: &Tensor, shift: &Tensor) -> Option<Linear> {
    let &[outputs, inputs] = linear.weight.shape() else { return None };
    let last = scale.ndim().checked_sub(1)?;
    let (scale, shift) = (along(scale, last, inputs)?, along(shift, last, inputs)?);
    let shifted = |output: usize| {
        let row = linear.weight.index_axis(Axis(0), output);
        row.iter().zip(&shift).map(|(&weight, shift)| f64::from(weight) * shift).sum::<f64>()
    };
    let bias = bias_plus(linear.bias.as_ref(), (0..outputs).map(shifted))?;
    Some(Linear { weight: to_f32(&scaled_along(&linear.weight, 1, &scale))?, bias: Some(bias) })
}

/// A convolution, then a factor and a summand for each channel.
pub(super) fn after_conv(conv: &Conv, scale: &Tensor, shift: &Tensor) -> Option<Conv> {
    let outputs = conv.weight.shape()[0];
    let (scale, shift) = (along(scale, 0, outputs)?, along(shift, 0, outputs)?);
    let weight = to_f32(&scaled_along(&conv.weight, 0, &scale))?;
    let bias = Some(bias_after(conv.bias.as_ref(), &scale, &shift)?);
    Some(Conv { weight, bias, ..conv.clone() })
}

/// A factor and a summand for each channel, then a convolution. With padding, zeros are added after the summand, so
/// only a factor can go into the convolution.
pub(super) fn before_conv(conv: &Conv, scale: &Tensor, shift: &Tensor) -> Option<Conv> {
    let (outputs, of_group) = (conv.weight.shape()[0], conv.weight.shape()[1]);
    let channels = of_group * conv.groups;
    let (scale, shift) = (along(scale, 0, channels)?, along(shift, 0, channels)?);
    if conv.window.padding.iter().any(|&padding| padding != (0, 0)) && shift.iter().any(|&shift| shift != 0.0) {
        return None;
    }
    // The channel that the weight of an output and a channel of its group reads.
    let channel = |output: usize, within: usize| output / (outputs / conv.groups) * of_group + within;
    let mut weight = conv.weight.mapv(f64::from);
    let mut added = vec![0.0; outputs];
    for (place, number) in weight.indexed_iter_mut() {
        let channel = channel(place[0], place[1]);
        added[place[0]] += *number * shift[channel];
        *number *= scale[channel];
    }
    let bias = Some(bias_plus(conv.bias.as_ref(), added.into_iter())?);
    Some(Conv { weight: to_f32(&weight)?, bias, ..conv.clone() })
}

/// The numbers of a tensor along one axis, if it is the same along all others.
fn along(tensor: &Tensor, axis: usize, size: usize) -> Option<Vec<f64>> {
    let shape = tensor.shape();
    if shape.iter().enumerate().any(|(other, &size)| other != axis && size != 1) {
        return None;
    }
    let numbers: Vec<f64> = tensor.iter().map(|&number| f64::from(number)).collect();
    match numbers.len() {
        1 => Some(vec![numbers[0]; size]),
        found if found == size => Some(numbers),
        _ => None,
    }
}

fn scaled_along(weight: &Tensor, axis: usize, scale: &[f64]) -> ArrayD<f64> {
    let mut scaled = weight.mapv(f64::from);
    for (place, number) in scaled.indexed_iter_mut() {
        *number *= scale[place.as_array_view()[axis]];
    }
    scaled
}

fn bias_after(bias: Option<&Tensor>, scale: &[f64], shift: &[f64]) -> Option<Tensor> {
    let old = |place: usize| bias.map_or(0.0, |bias| f64::from(bias[place]));
    let numbers = scale.iter().zip(shift).enumerate().map(|(place, (scale, shift))| scale * old(place) + shift);
    to_f32(&list(numbers))
}

fn bias_plus(bias: Option<&Tensor>, added: impl Iterator<Item = f64>) -> Option<Tensor> {
    let old = |place: usize| bias.map_or(0.0, |bias| f64::from(bias[place]));
    to_f32(&list(added.enumerate().map(|(place, added)| old(place) + added)))
}

fn list(numbers: impl Iterator<Item = f64>) -> ArrayD<f64> {
    ndarray::Array1::from_iter(numbers).into_dyn()
}

fn combine<A, B>(
    left: &ArcArray<A, IxDyn>,
    right: &ArcArray<B, IxDyn>,
    most: usize,
    of: impl Fn(f64, f64) -> f64,
) -> Option<ArcArray<f64, IxDyn>>
where
    A: Copy + Into<f64>,
    B: Copy + Into<f64>,
{
    let shape = broadcast(left.shape(), right.shape()).ok()?;
    if shape.iter().product::<usize>() > most {
        return None;
    }
    let (left, right) = (left.broadcast(IxDyn(&shape))?, right.broadcast(IxDyn(&shape))?);
    let numbers: Vec<f64> =
        left.iter().zip(right.iter()).map(|(&left, &right)| of(left.into(), right.into())).collect();
    ArcArray::from_shape_vec(IxDyn(&shape), numbers).ok()
}

/// The numbers in 32 bits, if they are all finite.
fn to_f32<S: ndarray::Data<Elem = f64>>(numbers: &ndarray::ArrayBase<S, IxDyn>) -> Option<Tensor> {
    let numbers = numbers.mapv(|number| number as f32);
    numbers.iter().all(|number| number.is_finite()).then(|| numbers.into_shared())
}
