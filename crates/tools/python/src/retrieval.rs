//! Queries to a database of a service.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use unspoken_client::{Progress, ServiceClient, StateDir};
use unspoken_oprf::OprfClient;
use unspoken_pir::{Answer, PirClient, PirOptions, Question, SealedQuestions};
use unspoken_pir_scheme::{Mode, SchemeError};
use unspoken_symmetric_pir::PUBLIC_KEY_BYTES;

use crate::connections::{Service, connect, predicted_cost, usage_dict};
use crate::failure::ConfigurationError;
use crate::interruptible;
use crate::progress::Reporter;

/// A database of a service, with generated and uploaded keys.
#[pyclass(module = "unspoken._unspoken")]
pub(crate) struct RetrievalConnection {
    client: ServiceClient<PirClient>,
    /// Gives the keys of sealed records.
    unseal: Option<ServiceClient<OprfClient>>,
    application: String,
    version: Option<u64>,
}

#[pymethods]
impl RetrievalConnection {
    #[staticmethod]
    fn open(
        py: Python<'_>,
        service: &Service,
        application: Option<String>,
        query: &str,
        unseal: Option<(String, Option<String>)>,
        state_dir: PathBuf,
        progress: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let mode = read_mode(query)?;
        let unseal: Option<ServiceClient<OprfClient>> = match unseal {
            Some((unseal, public_key)) => {
                let known = public_key.as_deref().map(read_public_key).transpose()?;
                let known = |_: &StateDir| known;
                Some(connect(py, service, Some(unseal), &state_dir, progress, known, |_| Ok(()))?.0)
            }
            None => None,
        };
        let sealing = unseal.as_ref().map(|client| client.description().sealing().id());
        let options = |state: &StateDir| PirOptions::new(mode, state.clone()).with_sealing(sealing);
        let (client, application) = connect(py, service, application, &state_dir, progress, options, |_| Ok(()))?;
        Ok(RetrievalConnection { client, unseal, application, version: None })
    }

    /// What `questions` questions will take, by name.
    #[staticmethod]
    fn cost<'py>(
        py: Python<'py>,
        service: &Service,
        application: Option<String>,
        query: &str,
        state_dir: PathBuf,
        questions: usize,
    ) -> PyResult<Bound<'py, PyDict>> {
        let mode = read_mode(query)?;
        let options = |state: &StateDir| PirOptions::new(mode, state.clone()).with_any_sealing();
        predicted_cost::<PirClient>(py, service, application, &state_dir, questions, options)
    }

    /// The records of the keys; `None` for an absent key.
    fn get<'py>(
        &mut self,
        py: Python<'py>,
        keys: Vec<Vec<u8>>,
        progress: &Bound<'py, PyAny>,
    ) -> PyResult<Vec<Option<Bound<'py, PyBytes>>>> {
        self.ask(py, keys.into_iter().map(Question::Key).collect(), progress)
    }

    /// The records of the indices; `None` for an index without a record.
    fn get_index<'py>(
        &mut self,
        py: Python<'py>,
        indices: Vec<u64>,
        progress: &Bound<'py, PyAny>,
    ) -> PyResult<Vec<Option<Bound<'py, PyBytes>>>> {
        self.ask(py, indices.into_iter().map(Question::Index).collect(), progress)
    }

    #[getter]
    fn application(&self) -> &str {
        &self.application
    }

    #[getter]
    fn preset(&self) -> &str {
        self.client.description().parameters().name()
    }

    /// The database version of the last answer.
    #[getter]
    fn version(&self) -> Option<u64> {
        self.version
    }

    /// Bytes and seconds so far, by name, with those for the keys of sealed records.
    #[getter]
    fn usage<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let mut usage = self.client.usage();
        if let Some(unseal) = &self.unseal {
            let keys = unseal.usage();
            usage.key_bytes += keys.key_bytes;
            usage.query_bytes += keys.query_bytes;
            usage.answer_bytes += keys.answer_bytes;
            usage.key_seconds += keys.key_seconds;
            usage.client_seconds += keys.client_seconds;
            usage.server_seconds += keys.server_seconds;
        }
        usage_dict(py, usage)
    }
}

fn read_public_key(hexadecimal: &str) -> PyResult<[u8; PUBLIC_KEY_BYTES]> {
    let digits = 2 * PUBLIC_KEY_BYTES;
    let wrong = |_| format!("public key of a sealed database: found other text, needed {digits} hexadecimal digits");
    hex::decode_to_array(hexadecimal).map_err(|error| ConfigurationError::new_err(wrong(error)))
}

fn read_mode(query: &str) -> PyResult<Mode> {
    query.parse().map_err(|error: SchemeError| ConfigurationError::new_err(error.to_string()))
}

impl RetrievalConnection {
    fn ask<'py>(
        &mut self,
        py: Python<'py>,
        questions: Vec<Question>,
        progress: &Bound<'py, PyAny>,
    ) -> PyResult<Vec<Option<Bound<'py, PyBytes>>>> {
        let (client, unseal) = (&mut self.client, &mut self.unseal);
        let answers: Vec<Answer> = interruptible::run(py, Reporter::from_argument(progress)?, |report, cancel| {
            let mut report = |step: Progress| report(step.into());
            let Some(unseal) = unseal else { return Ok(client.ask(&questions, &mut report, cancel)?) };
            let names = SealedQuestions::names(&questions).into_iter().map(unspoken_oprf::Question::from);
            let keys = unseal.ask(&names.collect::<Vec<_>>(), &mut report, cancel)?;
            let sealed = SealedQuestions::new(unseal.description().sealing().clone(), keys);
            Ok(sealed.open(client.ask(&sealed.stored(&questions), &mut report, cancel)?)?)
        })?;
        self.version = answers.last().map_or(self.version, |answer| Some(answer.version));
        Ok(answers.into_iter().map(|answer| answer.record.map(|record| PyBytes::new(py, &record))).collect())
    }
}
