//! Applications that run elsewhere.

use std::io::Read;
use std::sync::atomic::AtomicBool;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use unspoken_protocol::{AnswerProgress, ClientId, KeySetId};
use unspoken_server::{Application, ApplicationError, ApplicationLimits};

use super::host::{KeysElsewhere, asked, put_keys, raised};
use super::outcome::{FarOutcome, of_outcome};

/// An application that runs elsewhere. The Python object `host` has the methods `check_header(header)` and
/// `put_keys(bundle)`, `facts()`, and `ask(client, keys, query)`, which returns at once an object with `wait(seconds)`
/// and `cancel()`.
pub(super) struct Elsewhere {
    name: String,
    key_set: KeySetId,
    /// What was known last.
    known: RwLock<Known>,
    host: Py<PyAny>,
}

/// What may change while an application is served.
struct Known {
    description: Vec<u8>,
    limits: ApplicationLimits,
}

impl Elsewhere {
    pub(super) fn new(facts: &Bound<'_, PyDict>, host: Py<PyAny>) -> PyResult<Self> {
        let key_set: String = field(facts, "key_set")?.extract()?;
        Ok(Elsewhere {
            name: field(facts, "name")?.extract()?,
            // Equal for applications whose own key sets are equal.
            key_set: KeySetId::new(&key_set, &[0; 16]),
            known: RwLock::new(Known::of(facts)?),
            host,
        })
    }

    /// What was known last. Asks nobody: every request needs the limits.
    fn known(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the Python object what is known now. If it does not say, what was known last stays.
    fn look(&self) {
        let now = Python::attach(|py| {
            let facts = self.host.call_method0(py, "facts")?.into_bound(py);
            Known::of(facts.cast::<PyDict>()?)
        });
        if let Ok(now) = now {
            *self.known.write().unwrap_or_else(PoisonError::into_inner) = now;
        }
    }
}

fn field<'py>(facts: &Bound<'py, PyDict>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    facts.get_item(name)?.ok_or_else(|| PyValueError::new_err(format!("facts of an application without {name}")))
}

impl Known {
    fn of(facts: &Bound<'_, PyDict>) -> PyResult<Self> {
        let limits = ApplicationLimits {
            key_format: field(facts, "key_format")?.extract()?,
            header_bytes: field(facts, "header_bytes")?.extract()?,
            max_key_bytes: field(facts, "max_key_bytes")?.extract()?,
            // The bundle passes through this process.
            key_memory_bytes: field(facts, "max_key_bytes")?.extract()?,
            max_query_bytes: field(facts, "max_query_bytes")?.extract()?,
            max_answer_bytes: field(facts, "max_answer_bytes")?.extract()?,
        };
        Ok(Known { description: field(facts, "description")?.extract()?, limits })
    }
}

impl Application for Elsewhere {
    type Keys = KeysElsewhere;

    fn name(&self) -> &str {
        &self.name
    }

    fn describe(&self) -> Vec<u8> {
        // A client that reads it then sends queries for it.
        self.look();
        self.known().description.clone()
    }

    fn limits(&self) -> ApplicationLimits {
        self.known().limits
    }

    fn key_set(&self) -> KeySetId {
        self.key_set
    }

    fn check_ready(&self) -> Result<(), String> {
        let complaint = Python::attach(|py| self.host.call_method0(py, "complaint")?.extract::<Option<String>>(py));
        complaint.map_err(|error| error.to_string())?.map_or(Ok(()), Err)
    }

    fn loaded_key_bytes(&self, header: &[u8]) -> Result<u64, ApplicationError> {
        let checked = Python::attach(|py| {
            let header = PyBytes::new(py, header);
            self.host.call_method1(py, "check_header", (header,))?.extract::<FarOutcome>(py)
        });
        of_outcome(checked.map_err(raised)?)?;
        Ok(self.known().limits.max_key_bytes)
    }

    fn load_keys(&self, bundle: &mut dyn Read) -> Result<KeysElsewhere, ApplicationError> {
        let mut bytes = Vec::new();
        bundle.read_to_end(&mut bytes)?;
        put_keys(&self.host, bytes)
    }

    fn prepared_bytes(&self) -> u64 {
        self.known().description.len() as u64
    }

    fn working_bytes(&self) -> u64 {
        let limits = self.known().limits;
        (limits.max_query_bytes + limits.max_answer_bytes) as u64
    }

    fn waits_for_others(&self) -> bool {
        true
    }

    fn answer(
        &self,
        client: ClientId,
        keys: &KeysElsewhere,
        query: &[u8],
        cancel: &AtomicBool,
    ) -> Result<Vec<u8>, ApplicationError> {
        self.answer_with_progress(client, keys, query, cancel, &AnswerProgress::new())
    }

    fn answer_with_progress(
        &self,
        client: ClientId,
        keys: &KeysElsewhere,
        query: &[u8],
        cancel: &AtomicBool,
        progress: &AnswerProgress,
    ) -> Result<Vec<u8>, ApplicationError> {
        asked(&self.host, (client, keys, query), cancel, progress)
    }
}
