//! Models of one's own: ONNX models, and what they are compiled to.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use ndarray::ArrayD;
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};
use unspoken_model::{
    CompileOptions, Gives, Input, InputShape, Interface, ModelError, OutputShape, Predicted, Row, SimulatedModel,
};
use unspoken_network::Progress;
use unspoken_onnx::{Answer, Labels, Network};

use crate::failure::Failure;
use crate::interruptible;
use crate::progress::Reporter;

/// Options of compiling, from a dictionary with these keys.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Options {
    batch: usize,
    preset: Option<String>,
    margin: f64,
    kink_bits: f64,
    smooth_bits: f64,
    keep_weights: bool,
    memory_mib: u64,
}

impl From<Options> for CompileOptions {
    fn from(options: Options) -> Self {
        let Options { batch, preset, margin, kink_bits, smooth_bits, keep_weights, memory_mib } = options;
        CompileOptions { batch, preset, margin, kink_bits, smooth_bits, keep_weights, memory_mib }
    }
}

/// An ONNX model.
#[pyclass(frozen, module = "unspoken._unspoken")]
pub(crate) struct OnnxModel {
    network: Arc<Network>,
    interface: Interface,
}

#[pymethods]
impl OnnxModel {
    /// Reads a file, with its files of external data.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        Ok(py.detach(|| OnnxModel::new(Network::load(&path)?)).map_err(Failure::Compiled)?)
    }

    /// Reads a model without external data.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, model: &Bound<'_, PyBytes>) -> PyResult<Self> {
        let bytes = model.as_bytes().to_vec();
        Ok(py.detach(|| OnnxModel::new(Network::from_bytes(bytes)?)).map_err(Failure::Compiled)?)
    }

    /// The inputs: names, shapes of rows, and rows of the tables of indices.
    #[getter]
    fn inputs(&self) -> Vec<(&str, &[usize], Option<usize>)> {
        self.interface.inputs.iter().map(input).collect()
    }

    /// Compiles the model, with a calibration table for each input.
    fn compile(
        &self,
        py: Python<'_>,
        tables: Vec<PyReadonlyArray2<'_, f64>>,
        options: Options,
        progress: &Bound<'_, PyAny>,
    ) -> PyResult<CompiledModel> {
        let reporter = Reporter::from_argument(progress)?;
        let (options, wishes) = CompileOptions::from(options).checked().map_err(Failure::Compiled)?;
        let tables: Vec<_> = tables.iter().map(|table| table.as_array().to_owned()).collect();
        let network = Arc::clone(&self.network);
        interruptible::run(py, reporter, move |report, cancel| {
            let views: Vec<_> = tables.iter().map(|table| table.view()).collect();
            let (mut report, cancel) = (|step: Progress| report(step.into()), cancel.shared());
            let compile = unspoken_model::CompiledModel::compile_with;
            let model = compile(&network, &views, options, &wishes, &mut report, &cancel);
            Ok(CompiledModel::new(model.map_err(Failure::Compiled)?))
        })
    }
}

impl OnnxModel {
    fn new(network: Network) -> Result<Self, ModelError> {
        let interface = Interface::of(&network)?;
        Ok(OnnxModel { network: Arc::new(network), interface })
    }
}

/// A compiled model.
#[pyclass(frozen, module = "unspoken._unspoken")]
pub(crate) struct CompiledModel(Arc<Compiled>);

struct Compiled {
    model: unspoken_model::CompiledModel,
    /// The model in the clear, planned once.
    simulated: OnceLock<SimulatedModel>,
}

#[pymethods]
impl CompiledModel {
    #[staticmethod]
    fn load(py: Python<'_>, directory: PathBuf) -> PyResult<Self> {
        let model = py.detach(|| unspoken_model::CompiledModel::load(&directory)).map_err(Failure::Compiled)?;
        Ok(CompiledModel::new(model))
    }

    fn save(&self, py: Python<'_>, directory: PathBuf) -> PyResult<()> {
        Ok(py.detach(|| self.0.model.save(&directory)).map_err(Failure::Compiled)?)
    }

    /// What is predicted of it, as JSON.
    #[getter]
    fn report(&self) -> String {
        self.0.model.report.to_json()
    }

    /// The same as text, with the functions.
    fn explain(&self) -> String {
        self.0.model.report.explain()
    }

    /// The same with names for the numbers of a row, for each input; none where a list is empty.
    fn with_elements(&self, elements: Vec<Vec<String>>) -> PyResult<Self> {
        let model = self.0.model.clone().with_elements(elements);
        Ok(CompiledModel::new(model.map_err(Failure::Compiled)?))
    }

    /// Inputs and outputs, by name.
    fn facts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let model = Arc::clone(&self.0);
        let inputs = interruptible::run_apart(py, move || Ok(model.simulated()?.inputs().to_vec()))?;
        facts(py, &inputs, &self.0.outputs()?)
    }

    /// What [`joined`] makes of the answers to rows, each with an array for each input, in the clear.
    fn predict<'py>(&self, py: Python<'py>, rows: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyTuple>> {
        let (asked, model) = (read_rows(rows)?, Arc::clone(&self.0));
        let predict = move || model.simulated()?.predict(&asked).map_err(Failure::Compiled);
        let found = interruptible::run_apart(py, predict)?;
        joined(py, found, &self.0.outputs()?)
    }
}

impl CompiledModel {
    fn new(model: unspoken_model::CompiledModel) -> Self {
        CompiledModel(Arc::new(Compiled { model, simulated: OnceLock::new() }))
    }
}

impl Compiled {
    fn simulated(&self) -> Result<&SimulatedModel, Failure> {
        if let Some(known) = self.simulated.get() {
            return Ok(known);
        }
        let planned = self.model.simulated().map_err(Failure::Compiled)?;
        Ok(self.simulated.get_or_init(|| planned))
    }

    fn outputs(&self) -> Result<Vec<OutputShape>, Failure> {
        OutputShape::of(&self.model.interface.outputs).map_err(Failure::Compiled)
    }
}

fn input(input: &InputShape) -> (&str, &[usize], Option<usize>) {
    (&input.name, &input.shape, input.table_rows)
}

/// Rows that Python wrote: for each an array for each input.
pub(crate) fn read_rows(rows: &Bound<'_, PyAny>) -> PyResult<Vec<Row>> {
    let rows: Vec<Vec<PyReadonlyArray1<'_, f64>>> = rows.extract()?;
    let numbers = |input: PyReadonlyArray1<'_, f64>| input.as_array().to_vec();
    Ok(rows.into_iter().map(|row| Row::new(row.into_iter().map(numbers).collect())).collect())
}

/// What Python knows of inputs and outputs.
pub(crate) fn facts<'py>(py: Python<'py>, inputs: &[Input], outputs: &[OutputShape]) -> PyResult<Bound<'py, PyDict>> {
    let range = |input: &Input, end: usize| {
        let numbers = (0..input.shape.size()).map(|element| Some(input.range(element)?[end]));
        numbers.collect::<Option<Vec<f64>>>().map(|numbers| PyArray1::from_vec(py, numbers))
    };
    let of_input = |one: &Input| {
        let (name, shape, table_rows) = input(&one.shape);
        (name, shape, table_rows, &one.shape.elements, range(one, 0), range(one, 1)).into_pyobject(py)
    };
    let dict = PyDict::new(py);
    dict.set_item("inputs", inputs.iter().map(of_input).collect::<PyResult<Vec<_>>>()?)?;
    dict.set_item("outputs", outputs.iter().map(|one| output(py, one)).collect::<PyResult<Vec<_>>>()?)?;
    Ok(dict)
}

fn output<'py>(py: Python<'py>, one: &OutputShape) -> PyResult<Bound<'py, PyAny>> {
    let gives = match one.gives {
        Gives::Labels => "labels",
        Gives::Probabilities => "probabilities",
        Gives::LogProbabilities => "log_probabilities",
        Gives::Numbers => "numbers",
    };
    let labels = match &one.labels {
        Some(Labels::Integers(labels)) => Some(labels.into_pyobject(py)?.into_any()),
        Some(Labels::Texts(labels)) => Some(labels.into_pyobject(py)?.into_any()),
        None => None,
    };
    Ok((&one.name, &one.shape, gives, labels).into_pyobject(py)?.into_any())
}

/// The number of rows; for each output an array with the answers to all rows that have one, or a flat list of texts;
/// and for each other row why it has none.
pub(crate) fn joined<'py>(
    py: Python<'py>,
    predicted: Vec<Result<Predicted, ModelError>>,
    outputs: &[OutputShape],
) -> PyResult<Bound<'py, PyTuple>> {
    let rows = predicted.len();
    let mut answers: Vec<Vec<Answer>> = vec![Vec::with_capacity(rows); outputs.len()];
    let problems = PyDict::new(py);
    for (row, one) in predicted.into_iter().enumerate() {
        match one {
            Ok(one) => answers.iter_mut().zip(one.outputs).for_each(|(all, answer)| all.push(answer)),
            Err(problem) => problems.set_item(row, problem.to_string())?,
        }
    }
    let arrays = outputs.iter().zip(answers).map(|(output, answers)| one_array(py, answers, output));
    (rows, PyList::new(py, arrays.collect::<PyResult<Vec<_>>>()?)?, problems).into_pyobject(py)
}

/// The answers of one output, which are of one kind.
fn one_array<'py>(py: Python<'py>, answers: Vec<Answer>, output: &OutputShape) -> PyResult<Bound<'py, PyAny>> {
    let shape = [&[answers.len()], output.shape.as_slice()].concat();
    let (mut numbers, mut integers, mut texts) = (Vec::new(), Vec::new(), Vec::new());
    for answer in answers {
        match answer {
            Answer::Numbers(values) | Answer::Scores { numbers: values, .. } => {
                numbers.extend(values.iter().map(|value| f64::from(*value)));
            }
            Answer::Integers(values) => integers.extend(values),
            Answer::Texts(values) => texts.extend(values),
        }
    }
    // Without an answer, the labels tell the kind.
    let no_texts = output.gives == Gives::Labels && matches!(output.labels, Some(Labels::Texts(_)));
    if !texts.is_empty() || (shape[0] == 0 && no_texts) {
        return Ok(texts.into_pyobject(py)?.into_any());
    }
    let wrong = |error| Failure::Compiled(ModelError::Row(format!("read the answers: {error}")));
    if !integers.is_empty() || (shape[0] == 0 && output.gives == Gives::Labels) {
        let array = ArrayD::from_shape_vec(shape, integers).map_err(wrong)?;
        return Ok(array.into_pyarray(py).into_any());
    }
    let array = ArrayD::from_shape_vec(shape, numbers).map_err(wrong)?;
    Ok(array.into_pyarray(py).into_any())
}
