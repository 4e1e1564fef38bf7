//! Queries that are answered later and elsewhere.

use std::borrow::Borrow;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use unspoken_client::ServiceClient;
use unspoken_protocol::{CkksClientHalf, ClientHalf};

use crate::failure::Failure;
use crate::interruptible;
use crate::progress::Reporter;

/// Encrypts questions. One query must have room for all of them.
pub(crate) fn encrypt<'py, H, Q>(
    py: Python<'py>,
    client: &mut ServiceClient<H>,
    questions: &[Q],
) -> PyResult<Bound<'py, PyBytes>>
where
    H: ClientHalf + CkksClientHalf,
    Q: Borrow<H::Question> + Sync,
    ServiceClient<H>: Send,
{
    let query = interruptible::run(py, Reporter::Silent, |_, _| Ok(client.encrypt(questions)?))?;
    Ok(PyBytes::new(py, &query))
}

/// Decrypts the answer to a query with these questions.
pub(crate) fn decrypt<H, Q>(
    py: Python<'_>,
    client: &mut ServiceClient<H>,
    questions: &[Q],
    answer: &[u8],
) -> PyResult<Vec<H::Answer>>
where
    H: ClientHalf<Answer: Send> + CkksClientHalf,
    Q: Borrow<H::Question> + Sync,
    ServiceClient<H>: Send,
{
    interruptible::run(py, Reporter::Silent, |_, _| Ok(client.decrypt(questions, answer)?))
}

/// Authenticates bytes for this client.
pub(crate) fn tag<'py, H>(py: Python<'py>, client: &ServiceClient<H>, bytes: &[u8]) -> PyResult<Bound<'py, PyBytes>>
where
    H: ClientHalf + CkksClientHalf,
{
    Ok(PyBytes::new(py, &client.tag(bytes).map_err(Failure::from)?))
}
