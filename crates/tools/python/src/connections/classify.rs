//! A classifier of a service.

use std::path::PathBuf;

use numpy::PyArray2;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use unspoken_classify::{Classified, ClassifyClient};
use unspoken_client::{ServiceClient, StateDir};
use unspoken_protocol::ClientHalf;

use super::offline::{decrypt, encrypt, tag};
use super::{Service, Shared, ask_to_share, certainties, connect, predicted_cost, prepare, usage_dict};
use crate::model::{Words, matrix};

/// A classifier of a service, with generated and uploaded keys.
#[pyclass(module = "unspoken._unspoken")]
pub(crate) struct Connection {
    client: ServiceClient<ClassifyClient>,
    application: String,
}

#[pymethods]
impl Connection {
    #[staticmethod]
    fn open(
        py: Python<'_>,
        service: &Service,
        application: Option<String>,
        words: &Words,
        state_dir: PathBuf,
        ready: (usize, usize),
        progress: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let model = |_: &StateDir| words.encoder().clone();
        let (client, application) =
            connect(py, service, application, &state_dir, progress, model, |client| prepare(client, ready))?;
        Ok(Connection { client, application })
    }

    /// What `questions` questions will take, by name.
    #[staticmethod]
    fn cost<'py>(
        py: Python<'py>,
        service: &Service,
        application: Option<String>,
        words: &Words,
        state_dir: PathBuf,
        questions: usize,
    ) -> PyResult<Bound<'py, PyDict>> {
        predicted_cost::<ClassifyClient>(py, service, application, &state_dir, questions, |_| words.encoder().clone())
    }

    /// One label per message, and scores of shape (messages, classes), with noise if they are to be shared, and
    /// then how certain each label is.
    fn classify<'py>(
        &mut self,
        py: Python<'py>,
        messages: Vec<String>,
        share_bits: Option<u32>,
        progress: &Bound<'py, PyAny>,
    ) -> PyResult<Shared<'py>> {
        let answers = ask_to_share(py, &mut self.client, &messages, share_bits, progress, |half, answers, bits| {
            half.share(answers, bits)
        })?;
        let half = self.client.half();
        let certainties = certainties(&answers, share_bits, |answer, bits| half.certainty(answer, bits))?;
        let (labels, scores) = self.labelled(py, answers)?;
        Ok((labels, scores, certainties))
    }

    /// A query of one batch at most, to be answered later.
    fn encrypt<'py>(&mut self, py: Python<'py>, messages: Vec<String>) -> PyResult<Bound<'py, PyBytes>> {
        encrypt(py, &mut self.client, &messages)
    }

    /// What `classify` returns, from the answer to a query of `encrypt` with these messages.
    fn decrypt<'py>(
        &mut self,
        py: Python<'py>,
        messages: Vec<String>,
        answer: &[u8],
    ) -> PyResult<(Vec<String>, Bound<'py, PyArray2<f64>>)> {
        let answers = decrypt(py, &mut self.client, &messages, answer)?;
        self.labelled(py, answers)
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

    #[getter]
    fn preset(&self) -> &str {
        self.client.description().parameters().name()
    }

    /// Number of messages in one query.
    #[getter]
    fn batch(&self) -> usize {
        self.client.description().batch()
    }

    /// Bytes of the longest answer to one query.
    #[getter]
    fn answer_bytes(&self) -> usize {
        self.client.half().answer_bytes(self.client.half().batch())
    }

    /// Bytes and seconds so far, by name.
    #[getter]
    fn usage<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        usage_dict(py, self.client.usage())
    }
}

impl Connection {
    fn labelled<'py>(
        &self,
        py: Python<'py>,
        answers: Vec<Classified>,
    ) -> PyResult<(Vec<String>, Bound<'py, PyArray2<f64>>)> {
        let (labels, scores): (Vec<_>, Vec<_>) = answers.into_iter().map(|a| (a.label, a.scores)).unzip();
        let scores =
            matrix(py, scores.into_iter().flatten().collect(), labels.len(), self.client.half().labels().len())?;
        Ok((labels, scores))
    }
}
