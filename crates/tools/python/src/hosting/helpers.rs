//! Other processes that compute parts of answers.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use unspoken_protocol::AnswerHelpers;

/// A Python object with the methods `count()` and `compute(helper, part)`.
pub(super) struct Helpers {
    object: Py<PyAny>,
    count: usize,
}

impl Helpers {
    pub(super) fn new(py: Python<'_>, object: Py<PyAny>) -> PyResult<Self> {
        let count = object.call_method0(py, "count")?.extract(py)?;
        Ok(Helpers { object, count })
    }
}

impl AnswerHelpers for Helpers {
    fn count(&self) -> usize {
        self.count
    }

    fn compute(&self, helper: usize, part: &[u8]) -> Option<Vec<u8>> {
        let computed = Python::attach(|py| {
            let result = self.object.call_method1(py, "compute", (helper, PyBytes::new(py, part)))?;
            result.extract::<Option<Vec<u8>>>(py)
        });
        computed.unwrap_or_else(|error| {
            tracing::warn!(helper, %error, "a helper does not compute a part");
            None
        })
    }
}
