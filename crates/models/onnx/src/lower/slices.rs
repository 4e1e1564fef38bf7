//! Parts of values: slices, pieces, single elements, rows of tables.

use super::call::{axis_of, mixes_rows, row_axis};
use super::{Call, Data, Kind, Value};
use crate::constant::{Constant, Whole, known};
use crate::error::Refusal;
use crate::finish::{Finish, Labels};
use crate::graph::Operation;
use crate::limits::MAX_RANK;

/// A part of an axis.
pub(super) struct Part {
    pub axis: usize,
    start: Whole,
    end: Whole,
    step: i64,
}

/// `Slice` of a value that depends on the inputs.
pub(super) fn slice(call: &mut Call) -> Result<Data, Refusal> {
    let mut data = call.number(0)?;
    for part in parts(call, data.shape.len() + 1)? {
        match part.axis.checked_sub(1) {
            Some(axis) => {
                call.count_folded(&[data.shape[axis]], 8)?;
                let places = part.places(data.shape[axis])?;
                data = select(call, data, axis, places)?;
            }
            None if part.is_everything() => {}
            None => return Err(mixes_rows()),
        }
    }
    Ok(data)
}

/// The parts that `Slice` names, in attributes or operands.
pub(super) fn parts(call: &Call, rank: usize) -> Result<Vec<Part>, Refusal> {
    call.check_operands(1, 5)?;
    let list = |name: &str, place: usize| match call.attributes.ints(name)? {
        Some(ints) => Ok(Some(ints.iter().copied().map(Whole::Known).collect::<Vec<_>>())),
        None => call.optional_constant(place)?.map(Constant::wholes).transpose(),
    };
    let missing = || Refusal::broken("no starts or ends", "the parts of a slice");
    let starts = list("starts", 1)?.ok_or_else(missing)?;
    let ends = list("ends", 2)?.ok_or_else(missing)?;
    let axes = call.ints("axes", 3)?.unwrap_or_else(|| (0..starts.len() as i64).collect());
    let steps = match call.optional_constant(4)? {
        Some(steps) => steps.ints()?,
        None => vec![1; starts.len()],
    };
    if [ends.len(), axes.len(), steps.len()] != [starts.len(); 3] || starts.len() > MAX_RANK + 1 {
        return Err(Refusal::broken("starts, ends, axes and steps of other lengths", "as many of each"));
    }
    let part = |place: usize| {
        let (start, end, step) = (starts[place], ends[place], steps[place]);
        Ok(Part { axis: axis_of(axes[place], rank)?, start, end, step })
    };
    (0..starts.len()).map(part).collect()
}

impl Part {
    /// Whether it is all rows of a batch.
    fn is_everything(&self) -> bool {
        let to_the_end = match self.end {
            Whole::Batch => true,
            Whole::Known(end) => end >= i64::from(i32::MAX),
        };
        self.start == Whole::Known(0) && self.step == 1 && to_the_end
    }

    /// The places, for an axis of this size.
    ///
    /// # Errors
    /// If the step is 0, or a bound depends on the number of rows.
    pub fn places(&self, size: usize) -> Result<Vec<usize>, Refusal> {
        let (size, step) = (size as i64, self.step);
        let (lowest, highest) = if step < 0 { (-1, size - 1) } else { (0, size) };
        let bound = |whole: Whole| {
            let bound = known(whole)?;
            Ok((if bound < 0 { bound.saturating_add(size) } else { bound }).clamp(lowest, highest))
        };
        let (start, end) = (bound(self.start)?, bound(self.end)?);
        let stride = usize::try_from(step.unsigned_abs()).unwrap_or(usize::MAX);
        match step {
            0 => Err(Refusal::broken("a step of 0", "a step that moves")),
            1.. => Ok((start..end).step_by(stride).map(|place| place as usize).collect()),
            _ => Ok((end + 1..=start).rev().step_by(stride).map(|place| place as usize).collect()),
        }
    }
}

/// The elements at these places of an axis of a row.
pub(super) fn select(call: &mut Call, data: Data, axis: usize, places: Vec<usize>) -> Result<Data, Refusal> {
    if places.is_empty() {
        return Err(Refusal::new("an empty part", "at least one element", "remove what computes nothing"));
    }
    if places.iter().copied().eq(0..data.shape[axis]) {
        return Ok(data);
    }
    let mut shape = data.shape.clone();
    shape[axis] = places.len();
    call.compute(Operation::Select { axis, places }, &[&data], shape)
}

/// `Split` of a value that depends on the inputs.
pub(super) fn split(call: &mut Call) -> Result<Vec<Value>, Refusal> {
    call.check_operands(1, 2)?;
    let data = call.number(0)?;
    let axis = row_axis(call.attributes.int("axis")?.unwrap_or(0), &data.shape)?;
    let (size, pieces) = (data.shape[axis], call.node.output.len());
    call.count_folded(&[size], 8)?;
    if let Some(count) = call.attributes.int("num_outputs")?.filter(|&count| usize::try_from(count) != Ok(pieces)) {
        return Err(Refusal::broken(format!("{pieces} outputs"), format!("`num_outputs`, {count}")));
    }
    let sizes = match call.ints("split", 1)? {
        Some(sizes) => sizes.iter().map(|&size| usize::try_from(size).unwrap_or(0)).collect(),
        None => equal_pieces(size, pieces),
    };
    let total = sizes.iter().try_fold(0usize, |total, &size| total.checked_add(size));
    if sizes.len() != pieces || total != Some(size) || sizes.contains(&0) {
        let found = format!("{} pieces of {size} elements", sizes.len());
        return Err(Refusal::broken(found, format!("{pieces} pieces that are the whole axis")));
    }
    let mut start = 0;
    let mut values = Vec::new();
    for (output, piece) in sizes.into_iter().enumerate() {
        call.output = output;
        let places = (start..start + piece).collect();
        values.push(Value::Data(select(call, data.clone(), axis, places)?));
        start += piece;
    }
    Ok(values)
}

/// Pieces of equal size, but for the last.
fn equal_pieces(size: usize, pieces: usize) -> Vec<usize> {
    let piece = size.div_ceil(pieces.max(1));
    (0..pieces).map(|place| size.saturating_sub(place * piece).min(piece)).collect()
}

/// `Gather`: constant places of a value, rows of a constant table, or labels.
pub(super) fn gather(call: &mut Call) -> Result<Data, Refusal> {
    call.check_operands(2, 2)?;
    let axis = call.attributes.int("axis")?.unwrap_or(0);
    match (call.operand(0).cloned(), call.operand(1).cloned()) {
        (Some(Value::Constant(table)), Some(Value::Data(index))) if index.kind == Kind::Integer && axis == 0 => {
            label(call, table, &index)
        }
        (Some(Value::Constant(table)), _) => {
            let index = call.data(1)?;
            embedding(call, table, &index, axis)
        }
        _ => {
            let data = call.number(0)?;
            let axis = row_axis(axis, &data.shape)?;
            let index = call.constant(1)?;
            let single = index.shape().is_empty();
            let places = places_of(index, data.shape[axis])?;
            call.count_folded(&[places.len()], 8)?;
            let mut shape = data.shape.clone();
            let selected = select(call, data, axis, places)?;
            if !single {
                return Ok(selected);
            }
            shape.remove(axis);
            call.reshaped(selected, shape)
        }
    }
}

/// Places of an axis of this size; negative ones count from the end.
pub(super) fn places_of(index: Constant, size: usize) -> Result<Vec<usize>, Refusal> {
    index.ints()?.into_iter().map(|place| axis_of(place, size)).collect::<Result<_, _>>().map_err(|_: Refusal| {
        Refusal::broken("a place outside an axis", format!("places of an axis of {size} elements"))
    })
}

fn embedding(call: &mut Call, table: Constant, index: &Data, axis: i64) -> Result<Data, Refusal> {
    let table = table.floats()?;
    let &[rows, width] = table.shape() else {
        let found = format!("a table of shape {:?}", table.shape());
        return Err(Refusal::new(found, "a table of two axes", "use an embedding"));
    };
    if index.kind != Kind::Index || axis != 0 || rows == 0 || width == 0 {
        let found = format!("{} as places along axis {axis}", super::call::kind_name(index.kind));
        let remedy = "use integers of an input as indexes of an embedding";
        return Err(Refusal::new(found, "indexes of an input along axis 0", remedy));
    }
    let shape = [&index.shape[..], &[width]].concat();
    call.compute(Operation::Embedding { table }, &[index], shape)
}

/// `ArrayFeatureExtractor`: columns of data, or labels.
pub(super) fn feature_extractor(call: &mut Call) -> Result<Data, Refusal> {
    call.check_operands(2, 2)?;
    if let (Some(Value::Constant(labels)), Some(Value::Data(index))) = (call.operand(0), call.operand(1)) {
        let (labels, index) = (labels.clone(), index.clone());
        return label(call, labels, &index);
    }
    let data = call.number(0)?;
    let last = data.shape.len().checked_sub(1).ok_or_else(mixes_rows)?;
    let index = call.constant(1)?;
    let places = places_of(index.clone().reshape(&[index.shape().iter().product()])?, data.shape[last])?;
    call.count_folded(&[places.len()], 8)?;
    select(call, data, last, places)
}

/// The label of each integer.
pub(super) fn label(call: &mut Call, labels: Constant, index: &Data) -> Result<Data, Refusal> {
    let (labels, kind) = match labels {
        Constant::Text(texts) if texts.ndim() == 1 => (Labels::Texts(texts.iter().cloned().collect()), Kind::Text),
        Constant::Int(array) if array.ndim() == 1 => (Labels::Integers(Constant::Int(array).ints()?), Kind::Integer),
        other => return Err(Refusal::new(other.name(), "a list of integer or text labels", "use such labels")),
    };
    if index.kind != Kind::Integer || labels.is_empty() {
        let found = super::call::kind_name(index.kind);
        return Err(Refusal::new(found, "places of classes, such as those of `ArgMax`", "label the greatest score"));
    }
    call.finish(Finish::Label(labels), &[index], index.shape.clone(), kind)
}
