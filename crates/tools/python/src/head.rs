//! Linear heads over pooled embeddings, in the clear: training, files and scores.

use std::path::PathBuf;

use numpy::{PyArray1, PyArray2, PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use unspoken_embedding::{HeadOptions, LinearHead, TextReader};

use crate::embedding::{Table, coverage_dict};
use crate::failure::Failure;
use crate::interruptible;
use crate::model::matrix;
use crate::progress::Reporter;

/// A linear head.
#[pyclass(frozen, module = "unspoken._unspoken")]
pub(crate) struct Head(LinearHead);

#[pymethods]
impl Head {
    /// Trains a head; returns it and what of the texts it reads.
    #[staticmethod]
    fn fit<'py>(
        py: Python<'py>,
        table: &Table,
        texts: Vec<String>,
        labels: Vec<String>,
        max_tokens: usize,
        ridge: f64,
    ) -> PyResult<(Self, Bound<'py, PyDict>)> {
        let options = HeadOptions { max_tokens, ridge };
        let trained = interruptible::run(py, Reporter::Silent, |_, cancel| {
            Ok(LinearHead::fit(table.table(), &texts, &labels, &options, cancel.flag())?)
        })?;
        let found = coverage_dict(py, &trained.coverage)?;
        found.set_item("training_accuracy", trained.training_accuracy)?;
        Ok((Head(trained.head), found))
    }

    /// A head of these weights, of shape (classes, width), and this bias.
    #[staticmethod]
    fn from_arrays(
        classes: Vec<String>,
        max_tokens: usize,
        weights: PyReadonlyArray2<'_, f64>,
        bias: PyReadonlyArray1<'_, f64>,
    ) -> PyResult<Self> {
        let width = weights.shape()[1];
        let (weights, bias) = (weights.as_array().iter().copied().collect(), bias.as_array().iter().copied().collect());
        Ok(Head(LinearHead::new(classes, max_tokens, width, weights, bias).map_err(Failure::from)?))
    }

    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        Ok(Head(py.detach(|| LinearHead::load(path)).map_err(Failure::from)?))
    }

    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        Ok(py.detach(|| self.0.save(path)).map_err(Failure::from)?)
    }

    /// Scores of shape (texts, classes).
    fn scores<'py>(&self, py: Python<'py>, table: &Table, texts: Vec<String>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let scores = py.detach(|| {
            let reader = TextReader::new(table.table().codes().tokens());
            texts.iter().map(|text| self.0.scores(table.table(), &reader.read(text).ids)).collect::<Result<Vec<_>, _>>()
        });
        matrix(py, scores.map_err(Failure::from)?.concat(), texts.len(), self.0.classes().len())
    }

    #[getter]
    fn classes(&self) -> &[String] {
        self.0.classes()
    }

    #[getter]
    fn max_tokens(&self) -> usize {
        self.0.max_tokens()
    }

    #[getter]
    fn width(&self) -> usize {
        self.0.width()
    }

    #[getter]
    fn weights<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        matrix(py, self.0.weights().to_vec(), self.0.classes().len(), self.0.width())
    }

    #[getter]
    fn bias<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_slice(py, self.0.bias())
    }
}
