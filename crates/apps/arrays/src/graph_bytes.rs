//! Bytes of graphs: the number of nodes (u32), then each: kind (u8), operands (u32), what else it has.

use ndarray::Array2;
use unspoken_matrix::Axis;

use crate::bytes::{Reader, Writer};
use crate::error::ArraysError;
use crate::form::{Form, MOST_EXTENT};
use crate::graph::{Graph, MOST_NODES, Node};

impl Graph {
    pub(crate) fn write(&self, out: &mut Writer) {
        out.u32(self.nodes().len());
        self.nodes().iter().for_each(|node| write_node(node, out));
    }

    pub(crate) fn read(input: &mut Reader<'_>) -> Result<Self, ArraysError> {
        // No node is shorter than its kind and a number.
        let count = input.count(MOST_NODES, 5)?;
        let mut graph = Graph::new();
        for _ in 0..count {
            graph.push(read_node(input)?)?;
        }
        Ok(graph)
    }
}

fn write_node(node: &Node, out: &mut Writer) {
    match node {
        Node::Input { name, form } => {
            out.u8(0);
            out.text(name);
            form.write(out);
        }
        Node::Constant(values) => {
            out.u8(1);
            write_values(values, out);
        }
        Node::MatMul(a, b) => pair(2, *a, *b, out),
        Node::MatrixVector(a, x) => pair(3, *a, *x, out),
        Node::Transpose(a) => single(4, *a, out),
        Node::Rows(a, rows) => {
            single(5, *a, out);
            write_indices(rows, out);
        }
        Node::Columns(a, columns) => {
            single(6, *a, out);
            write_indices(columns, out);
        }
        Node::TimesLeft(weights, a) => {
            single(7, *a, out);
            write_values(weights, out);
        }
        Node::TimesRight(a, weights) => {
            single(8, *a, out);
            write_values(weights, out);
        }
        Node::Add(a, b) => pair(9, *a, *b, out),
        Node::Subtract(a, b) => pair(10, *a, *b, out),
        Node::Multiply(a, b) => pair(11, *a, *b, out),
        Node::Scale(a, factor) => {
            single(12, *a, out);
            out.f64(*factor);
        }
        Node::Sum(a, axis) => {
            single(13, *a, out);
            out.u8(match axis {
                Axis::Rows => 0,
                Axis::Columns => 1,
                Axis::Both => 2,
            });
        }
    }
}

fn single(kind: u8, a: usize, out: &mut Writer) {
    out.u8(kind);
    out.u32(a);
}

fn pair(kind: u8, a: usize, b: usize, out: &mut Writer) {
    single(kind, a, out);
    out.u32(b);
}

fn write_values(values: &Array2<f64>, out: &mut Writer) {
    out.u32(values.nrows());
    out.u32(values.ncols());
    values.iter().for_each(|&value| out.f64(value));
}

fn write_indices(indices: &[usize], out: &mut Writer) {
    out.u32(indices.len());
    indices.iter().for_each(|&index| out.u32(index));
}

fn read_node(input: &mut Reader<'_>) -> Result<Node, ArraysError> {
    let kind = input.u8()?;
    Ok(match kind {
        0 => Node::Input { name: input.text()?, form: Form::read(input)? },
        1 => Node::Constant(read_values(input)?),
        2 => Node::MatMul(input.u32()?, input.u32()?),
        3 => Node::MatrixVector(input.u32()?, input.u32()?),
        4 => Node::Transpose(input.u32()?),
        5 => Node::Rows(input.u32()?, read_indices(input)?),
        6 => Node::Columns(input.u32()?, read_indices(input)?),
        7 => {
            let a = input.u32()?;
            Node::TimesLeft(read_values(input)?, a)
        }
        8 => Node::TimesRight(input.u32()?, read_values(input)?),
        9 => Node::Add(input.u32()?, input.u32()?),
        10 => Node::Subtract(input.u32()?, input.u32()?),
        11 => Node::Multiply(input.u32()?, input.u32()?),
        12 => Node::Scale(input.u32()?, input.f64()?),
        13 => Node::Sum(input.u32()?, read_axis(input)?),
        _ => return Err(input.refuse(format!("operation {kind}"), "a number from 0 to 13")),
    })
}

fn read_axis(input: &mut Reader<'_>) -> Result<Axis, ArraysError> {
    match input.u8()? {
        0 => Ok(Axis::Rows),
        1 => Ok(Axis::Columns),
        2 => Ok(Axis::Both),
        other => Err(input.refuse(format!("axis {other}"), "0, 1 or 2")),
    }
}

fn read_values(input: &mut Reader<'_>) -> Result<Array2<f64>, ArraysError> {
    let (rows, columns) = (input.u32()?, input.u32()?);
    let bytes = rows.checked_mul(columns).and_then(|entries| entries.checked_mul(8));
    let bytes = bytes.ok_or_else(|| input.refuse(format!("shape ({rows}, {columns})"), "one that fits memory"))?;
    let (chunks, _) = input.take(bytes)?.as_chunks::<8>();
    let values = chunks.iter().map(|&chunk| f64::from_le_bytes(chunk)).collect();
    Array2::from_shape_vec((rows, columns), values).map_err(|error| input.refuse(error.to_string(), "a matrix"))
}

fn read_indices(input: &mut Reader<'_>) -> Result<Vec<usize>, ArraysError> {
    let count = input.count(MOST_EXTENT, 4)?;
    (0..count).map(|_| input.u32()).collect()
}
