//! What a model takes and gives, as its clients see it.

use ndarray::{Array2, ArrayView2};
use serde::{Deserialize, Serialize};
use unspoken_onnx::{InputKind, OnnxError, Outputs};

use crate::error::ModelError;

/// The inputs of a model, its encrypted results, and what clients compute from them.
#[derive(Clone, Debug)]
pub struct Interface {
    /// The inputs.
    pub inputs: Vec<InputShape>,
    /// What clients compute from the results, with the shapes of these.
    pub outputs: Outputs,
}

/// An input of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputShape {
    /// Its name.
    pub name: String,
    /// The shape of a row.
    pub shape: Vec<usize>,
    /// Rows of the table that it points into, if it has indices.
    pub table_rows: Option<usize>,
}

impl Interface {
    /// The interface of an ONNX model.
    ///
    /// # Errors
    /// If a client could not read it: a table has too many rows, or there are too many outputs.
    pub fn of(model: &unspoken_onnx::Network) -> Result<Self, ModelError> {
        let input = |(place, input): (usize, &unspoken_onnx::Input)| {
            let rows = || unspoken_network::table_rows(model, place);
            let table_rows = (input.kind == InputKind::Index).then(rows).transpose()?;
            Ok(InputShape { name: input.name.clone(), shape: input.shape.clone(), table_rows })
        };
        let inputs = model.inputs().iter().enumerate().map(input).collect::<Result<_, ModelError>>()?;
        let outputs = Outputs::of(model);
        let outputs = Self::outputs(&outputs.to_bytes(), outputs.result_shapes())?;
        Ok(Interface { inputs, outputs })
    }

    /// Reads outputs from bytes.
    pub(crate) fn outputs(bytes: &[u8], result_shapes: &[Vec<usize>]) -> Result<Outputs, OnnxError> {
        Outputs::from_bytes(bytes, result_shapes)
    }
}

impl InputShape {
    /// Numbers of a row.
    pub fn size(&self) -> usize {
        self.shape.iter().product()
    }

    /// Numbers that are encrypted for a row.
    pub fn encoded_size(&self) -> usize {
        self.size() * self.table_rows.unwrap_or(1)
    }
}

impl InputShape {
    /// A table with a number for each encrypted one.
    pub(crate) fn encoded(&self, table: &ArrayView2<'_, f64>) -> Result<Array2<f64>, ModelError> {
        if table.ncols() != self.size() {
            let shape = &self.shape;
            return Err(ModelError::Row(format!(
                "input {:?}: found rows of {} numbers, needed {} for the shape {shape:?}",
                self.name,
                table.ncols(),
                self.size()
            )));
        }
        let mut encoded = Array2::zeros((table.nrows(), self.encoded_size()));
        for ((row, element), value) in table.indexed_iter() {
            let Some(rows) = self.table_rows else {
                encoded[(row, element)] = *value;
                continue;
            };
            let place = index(*value, rows)
                .map_err(|problem| ModelError::Row(format!("row {row}, input {:?}: {problem}", self.name)))?;
            encoded[(row, element * rows + place)] = 1.0;
        }
        Ok(encoded)
    }
}

/// An index below `rows`.
pub(crate) fn index(value: f64, rows: usize) -> Result<usize, String> {
    if value.fract() != 0.0 || !(0.0..rows as f64).contains(&value) {
        return Err(format!("found {value}, needed a whole number from 0 to {}", rows.saturating_sub(1)));
    }
    Ok(value as usize)
}
