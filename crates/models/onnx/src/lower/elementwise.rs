//! Sums, differences, products and quotients.

use ndarray::{ArcArray, IxDyn};

use super::{Call, Data, Kind, Value};
use crate::activation::Activation;
use crate::constant::Constant;
use crate::error::Refusal;
use crate::finish::{Comparison, Finish};
use crate::graph::{Operation, Tensor};
use crate::read::finite;

/// An operator of two operands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Binary {
    Add,
    Sub,
    Mul,
    Div,
}

/// `Add`, `Sub`, `Mul` and `Div` where an operand depends on the inputs.
pub(super) fn binary(call: &mut Call, binary: Binary) -> Result<Data, Refusal> {
    call.check_operands(2, 2)?;
    match (call.operand(0).cloned(), call.operand(1).cloned()) {
        (Some(Value::Constant(left)), _) => {
            let right = call.number(1)?;
            constant_on_the_left(call, binary, left, right)
        }
        (_, Some(Value::Constant(right))) => {
            let left = call.number(0)?;
            constant_on_the_right(call, binary, left, right)
        }
        _ => {
            let (left, right) = (call.number(0)?, call.number(1)?);
            of_two(call, binary, &left, right)
        }
    }
}

/// `Sum`: as many additions as there are operands, less one.
pub(super) fn sum(call: &mut Call) -> Result<Data, Refusal> {
    call.check_operands(1, usize::MAX)?;
    let mut total = call.number(0)?;
    for place in 1..call.inputs.len() {
        total = match call.operand(place).cloned() {
            Some(Value::Constant(constant)) => constant_on_the_right(call, Binary::Add, total, constant)?,
            _ => {
                let next = call.number(place)?;
                of_two(call, Binary::Add, &total, next)?
            }
        };
    }
    Ok(total)
}

/// `Pow` with a constant exponent.
pub(super) fn power(call: &mut Call) -> Result<Data, Refusal> {
    call.check_operands(2, 2)?;
    let data = call.number(0)?;
    let exponent = match call.constant(1)? {
        Constant::Int(array) if array.len() == 1 => Constant::Int(array).reshape(&[1])?.ints()?[0] as f32,
        other => other.float()?,
    };
    power_of(call, data, exponent)
}

/// A power with this exponent.
pub(super) fn power_of(call: &mut Call, data: Data, exponent: f32) -> Result<Data, Refusal> {
    let activation = match exponent {
        1.0 => return Ok(data),
        0.5 => Activation::Sqrt,
        -1.0 => Activation::Reciprocal,
        exponent => Activation::Power { exponent },
    };
    call.compute(Operation::Activation(activation), &[&data], data.shape.clone())
}

/// A comparison with a constant.
pub(super) fn compare(call: &mut Call, comparison: Comparison) -> Result<Data, Refusal> {
    call.check_operands(2, 2)?;
    let data = call.number(0)?;
    let threshold = call.constant(1)?.float()?;
    call.finish(Finish::Compare { comparison, threshold }, &[&data], data.shape.clone(), Kind::Truth)
}

/// `scale * x + shift`, where the shapes of both are those of the data's rows, or broadcast with them.
pub(super) fn affine(call: &mut Call, data: &Data, scale: Tensor, shift: Tensor) -> Result<Data, Refusal> {
    let shape = broadcast(&broadcast(&data.shape, scale.shape())?, shift.shape())?;
    call.count_folded(scale.shape(), 4)?;
    call.count_folded(shift.shape(), 4)?;
    let (scale, shift) = (finite(scale)?, finite(shift)?);
    call.compute(Operation::Affine { scale, shift }, &[data], shape)
}

/// One number, in the rank of a row.
pub(super) fn uniform(number: f32, row: &[usize]) -> Tensor {
    ArcArray::from_elem(IxDyn(&vec![1; row.len()]), number)
}

/// The shape that two rows of the same rank broadcast to.
///
/// # Errors
/// If the ranks differ, or sizes of an axis differ and none is 1.
pub(crate) fn broadcast(left: &[usize], right: &[usize]) -> Result<Vec<usize>, Refusal> {
    let of_axis = |(&left, &right): (&usize, &usize)| match (left, right) {
        (left, right) if left == right || right == 1 => Some(left),
        (1, right) => Some(right),
        _ => None,
    };
    let shape: Option<Vec<usize>> = left.iter().zip(right).map(of_axis).collect();
    shape.filter(|_| left.len() == right.len()).ok_or_else(|| {
        let found = format!("rows of shape {left:?} and {right:?}");
        let needed = "rows with as many axes, whose sizes are equal or 1";
        Refusal::new(found, needed, "give both operands a batch axis in front, and the same number of axes")
    })
}

/// A constant as it broadcasts to rows of this shape, with as many axes.
///
/// # Errors
/// If it has axes that rows do not have, or differs from row to row of the batch.
pub(super) fn constant_for(constant: Constant, row: &[usize]) -> Result<Tensor, Refusal> {
    let floats = constant.floats()?;
    let found = floats.shape().to_vec();
    if found.contains(&0) {
        return Err(Refusal::broken(format!("a constant of shape {found:?}"), "a constant with elements"));
    }
    // The axis that broadcasts along the batch.
    let own = match found.len().checked_sub(row.len()) {
        Some(1) if found[0] == 1 => &found[1..],
        Some(1..) => {
            let needed = format!("at most {} axes, and one element along the batch axis", row.len() + 1);
            let found = format!("a constant of shape {found:?}");
            return Err(Refusal::new(found, needed, "do not compute with a constant for each row of a batch"));
        }
        _ => &found[..],
    };
    let mut shape = vec![1; row.len() - own.len()];
    shape.extend(own);
    Constant::Float(floats).reshape(&shape)?.floats()
}

fn constant_on_the_left(call: &mut Call, binary: Binary, left: Constant, right: Data) -> Result<Data, Refusal> {
    let constant = constant_for(left, &right.shape)?;
    match binary {
        Binary::Add => shifted(call, &right, 1.0, constant),
        Binary::Sub => shifted(call, &right, -1.0, constant),
        Binary::Mul => scaled(call, &right, constant),
        Binary::Div => {
            let reciprocal = reciprocal(call, &right)?;
            scaled(call, &reciprocal, constant)
        }
    }
}

fn constant_on_the_right(call: &mut Call, binary: Binary, left: Data, right: Constant) -> Result<Data, Refusal> {
    let constant = constant_for(right, &left.shape)?;
    match binary {
        Binary::Add => shifted(call, &left, 1.0, constant),
        Binary::Sub => {
            call.count_folded(constant.shape(), 4)?;
            shifted(call, &left, 1.0, constant.mapv(|number| -number).into_shared())
        }
        Binary::Mul => scaled(call, &left, constant),
        Binary::Div => {
            call.count_folded(constant.shape(), 4)?;
            scaled(call, &left, constant.mapv(|number| (1.0 / f64::from(number)) as f32).into_shared())
        }
    }
}

fn shifted(call: &mut Call, data: &Data, factor: f32, shift: Tensor) -> Result<Data, Refusal> {
    affine(call, data, uniform(factor, &data.shape), shift)
}

fn scaled(call: &mut Call, data: &Data, scale: Tensor) -> Result<Data, Refusal> {
    affine(call, data, scale, uniform(0.0, &data.shape))
}

fn reciprocal(call: &mut Call, data: &Data) -> Result<Data, Refusal> {
    call.compute(Operation::Activation(Activation::Reciprocal), &[data], data.shape.clone())
}

fn of_two(call: &mut Call, binary: Binary, left: &Data, mut right: Data) -> Result<Data, Refusal> {
    let shape = broadcast(&left.shape, &right.shape)?;
    let operation = match binary {
        Binary::Add => Operation::Add,
        Binary::Sub => Operation::Sub,
        Binary::Mul => Operation::Mul,
        Binary::Div => {
            right = reciprocal(call, &right)?;
            Operation::Mul
        }
    };
    call.compute(operation, &[left, &right], shape)
}
