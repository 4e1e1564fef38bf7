//! Networks for handwritten digits in the clear: training, files and scores.

use std::path::PathBuf;

use numpy::{PyArray2, PyReadonlyArray2};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use unspoken_digits_model as digits;
use unspoken_digits_model::{CLASSES, Image, LabelledImages, Network, Shape, TrainOptions};

use crate::failure::Failure;
use crate::interruptible;
use crate::model::matrix;
use crate::progress::{Event, Reporter};

/// Options of the trainer, from a dictionary with these keys.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Options {
    channels: usize,
    hidden: usize,
    seed: u64,
    epochs: usize,
    batch: usize,
    rate: f32,
    weight_decay: f32,
    shift: usize,
    validation: usize,
}

impl From<Options> for TrainOptions {
    fn from(options: Options) -> Self {
        TrainOptions {
            shape: Shape { channels: options.channels, hidden: options.hidden },
            seed: options.seed,
            epochs: options.epochs,
            batch: options.batch,
            rate: options.rate,
            weight_decay: options.weight_decay,
            shift: options.shift,
            validation: options.validation,
            ..TrainOptions::default()
        }
    }
}

/// A trained network.
#[pyclass(frozen, module = "unspoken._unspoken")]
pub(crate) struct Digits(Network);

#[pymethods]
impl Digits {
    /// A network trained on images of shape (images, 784) and their labels.
    #[staticmethod]
    fn fit(
        py: Python<'_>,
        images: PyReadonlyArray2<'_, u8>,
        labels: Vec<u8>,
        options: Options,
        progress: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let (images, options) = (image_list(&images)?, TrainOptions::from(options));
        interruptible::run(py, Reporter::from_argument(progress)?, move |report, cancel| {
            let mut report = |progress: &digits::Progress| report(Event::from(progress));
            let network = LabelledImages::new(images, labels)
                .and_then(|data| digits::fit(&data, &options, &mut report, cancel.flag()));
            network.map(Digits).map_err(Failure::training)
        })
    }

    #[staticmethod]
    fn load(py: Python<'_>, directory: PathBuf) -> PyResult<Self> {
        Ok(Digits(py.detach(|| Network::load(directory)).map_err(Failure::from)?))
    }

    fn save(&self, py: Python<'_>, directory: PathBuf) -> PyResult<()> {
        Ok(py.detach(|| self.0.save(directory)).map_err(Failure::from)?)
    }

    /// Scores of shape (images, 10).
    fn scores<'py>(&self, py: Python<'py>, images: PyReadonlyArray2<'py, u8>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let images = image_list(&images)?;
        let scores = py.detach(|| images.iter().flat_map(|image| self.0.scores(image)).collect());
        matrix(py, scores, images.len(), CLASSES)
    }

    /// The training options stored in the files of a network.
    #[getter]
    fn training<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (record, shape) = (self.0.training(), self.0.shape());
        let dict = PyDict::new(py);
        dict.set_item("channels", shape.channels)?;
        dict.set_item("hidden", shape.hidden)?;
        dict.set_item("seed", record.seed)?;
        dict.set_item("epochs", record.epochs)?;
        Ok(dict)
    }

    #[getter]
    fn validation_accuracy(&self) -> Option<f64> {
        self.0.training().validation_accuracy
    }

    #[getter]
    fn id(&self) -> String {
        self.0.id().to_string()
    }
}

/// The images in the rows of an array of shape (images, 784).
pub(crate) fn image_list(images: &PyReadonlyArray2<'_, u8>) -> Result<Vec<Image>, Failure> {
    let image = |row: numpy::ndarray::ArrayView1<'_, u8>| Image::new(&row.iter().copied().collect::<Vec<u8>>());
    images.as_array().rows().into_iter().map(|row| image(row).map_err(Failure::training)).collect()
}
