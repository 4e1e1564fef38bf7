//! A digit recogniser of a service.

use std::path::PathBuf;

use numpy::{PyArray2, PyReadonlyArray2};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use unspoken_client::ServiceClient;
use unspoken_digits::{DigitsClient, Recognised};
use unspoken_digits_model::CLASSES;
use unspoken_protocol::ClientHalf;

use super::offline::{decrypt, encrypt, tag};
use super::{Service, ask_to_share, certainties, connect, predicted_cost, prepare, usage_dict};
use crate::digits::image_list;
use crate::model::matrix;

/// A digit recogniser of a service, with generated and uploaded keys.
#[pyclass(module = "unspoken._unspoken")]
pub(crate) struct DigitsConnection {
    client: ServiceClient<DigitsClient>,
    application: String,
}

#[pymethods]
impl DigitsConnection {
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
        Ok(DigitsConnection { client, application })
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
        predicted_cost::<DigitsClient>(py, service, application, &state_dir, questions, |_| ())
    }

    /// Scores of shape (images, 10) for images of shape (images, 784), with noise if they are to be shared,
    /// and then how certain each digit is.
    fn recognise<'py>(
        &mut self,
        py: Python<'py>,
        images: PyReadonlyArray2<'py, u8>,
        share_bits: Option<u32>,
        progress: &Bound<'py, PyAny>,
    ) -> PyResult<(Bound<'py, PyArray2<f64>>, Vec<f64>)> {
        let images = image_list(&images)?;
        let answers = ask_to_share(py, &mut self.client, &images, share_bits, progress, |half, answers, bits| {
            half.share(answers, bits)
        })?;
        let half = self.client.half();
        let certainties = certainties(&answers, share_bits, |answer, bits| half.certainty(answer, bits))?;
        Ok((score_rows(py, answers)?, certainties))
    }

    /// A query of one batch at most, to be answered later.
    fn encrypt<'py>(&mut self, py: Python<'py>, images: PyReadonlyArray2<'py, u8>) -> PyResult<Bound<'py, PyBytes>> {
        encrypt(py, &mut self.client, &image_list(&images)?)
    }

    /// What `recognise` returns, from the answer to a query of `encrypt` with these images.
    fn decrypt<'py>(
        &mut self,
        py: Python<'py>,
        images: PyReadonlyArray2<'py, u8>,
        answer: &[u8],
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let answers = decrypt(py, &mut self.client, &image_list(&images)?, answer)?;
        score_rows(py, answers)
    }

    /// Number of images in one query.
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

fn score_rows<'py>(py: Python<'py>, answers: Vec<Recognised>) -> PyResult<Bound<'py, PyArray2<f64>>> {
    let rows = answers.len();
    matrix(py, answers.into_iter().flat_map(|answer| answer.scores).collect(), rows, CLASSES)
}
