//! A layer over an embedding table of a service.

use std::path::PathBuf;

use numpy::PyArray2;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use unspoken_classify::{Classified, HeadClient, HeadModel};
use unspoken_client::{ServiceClient, StateDir};
use unspoken_protocol::ClientHalf;

use super::offline::{decrypt, encrypt, tag};
use super::{Service, Shared, ask_to_share, certainties, connect, predicted_cost, prepare, usage_dict};
use crate::embedding::Codes;
use crate::model::matrix;

/// A linear head over an embedding table of a service, with generated and uploaded keys.
#[pyclass(module = "unspoken._unspoken")]
pub(crate) struct LayerConnection {
    client: ServiceClient<HeadClient>,
    application: String,
}

/// The client's part of a layer.
fn layer_model(codes: &Codes, cut: bool) -> HeadModel {
    HeadModel { codes: codes.codes().clone(), cut }
}

#[pymethods]
impl LayerConnection {
    #[staticmethod]
    #[expect(clippy::too_many_arguments, reason = "each is an argument of the Python class")]
    fn open(
        py: Python<'_>,
        service: &Service,
        application: Option<String>,
        codes: &Codes,
        cut: bool,
        state_dir: PathBuf,
        ready: (usize, usize),
        progress: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let model = |_: &StateDir| layer_model(codes, cut);
        let (client, application) =
            connect(py, service, application, &state_dir, progress, model, |client| prepare(client, ready))?;
        Ok(LayerConnection { client, application })
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
        predicted_cost::<HeadClient>(py, service, application, &state_dir, questions, |_| layer_model(codes, false))
    }

    /// One label per text, and scores of shape (texts, classes), with noise if they are to be shared, and
    /// then how certain each label is.
    fn classify<'py>(
        &mut self,
        py: Python<'py>,
        texts: Vec<String>,
        share_bits: Option<u32>,
        progress: &Bound<'py, PyAny>,
    ) -> PyResult<Shared<'py>> {
        let answers = ask_to_share(py, &mut self.client, &texts, share_bits, progress, |half, answers, bits| {
            half.share(answers, bits)
        })?;
        let half = self.client.half();
        let certainties = certainties(&answers, share_bits, |answer, bits| half.certainty(answer, bits))?;
        let (labels, scores) = self.labelled(py, answers)?;
        Ok((labels, scores, certainties))
    }

    /// A query of one batch at most, to be answered later.
    fn encrypt<'py>(&mut self, py: Python<'py>, texts: Vec<String>) -> PyResult<Bound<'py, PyBytes>> {
        encrypt(py, &mut self.client, &texts)
    }

    /// What `classify` returns, from the answer to a query of `encrypt` with these texts.
    fn decrypt<'py>(
        &mut self,
        py: Python<'py>,
        texts: Vec<String>,
        answer: &[u8],
    ) -> PyResult<(Vec<String>, Bound<'py, PyArray2<f64>>)> {
        let answers = decrypt(py, &mut self.client, &texts, answer)?;
        self.labelled(py, answers)
    }

    /// Number of texts in one query.
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

    /// Names of the classes, in the order of the scores.
    #[getter]
    fn labels(&self) -> &[String] {
        self.client.description().classes()
    }

    /// Tokens of a text that the service reads.
    #[getter]
    fn max_tokens(&self) -> usize {
        self.client.description().max_tokens()
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

impl LayerConnection {
    fn labelled<'py>(
        &self,
        py: Python<'py>,
        answers: Vec<Classified>,
    ) -> PyResult<(Vec<String>, Bound<'py, PyArray2<f64>>)> {
        let (labels, scores): (Vec<_>, Vec<_>) = answers.into_iter().map(|a| (a.label, a.scores)).unzip();
        let scores = matrix(py, scores.concat(), labels.len(), self.client.description().classes().len())?;
        Ok((labels, scores))
    }
}
