//! Clients of applications without their types, so that one class of Python serves all applications.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use unspoken_chat::ChatClient;
use unspoken_client::{ClientError, Cost, Progress, ServiceClient, UsageStats};
use unspoken_encrypt::Needs;
use unspoken_protocol::{AnyHalf, ClientHalf};

use super::application::Application;
use super::place::Place;
use crate::failure::{ConfigurationError, Failure};
use crate::interruptible;
use crate::progress::Reporter;

/// Answers as Python has them, and how certain each label is, if they are to be shared.
pub(crate) type Answers<'py> = (Bound<'py, PyAny>, Vec<f64>);

/// A client of some application of a service, asked in the values of Python.
pub(crate) trait Client: Send + Sync {
    /// Its client half.
    fn half(&self) -> &dyn AnyHalf;

    /// The id of the keys at the service.
    fn key(&self) -> &str;

    /// Bytes and seconds so far.
    fn usage(&self) -> UsageStats;

    /// What Python reads of the client, by name.
    fn facts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>>;

    /// Asks questions; with noise of `share_bits` bits, the answers may be shared.
    fn ask<'py>(
        &mut self,
        questions: &Bound<'py, PyAny>,
        share_bits: Option<u32>,
        reporter: Reporter,
    ) -> PyResult<Answers<'py>>;

    /// Encrypts questions to be answered later and elsewhere. One query must have room for all of them.
    fn encrypt<'py>(&mut self, _questions: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        Err(self.unable("questions that are answered later"))
    }

    /// Decrypts the answer to a query of [`Client::encrypt`] with these questions.
    fn decrypt<'py>(&mut self, _questions: &Bound<'py, PyAny>, _answer: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        Err(self.unable("questions that are answered later"))
    }

    /// Authenticates bytes, such that only this client can.
    fn tag(&self, _bytes: &[u8]) -> PyResult<[u8; 32]> {
        Err(self.unable("questions that are answered later"))
    }

    /// The client of texts that a service continues.
    fn texts(&mut self) -> PyResult<&mut ServiceClient<ChatClient>> {
        Err(self.unable("texts to continue"))
    }

    /// The error for an operation that the application does not have.
    fn unable(&self, what: &str) -> PyErr {
        ConfigurationError::new_err(format!(
            "found an application of kind {}, needed one with {what}",
            self.half().kind()
        ))
    }
}

/// What a client brings to an application: enough to connect, and to predict costs.
pub(crate) trait Part {
    /// Connects, and makes encryptions of zero ahead: for a number of queries that must go out at once, in so many
    /// bytes of memory. Returns the application's name, too.
    fn connect(
        self: Box<Self>,
        py: Python<'_>,
        place: Place<'_>,
        ready: (usize, usize),
        progress: &Bound<'_, PyAny>,
    ) -> PyResult<(Box<dyn Client>, String)>;

    /// What `questions` questions will take.
    fn cost(self: Box<Self>, py: Python<'_>, place: Place<'_>, questions: usize) -> PyResult<Cost>;
}

/// The client's part of the model of an [`Application`].
pub(crate) struct ModelPart<H: ClientHalf>(pub(crate) H::Model);

impl<H: Application> Part for ModelPart<H>
where
    ServiceClient<H>: Send + Sync,
{
    fn connect(
        self: Box<Self>,
        py: Python<'_>,
        place: Place<'_>,
        (burst, memory_bytes): (usize, usize),
        progress: &Bound<'_, PyAny>,
    ) -> PyResult<(Box<dyn Client>, String)> {
        let prepare = |client: &mut ServiceClient<H>| {
            client.prepare(Needs { burst, memory_bytes })?;
            Ok(())
        };
        let (client, application) = place.connect(py, progress, |_| self.0, prepare)?;
        Ok((Box::new(client), application))
    }

    fn cost(self: Box<Self>, py: Python<'_>, place: Place<'_>, questions: usize) -> PyResult<Cost> {
        place.cost::<H>(py, questions, |_| self.0)
    }
}

impl<H: Application> Client for ServiceClient<H>
where
    ServiceClient<H>: Send + Sync,
{
    fn half(&self) -> &dyn AnyHalf {
        self.half()
    }

    fn key(&self) -> &str {
        self.key().as_str()
    }

    fn usage(&self) -> UsageStats {
        self.usage()
    }

    fn facts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.half().facts(py)
    }

    fn ask<'py>(
        &mut self,
        questions: &Bound<'py, PyAny>,
        share_bits: Option<u32>,
        reporter: Reporter,
    ) -> PyResult<Answers<'py>> {
        let (py, asked) = (questions.py(), H::questions(questions)?);
        let failed = |error: H::Error| Failure::from(ClientError::of_application(error));
        let (answers, certainties) = interruptible::run(py, reporter, |report, cancel| {
            let mut report = |step: Progress| report(step.into());
            if let Some(bits) = share_bits {
                // Check before sending anything that a bound of the error is known.
                self.half().sharing_noise(bits).map_err(|error| failed(error.into()))?;
            }
            let answers = self.ask(&asked, &mut report, cancel)?;
            match share_bits {
                Some(bits) => self.half().to_share(&asked, &answers, bits).map_err(failed),
                None => Ok((answers, Vec::new())),
            }
        })?;
        Ok((self.half().answers(py, answers)?, certainties))
    }

    fn encrypt<'py>(&mut self, questions: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        let (py, asked) = (questions.py(), H::questions(questions)?);
        let query = interruptible::run(py, Reporter::Silent, |_, _| Ok(self.encrypt(&asked)?))?;
        Ok(PyBytes::new(py, &query))
    }

    fn decrypt<'py>(&mut self, questions: &Bound<'py, PyAny>, answer: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        let (py, asked) = (questions.py(), H::questions(questions)?);
        let answers = interruptible::run(py, Reporter::Silent, |_, _| Ok(self.decrypt(&asked, answer)?))?;
        self.half().answers(py, answers)
    }

    fn tag(&self, bytes: &[u8]) -> PyResult<[u8; 32]> {
        Ok(self.tag(bytes).map_err(Failure::from)?)
    }
}
