//! Connections to a service: its address, and one file for each kind of client with generated and uploaded keys.

mod classify;
mod digits;
mod embedding;
mod layer;
mod matrix;
mod offline;

use std::borrow::Borrow;
use std::path::Path;
use std::sync::Arc;

use numpy::PyArray2;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use unspoken_client::transport::{Cancel, Transport, TransportConfig};
use unspoken_client::{ClientError, Progress, ServiceClient, StateDir, UsageStats};
use unspoken_encrypt::Needs;
use unspoken_protocol::{ApplicationError, CkksClientHalf, ClientHalf};

pub(crate) use self::classify::Connection;
pub(crate) use self::digits::DigitsConnection;
pub(crate) use self::embedding::EmbeddingConnection;
pub(crate) use self::layer::LayerConnection;
pub(crate) use self::matrix::MatrixConnection;
use crate::failure::Failure;
use crate::interruptible;
use crate::progress::Reporter;

/// Address of a service and credentials of the client. Nothing is sent before the first call of a method.
#[pyclass(frozen, module = "unspoken._unspoken")]
pub(crate) struct Service {
    config: TransportConfig,
    /// Whether parameters for tests are accepted.
    insecure_parameters: bool,
}

impl Service {
    fn transport(&self) -> Result<Transport, Failure> {
        Ok(Transport::new(self.config.clone())?)
    }

    /// The transport to the service, the name of the application (its only one if none is named), and the key
    /// directory.
    pub(crate) fn target(
        &self,
        application: Option<String>,
        state_dir: &Path,
        cancel: &Cancel,
    ) -> Result<(Transport, String, StateDir), Failure> {
        let transport = self.transport()?;
        let application = match application {
            Some(name) => name,
            None => only_application(&transport, cancel)?,
        };
        let state = StateDir::open(state_dir, transport.url(), &application)
            .map_err(|source| Failure::State { path: state_dir.display().to_string(), source })?;
        Ok((transport, application, state))
    }
}

#[pymethods]
impl Service {
    #[new]
    fn new(
        url: String,
        token: Option<String>,
        authorities: Option<Vec<u8>>,
        insecure_http: bool,
        timeout_seconds: Option<f64>,
        insecure_parameters: bool,
    ) -> PyResult<Self> {
        let mut config = TransportConfig { token, authorities, insecure_http, ..TransportConfig::new(url) };
        if let Some(seconds) = timeout_seconds {
            config = config.with_timeout(seconds).map_err(Failure::from)?;
        }
        config.on_wait = Some(Arc::new(interruptible::report_wait));
        let service = Service { config, insecure_parameters };
        // Fails now if the address, the token or the certificates are wrong.
        service.transport()?;
        Ok(service)
    }

    /// Address of the service, with its scheme.
    #[getter]
    fn url(&self) -> &str {
        &self.config.url
    }

    /// Names of the service's applications.
    fn applications(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        interruptible::run(py, Reporter::Silent, |_, cancel| Ok(self.transport()?.applications(cancel)?))
    }
}

/// Asks questions; if the answers are to be shared, `share` adds noise of `share_bits` bits to them.
fn ask_to_share<H, Q>(
    py: Python<'_>,
    client: &mut ServiceClient<H>,
    questions: &[Q],
    share_bits: Option<u32>,
    progress: &Bound<'_, PyAny>,
    share: impl FnOnce(&H, &[H::Answer], u32) -> Result<Vec<H::Answer>, H::Error> + Send,
) -> PyResult<Vec<H::Answer>>
where
    H: ClientHalf<Answer: Send> + CkksClientHalf,
    Q: Borrow<H::Question> + Sync,
    ServiceClient<H>: Send,
{
    interruptible::run(py, Reporter::from_argument(progress)?, |report, cancel| {
        let mut report = |step: Progress| report(step.into());
        if let Some(bits) = share_bits {
            // Check before sending anything that a bound of the error is known.
            client.half().sharing_noise(bits).map_err(ClientError::of_application)?;
        }
        let answers = client.ask(questions, &mut report, cancel)?;
        match share_bits {
            Some(bits) => Ok(share(client.half(), &answers, bits).map_err(ClientError::of_application)?),
            None => Ok(answers),
        }
    })
}

/// Labels, scores, and how certain each label is.
type Shared<'py> = (Vec<String>, Bound<'py, PyArray2<f64>>, Vec<f64>);

/// How certain the labels of answers with noise of `share_bits` bits are; none without noise.
fn certainties<A, E: ApplicationError>(
    answers: &[A],
    share_bits: Option<u32>,
    certainty: impl Fn(&A, u32) -> Result<f64, E>,
) -> PyResult<Vec<f64>> {
    let Some(bits) = share_bits else { return Ok(Vec::new()) };
    let found = answers.iter().map(|answer| certainty(answer, bits)).collect::<Result<_, _>>();
    Ok(found.map_err(|error| Failure::from(ClientError::of_application(error)))?)
}

/// Connects to an application as a client with the model that `model` returns, and gets it ready. Returns the
/// application's name, too.
pub(crate) fn connect<H: ClientHalf>(
    py: Python<'_>,
    service: &Service,
    application: Option<String>,
    state_dir: &Path,
    progress: &Bound<'_, PyAny>,
    model: impl FnOnce(&StateDir) -> H::Model + Send,
    get_ready: impl FnOnce(&mut ServiceClient<H>) -> Result<(), Failure> + Send,
) -> PyResult<(ServiceClient<H>, String)>
where
    ServiceClient<H>: Send,
{
    interruptible::run(py, Reporter::from_argument(progress)?, |report, cancel| {
        let (transport, application, state) = service.target(application, state_dir, cancel)?;
        let mut report = |step: Progress| report(step.into());
        let model = model(&state);
        let open = if service.insecure_parameters { ServiceClient::insecure_connect } else { ServiceClient::connect };
        let mut client = open(transport, &application, model, &state, &mut report, cancel)?;
        get_ready(&mut client)?;
        Ok((client, application))
    })
}

/// Makes encryptions of zero ahead: for a number of queries that must go out at once, in so much memory.
pub(crate) fn prepare<H: ClientHalf + CkksClientHalf>(
    client: &mut ServiceClient<H>,
    (burst, memory_bytes): (usize, usize),
) -> Result<(), Failure> {
    client.prepare(Needs { burst, memory_bytes })?;
    Ok(())
}

/// What `questions` questions will take, by name, for a client with the model that `model` returns. Sends no keys and
/// no queries.
pub(crate) fn predicted_cost<'py, H: ClientHalf>(
    py: Python<'py>,
    service: &Service,
    application: Option<String>,
    state_dir: &Path,
    questions: usize,
    model: impl FnOnce(&StateDir) -> H::Model + Send,
) -> PyResult<Bound<'py, PyDict>> {
    let cost = interruptible::run(py, Reporter::Silent, |_, cancel| {
        let (transport, application, state) = service.target(application, state_dir, cancel)?;
        let model = model(&state);
        Ok(ServiceClient::<H>::predict_cost(transport, &application, model, &state, questions, cancel)?)
    })?;
    let dict = PyDict::new(py);
    dict.set_item("questions", cost.questions)?;
    dict.set_item("batch", cost.batch)?;
    dict.set_item("queries", cost.queries)?;
    dict.set_item("key_bytes", cost.key_bytes)?;
    dict.set_item("query_bytes", cost.query_bytes)?;
    dict.set_item("answer_bytes", cost.answer_bytes)?;
    Ok(dict)
}

pub(crate) fn usage_dict(py: Python<'_>, usage: UsageStats) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("messages", usage.questions)?;
    dict.set_item("key_bytes", usage.key_bytes)?;
    dict.set_item("query_bytes", usage.query_bytes)?;
    dict.set_item("answer_bytes", usage.answer_bytes)?;
    dict.set_item("key_seconds", usage.key_seconds)?;
    dict.set_item("client_seconds", usage.client_seconds)?;
    dict.set_item("server_seconds", usage.server_seconds)?;
    Ok(dict)
}

fn only_application(transport: &Transport, cancel: &Cancel) -> Result<String, Failure> {
    let mut offered = transport.applications(cancel)?;
    match (offered.pop(), offered.is_empty()) {
        (Some(only), true) => Ok(only),
        (last, _) => {
            offered.extend(last);
            Err(Failure::Application { offered })
        }
    }
}
