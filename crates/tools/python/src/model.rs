//! The fastText classifier: training, files and scores in the clear.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use numpy::{PyArray1, PyArray2, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use unspoken_fasttext::{self as fasttext, ClassWeights, Encoder, TrainOptions};

use crate::failure::Failure;
use crate::interruptible;
use crate::progress::{Event, Reporter};

/// Options of the trainer, from a dictionary with these keys.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Options {
    dim: usize,
    subtables: usize,
    columns: usize,
    seed: u64,
    bigrams: bool,
    max_tokens: usize,
    min_count: usize,
    max_vocabulary: usize,
    unknown_share: f32,
    validation_share: f64,
    batch: usize,
    relaxed_epochs: usize,
    hard_epochs: usize,
    rate: f32,
    code_rate: f32,
    weight_decay: f32,
    final_temperature: f32,
    entropy_weight: f32,
    confidence_weight: f32,
    /// Weights of classes by label.
    class_weight: BTreeMap<String, f32>,
    /// Whether each class counts as much as the others; the weights are then not used.
    balanced: bool,
}

impl From<Options> for TrainOptions {
    fn from(options: Options) -> Self {
        TrainOptions {
            seed: options.seed,
            tokeniser: fasttext::Tokeniser {
                bigrams: options.bigrams,
                max_tokens: options.max_tokens,
                ..fasttext::Tokeniser::default()
            },
            min_count: options.min_count,
            max_vocabulary: options.max_vocabulary,
            unknown_share: options.unknown_share,
            subtables: options.subtables,
            columns: options.columns,
            dimension: options.dim,
            validation_share: options.validation_share,
            batch: options.batch,
            relaxed_epochs: options.relaxed_epochs,
            hard_epochs: options.hard_epochs,
            rate: options.rate,
            code_rate: options.code_rate,
            weight_decay: options.weight_decay,
            final_temperature: options.final_temperature,
            entropy_weight: options.entropy_weight,
            confidence_weight: options.confidence_weight,
            class_weights: match options.balanced {
                true => ClassWeights::Balanced,
                false => ClassWeights::Given(options.class_weight),
            },
        }
    }
}

/// Both halves of a model.
#[pyclass(frozen, module = "unspoken._unspoken")]
pub(crate) struct Model(fasttext::Model);

#[pymethods]
impl Model {
    #[staticmethod]
    fn fit(
        py: Python<'_>,
        texts: Vec<String>,
        labels: Vec<String>,
        options: Options,
        progress: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let options = TrainOptions::from(options);
        let reporter = Reporter::from_argument(progress)?;
        interruptible::run(py, reporter, |report, cancel| {
            let mut report = |progress: &fasttext::Progress| report(Event::from(progress));
            let model = fasttext::fit(&texts, &labels, &options, &mut report, cancel.flag());
            model.map(Model).map_err(Failure::training)
        })
    }

    #[staticmethod]
    fn load(py: Python<'_>, directory: PathBuf) -> PyResult<Self> {
        let model = py.detach(|| fasttext::Model::load(directory)).map_err(Failure::from)?;
        Ok(Model(model))
    }

    fn save(&self, py: Python<'_>, directory: PathBuf) -> PyResult<()> {
        Ok(py.detach(|| self.0.save(directory)).map_err(Failure::from)?)
    }

    /// Scores of shape (texts, classes).
    fn scores<'py>(&self, py: Python<'py>, texts: Vec<String>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let scores = py.detach(|| texts.iter().flat_map(|text| self.0.scores(text)).collect());
        matrix(py, scores, texts.len(), self.0.encoder().labels().len())
    }

    /// Probabilities of shape (texts, classes).
    fn probabilities<'py>(&self, py: Python<'py>, texts: Vec<String>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let found = py.detach(|| texts.iter().flat_map(|text| self.0.probabilities(text)).collect());
        matrix(py, found, texts.len(), self.0.encoder().labels().len())
    }

    /// What of these texts the model reads.
    fn coverage<'py>(&self, py: Python<'py>, texts: Vec<String>) -> PyResult<Bound<'py, PyDict>> {
        coverage(py, self.0.encoder(), &texts)
    }

    /// The client's half.
    fn words(&self) -> Words {
        Words(Arc::new(self.0.encoder().clone()))
    }

    #[getter]
    fn labels(&self) -> &[String] {
        self.0.encoder().labels()
    }

    #[getter]
    fn id(&self) -> String {
        self.0.encoder().id().to_string()
    }

    /// The training options stored in the files of a model.
    #[getter]
    fn training<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (record, shape, tokeniser) = (self.0.training(), self.0.encoder().shape(), self.0.encoder().tokeniser());
        let dict = PyDict::new(py);
        dict.set_item("dim", record.dimension)?;
        dict.set_item("subtables", shape.subtables)?;
        dict.set_item("columns", shape.columns)?;
        dict.set_item("seed", record.seed)?;
        dict.set_item("bigrams", tokeniser.bigrams)?;
        dict.set_item("max_tokens", shape.max_tokens)?;
        dict.set_item("relaxed_epochs", record.relaxed_epochs)?;
        dict.set_item("hard_epochs", record.hard_epochs)?;
        Ok(dict)
    }

    #[getter]
    fn validation_accuracy(&self) -> Option<f64> {
        self.0.training().validation_accuracy
    }

    #[getter]
    fn vocabulary_size(&self) -> usize {
        self.0.encoder().vocabulary().len()
    }
}

/// The client's half of a model: vocabulary, codes and label names.
#[pyclass(frozen, module = "unspoken._unspoken")]
pub(crate) struct Words(Arc<Encoder>);

impl Words {
    pub(crate) fn encoder(&self) -> &Arc<Encoder> {
        &self.0
    }
}

#[pymethods]
impl Words {
    #[staticmethod]
    fn load(py: Python<'_>, directory: PathBuf) -> PyResult<Self> {
        let encoder = py.detach(|| Encoder::load(directory)).map_err(Failure::from)?;
        Ok(Words(Arc::new(encoder)))
    }

    /// What of these texts the model reads.
    fn coverage<'py>(&self, py: Python<'py>, texts: Vec<String>) -> PyResult<Bound<'py, PyDict>> {
        coverage(py, &self.0, &texts)
    }

    #[getter]
    fn labels(&self) -> &[String] {
        self.0.labels()
    }

    #[getter]
    fn id(&self) -> String {
        self.0.id().to_string()
    }
}

/// Counts of texts and tokens, and warnings about them.
fn coverage<'py>(py: Python<'py>, encoder: &Encoder, texts: &[String]) -> PyResult<Bound<'py, PyDict>> {
    let found = py.detach(|| encoder.coverage(texts));
    let dict = PyDict::new(py);
    dict.set_item("cut", found.cut)?;
    dict.set_item("known_share", found.known_share())?;
    dict.set_item("warnings", found.warnings().collect::<Vec<_>>())?;
    Ok(dict)
}

/// A matrix with `rows` rows, from its entries in row order.
pub(crate) fn matrix(
    py: Python<'_>,
    entries: Vec<f64>,
    rows: usize,
    columns: usize,
) -> PyResult<Bound<'_, PyArray2<f64>>> {
    PyArray1::from_vec(py, entries).reshape([rows, columns])
}
