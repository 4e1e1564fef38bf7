//! Expressions of encrypted matrices, node by node.

use numpy::PyReadonlyArray2;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use unspoken_arrays::{Form, Graph, Node, Options, Program};
use unspoken_matrix::Axis;

use crate::failure::Failure;
use crate::matrix::MatrixProgram;

/// The matrix behind an array, and which of the axes batch, rows and columns the array has.
#[derive(FromPyObject)]
pub(crate) struct ArrayForm((usize, usize), (bool, bool, bool));

impl From<ArrayForm> for Form {
    fn from(ArrayForm(matrix, (batch, rows, columns)): ArrayForm) -> Self {
        Form { matrix, batch, rows, columns }
    }
}

/// What the planner can be told, from a dictionary with these keys.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct PlanOptions {
    preset: Option<String>,
    batch: usize,
    most_keys: Option<usize>,
    tile: Option<usize>,
    blocks: Option<usize>,
}

impl From<PlanOptions> for Options {
    fn from(options: PlanOptions) -> Self {
        let PlanOptions { preset, batch, most_keys, tile, blocks } = options;
        Options { preset, batch, most_keys, tile, blocks }
    }
}

/// Nodes of an expression; each method adds one and returns its number.
#[pyclass(module = "unspoken._unspoken")]
pub(crate) struct MatrixGraph(Graph);

impl MatrixGraph {
    fn push(&mut self, node: Node) -> PyResult<usize> {
        Ok(self.0.push(node).map_err(Failure::from)?)
    }
}

#[pymethods]
impl MatrixGraph {
    #[new]
    fn new() -> Self {
        MatrixGraph(Graph::new())
    }

    fn input(&mut self, name: String, form: ArrayForm) -> PyResult<usize> {
        self.push(Node::Input { name, form: form.into() })
    }

    fn constant(&mut self, values: PyReadonlyArray2<'_, f64>) -> PyResult<usize> {
        self.push(Node::Constant(values.as_array().to_owned()))
    }

    fn matmul(&mut self, a: usize, b: usize) -> PyResult<usize> {
        self.push(Node::MatMul(a, b))
    }

    fn times_vector(&mut self, a: usize, x: usize) -> PyResult<usize> {
        self.push(Node::MatrixVector(a, x))
    }

    fn times_left(&mut self, weights: PyReadonlyArray2<'_, f64>, a: usize) -> PyResult<usize> {
        self.push(Node::TimesLeft(weights.as_array().to_owned(), a))
    }

    fn times_right(&mut self, a: usize, weights: PyReadonlyArray2<'_, f64>) -> PyResult<usize> {
        self.push(Node::TimesRight(a, weights.as_array().to_owned()))
    }

    fn transpose(&mut self, a: usize) -> PyResult<usize> {
        self.push(Node::Transpose(a))
    }

    fn rows(&mut self, a: usize, rows: Vec<usize>) -> PyResult<usize> {
        self.push(Node::Rows(a, rows))
    }

    fn columns(&mut self, a: usize, columns: Vec<usize>) -> PyResult<usize> {
        self.push(Node::Columns(a, columns))
    }

    fn add(&mut self, a: usize, b: usize) -> PyResult<usize> {
        self.push(Node::Add(a, b))
    }

    fn subtract(&mut self, a: usize, b: usize) -> PyResult<usize> {
        self.push(Node::Subtract(a, b))
    }

    fn multiply(&mut self, a: usize, b: usize) -> PyResult<usize> {
        self.push(Node::Multiply(a, b))
    }

    fn scale(&mut self, a: usize, factor: f64) -> PyResult<usize> {
        self.push(Node::Scale(a, factor))
    }

    /// Over rows (0), columns (1) or both (none); summed axes stay with extent 1.
    fn sum(&mut self, a: usize, axis: Option<usize>) -> PyResult<usize> {
        let axis = match axis {
            Some(0) => Axis::Rows,
            Some(1) => Axis::Columns,
            None => Axis::Both,
            Some(other) => return Err(PyValueError::new_err(format!("sum: axis {other}; needed 0, 1 or None"))),
        };
        self.push(Node::Sum(a, axis))
    }

    /// Plans the last node, whose array has this form.
    fn plan(&self, py: Python<'_>, output: ArrayForm, options: PlanOptions) -> PyResult<MatrixProgram> {
        let (graph, output, options) = (self.0.clone(), output.into(), Options::from(options));
        let program = py.detach(|| Program::plan(graph, output, &options)).map_err(Failure::from)?;
        Ok(MatrixProgram::new(program))
    }
}
