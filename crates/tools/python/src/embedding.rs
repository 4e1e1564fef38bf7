//! Compressed embedding tables in the clear: compression, files and embeddings.

use std::path::PathBuf;
use std::sync::Arc;

use numpy::{PyArray2, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use unspoken_embedding::{
    self as embedding, CompressOptions, CompressedTable, EmbeddingError, EmbeddingTable, GumbelOptions, TextCoverage,
    TextReader, TokenCodes, TokenList,
};

use crate::failure::Failure;
use crate::interruptible;
use crate::model::matrix;
use crate::progress::{Event, Reporter};

/// Options of the compressor, from a dictionary with these keys.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Options {
    method: String,
    columns: usize,
    seed: u64,
    subtables: usize,
    rounds: usize,
    trials: usize,
    epochs: usize,
    batch: usize,
    rate: f32,
    temperature: f32,
}

/// A method of compression with its options.
enum Method {
    Additive(CompressOptions),
    Gumbel(GumbelOptions),
}

impl TryFrom<Options> for Method {
    type Error = PyErr;

    fn try_from(options: Options) -> PyResult<Self> {
        let Options { columns, seed, subtables, rounds, trials, epochs, batch, rate, temperature, .. } = options;
        match options.method.as_str() {
            "additive" => Ok(Method::Additive(CompressOptions {
                seed,
                subtables,
                columns,
                rounds,
                trials,
                ..CompressOptions::default()
            })),
            "gumbel" => {
                Ok(Method::Gumbel(GumbelOptions { seed, subtables, columns, epochs, batch, rate, temperature }))
            }
            other => Err(PyValueError::new_err(format!(
                "compress: found method={other:?}, needed \"additive\" or \"gumbel\""
            ))),
        }
    }
}

/// Both halves of a compressed table.
#[pyclass(frozen, module = "unspoken._unspoken")]
pub(crate) struct Table(CompressedTable);

impl Table {
    pub(crate) fn table(&self) -> &CompressedTable {
        &self.0
    }
}

#[pymethods]
impl Table {
    /// Compresses a matrix of shape (tokens, width); returns the table and its relative error.
    #[staticmethod]
    fn compress(
        py: Python<'_>,
        rows: PyReadonlyArray2<'_, f32>,
        tokens: Vec<String>,
        options: Options,
        progress: &Bound<'_, PyAny>,
    ) -> PyResult<(Self, f64)> {
        let (width, values) = entries(&rows);
        let method = Method::try_from(options)?;
        interruptible::run(py, Reporter::from_argument(progress)?, move |report, cancel| {
            let mut report = |progress: &embedding::Progress| report(Event::from(progress));
            let compressed = || {
                let table = EmbeddingTable::new(TokenList::new(tokens)?, width, values)?;
                let compressed = match &method {
                    Method::Additive(options) => embedding::compress(&table, options, &mut report, cancel.flag()),
                    Method::Gumbel(options) => {
                        embedding::compress_by_gumbel(&table, options, &mut report, cancel.flag())
                    }
                }?;
                let error = compressed.quality(&table)?.relative_error;
                Ok((Table(compressed), error))
            };
            compressed().map_err(Failure::training::<EmbeddingError>)
        })
    }

    #[staticmethod]
    fn load(py: Python<'_>, directory: PathBuf) -> PyResult<Self> {
        Ok(Table(py.detach(|| CompressedTable::load(directory)).map_err(Failure::from)?))
    }

    fn save(&self, py: Python<'_>, directory: PathBuf) -> PyResult<()> {
        Ok(py.detach(|| self.0.save(directory)).map_err(Failure::from)?)
    }

    /// Embeddings of shape (tokens, width).
    fn reconstruct<'py>(&self, py: Python<'py>, tokens: Vec<String>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let rows = py.detach(|| tokens.iter().map(|token| self.0.reconstruct(token)).collect::<Result<Vec<_>, _>>());
        let numbers = rows.map_err(Failure::from)?.into_iter().flatten().map(f64::from).collect();
        matrix(py, numbers, tokens.len(), self.0.codes().shape().width)
    }

    /// The relative error against a matrix of shape (tokens, width) whose rows are in this table's order.
    fn error(&self, py: Python<'_>, rows: PyReadonlyArray2<'_, f32>) -> PyResult<f64> {
        let (width, values) = entries(&rows);
        let quality = py.detach(|| {
            EmbeddingTable::new(self.0.codes().tokens().clone(), width, values).and_then(|table| self.0.quality(&table))
        });
        Ok(quality.map_err(Failure::training)?.relative_error)
    }

    /// The client's half.
    fn codes(&self) -> Codes {
        Codes(Arc::new(self.0.codes().clone()))
    }

    #[getter]
    fn id(&self) -> String {
        self.0.codes().id().to_string()
    }
}

/// The client's half of a compressed table: tokens and their codes.
#[pyclass(frozen, module = "unspoken._unspoken")]
pub(crate) struct Codes(Arc<TokenCodes>);

impl Codes {
    pub(crate) fn codes(&self) -> &Arc<TokenCodes> {
        &self.0
    }
}

#[pymethods]
impl Codes {
    #[staticmethod]
    fn load(py: Python<'_>, directory: PathBuf) -> PyResult<Self> {
        Ok(Codes(Arc::new(py.detach(|| TokenCodes::load(directory)).map_err(Failure::from)?)))
    }

    /// Whether a directory has such a half, of any version of its format.
    #[staticmethod]
    fn is_in(directory: PathBuf) -> bool {
        TokenCodes::is_in(directory)
    }

    /// The row of each token.
    fn ids(&self, tokens: Vec<String>) -> PyResult<Vec<usize>> {
        let ids = tokens.iter().map(|token| self.0.token_id(token)).collect::<Result<Vec<_>, EmbeddingError>>();
        Ok(ids.map_err(Failure::from)?)
    }

    /// How much of these texts a head reads that reads `max_tokens` tokens.
    fn coverage<'py>(&self, py: Python<'py>, texts: Vec<String>, max_tokens: usize) -> PyResult<Bound<'py, PyDict>> {
        let found = py.detach(|| TextReader::new(self.0.tokens()).coverage(&texts, max_tokens));
        coverage_dict(py, &found)
    }

    #[getter]
    fn tokens(&self) -> &[String] {
        self.0.tokens().as_slice()
    }

    #[getter]
    fn width(&self) -> usize {
        self.0.shape().width
    }

    #[getter]
    fn columns(&self) -> usize {
        self.0.shape().columns
    }

    #[getter]
    fn subtables(&self) -> usize {
        self.0.shape().subtables
    }
}

/// The number of columns, and all entries in row order.
fn entries(rows: &PyReadonlyArray2<'_, f32>) -> (usize, Vec<f32>) {
    (rows.shape()[1], rows.as_array().iter().copied().collect())
}

/// Counts of texts and tokens, and warnings about them.
pub(crate) fn coverage_dict<'py>(py: Python<'py>, found: &TextCoverage) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("cut", found.cut)?;
    dict.set_item("known_share", 1.0 - found.unknown as f64 / found.tokens.max(1) as f64)?;
    dict.set_item("warnings", found.warnings())?;
    Ok(dict)
}
