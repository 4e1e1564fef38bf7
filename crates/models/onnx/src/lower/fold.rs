//! What depends on constants alone.

use ndarray::{ArcArray, ArrayD, Axis, IxDyn, Zip, concatenate};

use super::call::axis_of;
use super::classes::target_type;
use super::{Call, Kind, Value, shapes, slices, table};
use crate::constant::{Constant, Whole, Wholes, for_each_type, known};
use crate::error::Refusal;
use crate::graph::Tensor;
use crate::read::finite;

/// The values of a node whose operands are all constants; none if one depends on the inputs.
///
/// # Errors
/// If the operator is not one that constants are computed with.
pub(super) fn fold(call: &mut Call) -> Result<Option<Vec<Value>>, Refusal> {
    if call.inputs.iter().any(|input| matches!(input, Some(Value::Data(_)))) {
        return Ok(None);
    }
    let constant = match call.node.op_type.as_str() {
        "Constant" => literal(call)?,
        "ConstantOfShape" => filled(call)?,
        "Identity" => call.constant(0)?,
        "Shape" => return shapes::shape_of(call).map(|shape| Some(vec![shape])),
        "Cast" => cast(call)?,
        "Reshape" => reshape(call)?,
        "Squeeze" => squeeze(call)?,
        "Unsqueeze" => unsqueeze(call)?,
        "Transpose" => transpose(call)?,
        "Concat" => concat(call)?,
        "Slice" => slice(call)?,
        "Gather" => gather(call)?,
        "Expand" => expand(call)?,
        op @ ("Add" | "Sub" | "Mul" | "Div") => binary(call, op)?,
        "Neg" => map(call, |number| -number)?,
        op @ ("Equal" | "Gemm" | "MatMul" | "Max" | "Min" | "Pow" | "ReduceMean" | "ReduceSum" | "Where") => {
            let needed = "an operand that depends on the inputs";
            let remedy = "export with `do_constant_folding=True`, or compute the constant before the export";
            return Err(Refusal::new(format!("the operator {op} of constants alone"), needed, remedy));
        }
        op => {
            let function = table::function(op)?;
            map(call, |number| function.apply(number, 0.0))?
        }
    };
    Ok(Some(vec![Value::Constant(constant)]))
}

/// `Constant`.
fn literal(call: &Call) -> Result<Constant, Refusal> {
    call.check_operands(0, 0)?;
    let attributes = &call.attributes;
    let ints = |ints: Vec<i64>| Constant::list(ints.into_iter().map(Whole::Known));
    let floats = |floats: Vec<f32>| Constant::Float(crate::constant::list_of(floats));
    if let Some(tensor) = attributes.tensor("value")? {
        return Ok(tensor);
    }
    if let Some(int) = attributes.int("value_int")? {
        return ints(vec![int]).reshape(&[]);
    }
    if let Some(list) = attributes.ints("value_ints")? {
        return Ok(ints(list.to_vec()));
    }
    if let Some(float) = attributes.float("value_float")? {
        return floats(vec![float]).reshape(&[]);
    }
    match attributes.floats("value_floats")? {
        Some(list) => Ok(floats(list)),
        None => Err(Refusal::new("no value that is read", "a tensor, integers or numbers", "use such a constant")),
    }
}

/// `ConstantOfShape`.
fn filled(call: &mut Call) -> Result<Constant, Refusal> {
    call.check_operands(1, 1)?;
    let shape: Option<Vec<usize>> =
        call.constant(0)?.ints()?.into_iter().map(|size| usize::try_from(size).ok()).collect();
    let shape = shape.ok_or_else(|| Refusal::broken("a negative size", "sizes of 0 or more"))?;
    let value = match call.attributes.tensor("value")? {
        Some(value) if value.shape() == [1] => value,
        Some(value) => return Err(Refusal::broken(value.name(), "one element")),
        None => Constant::Float(crate::constant::list_of(vec![0.0])),
    };
    call.count_folded(&shape, value.width())?;
    let wrong = || Refusal::broken("a value that does not fit the shape", "one element");
    Ok(for_each_type!(value, array => array.broadcast(IxDyn(&shape)).ok_or_else(wrong)?.to_owned().into_shared()))
}

/// `Cast`.
fn cast(call: &mut Call) -> Result<Constant, Refusal> {
    call.check_operands(1, 1)?;
    call.attributes.int("saturate")?;
    let constant = call.constant(0)?;
    let (to, _) = target_type(call)?;
    let same = matches!((&constant, to), (Constant::Float(_), Kind::Number) | (Constant::Int(_), Kind::Integer));
    if !same {
        call.count_folded(constant.shape(), size_of::<Whole>())?;
    }
    let fails = |from: &str| Refusal::new(format!("a conversion of {from}"), "of numbers", "remove the conversion");
    match (constant, to) {
        (Constant::Float(array), Kind::Number) => Ok(Constant::Float(array)),
        (Constant::Int(array), Kind::Integer) => Ok(Constant::Int(array)),
        (Constant::Bool(array), Kind::Truth) => Ok(Constant::Bool(array)),
        (Constant::Int(array), Kind::Number) => Ok(Constant::Float(numbers(&array)?)),
        (Constant::Float(array), Kind::Integer) => {
            Ok(Constant::Int(array.mapv(|number| Whole::Known(number as i64)).into_shared()))
        }
        (Constant::Bool(array), Kind::Number) => {
            Ok(Constant::Float(array.mapv(|value| f32::from(u8::from(value))).into_shared()))
        }
        (Constant::Bool(array), Kind::Integer) => {
            Ok(Constant::Int(array.mapv(|value| Whole::Known(value.into())).into_shared()))
        }
        (other, _) => Err(fails(&other.name())),
    }
}

fn numbers(array: &Wholes) -> Result<Tensor, Refusal> {
    let values = array.iter().map(|&whole| Ok(known(whole)? as f32)).collect::<Result<Vec<_>, Refusal>>()?;
    Constant::Float(crate::constant::list_of(values)).reshape(array.shape())?.floats()
}

/// `Reshape`.
fn reshape(call: &mut Call) -> Result<Constant, Refusal> {
    call.check_operands(2, 2)?;
    let zero_is_zero = call.flag("allowzero", false)?;
    let constant = call.constant(0)?;
    let old = constant.shape().to_vec();
    let mut inferred = None;
    let mut shape = Vec::new();
    for (axis, size) in call.constant(1)?.ints()?.into_iter().enumerate() {
        shape.push(match size {
            0 if !zero_is_zero => *old.get(axis).ok_or_else(|| Refusal::broken("a size of 0", "an old axis"))?,
            -1 if inferred.is_none() => {
                inferred = Some(axis);
                1
            }
            size => usize::try_from(size).map_err(|_| Refusal::broken(format!("a size of {size}"), "a size"))?,
        });
    }
    let known = crate::limits::product(&shape, crate::limits::MAX_ELEMENTS)?;
    if let Some(axis) = inferred {
        shape[axis] = old.iter().product::<usize>().checked_div(known).unwrap_or(0);
    }
    if !constant.is_in_order() {
        call.count_folded(&old, constant.width())?;
    }
    constant.reshape(&shape)
}

/// `Squeeze`.
fn squeeze(call: &mut Call) -> Result<Constant, Refusal> {
    call.check_operands(1, 2)?;
    let constant = call.constant(0)?;
    let old = constant.shape().to_vec();
    let axes = match call.ints("axes", 1)? {
        Some(axes) => axes.into_iter().map(|axis| axis_of(axis, old.len())).collect::<Result<Vec<_>, _>>()?,
        None => (0..old.len()).filter(|&axis| old[axis] == 1).collect(),
    };
    let shape: Vec<usize> = (0..old.len()).filter(|axis| !axes.contains(axis)).map(|axis| old[axis]).collect();
    constant.reshape(&shape)
}

/// `Unsqueeze`.
fn unsqueeze(call: &mut Call) -> Result<Constant, Refusal> {
    call.check_operands(1, 2)?;
    let constant = call.constant(0)?;
    let axes = call.ints("axes", 1)?.ok_or_else(|| Refusal::broken("no `axes`", "the axes to insert"))?;
    let shape = shapes::with_inserted(&axes, constant.shape())?;
    constant.reshape(&shape)
}

/// `Transpose`.
fn transpose(call: &mut Call) -> Result<Constant, Refusal> {
    call.check_operands(1, 1)?;
    let constant = call.constant(0)?;
    let order = shapes::permutation(call, constant.shape().len())?;
    Ok(for_each_type!(constant, array => array.permuted_axes(IxDyn(&order))))
}

/// `Concat`.
fn concat(call: &mut Call) -> Result<Constant, Refusal> {
    call.check_operands(1, usize::MAX)?;
    let parts = (0..call.inputs.len()).map(|place| call.constant(place)).collect::<Result<Vec<_>, _>>()?;
    let missing = || Refusal::broken("no `axis`", "the axis along which the operands are joined");
    let axis = axis_of(call.attributes.int("axis")?.ok_or_else(missing)?, parts[0].shape().len())?;
    for part in &parts {
        call.count_folded(part.shape(), part.width())?;
    }
    let wrong = || Refusal::broken("constants of other shapes or types", "constants that differ along one axis");
    if parts.iter().all(|part| matches!(part, Constant::Float(_))) {
        let parts = parts.into_iter().map(Constant::floats).collect::<Result<Vec<_>, _>>()?;
        let views: Vec<_> = parts.iter().map(|part| part.view()).collect();
        return Ok(Constant::Float(concatenate(Axis(axis), &views).map_err(|_| wrong())?.into_shared()));
    }
    let ints: Option<Vec<Wholes>> =
        parts.into_iter().map(|part| if let Constant::Int(array) = part { Some(array) } else { None }).collect();
    let ints = ints.ok_or_else(wrong)?;
    let views: Vec<_> = ints.iter().map(|part| part.view()).collect();
    Ok(Constant::Int(concatenate(Axis(axis), &views).map_err(|_| wrong())?.into_shared()))
}

/// `Slice`.
fn slice(call: &mut Call) -> Result<Constant, Refusal> {
    let mut constant = call.constant(0)?;
    for part in slices::parts(call, constant.shape().len())? {
        call.count_folded(constant.shape(), constant.width() + size_of::<usize>())?;
        let places = part.places(constant.shape()[part.axis])?;
        constant = constant.select(part.axis, &places);
    }
    Ok(constant)
}

/// `Gather`.
fn gather(call: &mut Call) -> Result<Constant, Refusal> {
    call.check_operands(2, 2)?;
    let constant = call.constant(0)?;
    let axis = axis_of(call.attributes.int("axis")?.unwrap_or(0), constant.shape().len())?;
    let index = call.constant(1)?;
    let single = index.shape().is_empty();
    let places = slices::places_of(index, constant.shape()[axis])?;
    let mut shape = constant.shape().to_vec();
    shape[axis] = places.len();
    call.count_folded(&shape, constant.width())?;
    let selected = constant.select(axis, &places);
    if !single {
        return Ok(selected);
    }
    shape.remove(axis);
    selected.reshape(&shape)
}

/// `Expand`.
fn expand(call: &mut Call) -> Result<Constant, Refusal> {
    call.check_operands(2, 2)?;
    let constant = call.constant(0)?;
    let target: Option<Vec<usize>> =
        call.constant(1)?.ints()?.into_iter().map(|size| usize::try_from(size).ok()).collect();
    let target = target.ok_or_else(|| Refusal::broken("a negative size", "sizes of 0 or more"))?;
    let shape = common_shape(constant.shape(), &target)?;
    call.count_folded(&shape, constant.width())?;
    let wrong = || Refusal::broken("a constant that does not fit the shape", "sizes that are equal or 1");
    Ok(for_each_type!(constant, array => array.broadcast(IxDyn(&shape)).ok_or_else(wrong)?.to_owned().into_shared()))
}

/// Arithmetic of two constants.
fn binary(call: &mut Call, op: &str) -> Result<Constant, Refusal> {
    call.check_operands(2, 2)?;
    let (left, right) = (call.constant(0)?, call.constant(1)?);
    let shape = common_shape(left.shape(), right.shape())?;
    call.count_folded(&shape, left.width())?;
    match (left, right) {
        (Constant::Float(left), Constant::Float(right)) => {
            let result = zipped(&left, &right, &shape, |left, right| Ok(of_numbers(op, *left, *right)))?;
            Ok(Constant::Float(finite(result)?))
        }
        (Constant::Int(left), Constant::Int(right)) => {
            Ok(Constant::Int(zipped(&left, &right, &shape, |left, right| of_wholes(op, *left, *right))?))
        }
        (left, right) => Err(Refusal::broken(format!("{} and {}", left.name(), right.name()), "numbers of one type")),
    }
}

fn zipped<T: Clone>(
    left: &ArcArray<T, IxDyn>,
    right: &ArcArray<T, IxDyn>,
    shape: &[usize],
    compute: impl Fn(&T, &T) -> Result<T, Refusal>,
) -> Result<ArcArray<T, IxDyn>, Refusal> {
    let wrong = || Refusal::broken("constants of other shapes", "sizes that are equal or 1");
    let left = left.broadcast(IxDyn(shape)).ok_or_else(wrong)?;
    let right = right.broadcast(IxDyn(shape)).ok_or_else(wrong)?;
    let results: Vec<T> =
        left.iter().zip(right.iter()).map(|(left, right)| compute(left, right)).collect::<Result<_, _>>()?;
    Ok(ArrayD::from_shape_vec(IxDyn(shape), results).map_err(|_| wrong())?.into_shared())
}

fn of_numbers(op: &str, left: f32, right: f32) -> f32 {
    match op {
        "Add" => left + right,
        "Sub" => left - right,
        "Mul" => left * right,
        _ => left / right,
    }
}

/// Integer arithmetic; the number of rows stays if 0 is added or it is multiplied or divided by 1.
fn of_wholes(op: &str, left: Whole, right: Whole) -> Result<Whole, Refusal> {
    let (left, right) = match (op, left, right) {
        ("Add" | "Sub", Whole::Batch, Whole::Known(0)) | ("Mul" | "Div", Whole::Batch, Whole::Known(1)) => {
            return Ok(Whole::Batch);
        }
        ("Add", Whole::Known(0), Whole::Batch) | ("Mul", Whole::Known(1), Whole::Batch) => return Ok(Whole::Batch),
        _ => (known(left)?, known(right)?),
    };
    let result = match op {
        "Add" => left.checked_add(right),
        "Sub" => left.checked_sub(right),
        "Mul" => left.checked_mul(right),
        _ => left.checked_div(right),
    };
    result.map(Whole::Known).ok_or_else(|| Refusal::broken("integers that overflow, or a division by 0", "integers"))
}

/// A function of each number of a constant.
fn map(call: &mut Call, function: impl Fn(f32) -> f32) -> Result<Constant, Refusal> {
    call.check_operands(1, 1)?;
    let array = call.constant(0)?.floats()?;
    call.count_folded(array.shape(), 4)?;
    let mut result = ArrayD::zeros(array.raw_dim());
    Zip::from(&mut result).and(&array).for_each(|result, &number| *result = function(number));
    Ok(Constant::Float(finite(result.into_shared())?))
}

/// The shape that both shapes broadcast to.
fn common_shape(left: &[usize], right: &[usize]) -> Result<Vec<usize>, Refusal> {
    let rank = left.len().max(right.len());
    let padded = |shape: &[usize]| [vec![1; rank - shape.len()], shape.to_vec()].concat();
    super::broadcast(&padded(left), &padded(right))
}
