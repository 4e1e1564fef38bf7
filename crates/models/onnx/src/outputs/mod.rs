//! The outputs of a network in bytes, for clients that do not trust those who send them.

mod check;

use ndarray::ArrayD;

use crate::error::{OnnxError, Refusal, quoted, run_error};
use crate::finish::{Answer, Output};
use crate::graph::Network;
use crate::limits::MAX_OUTPUT_BYTES;

/// The outputs of a network, with the shapes of its results: all that a client needs to compute answers from decrypted
/// results.
///
/// Their bytes are JSON: a list of [`Output`], whose enumerations have the names that they have here. It has the exact
/// numbers of 32 bits, and null for the infinite limits of a [`Clip`](crate::Activation::Clip); other numbers are
/// finite.
#[derive(Clone, Debug)]
pub struct Outputs {
    outputs: Vec<Output>,
    result_shapes: Vec<Vec<usize>>,
}

impl Outputs {
    /// The outputs of a network.
    pub fn of(network: &Network) -> Outputs {
        let shapes = network.results().iter().filter_map(|&result| network.shape(result));
        Outputs { outputs: network.outputs().to_vec(), result_shapes: shapes.map(<[usize]>::to_vec).collect() }
    }

    /// The outputs, in the model's order.
    pub fn as_slice(&self) -> &[Output] {
        &self.outputs
    }

    /// The shape of a row of each result of the network.
    pub fn result_shapes(&self) -> &[Vec<usize>] {
        &self.result_shapes
    }

    /// Computes all outputs from the decrypted results of a batch, each of shape `[rows, ..]`.
    ///
    /// # Errors
    /// If the results have other shapes, or a class has no label.
    pub fn finish(&self, results: &[ArrayD<f32>]) -> Result<Vec<Answer>, OnnxError> {
        self.check_results(results)?;
        self.outputs.iter().map(|output| output.finish(results)).collect()
    }

    /// The outputs as JSON. The shapes of the results are not in it. [`Outputs::from_bytes`] has limits that
    /// [`Network::load`] has not; who sends outputs reads them once to know that clients will.
    ///
    /// # Panics
    /// Never: the reader leaves to clients only operations that have a form in JSON.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(&self.outputs).expect("operations of clients have a form in JSON")
    }

    /// Reads and checks the outputs of a network whose results have rows of these shapes. Neither the bytes nor the
    /// shapes need to be trusted: [`Outputs::finish`] of what is read does not panic, and the memory that it takes for
    /// a row is limited, whatever the results are.
    ///
    /// # Errors
    /// If there are more than 1 MiB of bytes, 64 outputs or 1024 steps, an axis, a shape or a constant does not fit, or
    /// an operation is none that clients compute. [`OnnxError::Outputs`] names the output and the step.
    pub fn from_bytes(bytes: &[u8], result_shapes: &[Vec<usize>]) -> Result<Self, OnnxError> {
        let outputs = decode(bytes).map_err(|refusal| refusal.of_outputs("the bytes"))?;
        check::check(&outputs, result_shapes)?;
        Ok(Outputs { outputs, result_shapes: result_shapes.to_vec() })
    }

    fn check_results(&self, results: &[ArrayD<f32>]) -> Result<(), OnnxError> {
        let rows = results.first().and_then(|result| result.shape().first());
        let fits = |(result, row): (&ArrayD<f32>, &Vec<usize>)| {
            result.shape().split_first().is_some_and(|(front, found)| Some(front) == rows && found == row)
        };
        if results.len() == self.result_shapes.len() && results.iter().zip(&self.result_shapes).all(fits) {
            return Ok(());
        }
        let found: Vec<&[usize]> = results.iter().map(|result| result.shape()).collect();
        let needed = format!("shapes [rows, ..] with as many rows each, and rows of {:?}", self.result_shapes);
        Err(run_error(format!("results of shapes {found:?}"), needed))
    }
}

fn decode(bytes: &[u8]) -> Result<Vec<Output>, Refusal> {
    if bytes.len() > MAX_OUTPUT_BYTES {
        return Err(Refusal::broken(format!("{} bytes", bytes.len()), format!("at most {MAX_OUTPUT_BYTES}")));
    }
    let wrong = |error: serde_json::Error| Refusal::broken(quoted(&error.to_string()), "the JSON of outputs");
    serde_json::from_slice(bytes).map_err(wrong)
}
