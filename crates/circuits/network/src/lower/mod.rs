//! Networks that were read from ONNX models.

mod maps;
mod steps;

use unspoken_onnx::ValueId;

use self::steps::Lowering;
use crate::error::NetworkError;
use crate::network::Network;

/// Rows of an embedding's table, at most: a client sends an index as so many numbers, of which one is 1.
pub const MAX_TABLE_ROWS: usize = 4096;

/// Entries of the matrix of one operation, at most: 1 GiB while it is made.
const MAX_ENTRIES: usize = 1 << 26;

impl Network {
    /// The network of an ONNX model: each operation becomes affine maps, functions and products of flattened rows.
    /// An input of indices has a number for each row of its table: 1 at the index, else 0. The outputs are the
    /// results of the model, in their order.
    ///
    /// # Errors
    /// If an operation has no polynomial form or a matrix of too many entries, with the name of its node, or a table
    /// has too many rows.
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

/// The rows of the tables that an input of indices points into.
///
/// # Errors
/// If the indices belong to tables of several sizes or to other operations, or a table has too many rows.
///
/// # Panics
/// If there is no such input.
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
