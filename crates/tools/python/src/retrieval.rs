//! Queries to a database of a service.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use unspoken_client::{ClientError, Progress, ServiceClient, StateDir};
use unspoken_pir::{Mode, PirError};
use unspoken_retrieve::{Answer, Question, RetrieveClient, RetrieveOptions};

use crate::connections::{Service, connect, predicted_cost, usage_dict};
use crate::failure::{ConfigurationError, Failure};
use crate::interruptible;
use crate::progress::Reporter;

/// A database of a service, with generated and uploaded keys.
#[pyclass(module = "unspoken._unspoken")]
pub(crate) struct RetrievalConnection {
    client: ServiceClient<RetrieveClient>,
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
        state_dir: PathBuf,
        progress: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let mode = read_mode(query)?;
        let options = |state: &StateDir| RetrieveOptions::new(mode, state.clone());
        let (client, application) = connect(py, service, application, &state_dir, progress, options, |_| Ok(()))?;
        Ok(RetrievalConnection { client, application, version: None })
    }

    /// What so many questions will take, by name.
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
        let options = |state: &StateDir| RetrieveOptions::new(mode, state.clone());
        predicted_cost::<RetrieveClient>(py, service, application, &state_dir, questions, options)
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

    /// Bytes and seconds so far, by name.
    #[getter]
    fn usage<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        usage_dict(py, self.client.usage())
    }
}

fn read_mode(query: &str) -> PyResult<Mode> {
    query.parse().map_err(|error: PirError| ConfigurationError::new_err(error.to_string()))
}

impl RetrievalConnection {
    fn ask<'py>(
        &mut self,
        py: Python<'py>,
        questions: Vec<Question>,
        progress: &Bound<'py, PyAny>,
    ) -> PyResult<Vec<Option<Bound<'py, PyBytes>>>> {
        let client = &mut self.client;
        let answers: Vec<Answer> = interruptible::run(py, Reporter::from_argument(progress)?, |report, cancel| {
            let mut report = |step: Progress| report(step.into());
            client.ask(&questions, &mut report, cancel).map_err(|error: ClientError| Failure::from(error))
        })?;
        self.version = answers.last().map_or(self.version, |answer| Some(answer.version));
        Ok(answers.into_iter().map(|answer| answer.record.map(|record| PyBytes::new(py, &record))).collect())
    }
}
