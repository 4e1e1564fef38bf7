//! The kinds of offers.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use unspoken_offers::{KINDS, State};

/// How answers of each kind are computed, by name.
#[pyfunction]
pub(crate) fn kinds(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let kinds = PyDict::new(py);
    for kind in KINDS {
        let serving = PyDict::new(py);
        serving.set_item("on_device", kind.serving.on_device)?;
        serving.set_item(
            "state",
            match kind.serving.state {
                State::None => "none",
                State::Files => "files",
                State::Process => "process",
                State::Directory => "directory",
            },
        )?;
        serving.set_item("in_parts", kind.serving.in_parts)?;
        serving.set_item("slow", kind.serving.slow)?;
        serving.set_item("together", kind.serving.together)?;
        kinds.set_item(kind.name, serving)?;
    }
    Ok(kinds)
}
