//! Exact sums of encrypted contributions: collections, and connections that send and fetch.

use std::path::PathBuf;
use std::sync::Arc;

use numpy::PyReadonlyArray2;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use unspoken_client::{Cost, Progress, ServiceClient, UsageStats};
use unspoken_protocol::{AnyHalf, ApplicationDescription};
use unspoken_sums::{
    CollectionOptions, CollectorAnswer, CollectorKey, CollectorQuestion, Column, ContributionEncryptor, Description,
    Fingerprint, Receipt, Sums, SumsCollector, SumsContributor, Trust, Zeros, create,
};
use zeroize::Zeroizing;

use crate::connections::{Answers, Client, Part, Place, Service};
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
        application: Option<&str>,
        state_dir: PathBuf,
        progress: &Bound<'_, PyAny>,
    ) -> PyResult<u32> {
        match self.ask(py, Place { service, application, state_dir: &state_dir }, CollectorQuestion::Count, progress)? {
            CollectorAnswer::Count(count) => Ok(count),
            CollectorAnswer::Sums(sums) => Ok(sums.contributions),
        }
    }

    /// Closes the collection at a service: the number of contributions, and name, sum and mean of each column.
    fn fetch(
        &self,
        py: Python<'_>,
        service: &Service,
        application: Option<&str>,
        state_dir: PathBuf,
        progress: &Bound<'_, PyAny>,
    ) -> PyResult<(u32, Vec<NamedSum>)> {
        let sums = match self.ask(
            py,
            Place { service, application, state_dir: &state_dir },
            CollectorQuestion::Close,
            progress,
        )? {
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
        place: Place<'_>,
        question: CollectorQuestion,
        progress: &Bound<'_, PyAny>,
    ) -> PyResult<CollectorAnswer> {
        let key = Arc::clone(&self.key);
        interruptible::run(py, Reporter::from_argument(progress)?, |report, cancel| {
            let (transport, application, state) = place.target(cancel)?;
            let mut report = |step: Progress| report(step.into());
            let mut client =
                ServiceClient::<SumsCollector>::connect(transport, &application, key, &state, &mut report, cancel)?;
            let mut answers = client.ask(&[question], &mut report, cancel)?;
            Ok(answers.remove(0))
        })
    }
}

/// Which collection a client contributes to.
pub(crate) struct Collection(Trust);

impl Collection {
    /// The collection of a fingerprint, or without one the first that the service describes, if the caller said so.
    pub(crate) fn read(fingerprint: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Collection(match fingerprint.extract::<Option<String>>()? {
            Some(text) => Trust::Fingerprint(text.parse::<Fingerprint>().map_err(Failure::from)?),
            None => Trust::First,
        }))
    }
}

impl Part for Collection {
    fn connect(
        self: Box<Self>,
        py: Python<'_>,
        place: Place<'_>,
        _: (usize, usize),
        progress: &Bound<'_, PyAny>,
    ) -> PyResult<(Box<dyn Client>, String)> {
        let (client, application) = place.connect(py, progress, |_| self.0, |_| Ok(()))?;
        Ok((Box::new(Contributor { client, sending: Sending::default() }), application))
    }

    fn cost(self: Box<Self>, py: Python<'_>, place: Place<'_>, questions: usize) -> PyResult<Cost> {
        place.cost::<SumsContributor>(py, questions, |_| self.0)
    }
}

/// A collection of a service, at which this client is registered.
struct Contributor {
    client: ServiceClient<SumsContributor>,
    /// Of the last call of `ask`.
    sending: Sending,
}

/// Contributions of one call.
#[derive(Clone, Copy, Default)]
struct Sending {
    acknowledged: usize,
    /// Contributions that were sent, acknowledged or not, or were about to be sent.
    sent: usize,
}

/// Questions are contributions of shape (contributions, columns), encrypted and sent after all values were checked. The
/// answer is how many were added.
impl Client for Contributor {
    fn half(&self) -> &dyn AnyHalf {
        self.client.half()
    }

    fn key(&self) -> &str {
        self.client.key().as_str()
    }

    fn usage(&self) -> UsageStats {
        self.client.usage()
    }

    /// Name, smallest and largest value of each column; the fingerprint; of the last call of `ask`, how many
    /// contributions were acknowledged, and how many were sent at most.
    fn facts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("columns", columns(self.client.description()))?;
        dict.set_item("fingerprint", self.client.description().fingerprint().to_string())?;
        dict.set_item("sending", (self.sending.acknowledged, self.sending.sent))?;
        Ok(dict)
    }

    fn ask<'py>(&mut self, rows: &Bound<'py, PyAny>, _: Option<u32>, reporter: Reporter) -> PyResult<Answers<'py>> {
        let (py, rows): (_, PyReadonlyArray2<'_, i64>) = (rows.py(), rows.extract()?);
        let rows: Vec<Zeroizing<Vec<i64>>> =
            rows.as_array().rows().into_iter().map(|row| Zeroizing::new(row.to_vec())).collect();
        self.sending = Sending::default();
        let (client, sending) = (&mut self.client, &mut self.sending);
        let added = interruptible::run(py, reporter, |report, cancel| {
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
        })?;
        Ok((added.into_pyobject(py)?.into_any(), Vec::new()))
    }
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
