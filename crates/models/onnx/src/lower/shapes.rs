//! Other shapes of the same numbers, and zeros around them.

use super::call::{axis_of, mixes_rows, row_axis};
use super::{Call, Data, Kind, Value};
use crate::constant::{Constant, Whole};
use crate::error::Refusal;
use crate::graph::Operation;
use crate::limits::{MAX_RANK, MAX_ROW};

/// `Reshape`; the batch axis stays in front.
pub(super) fn reshape(call: &mut Call) -> Result<Data, Refusal> {
    call.check_operands(2, 2)?;
    let data = call.data(0)?;
    let zero_is_zero = call.flag("allowzero", false)?;
    let target = call.constant(1)?.wholes()?;
    let shape = row_of(&target, &data.shape, call.state.batch, zero_is_zero)?;
    call.reshaped(data, shape)
}

/// The row of a target shape that begins with the batch axis.
fn row_of(target: &[Whole], row: &[usize], batch: Option<usize>, zero_is_zero: bool) -> Result<Vec<usize>, Refusal> {
    let elements: usize = row.iter().product();
    let (first, rest) = target.split_first().filter(|(_, rest)| rest.len() < MAX_RANK).ok_or_else(mixes_rows)?;
    let mut shape = Vec::new();
    let mut inferred = None;
    for (axis, whole) in rest.iter().enumerate() {
        shape.push(match *whole {
            Whole::Known(0) if !zero_is_zero && axis < row.len() => row[axis],
            Whole::Known(-1) if inferred.is_none() => {
                inferred = Some(axis);
                1
            }
            Whole::Known(size) if (1..=MAX_ROW as i64).contains(&size) => size as usize,
            _ => return Err(wrong_target(target, row)),
        });
    }
    let known = shape.iter().try_fold(1usize, |size, &axis| size.checked_mul(axis)).filter(|&size| size > 0);
    let known = known.ok_or_else(|| wrong_target(target, row))?;
    if let Some(axis) = inferred {
        shape[axis] = elements / known;
    }
    let is_batch = match *first {
        Whole::Batch => true,
        Whole::Known(0) => !zero_is_zero,
        Whole::Known(-1) => inferred.is_none(),
        Whole::Known(size) => match batch {
            Some(batch) => usize::try_from(size) == Ok(batch),
            // Exporters write the rows of their example. With other rows the model would be wrong, so these are all.
            None => size > 0 && inferred.is_none(),
        },
    };
    if is_batch && shape.iter().product::<usize>() == elements { Ok(shape) } else { Err(wrong_target(target, row)) }
}

fn wrong_target(target: &[Whole], row: &[usize]) -> Refusal {
    let sizes: Vec<String> = target
        .iter()
        .take(MAX_RANK + 1)
        .map(|whole| match whole {
            Whole::Known(size) => size.to_string(),
            Whole::Batch => "rows".to_owned(),
        })
        .collect();
    let found = format!("the new shape [{}] of rows of shape {row:?}", sizes.join(", "));
    let remedy =
        "keep the batch axis in front: `x.reshape(x.size(0), ..)` or `x.flatten(1)`, with a dynamic batch axis";
    Refusal::new(found, "the number of rows in front and as many elements in a row", remedy)
}

/// `Flatten`, which keeps the batch axis.
pub(super) fn flatten(call: &mut Call) -> Result<Data, Refusal> {
    call.check_operands(1, 1)?;
    let data = call.data(0)?;
    let rank = data.shape.len() + 1;
    let axis = call.attributes.int("axis")?.unwrap_or(1);
    let axis = if axis == rank as i64 { rank } else { axis_of(axis, rank)? };
    let front: usize = data.shape.iter().take(axis.checked_sub(1).ok_or_else(mixes_rows)?).product();
    if front != 1 {
        return Err(mixes_rows());
    }
    let elements = data.shape.iter().product();
    call.reshaped(data, vec![elements])
}

/// `Squeeze`, with given axes.
pub(super) fn squeeze(call: &mut Call) -> Result<Data, Refusal> {
    call.check_operands(1, 2)?;
    let data = call.data(0)?;
    let missing = || Refusal::new("no `axes`", "the axes to remove", "export with `squeeze(dim)`");
    let mut shape: Vec<Option<usize>> = data.shape.iter().copied().map(Some).collect();
    for axis in call.ints("axes", 1)?.ok_or_else(missing)? {
        let axis = row_axis(axis, &data.shape)?;
        if shape[axis].take() != Some(1) {
            let found = format!("axis {axis} of rows of shape {:?}", data.shape);
            return Err(Refusal::broken(found, "an axis of one element, once"));
        }
    }
    call.reshaped(data, shape.into_iter().flatten().collect())
}

/// `Unsqueeze`.
pub(super) fn unsqueeze(call: &mut Call) -> Result<Data, Refusal> {
    call.check_operands(1, 2)?;
    let data = call.data(0)?;
    let axes = call.ints("axes", 1)?.ok_or_else(|| Refusal::broken("no `axes`", "the axes to insert"))?;
    let shape = with_inserted(&axes, &[&[0], &data.shape[..]].concat())?;
    if shape[0] != 0 {
        return Err(mixes_rows());
    }
    call.reshaped(data, shape[1..].to_vec())
}

/// A shape with axes of one element at these places of the new shape.
pub(super) fn with_inserted(axes: &[i64], shape: &[usize]) -> Result<Vec<usize>, Refusal> {
    let rank = shape.len() + axes.len();
    if rank > MAX_RANK + 1 {
        return Err(Refusal::new(format!("{rank} axes"), format!("at most {MAX_RANK}"), "use fewer axes"));
    }
    let mut inserted = vec![false; rank];
    for &axis in axes {
        let axis = axis_of(axis, rank)?;
        if std::mem::replace(&mut inserted[axis], true) {
            return Err(Refusal::broken(format!("axis {axis} twice"), "distinct `axes`"));
        }
    }
    let mut old = shape.iter();
    Ok(inserted.into_iter().map(|new| if new { 1 } else { old.next().copied().unwrap_or(1) }).collect())
}

/// `Transpose`, which keeps the batch axis in front.
pub(super) fn transpose(call: &mut Call) -> Result<Data, Refusal> {
    call.check_operands(1, 1)?;
    let data = call.number(0)?;
    let order = permutation(call, data.shape.len() + 1)?;
    if order.first() != Some(&0) {
        return Err(mixes_rows());
    }
    let axes: Vec<usize> = order[1..].iter().map(|axis| axis - 1).collect();
    let shape = axes.iter().map(|&axis| data.shape[axis]).collect();
    if axes.is_sorted() {
        return Ok(data);
    }
    call.compute(Operation::Transpose { axes }, &[&data], shape)
}

/// The permutation of an attribute; without one the axes are reversed.
pub(super) fn permutation(call: &Call, rank: usize) -> Result<Vec<usize>, Refusal> {
    let Some(order) = call.attributes.ints("perm")? else { return Ok((0..rank).rev().collect()) };
    let order: Vec<usize> = order.iter().map(|&axis| axis_of(axis, rank)).collect::<Result<_, _>>()?;
    let mut sorted = order.clone();
    sorted.sort_unstable();
    if sorted.iter().copied().eq(0..rank) {
        return Ok(order);
    }
    Err(Refusal::broken(format!("`perm` of {:?}", &order[..order.len().min(MAX_RANK)]), "each axis once"))
}

/// `Concat` of values that depend on the inputs.
pub(super) fn concat(call: &mut Call) -> Result<Data, Refusal> {
    call.check_operands(1, usize::MAX)?;
    let parts = (0..call.inputs.len()).map(|place| call.number(place)).collect::<Result<Vec<_>, _>>()?;
    let missing = || Refusal::broken("no `axis`", "the axis along which the operands are joined");
    let axis = row_axis(call.attributes.int("axis")?.ok_or_else(missing)?, &parts[0].shape)?;
    let shape = joined(&parts.iter().map(|part| &part.shape[..]).collect::<Vec<_>>(), axis)?;
    if parts.len() == 1 {
        return Ok(parts[0].clone());
    }
    call.compute(Operation::Concat { axis }, &parts.iter().collect::<Vec<_>>(), shape)
}

/// The shape of rows of these shapes, one after the other along an axis.
///
/// # Errors
/// If there is no such axis, or they differ along another one.
pub(crate) fn joined(shapes: &[&[usize]], axis: usize) -> Result<Vec<usize>, Refusal> {
    let needed = || format!("rows that differ along axis {axis} only");
    let first = shapes.first().copied().unwrap_or_default();
    if axis >= first.len() {
        return Err(Refusal::broken(format!("rows of shape {first:?}"), needed()));
    }
    let mut joined = first.to_vec();
    for &shape in &shapes[1..] {
        let alike = |(other, (left, right)): (usize, (&usize, &usize))| other == axis || left == right;
        if shape.len() != first.len() || !first.iter().zip(shape).enumerate().all(alike) {
            return Err(Refusal::broken(format!("rows of shape {first:?} and {shape:?}"), needed()));
        }
        joined[axis] = joined[axis].saturating_add(shape[axis]);
    }
    Ok(joined)
}

/// `Pad` with zeros.
pub(super) fn pad(call: &mut Call) -> Result<Data, Refusal> {
    call.check_operands(1, 4)?;
    let data = call.number(0)?;
    let mode = call.attributes.text("mode")?.unwrap_or("constant");
    let value = match call.optional_constant(2)? {
        Some(value) => value.float()?,
        None => call.attributes.float("value")?.unwrap_or(0.0),
    };
    if mode != "constant" || value != 0.0 {
        let found = format!("padding by {value} in mode {mode:?}");
        return Err(Refusal::new(found, "padding by zeros", "pad with zeros"));
    }
    let pads = call.ints("pads", 1)?.ok_or_else(|| Refusal::broken("no `pads`", "the numbers of zeros"))?;
    let axes = match call.optional_constant(3)? {
        Some(axes) => axes.ints()?,
        None => (0..=data.shape.len() as i64).collect(),
    };
    let amounts = amounts(&pads, &axes, &data.shape)?;
    let shape: Vec<usize> =
        data.shape.iter().zip(&amounts).map(|(size, (before, after))| size + before + after).collect();
    if shape == data.shape {
        return Ok(data);
    }
    call.compute(Operation::Pad { amounts }, &[&data], shape)
}

/// Zeros before and after, for each axis of a row.
fn amounts(pads: &[i64], axes: &[i64], row: &[usize]) -> Result<Vec<(usize, usize)>, Refusal> {
    let amount = |pad: i64| {
        let size = usize::try_from(pad).ok().filter(|&size| size <= MAX_ROW);
        size.ok_or_else(|| Refusal::new(format!("padding of {pad}"), format!("0 to {MAX_ROW}"), "slice instead"))
    };
    if pads.len() != 2 * axes.len() {
        return Err(Refusal::broken(format!("{} pads", pads.len()), "two for each axis"));
    }
    let mut amounts = vec![(0, 0); row.len()];
    for (place, &axis) in axes.iter().enumerate() {
        let found = (amount(pads[place])?, amount(pads[axes.len() + place])?);
        match axis_of(axis, row.len() + 1)?.checked_sub(1) {
            None if found == (0, 0) => {}
            None => return Err(mixes_rows()),
            Some(axis) => amounts[axis] = found,
        }
    }
    Ok(amounts)
}

/// `Expand` to the shape that the value has.
pub(super) fn expand(call: &mut Call) -> Result<Data, Refusal> {
    call.check_operands(2, 2)?;
    let data = call.number(0)?;
    let target = call.constant(1)?.wholes()?;
    let own: Vec<Whole> =
        [Whole::Batch].into_iter().chain(data.shape.iter().map(|&size| Whole::Known(size as i64))).collect();
    let stays = |(target, own): (&Whole, &Whole)| target == own || *target == Whole::Known(1);
    if target.len() <= own.len() && target.iter().rev().zip(own.iter().rev()).all(stays) {
        return Ok(data);
    }
    Err(Refusal::new("a value that is repeated", "its own shape", "let the next operator broadcast"))
}

/// `Shape` of any value: a constant, but for the number of rows.
pub(super) fn shape_of(call: &mut Call) -> Result<Value, Refusal> {
    call.check_operands(1, 1)?;
    let known = |shape: &[usize]| shape.iter().map(|&size| Whole::Known(size as i64)).collect::<Vec<_>>();
    let shape = match call.operand(0) {
        Some(Value::Constant(constant)) => known(constant.shape()),
        Some(Value::Data(data)) if data.kind != Kind::Scores => [vec![Whole::Batch], known(&data.shape)].concat(),
        _ => return Err(Refusal::broken("no tensor", "a tensor")),
    };
    let rank = shape.len() as i64;
    let bound = |name: &str, default: i64| {
        let value = call.attributes.int(name)?.unwrap_or(default);
        let from_front = if value < 0 { value.saturating_add(rank) } else { value };
        Ok(from_front.clamp(0, rank) as usize)
    };
    let (start, end) = (bound("start", 0)?, bound("end", rank)?);
    Ok(Value::Constant(Constant::list(shape.into_iter().take(end).skip(start))))
}
