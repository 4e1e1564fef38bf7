//! An embedding table of a service.

use std::path::PathBuf;

use numpy::PyArray2;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use unspoken_client::{ClientError, Progress, ServiceClient, StateDir};
use unspoken_embed::EmbedClient;
use unspoken_protocol::ClientHalf;

use super::offline::{decrypt, encrypt, tag};
use super::{Service, connect, predicted_cost, prepare, usage_dict};
use crate::embedding::Codes;
use crate::interruptible;
use crate::model::matrix;
use crate::progress::Reporter;

/// An embedding table of a service, with generated and uploaded keys.
#[pyclass(module = "unspoken._unspoken")]
pub(crate) struct EmbeddingConnection {
    client: ServiceClient<EmbedClient>,
    application: String,
}

#[pymethods]
impl EmbeddingConnection {
    #[staticmethod]
    fn open(
        py: Python<'_>,
        service: &Service,
        application: Option<String>,
        codes: &Codes,
        state_dir: PathBuf,
        ready: (usize, usize),
        progress: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let model = |_: &StateDir| codes.codes().clone();
        let (client, application) =
            connect(py, service, application, &state_dir, progress, model, |client| prepare(client, ready))?;
        Ok(EmbeddingConnection { client, application })
    }

    /// What `questions` questions will take, by name.
    #[staticmethod]
    fn cost<'py>(
        py: Python<'py>,
        service: &Service,
        application: Option<String>,
        codes: &Codes,
        state_dir: PathBuf,
        questions: usize,
    ) -> PyResult<Bound<'py, PyDict>> {
        predicted_cost::<EmbedClient>(py, service, application, &state_dir, questions, |_| codes.codes().clone())
    }

    /// Embeddings of shape (ids, width).
    fn embed<'py>(
        &mut self,
        py: Python<'py>,
        ids: Vec<usize>,
        progress: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let client = &mut self.client;
        let embeddings = interruptible::run(py, Reporter::from_argument(progress)?, |report, cancel| {
            let mut report = |step: Progress| report(step.into());
            client.ask(&ids, &mut report, cancel).map_err(ClientError::into)
        })?;
        self.rows(py, embeddings)
    }

    /// A query of one batch at most, to be answered later.
    fn encrypt<'py>(&mut self, py: Python<'py>, ids: Vec<usize>) -> PyResult<Bound<'py, PyBytes>> {
        encrypt(py, &mut self.client, &ids)
    }

    /// What `embed` returns, from the answer to a query of `encrypt` with these ids.
    fn decrypt<'py>(&mut self, py: Python<'py>, ids: Vec<usize>, answer: &[u8]) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let embeddings = decrypt(py, &mut self.client, &ids, answer)?;
        self.rows(py, embeddings)
    }

    /// Number of tokens in one query.
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

impl EmbeddingConnection {
    fn rows<'py>(&self, py: Python<'py>, embeddings: Vec<Vec<f64>>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let (rows, width) = (embeddings.len(), self.client.description().width());
        matrix(py, embeddings.into_iter().flatten().collect(), rows, width)
    }
}
