//! Serialisation of graphs: the number of nodes (u32), then for each node its kind (u8), operands (u32 each) and
//! payload. The payload of an input is its name, then the shape and axes of its array.

use std::borrow::Cow;

use ndarray::Array2;
use unspoken_encrypted_matrix::{Axis, Graph, Operation, OperationKind, Payload, PayloadKind};

use crate::bytes::{Reader, Writer};
use crate::error::MatrixError;
use crate::shape::{ArrayShape, Axes, MAX_EXTENT, MAX_NODES, check_graph};

/// Writes a graph whose inputs are arrays with these axes, in the order of the inputs.
pub(crate) fn write_graph(graph: &Graph, inputs: impl IntoIterator<Item = Axes>, out: &mut Writer) {
    let mut inputs = inputs.into_iter();
    out.u32(graph.nodes().len());
    for node in graph.nodes() {
        out.u8(node.operation().kind().code());
        node.operands().iter().for_each(|&operand| out.u32(operand));
        match node.operation().payload() {
            Payload::None => {}
            Payload::Input(name, matrix) => {
                out.text(&name);
                ArrayShape { matrix, axes: inputs.next().unwrap_or(Axes::MATRIX) }.write(out);
            }
            Payload::Matrix(values) => {
                out.u32(values.nrows());
                out.u32(values.ncols());
                values.iter().for_each(|&value| out.f64(value));
            }
            Payload::Indices(indices) => {
                out.u32(indices.len());
                indices.iter().for_each(|&index| out.u32(index));
            }
            Payload::Number(number) => out.f64(number),
            Payload::Axis(axis) => out.u8(axis_code(axis)),
            Payload::Shape((rows, columns)) => {
                out.u32(rows);
                out.u32(columns);
            }
        }
    }
}

/// Reads a graph, and the axes of its inputs in their order.
pub(crate) fn read_graph(input: &mut Reader<'_>) -> Result<(Graph, Vec<Axes>), MatrixError> {
    // Every node has at least its kind and one number.
    let count = input.count(MAX_NODES, 5)?;
    let (mut graph, mut axes) = (Graph::new(), Vec::new());
    for _ in 0..count {
        let code = input.u8()?;
        let kind = OperationKind::from_code(code).ok_or_else(|| {
            let last = OperationKind::ALL.len() - 1;
            input.refuse(format!("operation {code}"), format!("a number from 0 to {last}"))
        })?;
        let operands = (0..kind.operands()).map(|_| input.u32()).collect::<Result<Vec<_>, _>>()?;
        let payload = match kind.payload() {
            PayloadKind::None => Payload::None,
            PayloadKind::Input => {
                let (name, shape) = (input.text()?, ArrayShape::read(input)?);
                axes.push(shape.axes);
                Payload::Input(Cow::Owned(name), shape.matrix)
            }
            PayloadKind::Matrix => Payload::Matrix(Cow::Owned(read_values(input)?)),
            PayloadKind::Indices => Payload::Indices(Cow::Owned(read_indices(input)?)),
            PayloadKind::Number => Payload::Number(input.f64()?),
            PayloadKind::Axis => Payload::Axis(read_axis(input)?),
            PayloadKind::Shape => Payload::Shape((input.u32()?, input.u32()?)),
        };
        graph.push(Operation::new(kind, payload)?, &operands)?;
    }
    check_graph(&graph)?;
    Ok((graph, axes))
}

fn axis_code(axis: Axis) -> u8 {
    match axis {
        Axis::Rows => 0,
        Axis::Columns => 1,
        Axis::Both => 2,
    }
}

fn read_axis(input: &mut Reader<'_>) -> Result<Axis, MatrixError> {
    let code = input.u8()?;
    let axis = [Axis::Rows, Axis::Columns, Axis::Both].into_iter().find(|&axis| axis_code(axis) == code);
    axis.ok_or_else(|| input.refuse(format!("axis {code}"), "0, 1 or 2"))
}

fn read_values(input: &mut Reader<'_>) -> Result<Array2<f64>, MatrixError> {
    let (rows, columns) = (input.u32()?, input.u32()?);
    let bytes = rows.checked_mul(columns).and_then(|entries| entries.checked_mul(8));
    let bytes = bytes.ok_or_else(|| input.refuse(format!("shape ({rows}, {columns})"), "one that fits memory"))?;
    let (chunks, _) = input.take(bytes)?.as_chunks::<8>();
    let values = chunks.iter().map(|&chunk| f64::from_le_bytes(chunk)).collect();
    Array2::from_shape_vec((rows, columns), values).map_err(|error| input.refuse(error.to_string(), "a matrix"))
}

fn read_indices(input: &mut Reader<'_>) -> Result<Vec<usize>, MatrixError> {
    let count = input.count(MAX_EXTENT, 4)?;
    (0..count).map(|_| input.u32()).collect()
}
