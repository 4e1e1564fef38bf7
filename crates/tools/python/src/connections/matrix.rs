//! A matrix program of a service, with generated and uploaded keys.

use std::path::PathBuf;

use ndarray::Array3;
use numpy::{IntoPyArray, PyArray3, PyReadonlyArray3};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use unspoken_client::{ClientError, Progress, ServiceClient};
use unspoken_matrix::{MatrixClient, NamedArrays};
use unspoken_protocol::ClientHalf;

use super::offline::{decrypt, encrypt, tag};
use super::{Service, connect, predicted_cost, prepare, usage_dict};
use crate::failure::Failure;
use crate::interruptible;
use crate::matrix::MatrixSignature;
use crate::progress::Reporter;

/// Arrays of shape (batch, rows, columns) by name.
type Inputs<'py> = Vec<(String, PyReadonlyArray3<'py, f64>)>;

fn named(inputs: Inputs<'_>) -> NamedArrays {
    inputs.into_iter().map(|(name, values)| (name, values.as_array().to_owned())).collect()
}

#[pyclass(module = "unspoken._unspoken")]
pub(crate) struct MatrixConnection {
    client: ServiceClient<MatrixClient>,
    application: String,
}

#[pymethods]
impl MatrixConnection {
    #[staticmethod]
    fn open(
        py: Python<'_>,
        service: &Service,
        application: Option<String>,
        state_dir: PathBuf,
        ready: (usize, usize),
        progress: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let (client, application) =
            connect(py, service, application, &state_dir, progress, |_| (), |client| prepare(client, ready))?;
        Ok(MatrixConnection { client, application })
    }

    /// What `questions` questions will take, by name.
    #[staticmethod]
    fn cost<'py>(
        py: Python<'py>,
        service: &Service,
        application: Option<String>,
        state_dir: PathBuf,
        questions: usize,
    ) -> PyResult<Bound<'py, PyDict>> {
        predicted_cost::<MatrixClient>(py, service, application, &state_dir, questions, |_| ())
    }

    /// The result, of shape (batch, rows, columns), for arrays of such shapes by name. `share_bits` adds noise, so
    /// that the result can be shared.
    fn compute<'py>(
        &mut self,
        py: Python<'py>,
        inputs: Inputs<'py>,
        share_bits: Option<u32>,
        progress: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArray3<f64>>> {
        let inputs = named(inputs);
        let client = &mut self.client;
        let result = interruptible::run(py, Reporter::from_argument(progress)?, |report, cancel| {
            let mut report = |step: Progress| report(step.into());
            let answers: Vec<Array3<f64>> = client.ask(&[&inputs], &mut report, cancel)?;
            let result = answers.into_iter().next().unwrap_or_default();
            match share_bits {
                Some(bits) => Ok(client.half().share(&inputs, &result, bits).map_err(ClientError::of_application)?),
                None => Ok::<_, Failure>(result),
            }
        })?;
        Ok(result.into_pyarray(py))
    }

    /// A query with the inputs of one computation, to be answered later.
    fn encrypt<'py>(&mut self, py: Python<'py>, computations: Vec<Inputs<'py>>) -> PyResult<Bound<'py, PyBytes>> {
        encrypt(py, &mut self.client, &computations.into_iter().map(named).collect::<Vec<_>>())
    }

    /// What `compute` returns, from the answer to a query of `encrypt` with these inputs.
    fn decrypt<'py>(
        &mut self,
        py: Python<'py>,
        computations: Vec<Inputs<'py>>,
        answer: &[u8],
    ) -> PyResult<Vec<Bound<'py, PyArray3<f64>>>> {
        let computations: Vec<NamedArrays> = computations.into_iter().map(named).collect();
        let results = decrypt(py, &mut self.client, &computations, answer)?;
        Ok(results.into_iter().map(|result| result.into_pyarray(py)).collect())
    }

    /// Number of computations in one query.
    #[getter]
    fn batch(&self) -> usize {
        self.client.half().batch()
    }

    /// Bytes of the longest answer to one query.
    #[getter]
    fn answer_bytes(&self) -> usize {
        self.client.half().answer_bytes(self.client.half().batch())
    }

    /// Authenticates bytes, such that only this client can.
    fn tag<'py>(&self, py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        tag(py, &self.client, bytes)
    }

    /// The id of the keys at the service.
    #[getter]
    fn key(&self) -> &str {
        self.client.key().as_str()
    }

    /// The client's description of the program.
    fn signature(&self) -> MatrixSignature {
        MatrixSignature::new(self.client.description().signature().clone())
    }

    /// The error of an entry of the result, from the service's simulation, and the largest input for which it holds.
    #[getter]
    fn error(&self) -> (f64, f64) {
        let description = self.client.description();
        (description.error_bound(), description.largest_input())
    }

    #[getter]
    fn application(&self) -> &str {
        &self.application
    }

    /// Bytes and seconds so far, by name.
    #[getter]
    fn usage<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        usage_dict(py, self.client.usage())
    }
}
