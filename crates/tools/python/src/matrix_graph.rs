//! Graphs of matrix operations.

use std::borrow::Cow;

use numpy::{PyReadonlyArray2, ToPyArray};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use unspoken_encrypted_matrix::{Axis, Graph, Operation, OperationKind, Payload, PayloadKind};
use unspoken_matrix::{Axes, MatrixError, Options, Program, ProgramSource};

use crate::failure::Failure;
use crate::matrix::MatrixProgram;
use crate::plan_cache::plan_cache;

/// Whether an array has the axes batch, rows and columns.
#[derive(FromPyObject)]
pub(crate) struct AxesTuple(bool, bool, bool);

impl From<AxesTuple> for Axes {
    fn from(AxesTuple(batch, rows, columns): AxesTuple) -> Self {
        Axes { batch, rows, columns }
    }
}

/// Options of the planner, from a dictionary with these keys.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct PlanOptions {
    preset: Option<String>,
    batch: usize,
    most_keys: Option<usize>,
    tile: Option<usize>,
    blocks: Option<usize>,
    largest: Option<f64>,
}

impl From<PlanOptions> for Options {
    fn from(options: PlanOptions) -> Self {
        let PlanOptions { preset, batch, most_keys, tile, blocks, largest } = options;
        Options { preset, batch, most_keys, tile, blocks, one_row: None, largest, cache: plan_cache() }
    }
}

/// A matrix operation other than an input: the name of its kind and its payload, if any. The payload is a matrix, a
/// list of indices, a number, an axis (0, 1, or None for both), or a shape.
#[pyclass(frozen, module = "unspoken._unspoken")]
pub(crate) struct MatrixOperation(Operation);

#[pymethods]
impl MatrixOperation {
    #[new]
    #[pyo3(signature = (kind, payload=None))]
    fn new(kind: &str, payload: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let kind = OperationKind::from_name(kind)
            .filter(|kind| *kind != OperationKind::Input)
            .ok_or_else(|| PyValueError::new_err(format!("there is no matrix operation '{kind}'")))?;
        let payload = read_payload(kind.payload(), payload)?;
        Ok(MatrixOperation(Operation::new(kind, payload).map_err(failure)?))
    }

    /// The name of its kind.
    #[getter]
    fn kind(&self) -> &'static str {
        self.0.kind().name()
    }

    /// Its payload, as given to the constructor.
    #[getter]
    fn payload<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(match self.0.payload() {
            Payload::Matrix(values) => values.to_pyarray(py).into_any(),
            Payload::Indices(indices) => indices.to_vec().into_pyobject(py)?.into_any(),
            Payload::Number(number) => number.into_pyobject(py)?.into_any(),
            Payload::Axis(Axis::Rows) => 0u8.into_pyobject(py)?.into_any(),
            Payload::Axis(Axis::Columns) => 1u8.into_pyobject(py)?.into_any(),
            Payload::Shape(shape) => shape.into_pyobject(py)?.into_any(),
            Payload::Axis(Axis::Both) | Payload::Input(..) | Payload::None => py.None().into_bound(py),
        })
    }

    /// Shape of the result for operands of these shapes.
    fn shape(&self, operands: Vec<(usize, usize)>) -> PyResult<(usize, usize)> {
        Ok(self.0.output_shape(&operands).map_err(failure)?)
    }
}

fn read_payload(kind: PayloadKind, payload: Option<&Bound<'_, PyAny>>) -> PyResult<Payload<'static>> {
    match (kind, payload) {
        (PayloadKind::Matrix, Some(values)) => {
            let values: PyReadonlyArray2<'_, f64> = values.extract()?;
            Ok(Payload::Matrix(Cow::Owned(values.as_array().to_owned())))
        }
        (PayloadKind::Indices, Some(indices)) => Ok(Payload::Indices(Cow::Owned(indices.extract()?))),
        (PayloadKind::Number, Some(number)) => Ok(Payload::Number(number.extract()?)),
        (PayloadKind::Axis, None) => Ok(Payload::Axis(Axis::Both)),
        (PayloadKind::Shape, Some(shape)) => Ok(Payload::Shape(shape.extract()?)),
        (PayloadKind::Axis, Some(axis)) => match axis.extract()? {
            0 => Ok(Payload::Axis(Axis::Rows)),
            1 => Ok(Payload::Axis(Axis::Columns)),
            other => Err(PyValueError::new_err(format!("sum: axis {other}; needed 0, 1 or None"))),
        },
        // Other kinds have no payload; `Operation::new` refuses a missing one.
        _ => Ok(Payload::None),
    }
}

fn failure(error: unspoken_encrypted_matrix::EncryptedMatrixError) -> Failure {
    MatrixError::from(error).into()
}

/// A graph of matrix operations; each method but `plan` adds a node and returns its number.
#[pyclass(module = "unspoken._unspoken")]
pub(crate) struct MatrixGraph {
    graph: Graph,
    /// Axes of the inputs, in input order.
    inputs: Vec<Axes>,
}

#[pymethods]
impl MatrixGraph {
    #[new]
    fn new() -> Self {
        MatrixGraph { graph: Graph::new(), inputs: Vec::new() }
    }

    fn input(&mut self, name: &str, shape: (usize, usize), axes: AxesTuple) -> PyResult<usize> {
        let number = self.graph.input(name, shape).map_err(failure)?;
        self.inputs.push(axes.into());
        Ok(number)
    }

    fn push(&mut self, operation: &MatrixOperation, operands: Vec<usize>) -> PyResult<usize> {
        Ok(self.graph.push(operation.0.clone(), &operands).map_err(failure)?)
    }

    /// Plans the graph for its last node, whose array has these axes.
    fn plan(&self, py: Python<'_>, output: AxesTuple, options: PlanOptions) -> PyResult<MatrixProgram> {
        let (graph, inputs) = (self.graph.clone(), self.inputs.clone());
        let source = ProgramSource { graph, inputs, output: output.into(), options: options.into() };
        let program = py.detach(|| Program::plan(source)).map_err(Failure::from)?;
        Ok(MatrixProgram::new(program))
    }
}
