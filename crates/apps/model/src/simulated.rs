//! A compiled model in the clear.

use ndarray::Array2;
use unspoken_ckks::Preset;
use unspoken_network::{Design, NetworkError, Port};
use unspoken_onnx::Outputs;

use crate::client::{Predicted, predicted};
use crate::compiled::CompiledModel;
use crate::description::Input;
use crate::error::ModelError;
use crate::row::{EncodedRow, Row};
use crate::server::answer_bound;

/// A compiled model in the clear: with its polynomials, and without the noise of the encryption. What a client gets
/// differs from it by noise only.
pub struct SimulatedModel {
    design: Design,
    inputs: Vec<Input>,
    results: Vec<Port>,
    /// The largest magnitude of a slot of a result.
    bound: f64,
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
            results: program.outputs().to_vec(),
            bound: answer_bound(&program),
            outputs: self.interface.outputs.clone(),
        })
    }
}

impl SimulatedModel {
    /// The inputs of the model.
    pub fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    /// The outputs of any number of rows; an error for a row with a number outside the calibrated range, or with none,
    /// and for one whose results are outside, which a client could not read.
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
        let problem = |row: usize| encoded[row].problem(&self.inputs).or_else(|| self.outside(&results, row));
        let of_row = |row: usize| match problem(row) {
            None => Ok(Ok(predicted(&self.outputs, &results, row)?)),
            Some(problem) => Ok(Err(ModelError::Row(problem))),
        };
        (0..encoded.len()).map(of_row).collect()
    }

    /// Why a row has no results: one is outside the bound that clients check.
    fn outside(&self, results: &[Array2<f64>], row: usize) -> Option<String> {
        let mut slots = results.iter().zip(&self.results).flat_map(|(values, port)| {
            let ranges = port.encoding().middle().iter().zip(port.encoding().radius());
            values.row(row).into_iter().zip(ranges).map(|(value, (middle, radius))| (value - middle) / radius)
        });
        // A polynomial that is far outside may give what is no number.
        let is_outside = slots.any(|slot| slot.is_nan() || slot.abs() > self.bound);
        is_outside.then(|| {
            "found a result outside its range: the row differs much from the calibration rows; compile with rows like \
             it, or with a larger margin"
                .to_owned()
        })
    }
}
