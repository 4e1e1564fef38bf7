//! The value of one node.

use ndarray::{ArrayD, ArrayViewD, Axis, IxDyn, Slice, Zip, concatenate};

use super::convolution::{average_pool, conv, max_pool};
use crate::activation::Activation;
use crate::error::{OnnxError, run_error};
use crate::graph::{LayerNorm, Linear, Operation, Tensor};

/// The value of an operation for a batch, `[rows, ..]` with this shape of a row.
///
/// # Errors
/// If operands have other shapes than those that the network was read with, or an index is outside a table.
pub(crate) fn compute(
    operation: &Operation,
    operands: &[&ArrayD<f32>],
    row: &[usize],
) -> Result<ArrayD<f32>, OnnxError> {
    let [x, ..] = operands else { return Err(run_error("no operand", "an operand")) };
    let Some(&rows) = x.shape().first() else { return Err(run_error("a number", "a batch")) };
    let shape = [&[rows], row].concat();
    let value = match (operation, operands) {
        (Operation::Linear(linear), &[x]) => apply_linear(linear, x)?,
        (Operation::Conv(layer), &[x]) => conv(layer, x, &shape)?,
        (Operation::AveragePool { window, count_include_pad }, &[x]) => {
            average_pool(window, *count_include_pad, x, &shape)?
        }
        (Operation::MaxPool(window), &[x]) => max_pool(window, x, &shape)?,
        (Operation::Affine { scale, shift }, &[x]) => {
            let scaled = zipped(x.view(), scale.view(), &shape, |x, scale| x * scale)?;
            zipped(scaled.view(), shift.view(), &shape, |x, shift| x + shift)?
        }
        (Operation::Add, &[x, y]) => zipped(x.view(), y.view(), &shape, |x, y| x + y)?,
        (Operation::Sub, &[x, y]) => zipped(x.view(), y.view(), &shape, |x, y| x - y)?,
        (Operation::Mul, &[x, y]) => zipped(x.view(), y.view(), &shape, |x, y| x * y)?,
        (Operation::Activation(activation), &[x]) => activate(activation, x, &shape)?,
        (Operation::Concat { axis }, operands) => {
            let views: Vec<_> = operands.iter().map(|operand| operand.view()).collect();
            concatenate(Axis(axis + 1), &views).map_err(|_| unlike(x.shape(), &shape))?
        }
        (Operation::Reshape, &[x]) => x.to_shape(IxDyn(&shape)).map_err(|_| unlike(x.shape(), &shape))?.into_owned(),
        (Operation::Transpose { axes }, &[x]) if axes.len() + 1 == x.ndim() => {
            let order: Vec<usize> = std::iter::once(0).chain(axes.iter().map(|axis| axis + 1)).collect();
            x.view().permuted_axes(order).as_standard_layout().into_owned()
        }
        (Operation::Select { axis, places }, &[x]) if fits(x, *axis, places) => x.select(Axis(axis + 1), places),
        (Operation::Pad { amounts }, &[x]) => pad(amounts, x, &shape)?,
        (Operation::Reduce { mean, axes, keep }, &[x]) => reduce(*mean, axes, *keep, x),
        (Operation::LayerNorm(norm), &[x]) => layer_norm(norm, x, &shape)?,
        (Operation::Embedding { table }, &[x]) => embed(table, x, &shape)?,
        _ => return Err(run_error(format!("{} operands", operands.len()), "those of the operation")),
    };
    if value.shape() == shape { Ok(value) } else { Err(unlike(value.shape(), &shape)) }
}

fn apply_linear(linear: &Linear, x: &ArrayD<f32>) -> Result<ArrayD<f32>, OnnxError> {
    let (outputs, inputs) = (linear.weight.shape()[0], linear.weight.shape()[1]);
    let mut shape = x.shape().to_vec();
    let found = shape.clone();
    let last = shape.last_mut().filter(|last| **last == inputs);
    *last.ok_or_else(|| unlike(&found, &[inputs]))? = outputs;
    let flat = x.to_shape((x.len() / inputs, inputs)).map_err(|_| unlike(x.shape(), &[inputs]))?;
    let weight = linear.weight.view().into_shape_with_order((outputs, inputs));
    let weight = match weight {
        Ok(weight) => weight.to_owned(),
        // A matrix whose axes were swapped.
        Err(_) => linear.weight.to_shape((outputs, inputs)).map_err(|_| unlike(&found, &[inputs]))?.into_owned(),
    };
    let mut product = flat.mapv(f64::from).dot(&weight.mapv(f64::from).reversed_axes());
    if let Some(bias) = &linear.bias {
        for (place, mut column) in product.columns_mut().into_iter().enumerate() {
            column += f64::from(bias[place]);
        }
    }
    let numbers = product.iter().map(|&number| number as f32).collect();
    ArrayD::from_shape_vec(IxDyn(&shape), numbers).map_err(|_| unlike(&found, &shape))
}

/// Numbers of two operands that broadcast, of which the second may lack the batch axis.
fn zipped(
    x: ArrayViewD<'_, f32>,
    y: ArrayViewD<'_, f32>,
    shape: &[usize],
    of: impl Fn(f32, f32) -> f32,
) -> Result<ArrayD<f32>, OnnxError> {
    let wide = |operand: &ArrayViewD<'_, f32>| unlike(operand.shape(), shape);
    let left = x.broadcast(IxDyn(shape)).ok_or_else(|| wide(&x))?;
    let right = y.broadcast(IxDyn(shape)).ok_or_else(|| wide(&y))?;
    let mut result = ArrayD::zeros(IxDyn(shape));
    Zip::from(&mut result).and(&left).and(&right).for_each(|result, &x, &y| *result = of(x, y));
    Ok(result)
}

fn activate(activation: &Activation, x: &ArrayD<f32>, shape: &[usize]) -> Result<ArrayD<f32>, OnnxError> {
    match activation {
        Activation::PRelu { slope } => zipped(x.view(), slope.view(), shape, |x, slope| activation.apply(x, slope)),
        _ => Ok(x.mapv(|x| activation.apply(x, 0.0))),
    }
}

fn fits(x: &ArrayD<f32>, axis: usize, places: &[usize]) -> bool {
    x.shape().get(axis + 1).is_some_and(|&size| places.iter().all(|&place| place < size))
}

fn pad(amounts: &[(usize, usize)], x: &ArrayD<f32>, shape: &[usize]) -> Result<ArrayD<f32>, OnnxError> {
    let mut result = ArrayD::zeros(IxDyn(shape));
    let inner = |axis: usize| match axis.checked_sub(1).and_then(|axis| amounts.get(axis)) {
        Some(&(before, _)) => Slice::from(before..before + x.shape()[axis]),
        None => Slice::from(..),
    };
    if amounts.len() + 1 != x.ndim()
        || amounts
            .iter()
            .enumerate()
            .any(|(axis, (before, after))| before + x.shape()[axis + 1] + after != shape[axis + 1])
    {
        return Err(unlike(x.shape(), shape));
    }
    result.slice_each_axis_mut(|axis| inner(axis.axis.index())).assign(x);
    Ok(result)
}

fn reduce(mean: bool, axes: &[usize], keep: bool, x: &ArrayD<f32>) -> ArrayD<f32> {
    let mut sums = x.mapv(f64::from);
    let mut count = 1.0;
    for &axis in axes.iter().rev().filter(|&&axis| axis + 1 < x.ndim()) {
        count *= x.shape()[axis + 1] as f64;
        sums = sums.sum_axis(Axis(axis + 1));
        if keep {
            sums = sums.insert_axis(Axis(axis + 1));
        }
    }
    let divisor = if mean { count } else { 1.0 };
    sums.mapv(|sum| (sum / divisor) as f32)
}

fn layer_norm(norm: &LayerNorm, x: &ArrayD<f32>, shape: &[usize]) -> Result<ArrayD<f32>, OnnxError> {
    let group: usize = shape[shape.len() - norm.axes.min(shape.len())..].iter().product();
    let mut numbers: Vec<f32> = x.iter().copied().collect();
    for group in numbers.chunks_exact_mut(group) {
        let count = group.len() as f64;
        let mean = group.iter().map(|&x| f64::from(x)).sum::<f64>() / count;
        let variance = group.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / count;
        let factor = 1.0 / (variance + f64::from(norm.epsilon)).sqrt();
        group.iter_mut().for_each(|x| *x = ((f64::from(*x) - mean) * factor) as f32);
    }
    let normed = ArrayD::from_shape_vec(x.raw_dim(), numbers).map_err(|_| unlike(x.shape(), shape))?;
    let scaled = zipped(normed.view(), norm.scale.view(), shape, |x, scale| x * scale)?;
    zipped(scaled.view(), norm.shift.view(), shape, |x, shift| x + shift)
}

fn embed(table: &Tensor, indexes: &ArrayD<f32>, shape: &[usize]) -> Result<ArrayD<f32>, OnnxError> {
    let rows = table.shape()[0];
    let mut numbers = Vec::new();
    for &index in indexes {
        let from_front = if index < 0.0 { index + rows as f32 } else { index };
        if !(0.0..rows as f32).contains(&from_front) {
            return Err(run_error(format!("index {index}"), format!("an index of a table of {rows} rows")));
        }
        numbers.extend(table.index_axis(Axis(0), from_front as usize).iter());
    }
    ArrayD::from_shape_vec(IxDyn(shape), numbers).map_err(|_| unlike(indexes.shape(), shape))
}

/// The error for values of another shape than the network has.
pub(super) fn unlike(found: &[usize], needed: &[usize]) -> OnnxError {
    run_error(format!("a value of shape {found:?}"), format!("{needed:?}, as when the network was read"))
}
