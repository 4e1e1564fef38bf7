//! Networks that were read from ONNX models.

mod maps;
mod steps;

use unspoken_onnx::{InputKind, ValueId};

use self::steps::Lowering;
use crate::error::NetworkError;
use crate::network::Network;

/// Rows of an embedding's table, at most: a client sends an index as so many numbers, of which one is 1.
pub const MAX_TABLE_ROWS: usize = 4096;

impl Network {
    /// The network of an ONNX model: each operation becomes affine maps, functions and products of flattened rows.
    /// An input of indices has a number for each row of its table: 1 at the index, else 0. The outputs are the
    /// results of the model, in their order.
    ///
    /// # Errors
    /// If an operation has no polynomial form, with the name of its node, or a table has too many rows.
    pub fn from_onnx(model: &unspoken_onnx::Network) -> Result<Self, NetworkError> {
        let mut lowering = Lowering::new(model);
        for input in 0..model.inputs().len() {
            lowering.input(input)?;
        }
        for node in 0..model.nodes().len() {
            lowering.node(node)?;
        }
        lowering.finish()
    }
}

/// The numbers that a client encrypts for an input of a model: for an input of indices, one for each row of the table.
///
/// # Errors
/// If there is no such input, or its indices belong to tables of several sizes.
pub fn encoded_size(model: &unspoken_onnx::Network, input: usize) -> Result<usize, NetworkError> {
    const OPERATION: &str = "encode an input";
    let declared = model.inputs().get(input);
    let declared = declared.ok_or_else(|| NetworkError::mismatch(OPERATION, input, "an input of the model"))?;
    let size = declared.shape.iter().product::<usize>();
    match declared.kind {
        InputKind::Float => Ok(size),
        InputKind::Index => Ok(size * table_rows(model, input)?),
    }
}

/// The rows of the tables that an input of indices points into.
///
/// # Errors
/// As for [`encoded_size`].
///
/// # Errors
/// As for [`encoded_size`].
pub fn table_rows(model: &unspoken_onnx::Network, input: usize) -> Result<usize, NetworkError> {
    const OPERATION: &str = "look indices up";
    let name = || &model.inputs()[input].name;
    let users = model.nodes().iter().filter(|node| node.inputs.iter().any(|value: &ValueId| value.index() == input));
    let rows = |node: &unspoken_onnx::Node| match &node.operation {
        unspoken_onnx::Operation::Embedding { table } => Some(table.shape()[0]),
        _ => None,
    };
    let sizes: Option<Vec<usize>> = users.map(rows).collect();
    match sizes.as_deref() {
        Some([first, others @ ..]) if others.iter().all(|rows| rows == first) => match *first {
            rows if rows <= MAX_TABLE_ROWS => Ok(rows),
            rows => {
                let needed = format!("at most {MAX_TABLE_ROWS} rows: serve large tables with `unspoken serve --embed`");
                Err(NetworkError::mismatch(OPERATION, format!("a table of {rows} rows for {:?}", name()), needed))
            }
        },
        _ => {
            let needed = "one size of tables, and no other use of the indices";
            Err(NetworkError::mismatch(OPERATION, format!("input {:?}", name()), needed))
        }
    }
}
