//! A compiled model in the clear.

use unspoken_ckks::{Encoder, Preset};
use unspoken_network::{Network, NetworkError, Program};
use unspoken_onnx::Outputs;

use crate::client::{Predicted, predicted};
use crate::compiled::CompiledModel;
use crate::description::Input;
use crate::error::ModelError;
use crate::row::{EncodedRow, Row};

/// A compiled model in the clear: with its polynomials, and without the noise of the encryption. What a client gets
/// differs from it by noise only.
pub struct SimulatedModel {
    program: Program,
    network: Network,
    encoder: Encoder,
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
            encoder: Encoder::new(&parameters),
            program,
            network: self.network.clone(),
            outputs: self.interface.outputs.clone(),
        })
    }
}

impl SimulatedModel {
    /// The inputs of the model.
    pub fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    /// The outputs of any number of rows.
    ///
    /// # Errors
    /// If a row does not fit the inputs, or a number is outside the calibrated range.
    pub fn predict(&self, rows: &[Row]) -> Result<Vec<Predicted>, ModelError> {
        let encoded = rows.iter().enumerate().map(|(number, row)| row.encoded(number, &self.inputs));
        let encoded = encoded.collect::<Result<Vec<EncodedRow>, _>>()?;
        if let Some(problem) = encoded.iter().find_map(|row| row.problem(&self.inputs)) {
            return Err(ModelError::Row(problem));
        }
        let mut all = Vec::with_capacity(rows.len());
        for batch in encoded.chunks(self.program.batch()) {
            let numbers: Vec<_> = (0..self.inputs.len()).map(|input| EncodedRow::numbers(batch, input)).collect();
            let tables = self.inputs.iter().zip(&numbers).map(|(input, numbers)| input.table(numbers, batch.len()));
            let tables = tables.collect::<Result<Vec<_>, _>>()?;
            let simulation = self.program.simulate(&self.network, &self.encoder, &tables, 1)?;
            for row in 0..batch.len() {
                all.push(predicted(&self.outputs, &simulation.exact, row)?);
            }
        }
        Ok(all)
    }
}
