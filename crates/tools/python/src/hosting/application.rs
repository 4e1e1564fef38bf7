//! Server halves without a service.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use numpy::PyReadonlyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use unspoken_offers::{Placement, Resources};
use unspoken_protocol::{AnswerHelpers, AnswerProgress, Call, ErrorKind, PlainError};
use unspoken_server::{Application, OfferConfig, OwnedRequest};

use super::client;
use super::helpers::Helpers;
use super::outcome::{Outcome, outcome};
use crate::plan_cache::plan_cache;

/// The server half of one application, with its model, in this process.
#[pyclass(frozen, module = "unspoken._unspoken")]
pub(crate) struct LocalApplication(Application);

/// The loaded keys of a client.
#[pyclass(frozen, module = "unspoken._unspoken")]
pub(crate) struct LoadedKeys {
    keys: unspoken_server::LoadedKeys,
    bytes: u64,
}

#[pymethods]
impl LoadedKeys {
    /// Bytes of memory that they need.
    #[getter]
    fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Stops an answer that is being computed.
#[pyclass(frozen, module = "unspoken._unspoken")]
#[derive(Default)]
pub(crate) struct Work {
    cancel: Arc<AtomicBool>,
    progress: AnswerProgress,
}

fn as_bytes(py: Python<'_>, result: Result<Vec<u8>, PlainError>) -> (&'static str, Py<PyBytes>, u32) {
    let (name, bytes, wait) = outcome(result);
    (name, PyBytes::new(py, &bytes).unbind(), wait)
}

#[pymethods]
impl Work {
    #[new]
    fn new() -> Self {
        Work::default()
    }

    /// Stops it soon.
    fn cancel(&self) {
        self.cancel.store(true, Ordering::Relaxed);
    }

    /// Whether it is to stop.
    #[getter]
    fn cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }

    /// Steps done and in total, if the application has reported any.
    #[getter]
    fn progress(&self) -> Option<(u32, u32)> {
        self.progress.newest()
    }
}

#[pymethods]
impl LocalApplication {
    /// Loads the applications of an offer: what `unspoken serve --offer` takes, on a device if one is named.
    #[staticmethod]
    #[pyo3(signature = (kind, path, name=None, options=BTreeMap::new(), device=None))]
    fn load(
        py: Python<'_>,
        kind: String,
        path: PathBuf,
        name: Option<String>,
        options: BTreeMap<String, String>,
        device: Option<String>,
    ) -> PyResult<Vec<Self>> {
        let config = OfferConfig { kind, name, path, options };
        let loaded = py.detach(|| {
            let placement = device.as_deref().map(Placement::open).transpose()?.flatten();
            unspoken_offers::load(vec![config], &Resources { plans: plan_cache(), placement }, |_| {})
        });
        let applications = loaded.map_err(|error| PyValueError::new_err(format!("{error:#}")))?;
        Ok(applications.iter().map(|application| LocalApplication(application.clone())).collect())
    }

    /// What a service must know of it.
    fn facts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (facts, half) = (PyDict::new(py), self.0.half());
        // First: the limits may change with it.
        let description = half.describe();
        let (keys, limits) = (half.key_limits(), half.limits());
        facts.set_item("name", self.0.name())?;
        facts.set_item("description", PyBytes::new(py, &description))?;
        facts.set_item("key_set", half.key_set().to_string())?;
        facts.set_item("key_format", keys.format)?;
        facts.set_item("header_bytes", keys.front_bytes)?;
        facts.set_item("max_key_bytes", keys.max_bytes)?;
        facts.set_item("most_together", limits.most_together)?;
        facts.set_item("max_query_bytes", limits.query_bytes)?;
        facts.set_item("max_answer_bytes", limits.answer_bytes)?;
        Ok(facts)
    }

    /// The model that its owner publishes, the bytes of a `PublishedModel`.
    fn published<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.0.published().map(|model| PyBytes::new(py, model))
    }

    /// Why answers may be old, if they may.
    fn complaint(&self) -> Option<String> {
        self.0.half().check_ready().err().map(|error| error.text)
    }

    /// Whether a bundle with these first bytes has keys for this application: `("answer", b"", 0)`, or an error.
    fn check_header(&self, header: &[u8]) -> Outcome {
        outcome(self.0.half().loaded_key_bytes(header).map(|_| Vec::new()))
    }

    /// Parses a bundle, which is not copied: the keys, or an error.
    fn load_keys(&self, py: Python<'_>, bundle: PyReadonlyArray1<'_, u8>) -> PyResult<(Option<LoadedKeys>, Outcome)> {
        let mut bundle = bundle.as_slice()?;
        let half = self.0.half();
        let bytes = half.loaded_key_bytes(&bundle[..half.key_limits().front_bytes.min(bundle.len())]);
        let loaded = py.detach(|| Ok(LoadedKeys { bytes: bytes?, keys: self.0.load_keys(&mut bundle)? }));
        Ok(match loaded {
            Ok(keys) => (Some(keys), outcome(Ok(Vec::new()))),
            Err(error) => (None, outcome(Err(error))),
        })
    }

    /// Answers a query of a client, whose id has 16 bytes, or 24 with its network. Up to `most_together` threads may
    /// wait for an answer. `helpers` are other processes that compute parts of the answer: an object with the methods
    /// `count()` and `compute(helper, part)`, which returns the result, or None if this process is to compute the part.
    #[pyo3(signature = (client, keys, query, work, helpers=None))]
    fn answer(
        &self,
        py: Python<'_>,
        client: &[u8],
        keys: &LoadedKeys,
        query: &[u8],
        work: &Work,
        helpers: Option<Py<PyAny>>,
    ) -> PyResult<(&'static str, Py<PyBytes>, u32)> {
        let found = client.len();
        let client = client::from_bytes(client).ok_or_else(|| {
            PyValueError::new_err(format!("answer: found a client's id of {found} bytes, needed 16 or 24"))
        })?;
        let (query, cancel) = (Bytes::copy_from_slice(query), Arc::clone(&work.cancel));
        let request = OwnedRequest { client, keys: keys.keys.clone(), query, cancel };
        let helpers = helpers.map(|object| Helpers::new(py, object)).transpose()?;
        let helpers = helpers.as_ref().map(|helpers| helpers as &dyn AnswerHelpers);
        Ok(as_bytes(py, py.detach(|| self.0.answer(request, &work.progress, helpers, 1, |_| ()))))
    }

    /// Gives back the memory that parts keep for later ones.
    fn release_idle_memory(&self, py: Python<'_>) {
        py.detach(|| self.0.half().release_idle_memory());
    }

    /// Computes a part of an answer of another process.
    fn compute_part(
        &self,
        py: Python<'_>,
        keys: &LoadedKeys,
        part: &[u8],
        work: &Work,
    ) -> (&'static str, Py<PyBytes>, u32) {
        let none = || {
            let text = format!("found a part of an answer of {}, which has none", self.0.name());
            Err(PlainError::new(ErrorKind::Internal, text))
        };
        let call = Call::new(&work.cancel);
        as_bytes(py, py.detach(|| self.0.half().compute_part(&keys.keys, part, &call).unwrap_or_else(none)))
    }
}
