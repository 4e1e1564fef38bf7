//! Calls of the Python object that passes keys and queries on.

use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use unspoken_protocol::{Call, ErrorKind, PlainError, Request};

use super::client;
use super::outcome::{FarOutcome, of_outcome};

/// Seconds between two looks at an answer and at whether it is still wanted.
const LOOK_SECONDS: f64 = 0.25;

/// What keeps the keys of a client elsewhere, until it is dropped.
pub(super) struct RemoteKeys(Py<PyAny>);

/// What `wait` returns: an outcome, or how far the answer is, or nothing new.
#[derive(FromPyObject)]
enum Waited {
    Ended(String, Vec<u8>, u32),
    Reached(u32, u32),
}

/// What the Python object raises is an error inside the service.
pub(super) fn raised(error: PyErr) -> PlainError {
    PlainError::new(ErrorKind::Internal, error.to_string())
}

/// Puts a bundle where replicas find it, and lets a replica load it.
pub(super) fn put_keys(host: &Py<PyAny>, bundle: Vec<u8>) -> Result<RemoteKeys, PlainError> {
    let (keys, outcome) = Python::attach(|py| {
        let put = host.call_method1(py, "put_keys", (PyArray1::from_vec(py, bundle),))?;
        put.extract::<(Py<PyAny>, FarOutcome)>(py)
    })
    .map_err(raised)?;
    of_outcome(outcome)?;
    Ok(RemoteKeys(keys))
}

/// Passes a query on, and waits for the answer or until it is cancelled.
pub(super) fn asked(
    host: &Py<PyAny>,
    request: &Request<'_, RemoteKeys>,
    call: &Call<'_>,
) -> Result<Vec<u8>, PlainError> {
    Python::attach(|py| {
        let client = PyBytes::new(py, &client::to_bytes(request.client));
        let arguments = (client, request.keys.0.clone_ref(py), PyBytes::new(py, request.query));
        let asked = host.bind(py).call_method1("ask", arguments).map_err(raised)?;
        while !call.is_cancelled() {
            let waited = asked.call_method1("wait", (LOOK_SECONDS,));
            match waited.and_then(|waited| waited.extract::<Option<Waited>>()).map_err(raised)? {
                Some(Waited::Ended(name, bytes, wait)) => return of_outcome((name, bytes, wait)),
                Some(Waited::Reached(done, total)) => call.report(done, total),
                None => {}
            }
        }
        asked.call_method0("cancel").map_err(raised)?;
        Err(PlainError::new(ErrorKind::Cancelled, "cancelled"))
    })
}
