//! Initializers, inputs and outputs of a graph.

use std::collections::HashMap;

use super::{Data, Kind, State, Value};
use crate::error::{OnnxError, Refusal, quoted};
use crate::graph::{Input, InputKind};
use crate::limits::{MAX_ROW, product};
use crate::proto::tensor_proto::DataType;
use crate::proto::tensor_shape_proto::{Dimension, dimension};
use crate::proto::{TensorProto, ValueInfoProto, type_proto};
use crate::read::{Folder, read_tensor};

/// Reads the weights; each message is dropped once its tensor is read.
pub(super) fn read_initializers(
    initializers: Vec<TensorProto>,
    folder: &Folder,
    values: &mut HashMap<String, Value>,
) -> Result<(), OnnxError> {
    for initializer in initializers {
        let name = initializer.name.clone();
        let place = || format!("tensor {}", quoted(&name));
        let constant = read_tensor(initializer, folder).map_err(|refusal| refusal.at(place()))?;
        if name.is_empty() || values.insert(name.clone(), Value::Constant(constant)).is_some() {
            return Err(Refusal::broken("a tensor without a name of its own", "one name for each").at(place()));
        }
    }
    Ok(())
}

/// Reads the inputs that are no initializers.
pub(super) fn read_inputs(
    inputs: &[ValueInfoProto],
    state: &mut State,
    values: &mut HashMap<String, Value>,
) -> Result<(), OnnxError> {
    for input in inputs {
        let place = || format!("input {}", quoted(&input.name));
        if values.get(&input.name).is_some_and(|value| matches!(value, Value::Constant(_))) {
            continue; // An initializer may be listed as an input, with its value as the default.
        }
        let (read, batch) = input_of(input).map_err(|refusal| refusal.at(place()))?;
        if let (Some(batch), Some(other)) = (batch, state.batch.filter(|&other| Some(other) != batch)) {
            let found = format!("a batch of {batch} rows, after one of {other}");
            let needed = "the same first dimension of all inputs, the batch";
            let refusal = Refusal::new(found, needed, "export with a batch axis in front of each input");
            return Err(refusal.at(place()));
        }
        state.batch = state.batch.or(batch);
        let kind = if read.kind == InputKind::Float { Kind::Number } else { Kind::Index };
        let value = Value::Data(Data { id: state.inputs.len(), shape: read.shape.clone(), kind });
        if input.name.is_empty() || values.insert(input.name.clone(), value).is_some() {
            return Err(Refusal::broken("an input without a name of its own", "one name for each").at(place()));
        }
        state.inputs.push(read);
    }
    if state.inputs.is_empty() {
        let refusal = Refusal::new("no inputs", "an input that the network computes from", "export with inputs");
        return Err(refusal.at("the graph"));
    }
    Ok(())
}

/// An input, and its number of rows if this is fixed.
fn input_of(input: &ValueInfoProto) -> Result<(Input, Option<usize>), Refusal> {
    let Some(type_proto::Value::TensorType(tensor)) = input.r#type.as_ref().and_then(|kind| kind.value.as_ref()) else {
        return Err(Refusal::new("an input that is no tensor", "tensors", "export with tensors as inputs"));
    };
    let kind = match DataType::try_from(tensor.elem_type) {
        Ok(DataType::Float | DataType::Double | DataType::Float16 | DataType::Bfloat16) => InputKind::Float,
        Ok(DataType::Int64 | DataType::Int32) => InputKind::Index,
        Ok(other) => {
            let found = format!("an input of type {}", other.as_str_name());
            let needed = "numbers (FLOAT), or indexes of an embedding (INT64)";
            return Err(Refusal::new(found, needed, "export with inputs of float32, and encode texts before"));
        }
        Err(_) => return Err(Refusal::broken(format!("type {}", tensor.elem_type), "a type of the standard")),
    };
    let missing = || Refusal::new("an input without a shape", "a shape", "export with example inputs");
    let dimensions = &tensor.shape.as_ref().ok_or_else(missing)?.dim;
    let (batch, row) = dimensions.split_first().ok_or_else(|| {
        Refusal::new("an input without axes", "a batch axis in front", "export with inputs of shape [rows, ..]")
    })?;
    let shape = row.iter().map(fixed).collect::<Result<Vec<_>, _>>()?;
    product(&shape, MAX_ROW)?;
    let batch = match batch.value {
        Some(dimension::Value::DimValue(_)) => Some(fixed(batch)?),
        _ => None,
    };
    Ok((Input { name: input.name.clone(), shape, kind }, batch))
}

/// A dimension that must be a positive number.
fn fixed(dimension: &Dimension) -> Result<usize, Refusal> {
    let found = match &dimension.value {
        Some(dimension::Value::DimValue(size)) => match usize::try_from(*size) {
            Ok(size) if size > 0 => return Ok(size),
            _ => format!("an axis of {size}"),
        },
        Some(dimension::Value::DimParam(name)) => format!("an axis of any size, {}", quoted(name)),
        None => "an axis of unknown size".to_owned(),
    };
    Err(Refusal::new(found, "fixed sizes of all axes but the first", "export with only the batch axis dynamic"))
}

/// The names of the outputs, with their values.
pub(super) fn read_outputs(
    outputs: &[ValueInfoProto],
    values: &HashMap<String, Value>,
) -> Result<Vec<(String, usize)>, OnnxError> {
    let mut read: Vec<(String, usize)> = Vec::new();
    for output in outputs {
        let name = &output.name;
        let refusal = match values.get(name) {
            _ if read.iter().any(|(other, _)| other == name) => {
                Refusal::broken("this output twice", "each output once")
            }
            Some(Value::Data(data)) if data.kind != Kind::Index => {
                read.push((name.clone(), data.id));
                continue;
            }
            Some(_) => {
                let needed = "numbers that are computed from inputs";
                Refusal::new("a constant or an index", needed, "remove this output")
            }
            None => Refusal::broken("an output that nothing computes", "the value of a node"),
        };
        return Err(refusal.at(format!("output {}", quoted(name))));
    }
    Ok(read)
}
