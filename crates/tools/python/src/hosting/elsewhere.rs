//! Applications that run elsewhere.

use std::io::Read;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use unspoken_protocol::{Call, ErrorKind, KeyLimits, KeyLoader, KeySetId, Limits, PlainError, Request, ServerHalf};

use super::host::{RemoteKeys, asked, put_keys, raised};
use super::outcome::{FarOutcome, of_outcome};

/// An application that runs elsewhere. The Python object `host` has the methods `check_header(header)` and
/// `put_keys(bundle)`, `facts()`, and `ask(client, keys, query)`, which returns at once an object with `wait(seconds)`
/// and `cancel()`.
pub(super) struct RemoteApplication {
    key_set: KeySetId,
    /// What was known last.
    known: RwLock<Known>,
    host: Py<PyAny>,
}

/// What may change while an application is served.
struct Known {
    description: Vec<u8>,
    keys: KeyLimits,
    limits: Limits,
}

impl RemoteApplication {
    pub(super) fn new(facts: &Bound<'_, PyDict>, host: Py<PyAny>) -> PyResult<Self> {
        let key_set: String = field(facts, "key_set")?.extract()?;
        Ok(RemoteApplication {
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

/// A fact of an application.
pub(super) fn field<'py>(facts: &Bound<'py, PyDict>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    facts.get_item(name)?.ok_or_else(|| PyValueError::new_err(format!("facts of an application without {name}")))
}

impl Known {
    fn of(facts: &Bound<'_, PyDict>) -> PyResult<Self> {
        let max_bytes = field(facts, "max_key_bytes")?.extract()?;
        let keys = KeyLimits {
            format: field(facts, "key_format")?.extract()?,
            front_bytes: field(facts, "header_bytes")?.extract()?,
            max_bytes,
            // The bundle passes through this process.
            memory_bytes: max_bytes,
        };
        let (query_bytes, answer_bytes): (usize, usize) =
            (field(facts, "max_query_bytes")?.extract()?, field(facts, "max_answer_bytes")?.extract()?);
        let limits = Limits {
            query_bytes,
            answer_bytes,
            working_bytes: (query_bytes + answer_bytes) as u64,
            most_together: 1,
            waits_for_others: true,
        };
        Ok(Known { description: field(facts, "description")?.extract()?, keys, limits })
    }
}

impl KeyLoader for RemoteApplication {
    type Keys = RemoteKeys;
    type KeyError = PlainError;

    fn key_set(&self) -> KeySetId {
        self.key_set
    }

    fn key_limits(&self) -> KeyLimits {
        self.known().keys
    }

    fn loaded_key_bytes(&self, front: &[u8]) -> Result<u64, PlainError> {
        let checked = Python::attach(|py| {
            let front = PyBytes::new(py, front);
            self.host.call_method1(py, "check_header", (front,))?.extract::<FarOutcome>(py)
        });
        of_outcome(checked.map_err(raised)?)?;
        Ok(self.known().keys.memory_bytes)
    }

    fn load_keys(&self, bundle: &mut dyn Read) -> Result<RemoteKeys, PlainError> {
        let mut bytes = Vec::new();
        bundle.read_to_end(&mut bytes)?;
        put_keys(&self.host, bytes)
    }

    /// No application here loads keys for another.
    fn check_keys(&self, _: &RemoteKeys) -> Result<(), PlainError> {
        Ok(())
    }
}

impl ServerHalf for RemoteApplication {
    type Error = PlainError;

    fn describe(&self) -> Vec<u8> {
        // A client that reads it then sends queries for it.
        self.look();
        self.known().description.clone()
    }

    fn limits(&self) -> Limits {
        self.known().limits
    }

    fn prepared_bytes(&self) -> u64 {
        self.known().description.len() as u64
    }

    fn check_ready(&self) -> Result<(), PlainError> {
        let complaint = Python::attach(|py| self.host.call_method0(py, "complaint")?.extract::<Option<String>>(py));
        complaint.map_err(raised)?.map_or(Ok(()), |text| Err(PlainError::new(ErrorKind::Internal, text)))
    }

    fn answer(&self, request: &Request<'_, RemoteKeys>, call: &Call<'_>) -> Result<Vec<u8>, PlainError> {
        asked(&self.host, request, call)
    }
}
