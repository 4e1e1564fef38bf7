//! Where applications are.

use std::path::Path;
use std::sync::Arc;

use pyo3::prelude::*;
use unspoken_client::transport::{Cancel, Transport, TransportConfig};
use unspoken_client::{Cost, Progress, ServiceClient, StateDir};
use unspoken_protocol::ClientHalf;

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
    /// Whether parameters for tests are accepted.
    pub(crate) fn accepts_insecure_parameters(&self) -> bool {
        self.insecure_parameters
    }

    fn transport(&self) -> Result<Transport, Failure> {
        Ok(Transport::new(self.config.clone())?)
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

/// Where an application is, and the directory for the client's files.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) service: &'a Service,
    /// Name of the application; without it, the only one of the service.
    pub(crate) application: Option<&'a str>,
    pub(crate) state_dir: &'a Path,
}

impl Place<'_> {
    /// The transport to the service, the name of the application, and the key directory.
    pub(crate) fn target(self, cancel: &Cancel) -> Result<(Transport, String, StateDir), Failure> {
        let transport = self.service.transport()?;
        let application = self.chosen(|names| names, cancel)?;
        let state = StateDir::open(self.state_dir, transport.url(), &application)
            .map_err(|source| Failure::State { path: self.state_dir.display().to_string(), source })?;
        Ok((transport, application, state))
    }

    /// Name of the application; without one, the only one of those that `choice` leaves of the service's.
    pub(crate) fn chosen(self, choice: fn(Vec<String>) -> Vec<String>, cancel: &Cancel) -> Result<String, Failure> {
        match self.application {
            Some(name) => Ok(name.to_owned()),
            None => only(choice(self.service.transport()?.applications(cancel)?)),
        }
    }

    /// Connects as a client with the model that `model` returns, and gets it ready. Returns the application's name,
    /// too.
    pub(crate) fn connect<H: ClientHalf>(
        self,
        py: Python<'_>,
        progress: &Bound<'_, PyAny>,
        model: impl FnOnce(&StateDir) -> H::Model + Send,
        get_ready: impl FnOnce(&mut ServiceClient<H>) -> Result<(), Failure> + Send,
    ) -> PyResult<(ServiceClient<H>, String)>
    where
        ServiceClient<H>: Send,
    {
        let insecure = self.service.insecure_parameters;
        interruptible::run(py, Reporter::from_argument(progress)?, |report, cancel| {
            let (transport, application, state) = self.target(cancel)?;
            let mut report = |step: Progress| report(step.into());
            let open = if insecure { ServiceClient::insecure_connect } else { ServiceClient::connect };
            let mut client = open(transport, &application, model(&state), &state, &mut report, cancel)?;
            get_ready(&mut client)?;
            Ok((client, application))
        })
    }

    /// What `questions` questions will take, for a client with the model that `model` returns. Sends no keys and no
    /// queries.
    pub(crate) fn cost<H: ClientHalf>(
        self,
        py: Python<'_>,
        questions: usize,
        model: impl FnOnce(&StateDir) -> H::Model + Send,
    ) -> PyResult<Cost> {
        interruptible::run(py, Reporter::Silent, |_, cancel| {
            let (transport, application, state) = self.target(cancel)?;
            let model = model(&state);
            Ok(ServiceClient::<H>::predict_cost(transport, &application, model, &state, questions, cancel)?)
        })
    }
}

fn only(mut offered: Vec<String>) -> Result<String, Failure> {
    match (offered.pop(), offered.is_empty()) {
        (Some(only), true) => Ok(only),
        (last, _) => {
            offered.extend(last);
            Err(Failure::Application { offered })
        }
    }
}
