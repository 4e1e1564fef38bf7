//! Applications whose questions are encrypted vectors, in the values of Python.

use std::borrow::Borrow;

use ndarray::Array3;
use numpy::{IntoPyArray, PyReadonlyArray3};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use unspoken_classify::{Classified, ClassifyError, Kind, ScoreClient};
use unspoken_digits::{DigitsClient, DigitsError, Recognised};
use unspoken_digits_model::{CLASSES, Image};
use unspoken_embed::{EmbedClient, EmbedError};
use unspoken_matrix::{MatrixClient, MatrixError, NamedArrays};
use unspoken_model::{ModelClient, ModelError, Row};
use unspoken_protocol::{CkksClientHalf, ClientHalf, ProtocolError};

use crate::compiled::{facts, joined, read_rows};
use crate::digits::image_list;
use crate::matrix::MatrixSignature;
use crate::model::matrix;

/// Answers, and how certain the label of each is, if they have labels.
type Shared<A> = (Vec<A>, Vec<f64>);

/// The client half of an application that Python asks. A new one is one more implementation here.
pub(crate) trait Application: ClientHalf<Answer: Send, Model: Send + Sync> + CkksClientHalf + 'static {
    /// A question of the application.
    type Asked: Borrow<Self::Question> + Send + Sync;

    /// The questions that Python wrote.
    fn questions(questions: &Bound<'_, PyAny>) -> PyResult<Vec<Self::Asked>>;

    /// Answers for Python.
    fn answers<'py>(&self, py: Python<'py>, answers: Vec<Self::Answer>) -> PyResult<Bound<'py, PyAny>>;

    /// The answers to `asked` with noise of `bits` bits, so that they can be shared.
    fn to_share(
        &self,
        asked: &[Self::Asked],
        answers: &[Self::Answer],
        bits: u32,
    ) -> Result<Shared<Self::Answer>, Self::Error>;

    /// What the description tells, by name.
    fn facts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        Ok(PyDict::new(py))
    }
}

/// Labels, and scores of shape (answers, classes).
fn labelled(
    py: Python<'_>,
    answers: impl Iterator<Item = (String, Vec<f64>)>,
    classes: usize,
) -> PyResult<Bound<'_, PyAny>> {
    let (labels, scores): (Vec<_>, Vec<_>) = answers.unzip();
    let scores = matrix(py, scores.concat(), labels.len(), classes)?;
    Ok((labels, scores).into_pyobject(py)?.into_any())
}

/// Answers with noise, and how certain each label is.
fn certain<A, E>(shared: Vec<A>, certainty: impl Fn(&A) -> Result<f64, E>) -> Result<Shared<A>, E> {
    let certainties = shared.iter().map(certainty).collect::<Result<_, _>>()?;
    Ok((shared, certainties))
}

/// Texts in; labels and scores of shape (texts, classes) out.
impl<K: Kind<Model: Sync>> Application for ScoreClient<K> {
    type Asked = String;

    fn questions(questions: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
        questions.extract()
    }

    fn answers<'py>(&self, py: Python<'py>, answers: Vec<Classified>) -> PyResult<Bound<'py, PyAny>> {
        labelled(py, answers.into_iter().map(|answer| (answer.label, answer.scores)), self.labels().len())
    }

    fn to_share(&self, _: &[String], answers: &[Classified], bits: u32) -> Result<Shared<Classified>, ClassifyError> {
        certain(self.share(answers, bits)?, |answer| self.certainty(answer, bits))
    }

    fn facts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("labels", self.labels())?;
        dict.set_item("max_tokens", self.description().max_tokens())?;
        Ok(dict)
    }
}

/// Images of shape (images, 784) in; scores of shape (images, 10) out.
impl Application for DigitsClient {
    type Asked = Image;

    fn questions(questions: &Bound<'_, PyAny>) -> PyResult<Vec<Image>> {
        Ok(image_list(&questions.extract()?)?)
    }

    fn answers<'py>(&self, py: Python<'py>, answers: Vec<Recognised>) -> PyResult<Bound<'py, PyAny>> {
        let rows = answers.len();
        Ok(matrix(py, answers.into_iter().flat_map(|answer| answer.scores).collect(), rows, CLASSES)?.into_any())
    }

    fn to_share(&self, _: &[Image], answers: &[Recognised], bits: u32) -> Result<Shared<Recognised>, DigitsError> {
        certain(self.share(answers, bits)?, |answer| self.certainty(answer, bits))
    }
}

/// Rows of the table in; embeddings of shape (tokens, width) out.
impl Application for EmbedClient {
    type Asked = usize;

    fn questions(questions: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
        questions.extract()
    }

    fn answers<'py>(&self, py: Python<'py>, answers: Vec<Vec<f64>>) -> PyResult<Bound<'py, PyAny>> {
        Ok(matrix(py, answers.concat(), answers.len(), self.description().width())?.into_any())
    }

    fn to_share(&self, _: &[usize], _: &[Vec<f64>], _: u32) -> Result<Shared<Vec<f64>>, EmbedError> {
        Err(ProtocolError::mismatch("share answers", "embeddings", "scores or results of matrices").into())
    }
}

/// Computations in, each a list of names with arrays of shape (batch, rows, columns); a list of such arrays out.
impl Application for MatrixClient {
    type Asked = NamedArrays;

    fn questions(questions: &Bound<'_, PyAny>) -> PyResult<Vec<NamedArrays>> {
        let computations: Vec<Vec<(String, PyReadonlyArray3<'_, f64>)>> = questions.extract()?;
        let named = |(name, values): (String, PyReadonlyArray3<'_, f64>)| (name, values.as_array().to_owned());
        Ok(computations.into_iter().map(|inputs| inputs.into_iter().map(named).collect()).collect())
    }

    fn answers<'py>(&self, py: Python<'py>, answers: Vec<Array3<f64>>) -> PyResult<Bound<'py, PyAny>> {
        Ok(PyList::new(py, answers.into_iter().map(|result| result.into_pyarray(py)))?.into_any())
    }

    fn to_share(
        &self,
        asked: &[NamedArrays],
        answers: &[Array3<f64>],
        bits: u32,
    ) -> Result<Shared<Array3<f64>>, MatrixError> {
        let shared = asked.iter().zip(answers).map(|(inputs, result)| self.share(inputs, result, bits));
        Ok((shared.collect::<Result<_, _>>()?, Vec::new()))
    }

    /// The error of an entry of the result is from the service's simulation, for inputs up to the largest.
    fn facts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let description = self.description();
        let dict = PyDict::new(py);
        dict.set_item("signature", MatrixSignature::new(description.signature().clone()).into_pyobject(py)?)?;
        dict.set_item("error", description.error_bound())?;
        dict.set_item("largest", description.largest_input())?;
        Ok(dict)
    }
}

/// Rows in, each a list of arrays, one for each input; what [`joined`] makes of their answers out.
impl Application for ModelClient {
    type Asked = Row;

    fn questions(questions: &Bound<'_, PyAny>) -> PyResult<Vec<Row>> {
        read_rows(questions)
    }

    fn answers<'py>(&self, py: Python<'py>, answers: Vec<Self::Answer>) -> PyResult<Bound<'py, PyAny>> {
        Ok(joined(py, answers, self.description().output_shapes())?.into_any())
    }

    fn to_share(&self, _: &[Row], _: &[Self::Answer], _: u32) -> Result<Shared<Self::Answer>, ModelError> {
        Err(ProtocolError::mismatch("share answers", "predictions", "scores or results of matrices").into())
    }

    fn facts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        facts(py, self.description().inputs(), self.description().output_shapes())
    }
}
