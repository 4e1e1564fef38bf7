//! How tokens are chosen, from keyword arguments.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use unspoken_llama_model::Sampling;

use crate::failure::ConfigurationError;

/// Options of one text.
pub(crate) struct Choices {
    pub(crate) sampling: Sampling,
    /// Strings that end the text.
    pub(crate) stops: Vec<String>,
}

impl Choices {
    /// Reads the arguments that `SamplingOptions` names. `None` stands for the default of each.
    pub(crate) fn read(arguments: &Bound<'_, PyDict>) -> PyResult<Self> {
        let (mut sampling, mut stops) = (Sampling::default(), Vec::new());
        for (name, value) in arguments {
            let name: String = name.extract()?;
            let value = (!value.is_none()).then_some(value);
            match name.as_str() {
                "temperature" => set_option(&mut sampling.temperature, &name, value)?,
                "top_k" => set(&mut sampling.top_k, &name, value)?,
                "top_p" => set(&mut sampling.top_p, &name, value)?,
                "min_p" => set(&mut sampling.min_p, &name, value)?,
                "repetition_penalty" => set(&mut sampling.repetition_penalty, &name, value)?,
                "presence_penalty" => set(&mut sampling.presence_penalty, &name, value)?,
                "frequency_penalty" => set(&mut sampling.frequency_penalty, &name, value)?,
                "logit_bias" => set(&mut sampling.logit_bias, &name, value)?,
                "seed" => set_option(&mut sampling.seed, &name, value)?,
                "logprobs" => set_option(&mut sampling.log_probabilities, &name, value)?,
                "stop" => match value {
                    Some(one) if one.is_instance_of::<PyString>() => stops = vec![one.extract()?],
                    value => set(&mut stops, &name, value)?,
                },
                _ => return Err(PyTypeError::new_err(format!("unexpected keyword argument {name:?}"))),
            }
        }
        Ok(Choices { sampling, stops })
    }
}

fn set<T: for<'a> FromPyObject<'a, 'a>>(option: &mut T, name: &str, value: Option<Bound<'_, PyAny>>) -> PyResult<()> {
    let mut found = None;
    set_option(&mut found, name, value)?;
    if let Some(found) = found {
        *option = found;
    }
    Ok(())
}

fn set_option<T: for<'a> FromPyObject<'a, 'a>>(
    option: &mut Option<T>,
    name: &str,
    value: Option<Bound<'_, PyAny>>,
) -> PyResult<()> {
    let Some(value) = value else { return Ok(()) };
    let refused = || ConfigurationError::new_err(format!("{name}: found {value}, which is of another kind or range"));
    *option = Some(value.extract().map_err(|_| refused())?);
    Ok(())
}
