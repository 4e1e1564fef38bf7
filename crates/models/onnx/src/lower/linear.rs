//! Products with constant matrices.

use ndarray::{ArcArray, Ix2, IxDyn};

use super::{Call, Data, Value};
use crate::constant::Constant;
use crate::error::Refusal;
use crate::graph::{Linear, Operation, Tensor};
use crate::read::finite;

/// `Gemm`: `alpha * A * B + beta * C`, for a constant `B`.
pub(super) fn gemm(call: &mut Call) -> Result<Data, Refusal> {
    call.check_operands(2, 3)?;
    call.require("transA", 0)?;
    let alpha = call.attributes.float("alpha")?.unwrap_or(1.0);
    let beta = call.attributes.float("beta")?.unwrap_or(1.0);
    let transposed = call.flag("transB", false)?;
    let data = call.number(0)?;
    let weight = matrix(call.constant(1)?)?;
    let weight = if transposed { weight } else { weight.reversed_axes() };
    let weight = scaled(call, weight.into_dyn(), alpha)?;
    let addend = match call.operand(2).cloned() {
        Some(Value::Data(_)) => return Err(no_constant_addend()),
        Some(Value::Constant(addend)) => Some(gemm_bias(addend, weight.shape()[0])?),
        None => None,
    };
    let bias = addend.map(|addend| scaled(call, addend, beta)).transpose()?;
    if data.shape.len() != 1 {
        let found = format!("rows of shape {:?}", data.shape);
        return Err(Refusal::broken(found, "rows with one axis"));
    }
    linear(call, &data, weight, bias)
}

/// `MatMul` with a constant on the right.
pub(super) fn matmul(call: &mut Call) -> Result<Data, Refusal> {
    call.check_operands(2, 2)?;
    if let (Some(Value::Data(_)), Some(Value::Data(_))) = (call.operand(0), call.operand(1)) {
        let found = "a product of two matrices that depend on the inputs";
        let remedy = "use layers with constant weights; attention is not supported";
        return Err(Refusal::new(found, "a constant matrix on the right", remedy));
    }
    let data = call.number(0)?;
    let constant = call.constant(1)?;
    let vector = constant.shape().len() == 1;
    let constant = if vector { constant.clone().reshape(&[constant.shape()[0], 1])? } else { constant };
    let weight = matrix(constant)?.reversed_axes().into_dyn();
    let product = linear(call, &data, weight, None)?;
    if !vector {
        return Ok(product);
    }
    let shape = product.shape[..product.shape.len() - 1].to_vec();
    call.reshaped(product, shape)
}

/// A matrix times the last axis of the data, plus a bias.
///
/// # Errors
/// If the data have another number of elements along the last axis.
pub(super) fn linear(call: &mut Call, data: &Data, weight: Tensor, bias: Option<Tensor>) -> Result<Data, Refusal> {
    let (outputs, inputs) = (weight.shape()[0], weight.shape()[1]);
    let mut shape = data.shape.clone();
    match shape.last_mut() {
        Some(last) if *last == inputs => *last = outputs,
        _ => {
            let found = format!("rows of shape {:?}", data.shape);
            return Err(Refusal::broken(found, format!("{inputs} elements along the last axis of a row")));
        }
    }
    if outputs == 0 || inputs == 0 {
        return Err(Refusal::broken(format!("a matrix of shape {:?}", weight.shape()), "a matrix with elements"));
    }
    let (weight, bias) = (finite(weight)?, bias.map(finite).transpose()?);
    call.compute(Operation::Linear(Linear { weight, bias }), &[data], shape)
}

/// A constant as a matrix.
fn matrix(constant: Constant) -> Result<ArcArray<f32, Ix2>, Refusal> {
    let found = constant.name();
    let wrong = |_| {
        let needed = "a constant matrix, one for the whole batch";
        Refusal::new(found, needed, "use one layer with a matrix of two axes for each product")
    };
    constant.floats()?.into_dimensionality::<Ix2>().map_err(wrong)
}

/// The addend of `Gemm` as a bias for each output.
fn gemm_bias(addend: Constant, outputs: usize) -> Result<Tensor, Refusal> {
    let found = addend.name();
    let addend = addend.floats()?;
    let (front, last) = match *addend.shape() {
        [] => (1, 1),
        [last] => (1, last),
        [front, last] => (front, last),
        _ => (0, 0),
    };
    if front != 1 || (last != 1 && last != outputs) {
        return Err(Refusal::new(found, format!("a bias of {outputs} numbers"), "use the same bias for all rows"));
    }
    let flat = Constant::Float(addend).reshape(&[last])?.floats()?;
    if last == outputs {
        return Ok(flat);
    }
    Ok(ArcArray::from_elem(IxDyn(&[outputs]), flat[[0]]))
}

fn scaled(call: &mut Call, tensor: Tensor, factor: f32) -> Result<Tensor, Refusal> {
    if factor == 1.0 {
        return Ok(tensor);
    }
    call.count_folded(tensor.shape(), 4)?;
    Ok(tensor.mapv(|number| number * factor).into_shared())
}

fn no_constant_addend() -> Refusal {
    let found = "an addend that depends on the inputs";
    Refusal::new(found, "a constant bias", "add the two with `Add` after a `Gemm` without bias")
}
