//! A compiled model in the clear.

use unspoken_ckks::Preset;
use unspoken_network::{Design, NetworkError};
use unspoken_onnx::Outputs;

use crate::client::{Predicted, predicted};
use crate::compiled::CompiledModel;
use crate::description::Input;
use crate::error::ModelError;
use crate::row::{EncodedRow, Row};

/// A compiled model in the clear: with its polynomials, and without the noise of the encryption. What a client gets
/// differs from it by noise only.
pub struct SimulatedModel {
    design: Design,
    inputs: Vec<Input>,
    outputs: Outputs,
}

impl CompiledModel {
    /// The model in the clear, with its polynomials.
    ///
    /// # Errors
    /// As for [`CompiledModel::server`].
    pub fn simulated(&self) -> Result<SimulatedModel, ModelError> {
        let parameters = Preset::find(&self.preset).and_then(Preset::build).map_err(NetworkError::from)?;
        let program = self.program(&parameters)?;
        Ok(SimulatedModel {
            inputs: Input::of(&self.interface, &program),
            design: self.design()?,
            outputs: self.interface.outputs.clone(),
        })
    }
}

impl SimulatedModel {
    /// The inputs of the model.
    pub fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    /// The outputs of any number of rows; an error for a row with a number outside the calibrated range, or with none.
    ///
    /// # Errors
    /// If a row does not fit the inputs.
    pub fn predict(&self, rows: &[Row]) -> Result<Vec<Result<Predicted, ModelError>>, ModelError> {
        let encoded = rows.iter().enumerate().map(|(number, row)| row.encoded(number, &self.inputs));
        let encoded = encoded.collect::<Result<Vec<EncodedRow>, _>>()?;
        if encoded.is_empty() {
            return Ok(Vec::new());
        }
        let numbers: Vec<_> = (0..self.inputs.len()).map(|input| EncodedRow::numbers(&encoded, input)).collect();
        let tables = self.inputs.iter().zip(&numbers).map(|(input, numbers)| input.table(numbers, encoded.len()));
        let results = self.design.run(&tables.collect::<Result<Vec<_>, _>>()?)?;
        let of_row = |(row, encoded): (usize, &EncodedRow)| match encoded.problem(&self.inputs) {
            None => Ok(Ok(predicted(&self.outputs, &results, row)?)),
            Some(problem) => Ok(Err(ModelError::Row(problem))),
        };
        encoded.iter().enumerate().map(of_row).collect()
    }
}
