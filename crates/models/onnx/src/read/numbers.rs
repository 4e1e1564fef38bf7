//! The numbers of tensors, from bytes or from typed fields.

use bytes::Bytes;
use half::{bf16, f16};

use crate::error::Refusal;
use crate::proto::TensorProto;
use crate::proto::tensor_proto::DataType;

/// Numbers of a tensor, in one of three types.
pub(super) enum Numbers {
    Floats(Vec<f32>),
    Ints(Vec<i64>),
    Bools(Vec<bool>),
}

/// Bytes of one number.
///
/// # Errors
/// If numbers of this type are not read.
pub(super) fn width(data_type: DataType) -> Result<usize, Refusal> {
    match data_type {
        DataType::Bool | DataType::Uint8 | DataType::Int8 => Ok(1),
        DataType::Uint16 | DataType::Int16 | DataType::Float16 | DataType::Bfloat16 => Ok(2),
        DataType::Uint32 | DataType::Int32 | DataType::Float => Ok(4),
        DataType::Uint64 | DataType::Int64 | DataType::Double => Ok(8),
        other => Err(Refusal::new(
            format!("numbers of type {}", other.as_str_name()),
            "floating-point numbers of 16 to 64 bits, integers of 8 to 64 bits, or truth values",
            "convert the weights to float32",
        )),
    }
}

/// Numbers from little-endian bytes.
///
/// # Errors
/// If an integer is above 2^63 - 1.
pub(super) fn of_bytes(bytes: &[u8], data_type: DataType) -> Result<Numbers, Refusal> {
    Ok(match data_type {
        DataType::Float => Numbers::Floats(each(bytes, f32::from_le_bytes)),
        DataType::Double => Numbers::Floats(each(bytes, |bytes| f64::from_le_bytes(bytes) as f32)),
        DataType::Float16 => Numbers::Floats(each(bytes, |bytes| f16::from_le_bytes(bytes).to_f32())),
        DataType::Bfloat16 => Numbers::Floats(each(bytes, |bytes| bf16::from_le_bytes(bytes).to_f32())),
        DataType::Bool => Numbers::Bools(bytes.iter().map(|&byte| byte != 0).collect()),
        DataType::Uint8 => Numbers::Ints(each(bytes, |bytes| u8::from_le_bytes(bytes).into())),
        DataType::Int8 => Numbers::Ints(each(bytes, |bytes| i8::from_le_bytes(bytes).into())),
        DataType::Uint16 => Numbers::Ints(each(bytes, |bytes| u16::from_le_bytes(bytes).into())),
        DataType::Int16 => Numbers::Ints(each(bytes, |bytes| i16::from_le_bytes(bytes).into())),
        DataType::Uint32 => Numbers::Ints(each(bytes, |bytes| u32::from_le_bytes(bytes).into())),
        DataType::Int32 => Numbers::Ints(each(bytes, |bytes| i32::from_le_bytes(bytes).into())),
        DataType::Int64 => Numbers::Ints(each(bytes, i64::from_le_bytes)),
        DataType::Uint64 => unsigned(&each(bytes, u64::from_le_bytes))?,
        other => return Err(width(other).err().unwrap_or_else(|| wrong_field(other))),
    })
}

/// Numbers from the field that the standard has for this type.
///
/// # Errors
/// If they are in another field, or an integer is outside its type.
pub(super) fn of_field(tensor: &mut TensorProto, data_type: DataType) -> Result<Numbers, Refusal> {
    let narrow = std::mem::take(&mut tensor.int32_data);
    Ok(match data_type {
        DataType::Float => Numbers::Floats(std::mem::take(&mut tensor.float_data)),
        DataType::Double => Numbers::Floats(tensor.double_data.iter().map(|&number| number as f32).collect()),
        DataType::Int64 => Numbers::Ints(std::mem::take(&mut tensor.int64_data)),
        DataType::Uint32 | DataType::Uint64 => unsigned(&tensor.uint64_data)?,
        DataType::Float16 => Numbers::Floats(bits(&narrow)?.map(|bits| f16::from_bits(bits).to_f32()).collect()),
        DataType::Bfloat16 => Numbers::Floats(bits(&narrow)?.map(|bits| bf16::from_bits(bits).to_f32()).collect()),
        DataType::Bool => Numbers::Bools(narrow.iter().map(|&number| number != 0).collect()),
        DataType::Int8 | DataType::Uint8 | DataType::Int16 | DataType::Uint16 | DataType::Int32 => {
            Numbers::Ints(narrow.into_iter().map(i64::from).collect())
        }
        other => return Err(wrong_field(other)),
    })
}

/// Whether more than one field has data, or a field that is not the one of this type.
pub(super) fn has_other_fields(tensor: &TensorProto, data_type: DataType) -> bool {
    let filled = [
        !tensor.float_data.is_empty(),
        !tensor.double_data.is_empty(),
        !tensor.int32_data.is_empty(),
        !tensor.int64_data.is_empty(),
        !tensor.uint64_data.is_empty(),
        !tensor.string_data.is_empty(),
    ];
    let own = match data_type {
        DataType::Float => 0,
        DataType::Double => 1,
        DataType::Int64 => 3,
        DataType::Uint32 | DataType::Uint64 => 4,
        DataType::String => 5,
        _ => 2,
    };
    let typed = tensor.raw_data.is_none() && tensor.external_data.is_empty();
    filled.iter().enumerate().any(|(field, &filled)| filled && !(typed && field == own))
}

/// The texts of a tensor.
///
/// # Errors
/// If one is not UTF-8.
pub(super) fn texts(texts: &[Bytes]) -> Result<Vec<String>, Refusal> {
    let text = |bytes: &Bytes| {
        let wrong = |_| Refusal::broken("a text that is not UTF-8", "texts in UTF-8");
        std::str::from_utf8(bytes).map(str::to_owned).map_err(wrong)
    };
    texts.iter().map(text).collect()
}

fn each<const N: usize, T>(bytes: &[u8], read: impl Fn([u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks().0.iter().map(|&chunk| read(chunk)).collect()
}

fn unsigned(numbers: &[u64]) -> Result<Numbers, Refusal> {
    let wrong = |_| Refusal::new("an integer above 2^63 - 1", "integers of 64 bits", "use smaller integers");
    let numbers: Result<_, _> = numbers.iter().map(|&number| i64::try_from(number)).collect();
    numbers.map(Numbers::Ints).map_err(wrong)
}

/// The lower 16 bits of each number, if it has no others.
fn bits(numbers: &[i32]) -> Result<impl Iterator<Item = u16>, Refusal> {
    let wrong = |_| Refusal::broken("a 16-bit number with more than 16 bits", "numbers of 16 bits");
    let numbers: Result<Vec<u16>, _> = numbers.iter().map(|&number| u16::try_from(number)).collect();
    Ok(numbers.map_err(wrong)?.into_iter())
}

fn wrong_field(data_type: DataType) -> Refusal {
    let found = format!("a tensor of type {} without numbers of this type", data_type.as_str_name());
    Refusal::broken(found, "numbers in the field of their type")
}
