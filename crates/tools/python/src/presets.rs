//! The shipped parameter sets.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use unspoken_ckks::{CkksParameters, PRESETS, Preset};

use crate::failure::Failure;

/// One dictionary per preset; presets for tests are left out.
#[pyfunction]
pub(crate) fn presets(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let built = py.detach(build_all)?;
    built.iter().map(|(preset, parameters)| describe(py, preset, parameters)).collect()
}

fn build_all() -> Result<Vec<(&'static Preset, CkksParameters)>, Failure> {
    let secure = PRESETS.iter().filter(|preset| !preset.name.starts_with("insecure_"));
    secure.map(|preset| Ok((preset, preset.build()?))).collect()
}

fn describe<'py>(py: Python<'py>, preset: &Preset, parameters: &CkksParameters) -> PyResult<Bound<'py, PyDict>> {
    let objects = PyList::empty(py);
    for object in parameters.rlwe().secured_objects() {
        let dict = PyDict::new(py);
        dict.set_item("what", object.what)?;
        dict.set_item("n", object.degree)?;
        dict.set_item("log2_q", object.log2_modulus)?;
        dict.set_item("secret", object.secret.to_string())?;
        dict.set_item("sigma", object.sigma)?;
        dict.set_item("security_bits", object.security_bits)?;
        objects.append(dict)?;
    }
    let dict = PyDict::new(py);
    dict.set_item("name", preset.name)?;
    dict.set_item("purpose", preset.purpose)?;
    dict.set_item("slots", parameters.slots())?;
    dict.set_item("levels", parameters.max_level())?;
    dict.set_item("scale_bits", parameters.scale().log2())?;
    dict.set_item("log2_failure", parameters.log2_failure())?;
    dict.set_item("objects", objects)?;
    Ok(dict)
}
