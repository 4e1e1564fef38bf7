//! A service whose applications run elsewhere.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use unspoken_server::{Applications, Disk, LocalDisk, LogFormat, Server, ServerConfig, init_logging};
use unspoken_wire::decode;
use unspoken_wire::v1::PublishedModel;

use super::disk::MirroredDisk;
use super::elsewhere::{RemoteApplication, field};
use super::shard::{ShardElsewhere, SharedKeys};

/// Time that a gateway waits for work which does not stop when it is asked to.
const LAST_WAIT: Duration = Duration::from_secs(2);

/// A service whose applications run elsewhere.
#[pyclass(frozen, module = "unspoken._unspoken")]
pub(crate) struct ServiceGateway {
    running: Mutex<Option<Running>>,
    url: String,
    metrics_url: Option<String>,
}

/// An application for a gateway: facts, published model and host.
type Offered<'py> = (Bound<'py, PyDict>, Option<Vec<u8>>, Py<PyAny>);

/// A service that runs: what stops it, and its end.
struct Running {
    runtime: Runtime,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<()>,
}

#[pymethods]
impl ServiceGateway {
    /// Starts a service. `config` is the text of a configuration file, in TOML. An application is its facts, its
    /// published model and its host. What is in shards is the kind of its router, its name and the hosts of its shards.
    /// `mirror` has the methods `stored(path, bundle)` and `removed(path, bundle)`.
    #[new]
    #[pyo3(signature = (config, applications, in_shards, mirror=None))]
    fn new(
        py: Python<'_>,
        config: &str,
        applications: Vec<Offered<'_>>,
        in_shards: Vec<(String, String, Vec<Py<PyAny>>)>,
        mirror: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let config = ServerConfig::from_toml(config).map_err(|error| PyValueError::new_err(error.to_string()))?;
        if !config.offers.is_empty() {
            let text = "config: found [[offer]], needed none: name the applications as offers of the call";
            return Err(PyValueError::new_err(text));
        }
        let mut offered = Applications::new();
        for (facts, published, host) in applications {
            let name: String = field(&facts, "name")?.extract()?;
            let application = RemoteApplication::new(&facts, host)?;
            offered = offered.with(&name, application).map_err(|error| PyValueError::new_err(error.to_string()))?;
            if let Some(bytes) = published {
                let model = decode::<PublishedModel>(&bytes, bytes.len());
                offered = offered.publish(&name, &model.map_err(|error| PyValueError::new_err(error.to_string()))?);
            }
        }
        for (kind, name, hosts) in in_shards {
            let keys = SharedKeys::default();
            let shards = hosts.into_iter().map(|host| ShardElsewhere { host, keys: Arc::clone(&keys) }).collect();
            let routed = py.detach(|| unspoken_offers::route::<ShardElsewhere>(&kind, &name, shards, offered));
            offered = routed.map_err(|error| PyValueError::new_err(format!("{error:#}")))?;
        }
        // A second service of a process logs where the first one does.
        let _ = init_logging(LogFormat::Json, "info");
        let disk: Arc<dyn Disk> = match mirror {
            Some(mirror) => Arc::new(MirroredDisk(mirror)),
            None => Arc::new(LocalDisk),
        };
        let scheme = if config.tls.is_some() { "https" } else { "http" };
        let started = py.detach(|| -> Result<_, String> {
            let text = |error: &dyn std::error::Error| error.to_string();
            let runtime = Builder::new_multi_thread().enable_all().build().map_err(|error| text(&error))?;
            let server =
                runtime.block_on(Server::bind_with_disk(config, offered, disk)).map_err(|error| text(&error))?;
            let url = format!("{scheme}://{}", server.local_addr().map_err(|error| text(&error))?);
            let metrics = server.metrics_addr().map_err(|error| text(&error))?;
            let (stop, stopped) = oneshot::channel::<()>();
            let ended = runtime.spawn(server.run(async {
                // An error means that the sender was dropped, which also means to stop.
                let _ = stopped.await;
            }));
            let running = Running { runtime, stop, ended };
            Ok((running, url, metrics.map(|address| format!("http://{address}/metrics"))))
        });
        let (running, url, metrics_url) = started.map_err(PyRuntimeError::new_err)?;
        Ok(ServiceGateway { running: Mutex::new(Some(running)), url, metrics_url })
    }

    /// The address.
    #[getter]
    fn url(&self) -> &str {
        &self.url
    }

    /// The address of the metrics, if the configuration has one.
    #[getter]
    fn metrics_url(&self) -> Option<&str> {
        self.metrics_url.as_deref()
    }

    /// Ends the service. Requests that run may end first.
    fn close(&self, py: Python<'_>) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Running { runtime, stop, ended }) = running {
            py.detach(|| {
                drop(stop);
                // It fails only if the service has panicked, and has ended then, too.
                let _ = runtime.block_on(ended);
                runtime.shutdown_timeout(LAST_WAIT);
            });
        }
    }
}
