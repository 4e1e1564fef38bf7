//! Encrypted matrices: programs, secrets, keys, inputs and results.

use std::collections::BTreeMap;

use ndarray::Array3;
use numpy::{IntoPyArray, PyArray3, PyReadonlyArray3};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use unspoken_matrix::{EncryptedInputs, EncryptedResult, Keys, MatrixError, Program, Secret, Signature};

use crate::failure::Failure;
use crate::interruptible;
use crate::plan_cache::plan_cache;
use crate::progress::{Event, Reporter};

/// A planned graph of matrix operations that runs on encrypted inputs.
#[pyclass(frozen, module = "unspoken._unspoken")]
pub(crate) struct MatrixProgram(Program);

impl MatrixProgram {
    pub(crate) fn new(program: Program) -> Self {
        MatrixProgram(program)
    }
}

#[pymethods]
impl MatrixProgram {
    fn signature(&self) -> MatrixSignature {
        MatrixSignature(self.0.signature().clone())
    }

    #[getter]
    fn output_level(&self) -> usize {
        self.0.output_level()
    }

    #[getter]
    fn seconds(&self) -> f64 {
        self.0.seconds()
    }

    #[getter]
    fn key_switches(&self) -> u64 {
        self.0.key_switches()
    }

    #[getter]
    fn methods(&self) -> Vec<String> {
        self.0.methods()
    }

    /// Bound of the error of a result's entries.
    fn error(&self, py: Python<'_>) -> PyResult<f64> {
        interruptible::run(py, Reporter::Silent, |_, _| Ok(self.0.precision()?.error))
    }

    fn run(
        &self,
        py: Python<'_>,
        keys: &MatrixKeys,
        inputs: Vec<Py<MatrixInputs>>,
        progress: &Bound<'_, PyAny>,
    ) -> PyResult<EncryptedMatrix> {
        interruptible::run(py, Reporter::from_argument(progress)?, |report, cancel| {
            let inputs: Vec<&EncryptedInputs> = inputs.iter().map(|part| &part.get().0).collect();
            let report = |done, total| report(Event::vectors(done, total));
            Ok(EncryptedMatrix(self.0.run(&keys.0, &inputs, report, cancel.flag())?))
        })
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.to_bytes())
    }

    #[staticmethod]
    fn from_bytes(py: Python<'_>, data: &[u8], accept_insecure: bool) -> PyResult<Self> {
        let planned = |data: &[u8], accept_insecure| {
            let mut source = Program::decode(data, accept_insecure)?;
            source.options.cache = plan_cache();
            Program::plan(source)
        };
        Ok(MatrixProgram(read(py, data, accept_insecure, planned)?))
    }
}

/// The client's description of a program: inputs, batch and parameters.
#[pyclass(frozen, module = "unspoken._unspoken")]
pub(crate) struct MatrixSignature(Signature);

impl MatrixSignature {
    pub(crate) fn new(signature: Signature) -> Self {
        MatrixSignature(signature)
    }
}

#[pymethods]
impl MatrixSignature {
    #[getter]
    fn preset(&self) -> &str {
        self.0.preset()
    }

    /// Rows and columns of a tile.
    #[getter]
    fn tile(&self) -> (usize, usize) {
        self.0.layout().tile()
    }

    /// Largest absolute value of an input's entry.
    #[getter]
    fn largest(&self) -> f64 {
        self.0.largest()
    }

    /// Bound of the absolute value of the result's entries.
    #[getter]
    fn magnitude(&self) -> f64 {
        self.0.magnitude()
    }

    #[getter]
    fn blocks(&self) -> usize {
        self.0.layout().blocks()
    }

    #[getter]
    fn level(&self) -> usize {
        self.0.level()
    }

    #[getter]
    fn batch(&self) -> usize {
        self.0.batch()
    }

    /// Number of consecutive vectors that hold the batch.
    #[getter]
    fn vectors(&self) -> usize {
        self.0.groups()
    }

    #[getter]
    fn keys(&self) -> usize {
        self.0.key_plan().len()
    }

    #[getter]
    fn key_bytes(&self) -> u64 {
        self.0.key_bytes()
    }

    /// Shape of each input, by name.
    #[getter]
    fn inputs(&self) -> BTreeMap<String, Vec<usize>> {
        self.0.inputs().iter().map(|input| (input.name.clone(), input.shape.extents(self.0.batch()))).collect()
    }

    #[getter]
    fn shape(&self) -> Vec<usize> {
        self.0.output().extents(self.0.batch())
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.0.to_bytes().map_err(Failure::from)?))
    }

    #[staticmethod]
    fn from_bytes(py: Python<'_>, data: &[u8], accept_insecure: bool) -> PyResult<Self> {
        Ok(MatrixSignature(read(py, data, accept_insecure, Signature::from_bytes)?))
    }
}

/// Secret of a client: encrypts, generates keys and decrypts.
#[pyclass(frozen, module = "unspoken._unspoken")]
pub(crate) struct MatrixSecret(Secret);

#[pymethods]
impl MatrixSecret {
    #[new]
    fn new() -> PyResult<Self> {
        Ok(MatrixSecret(Secret::generate().map_err(Failure::from)?))
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.to_bytes())
    }

    #[staticmethod]
    fn from_bytes(data: &[u8]) -> PyResult<Self> {
        Ok(MatrixSecret(Secret::from_bytes(data).map_err(Failure::from)?))
    }

    /// Arrays of shape (batch, rows, columns), by name.
    fn encrypt(
        &self,
        py: Python<'_>,
        signature: &MatrixSignature,
        inputs: Vec<(String, PyReadonlyArray3<'_, f64>)>,
    ) -> PyResult<MatrixInputs> {
        let inputs: Vec<(String, Array3<f64>)> =
            inputs.into_iter().map(|(name, values)| (name, values.as_array().to_owned())).collect();
        interruptible::run(py, Reporter::Silent, |_, _| Ok(MatrixInputs(self.0.encrypt(&signature.0, &inputs)?)))
    }

    fn keys(
        &self,
        py: Python<'_>,
        programs: Vec<Py<MatrixSignature>>,
        progress: &Bound<'_, PyAny>,
    ) -> PyResult<MatrixKeys> {
        interruptible::run(py, Reporter::from_argument(progress)?, |report, cancel| {
            let programs: Vec<&Signature> = programs.iter().map(|signature| &signature.get().0).collect();
            let report = |done, total| report(Event::keys(done, total));
            Ok(MatrixKeys(self.0.keys(&programs, report, cancel.flag())?))
        })
    }

    /// An array of shape (batch, rows, columns).
    fn decrypt<'py>(&self, py: Python<'py>, result: &EncryptedMatrix) -> PyResult<Bound<'py, PyArray3<f64>>> {
        let values = interruptible::run(py, Reporter::Silent, |_, _| Ok(self.0.decrypt(&result.0)?))?;
        Ok(values.into_pyarray(py))
    }

    /// Like `decrypt`, with added noise of standard deviation `2^bits * error`.
    fn decrypt_to_share<'py>(
        &self,
        py: Python<'py>,
        result: &EncryptedMatrix,
        error: f64,
        bits: u32,
    ) -> PyResult<Bound<'py, PyArray3<f64>>> {
        let values =
            interruptible::run(py, Reporter::Silent, |_, _| Ok(self.0.decrypt_to_share(&result.0, error, bits)?))?;
        Ok(values.into_pyarray(py))
    }
}

/// Evaluation keys.
#[pyclass(frozen, module = "unspoken._unspoken")]
pub(crate) struct MatrixKeys(Keys);

#[pymethods]
impl MatrixKeys {
    #[getter]
    fn preset(&self) -> &str {
        self.0.preset()
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    #[getter]
    fn nbytes(&self) -> usize {
        self.0.bytes()
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.to_bytes())
    }

    #[staticmethod]
    fn from_bytes(py: Python<'_>, data: &[u8], accept_insecure: bool) -> PyResult<Self> {
        Ok(MatrixKeys(read(py, data, accept_insecure, Keys::from_bytes)?))
    }
}

/// Encrypted inputs.
#[pyclass(frozen, module = "unspoken._unspoken")]
pub(crate) struct MatrixInputs(EncryptedInputs);

#[pymethods]
impl MatrixInputs {
    #[getter]
    fn preset(&self) -> &str {
        self.0.preset()
    }

    #[getter]
    fn names(&self) -> Vec<&str> {
        self.0.names().collect()
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.to_bytes())
    }

    #[staticmethod]
    fn from_bytes(py: Python<'_>, data: &[u8], accept_insecure: bool) -> PyResult<Self> {
        Ok(MatrixInputs(read(py, data, accept_insecure, EncryptedInputs::from_bytes)?))
    }
}

/// An encrypted result.
#[pyclass(frozen, module = "unspoken._unspoken")]
pub(crate) struct EncryptedMatrix(EncryptedResult);

#[pymethods]
impl EncryptedMatrix {
    #[getter]
    fn preset(&self) -> &str {
        self.0.preset()
    }

    #[getter]
    fn shape(&self) -> Vec<usize> {
        self.0.shape()
    }

    /// Bound of the error of its entries.
    #[getter]
    fn error(&self) -> f64 {
        self.0.error()
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.to_bytes())
    }

    #[staticmethod]
    fn from_bytes(py: Python<'_>, data: &[u8], accept_insecure: bool) -> PyResult<Self> {
        Ok(EncryptedMatrix(read(py, data, accept_insecure, EncryptedResult::from_bytes)?))
    }
}

/// Parses bytes without the interpreter lock; Control-C waits until parsing has ended.
fn read<T: Send>(
    py: Python<'_>,
    data: &[u8],
    accept_insecure: bool,
    decode: fn(&[u8], bool) -> Result<T, MatrixError>,
) -> PyResult<T> {
    interruptible::run(py, Reporter::Silent, |_, _| Ok(decode(data, accept_insecure)?))
}
