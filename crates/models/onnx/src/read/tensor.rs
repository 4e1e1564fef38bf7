//! Tensors of a file to constants.

use ndarray::{ArcArray, ArrayD, IxDyn};

use super::external::Folder;
use super::numbers::{Numbers, has_other_fields, of_bytes, of_field, texts, width};
use crate::constant::{Constant, Whole};
use crate::error::Refusal;
use crate::limits::{MAX_ELEMENTS, shape_of};
use crate::proto::TensorProto;
use crate::proto::tensor_proto::{DataLocation, DataType};

/// Reads a tensor. Its message is consumed, so that numbers are not twice in memory longer than needed.
///
/// # Errors
/// If its type is not read, its size is not that of its shape, or a number is not finite.
pub(crate) fn read_tensor(mut tensor: TensorProto, folder: &Folder) -> Result<Constant, Refusal> {
    let (shape, size) = shape_of(&tensor.dims, MAX_ELEMENTS)?;
    let data_type = DataType::try_from(tensor.data_type).map_err(|_| {
        let found = format!("the type of numbers {}", tensor.data_type);
        Refusal::new(found, "a type of the standard up to BFLOAT16", "convert the weights to float32")
    })?;
    if tensor.segment.is_some() {
        return Err(Refusal::new("a tensor in segments", "a whole tensor", "write the model without segments"));
    }
    if has_other_fields(&tensor, data_type) {
        return Err(Refusal::broken("numbers in more than one field or in a field of another type", "one field"));
    }
    if data_type == DataType::String {
        return Ok(Constant::Text(array(&shape, texts(&tensor.string_data)?)?));
    }
    let needed = size * width(data_type)?;
    let numbers = match (tensor.data_location() == DataLocation::External, tensor.raw_data.take()) {
        (true, None) => of_bytes(&folder.read(&tensor.external_data, needed as u64)?, data_type)?,
        (false, Some(raw)) if raw.len() == needed && tensor.external_data.is_empty() => of_bytes(&raw, data_type)?,
        (false, None) if tensor.external_data.is_empty() => of_field(&mut tensor, data_type)?,
        (false, Some(raw)) => {
            let found = format!("{} bytes, and {} external entries", raw.len(), tensor.external_data.len());
            return Err(Refusal::broken(found, format!("{needed} bytes for the shape {shape:?}")));
        }
        _ => return Err(Refusal::broken("external and inner numbers", "either external or inner numbers")),
    };
    constant(&shape, numbers)
}

fn constant(shape: &[usize], numbers: Numbers) -> Result<Constant, Refusal> {
    Ok(match numbers {
        Numbers::Floats(numbers) => Constant::Float(finite(array(shape, numbers)?)?),
        Numbers::Ints(numbers) => Constant::Int(array(shape, numbers.into_iter().map(Whole::Known).collect())?),
        Numbers::Bools(values) => Constant::Bool(array(shape, values)?),
    })
}

fn array<T: Clone>(shape: &[usize], values: Vec<T>) -> Result<ArcArray<T, IxDyn>, Refusal> {
    let found = format!("{} elements", values.len());
    let array = ArrayD::from_shape_vec(IxDyn(shape), values);
    array.map(ArrayD::into_shared).map_err(|_| Refusal::broken(found, format!("as many as the shape {shape:?} has")))
}

/// The tensor, if all its numbers are finite.
///
/// # Errors
/// Says which number is not.
pub(crate) fn finite(tensor: ArcArray<f32, IxDyn>) -> Result<ArcArray<f32, IxDyn>, Refusal> {
    // In the order of memory, which is much faster for a matrix whose axes were swapped.
    if tensor.as_slice_memory_order().is_some_and(|numbers| numbers.iter().all(|number| number.is_finite())) {
        return Ok(tensor);
    }
    match tensor.iter().enumerate().find(|(_, number)| !number.is_finite()) {
        None => Ok(tensor),
        Some((place, number)) => Err(Refusal::new(
            format!("{number} as number {place}"),
            "finite numbers in the range of float32",
            "train again with a smaller learning rate, or replace this number",
        )),
    }
}
