//! Queries to a database of a service.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use unspoken_client::{Cost, Progress, ServiceClient, StateDir, UsageStats};
use unspoken_oprf::OprfClient;
use unspoken_pir::{Answer, PirClient, PirOptions, Question, SealedQuestions};
use unspoken_pir_scheme::{Mode, SchemeError};
use unspoken_protocol::AnyHalf;
use unspoken_symmetric_pir::PUBLIC_KEY_BYTES;

use crate::connections::{Answers, Client, Part, Place};
use crate::failure::ConfigurationError;
use crate::interruptible;
use crate::progress::Reporter;

/// A kind of queries, and how the keys of sealed records are got.
pub(crate) struct Database {
    mode: Mode,
    unseal: Option<Unseal>,
}

/// The application that gives the keys of sealed records, and the public key of the database, if it is known.
struct Unseal {
    application: String,
    public_key: Option<[u8; PUBLIC_KEY_BYTES]>,
}

impl Database {
    /// The kind of queries, and, for sealed records, an application and a public key in hexadecimal or `None`.
    pub(crate) fn read(part: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (query, unseal): (String, Option<(String, Option<String>)>) = part.extract()?;
        let mode = query.parse().map_err(|error: SchemeError| ConfigurationError::new_err(error.to_string()))?;
        let read = |(application, public_key): (String, Option<String>)| {
            PyResult::Ok(Unseal { application, public_key: public_key.as_deref().map(read_public_key).transpose()? })
        };
        Ok(Database { mode, unseal: unseal.map(read).transpose()? })
    }
}

impl Part for Database {
    fn connect(
        self: Box<Self>,
        py: Python<'_>,
        place: Place<'_>,
        _: (usize, usize),
        progress: &Bound<'_, PyAny>,
    ) -> PyResult<(Box<dyn Client>, String)> {
        let unseal = match self.unseal {
            Some(Unseal { application, public_key }) => {
                let place = Place { application: Some(&application), ..place };
                Some(place.connect::<OprfClient>(py, progress, |_| public_key, |_| Ok(()))?.0)
            }
            None => None,
        };
        let sealing = unseal.as_ref().map(|client| client.description().sealing().id());
        let options = |state: &StateDir| PirOptions::new(self.mode, state.clone()).with_sealing(sealing);
        let (client, application) = place.connect(py, progress, options, |_| Ok(()))?;
        Ok((Box::new(Retrieval { client, unseal }), application))
    }

    fn cost(self: Box<Self>, py: Python<'_>, place: Place<'_>, questions: usize) -> PyResult<Cost> {
        let options = |state: &StateDir| PirOptions::new(self.mode, state.clone()).with_any_sealing();
        place.cost::<PirClient>(py, questions, options)
    }
}

/// A database of a service, with generated and uploaded keys.
struct Retrieval {
    client: ServiceClient<PirClient>,
    /// Gives the keys of sealed records.
    unseal: Option<ServiceClient<OprfClient>>,
}

/// Questions are keys, or indices. Answers are the records, `None` where there is none, and the version of the database
/// in the last answer.
impl Client for Retrieval {
    fn half(&self) -> &dyn AnyHalf {
        self.client.half()
    }

    fn key(&self) -> &str {
        self.client.key().as_str()
    }

    /// With those for the keys of sealed records.
    fn usage(&self) -> UsageStats {
        let helper = self.unseal.as_ref().map(ServiceClient::usage).unwrap_or_default();
        self.client.usage().with_helper(helper)
    }

    fn facts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        Ok(PyDict::new(py))
    }

    fn ask<'py>(
        &mut self,
        questions: &Bound<'py, PyAny>,
        _: Option<u32>,
        reporter: Reporter,
    ) -> PyResult<Answers<'py>> {
        let py = questions.py();
        let questions: Vec<Question> = match questions.extract::<Vec<u64>>() {
            Ok(indices) => indices.into_iter().map(Question::Index).collect(),
            Err(_) => questions.extract::<Vec<Vec<u8>>>()?.into_iter().map(Question::Key).collect(),
        };
        let (client, unseal) = (&mut self.client, &mut self.unseal);
        let answers: Vec<Answer> = interruptible::run(py, reporter, |report, cancel| {
            let mut report = |step: Progress| report(step.into());
            let Some(unseal) = unseal else { return Ok(client.ask(&questions, &mut report, cancel)?) };
            let names = SealedQuestions::names(&questions).into_iter().map(unspoken_oprf::Question::from);
            let keys = unseal.ask(&names.collect::<Vec<_>>(), &mut report, cancel)?;
            let sealed = SealedQuestions::new(unseal.description().sealing().clone(), keys);
            Ok(sealed.open(client.ask(&sealed.stored(&questions), &mut report, cancel)?)?)
        })?;
        let version = answers.last().map(|answer| answer.version);
        let record = |answer: Answer| answer.record.map(|record| PyBytes::new(py, &record));
        let records: Vec<_> = answers.into_iter().map(record).collect();
        Ok(((records, version).into_pyobject(py)?.into_any(), Vec::new()))
    }
}

fn read_public_key(hexadecimal: &str) -> PyResult<[u8; PUBLIC_KEY_BYTES]> {
    let digits = 2 * PUBLIC_KEY_BYTES;
    let wrong = |_| format!("public key of a sealed database: found other text, needed {digits} hexadecimal digits");
    hex::decode_to_array(hexadecimal).map_err(|error| ConfigurationError::new_err(wrong(error)))
}
