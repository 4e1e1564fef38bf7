//! Exact sums of encrypted contributions: collections, and connections that send and fetch.

use std::path::PathBuf;
use std::sync::Arc;

use numpy::PyReadonlyArray2;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use unspoken_client::{Progress, ServiceClient};
use unspoken_protocol::ApplicationDescription;
use unspoken_sums::{
    CollectionOptions, CollectorAnswer, CollectorKey, CollectorQuestion, Column, ContributionEncryptor, Description,
    Fingerprint, Receipt, Sums, SumsCollector, SumsContributor, Trust, Zeros, create,
};
use zeroize::Zeroizing;

use crate::connections::{Service, connect, predicted_cost, usage_dict};
use crate::failure::Failure;
use crate::interruptible;
use crate::progress::Reporter;

/// Rows that are encrypted before they are sent, and entries of the pool in memory.
const CHUNK: usize = 64;

/// Name, sum and mean of a column.
type NamedSum = (String, i64, f64);

/// Both halves of a collection.
#[pyclass(frozen, module = "unspoken._unspoken")]
pub(crate) struct SumsCollection {
    description: Description,
    key: Arc<CollectorKey>,
}

#[pymethods]
impl SumsCollection {
    #[staticmethod]
    fn create(py: Python<'_>, columns: Vec<(String, i64, i64)>, most: u32, least: u32) -> PyResult<Self> {
        interruptible::run(py, Reporter::Silent, |_, _| {
            let columns = columns.into_iter().map(|(name, smallest, largest)| Column::new(name, smallest, largest));
            let (description, key) = create(&CollectionOptions {
                columns: columns.collect::<Result<_, _>>()?,
                most_contributions: most,
                least_contributions: least,
            })?;
            Ok(SumsCollection { description, key: Arc::new(key) })
        })
    }

    #[staticmethod]
    fn from_bytes(py: Python<'_>, public: &[u8], private: &[u8]) -> PyResult<Self> {
        interruptible::run(py, Reporter::Silent, |_, _| {
            let (description, key) = (Description::read(public, false)?, CollectorKey::from_bytes(private)?);
            key.check(&description)?;
            Ok(SumsCollection { description, key: Arc::new(key) })
        })
    }

    fn public_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.description.to_bytes())
    }

    fn private_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.key.to_bytes())
    }

    #[getter]
    fn fingerprint(&self) -> String {
        self.description.fingerprint().to_string()
    }

    #[getter]
    fn preset(&self) -> &str {
        self.description.preset()
    }

    /// Name, smallest and largest value of each column.
    #[getter]
    fn columns(&self) -> Vec<(String, i64, i64)> {
        columns(&self.description)
    }

    #[getter]
    fn most(&self) -> u32 {
        self.description.most_contributions()
    }

    #[getter]
    fn least(&self) -> u32 {
        self.description.least_contributions()
    }

    /// The number of contributions at a service.
    fn count(
        &self,
        py: Python<'_>,
        service: &Service,
        application: Option<String>,
        state_dir: PathBuf,
        progress: &Bound<'_, PyAny>,
    ) -> PyResult<u32> {
        match self.ask(py, service, application, state_dir, CollectorQuestion::Count, progress)? {
            CollectorAnswer::Count(count) => Ok(count),
            CollectorAnswer::Sums(sums) => Ok(sums.contributions),
        }
    }

    /// Closes the collection at a service: the number of contributions, and name, sum and mean of each column.
    fn fetch(
        &self,
        py: Python<'_>,
        service: &Service,
        application: Option<String>,
        state_dir: PathBuf,
        progress: &Bound<'_, PyAny>,
    ) -> PyResult<(u32, Vec<NamedSum>)> {
        let sums = match self.ask(py, service, application, state_dir, CollectorQuestion::Close, progress)? {
            CollectorAnswer::Sums(sums) => sums,
            CollectorAnswer::Count(contributions) => Sums { contributions, columns: Vec::new() },
        };
        let columns = sums.columns.into_iter().map(|column| (column.name, column.sum, column.mean));
        Ok((sums.contributions, columns.collect()))
    }
}

impl SumsCollection {
    fn ask(
        &self,
        py: Python<'_>,
        service: &Service,
        application: Option<String>,
        state_dir: PathBuf,
        question: CollectorQuestion,
        progress: &Bound<'_, PyAny>,
    ) -> PyResult<CollectorAnswer> {
        let key = Arc::clone(&self.key);
        interruptible::run(py, Reporter::from_argument(progress)?, |report, cancel| {
            let (transport, application, state) = service.target(application, &state_dir, cancel)?;
            let mut report = |step: Progress| report(step.into());
            let mut client =
                ServiceClient::<SumsCollector>::connect(transport, &application, key, &state, &mut report, cancel)?;
            let mut answers = client.ask(&[question], &mut report, cancel)?;
            Ok(answers.remove(0))
        })
    }
}

/// A collection of a service, at which this client is registered.
#[pyclass(module = "unspoken._unspoken")]
pub(crate) struct SumsConnection {
    client: ServiceClient<SumsContributor>,
    application: String,
    /// Of the last call of `send`.
    sending: Sending,
}

/// Contributions of one call.
#[derive(Clone, Copy, Default)]
struct Sending {
    acknowledged: usize,
    /// Contributions that were sent, acknowledged or not, or were about to be sent.
    sent: usize,
}

#[pymethods]
impl SumsConnection {
    #[staticmethod]
    fn open(
        py: Python<'_>,
        service: &Service,
        application: Option<String>,
        fingerprint: Option<&str>,
        state_dir: PathBuf,
        progress: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let trust = trust(fingerprint)?;
        let (client, application) = connect(py, service, application, &state_dir, progress, |_| trust, |_| Ok(()))?;
        Ok(SumsConnection { client, application, sending: Sending::default() })
    }

    /// What this number of contributions will take, by name.
    #[staticmethod]
    fn cost<'py>(
        py: Python<'py>,
        service: &Service,
        application: Option<String>,
        fingerprint: Option<&str>,
        state_dir: PathBuf,
        questions: usize,
    ) -> PyResult<Bound<'py, PyDict>> {
        let trust = trust(fingerprint)?;
        predicted_cost::<SumsContributor>(py, service, application, &state_dir, questions, |_| trust)
    }

    /// Name, smallest and largest value of each column.
    #[getter]
    fn columns(&self) -> Vec<(String, i64, i64)> {
        columns(self.client.description())
    }

    #[getter]
    fn fingerprint(&self) -> String {
        self.client.description().fingerprint().to_string()
    }

    /// Encrypts and sends contributions of shape (contributions, columns), after all values were checked. Returns how
    /// many were added.
    fn send(
        &mut self,
        py: Python<'_>,
        rows: PyReadonlyArray2<'_, i64>,
        progress: &Bound<'_, PyAny>,
    ) -> PyResult<usize> {
        let rows: Vec<Zeroizing<Vec<i64>>> =
            rows.as_array().rows().into_iter().map(|row| Zeroizing::new(row.to_vec())).collect();
        self.sending = Sending::default();
        let (client, sending) = (&mut self.client, &mut self.sending);
        interruptible::run(py, Reporter::from_argument(progress)?, |report, cancel| {
            let description = client.description().clone();
            rows.iter().try_for_each(|row| description.check(row))?;
            let mut encryptor = ContributionEncryptor::new(&description, zeros(&description, rows.len())?)?;
            let mut added = 0;
            for chunk in rows.chunks(CHUNK) {
                let encrypted = chunk.iter().map(|row| encryptor.encrypt(row)).collect::<Result<Vec<_>, _>>()?;
                let before = sending.sent;
                sending.sent += chunk.len();
                let mut report = |step: Progress| {
                    if let Progress::Asking { done, .. } = step {
                        sending.acknowledged = before + done;
                    }
                    report(step.into());
                };
                let receipts = client.ask(&encrypted, &mut report, cancel)?;
                added += receipts.iter().filter(|receipt| **receipt == Receipt::Added).count();
            }
            Ok(added)
        })
    }

    /// Of the last call of `send`: how many contributions were acknowledged, and how many were sent at most.
    #[getter]
    fn sending(&self) -> (usize, usize) {
        (self.sending.acknowledged, self.sending.sent)
    }

    #[getter]
    fn application(&self) -> &str {
        &self.application
    }

    /// Bytes and seconds so far, by name.
    #[getter]
    fn usage<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        usage_dict(py, self.client.usage())
    }
}

/// The collection of a fingerprint, or without one the first that the service describes, if the caller said so.
fn trust(fingerprint: Option<&str>) -> Result<Trust, Failure> {
    Ok(match fingerprint {
        Some(text) => Trust::Fingerprint(text.parse::<Fingerprint>()?),
        None => Trust::First,
    })
}

fn columns(description: &Description) -> Vec<(String, i64, i64)> {
    let columns = description.columns().iter();
    columns.map(|column| (column.name().to_owned(), column.smallest(), column.largest())).collect()
}

/// Where the encryptions of zero come from: for many rows, a pool in memory that a thread fills.
fn zeros(description: &Description, rows: usize) -> Result<Zeros, Failure> {
    if rows < 2 {
        return Ok(Zeros::OnDemand);
    }
    Ok(Zeros::in_memory(description, CHUNK)?)
}
