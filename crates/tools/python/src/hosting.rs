//! Server halves without a service, and a service whose applications run elsewhere: what `unspoken.ray` schedules.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use unspoken_protocol::{AnswerProgress, ClientId, KeySetId};
use unspoken_retrieve::{ForwardedKeys, ShardAccess, ShardFailure};
use unspoken_server::{
    Application, ApplicationError, ApplicationLimits, Applications, Disk, Hosted, HostedKeys as Loaded, LocalDisk,
    LogFormat, OfferConfig, Server, ServerConfig, init_logging,
};
use unspoken_wire::decode;
use unspoken_wire::v1::PublishedModel;

/// Seconds between two looks at an answer and at whether it is still wanted.
const LOOK_SECONDS: f64 = 0.25;

/// Bundles of keys that a router keeps elsewhere; when there are more, they are put there again.
const MOST_KEYS: usize = 1 << 10;

/// Time that a gateway waits for work which does not stop when it is asked to.
const LAST_WAIT: Duration = Duration::from_secs(2);

/// How a call ended that a client caused: the name, and the answer or the text of the error.
type Outcome = (&'static str, Vec<u8>, u32);

fn outcome(result: Result<Vec<u8>, ApplicationError>) -> Outcome {
    let (name, wait) = match &result {
        Ok(_) => ("answer", 0),
        Err(ApplicationError::Malformed(_)) => ("malformed", 0),
        Err(ApplicationError::DoesNotFit(_)) => ("does not fit", 0),
        Err(ApplicationError::Busy(_)) => ("busy", 0),
        Err(ApplicationError::Exhausted { wait_seconds, .. }) => ("exhausted", *wait_seconds),
        Err(ApplicationError::Cancelled) => ("cancelled", 0),
        Err(ApplicationError::Read(_)) => ("read", 0),
        Err(_) => ("internal", 0),
    };
    let bytes = result.unwrap_or_else(|error| error.to_string().into_bytes());
    (name, bytes, wait)
}

/// What [`outcome`] wrote, on the other side.
fn of_outcome((name, bytes, wait_seconds): (String, Vec<u8>, u32)) -> Result<Vec<u8>, ApplicationError> {
    if name == "answer" {
        return Ok(bytes);
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Err(match name.as_str() {
        "malformed" => ApplicationError::Malformed(text),
        "does not fit" => ApplicationError::DoesNotFit(text),
        "busy" => ApplicationError::Busy(text),
        "exhausted" => ApplicationError::Exhausted { text, wait_seconds },
        "cancelled" => ApplicationError::Cancelled,
        "read" => ApplicationError::Read(io::Error::other(text)),
        _ => ApplicationError::Internal(text),
    })
}

/// The server half of one application, with its model, in this process.
#[pyclass(frozen, module = "unspoken._unspoken")]
pub(crate) struct HostedApplication(Hosted);

/// The loaded keys of a client.
#[pyclass(frozen, module = "unspoken._unspoken")]
pub(crate) struct HostedKeys(Loaded);

/// Stops an answer that is being computed.
#[pyclass(frozen, module = "unspoken._unspoken")]
#[derive(Default)]
pub(crate) struct Work {
    cancel: AtomicBool,
    progress: AnswerProgress,
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

    /// Steps done and in total, if the application has reported any.
    #[getter]
    fn progress(&self) -> Option<(u32, u32)> {
        self.progress.newest()
    }
}

#[pymethods]
impl HostedApplication {
    /// Loads an application: what `unspoken serve --offer` takes.
    #[staticmethod]
    #[pyo3(signature = (kind, path, name=None, options=BTreeMap::new()))]
    fn load(
        py: Python<'_>,
        kind: String,
        path: PathBuf,
        name: Option<String>,
        options: BTreeMap<String, String>,
    ) -> PyResult<Self> {
        let config = OfferConfig { kind, name, path, options };
        let loaded = py.detach(|| unspoken_offers::load(vec![config]));
        let applications = loaded.map_err(|error| PyValueError::new_err(format!("{error:#}")))?;
        let hosted = applications.hosted().into_iter().next();
        hosted.map(HostedApplication).ok_or_else(|| PyValueError::new_err("the offer has no application"))
    }

    /// What a service must know of it.
    fn facts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (facts, limits) = (PyDict::new(py), self.0.limits());
        facts.set_item("name", self.0.name())?;
        facts.set_item("description", PyBytes::new(py, &self.0.describe()))?;
        facts.set_item("key_set", self.0.key_set().to_string())?;
        facts.set_item("key_format", limits.key_format)?;
        facts.set_item("header_bytes", limits.header_bytes)?;
        facts.set_item("max_key_bytes", limits.max_key_bytes)?;
        facts.set_item("key_memory_bytes", limits.key_memory_bytes)?;
        facts.set_item("max_query_bytes", limits.max_query_bytes)?;
        facts.set_item("max_answer_bytes", limits.max_answer_bytes)?;
        Ok(facts)
    }

    /// The model that its owner publishes, the bytes of a `PublishedModel`.
    fn published<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.0.published().map(|model| PyBytes::new(py, &model))
    }

    /// Why answers may be old, if they may.
    fn complaint(&self) -> Option<String> {
        self.0.check_ready().err()
    }

    /// Whether the first bytes of a bundle are those of keys for this application: `("answer", b"", 0)`, or an error.
    fn check_header(&self, header: &[u8]) -> Outcome {
        outcome(self.0.loaded_key_bytes(header).map(|_| Vec::new()))
    }

    /// Parses a bundle, which is not copied: the keys, or an error.
    fn load_keys(&self, py: Python<'_>, bundle: PyReadonlyArray1<'_, u8>) -> PyResult<(Option<HostedKeys>, Outcome)> {
        let mut bytes = bundle.as_slice()?;
        Ok(py.detach(|| match self.0.load_keys(&mut bytes) {
            Ok(keys) => (Some(HostedKeys(keys)), outcome(Ok(Vec::new()))),
            Err(error) => (None, outcome(Err(error))),
        }))
    }

    /// Answers a query of a client, whose id has 16 bytes.
    fn answer(
        &self,
        py: Python<'_>,
        client: [u8; 16],
        keys: &HostedKeys,
        query: &[u8],
        work: &Work,
    ) -> (&'static str, Py<PyBytes>, u32) {
        let answer = py.detach(|| self.0.answer(ClientId::new(client), &keys.0, query, &work.cancel, &work.progress));
        let (name, bytes, wait) = outcome(answer);
        (name, PyBytes::new(py, &bytes).unbind(), wait)
    }
}

/// An application that runs elsewhere. The Python object `host` has the methods `check_header(header)` and
/// `put_keys(bundle)`, `facts()`, and `ask(client, keys, query)`, which returns at once an object with `wait(seconds)`
/// and `cancel()`.
struct Elsewhere {
    name: String,
    key_set: KeySetId,
    /// What was known last.
    known: RwLock<Known>,
    host: Py<PyAny>,
}

/// What may change while an application is served.
#[derive(Clone)]
struct Known {
    description: Vec<u8>,
    limits: ApplicationLimits,
}

/// What keeps the keys of a client elsewhere, until it is dropped.
struct KeysElsewhere(Py<PyAny>);

/// What `wait` returns: an outcome, or how far the answer is, or nothing new.
#[derive(FromPyObject)]
enum Waited {
    Ended(String, Vec<u8>, u32),
    Reached(u32, u32),
}

impl Elsewhere {
    fn new(facts: &Bound<'_, PyDict>, host: Py<PyAny>) -> PyResult<Self> {
        let key_set: String = field(facts, "key_set")?.extract()?;
        let elsewhere = Elsewhere {
            name: field(facts, "name")?.extract()?,
            // Equal for applications whose own key sets are equal.
            key_set: KeySetId::new(&key_set, &[0; 16]),
            known: RwLock::new(Known::of(facts)?),
            host,
        };
        Ok(elsewhere)
    }
}

impl Elsewhere {
    /// What is known now; what was known last, if the Python object does not say.
    fn known(&self) -> Known {
        let now = Python::attach(|py| {
            let facts = self.host.call_method0(py, "facts")?.into_bound(py);
            Known::of(facts.cast::<PyDict>()?)
        });
        if let Ok(now) = now {
            *self.known.write().unwrap_or_else(PoisonError::into_inner) = now;
        }
        self.known.read().unwrap_or_else(PoisonError::into_inner).clone()
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

/// What the Python object raises is an error inside the service.
fn raised(error: PyErr) -> ApplicationError {
    ApplicationError::Internal(error.to_string())
}

impl Application for Elsewhere {
    type Keys = KeysElsewhere;

    fn name(&self) -> &str {
        &self.name
    }

    fn describe(&self) -> Vec<u8> {
        self.known().description
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
            self.host.call_method1(py, "check_header", (header,))?.extract::<(String, Vec<u8>, u32)>(py)
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

/// Puts a bundle where replicas find it, and lets one of them load it.
fn put_keys(host: &Py<PyAny>, bundle: Vec<u8>) -> Result<KeysElsewhere, ApplicationError> {
    let (keys, outcome) = Python::attach(|py| {
        let put = host.call_method1(py, "put_keys", (PyArray1::from_vec(py, bundle),))?;
        put.extract::<(Py<PyAny>, (String, Vec<u8>, u32))>(py)
    })
    .map_err(raised)?;
    of_outcome(outcome)?;
    Ok(KeysElsewhere(keys))
}

/// Passes a query on, and waits for the answer or until it is cancelled.
fn asked(
    host: &Py<PyAny>,
    (client, keys, query): (ClientId, &KeysElsewhere, &[u8]),
    cancel: &AtomicBool,
    progress: &AnswerProgress,
) -> Result<Vec<u8>, ApplicationError> {
    Python::attach(|py| {
        let arguments = (PyBytes::new(py, &client.to_bytes()), keys.0.clone_ref(py), PyBytes::new(py, query));
        let asked = host.bind(py).call_method1("ask", arguments).map_err(raised)?;
        while !cancel.load(Ordering::Relaxed) {
            let waited = asked.call_method1("wait", (LOOK_SECONDS,));
            match waited.and_then(|waited| waited.extract::<Option<Waited>>()).map_err(raised)? {
                Some(Waited::Ended(name, bytes, wait)) => return of_outcome((name, bytes, wait)),
                Some(Waited::Reached(done, total)) => progress.report(done, total),
                None => {}
            }
        }
        asked.call_method0("cancel").map_err(raised)?;
        Err(ApplicationError::Cancelled)
    })
}

/// A shard of a database that is served elsewhere.
struct ShardElsewhere {
    host: Py<PyAny>,
    keys: SharedKeys,
}

/// What keeps the keys of clients elsewhere, by the hash of their bundle, for all shards of a database.
type SharedKeys = Arc<Mutex<HashMap<[u8; 32], PutKeys>>>;

/// The keys of a client elsewhere, once they have been put there. Held while they are put.
type PutKeys = Arc<Mutex<Option<Arc<KeysElsewhere>>>>;

impl ShardElsewhere {
    fn keys(&self, keys: &ForwardedKeys) -> Result<Arc<KeysElsewhere>, ApplicationError> {
        let place = self.place(keys);
        // Other clients do not wait while they are put.
        let mut there = place.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(there) = &*there {
            return Ok(Arc::clone(there));
        }
        let put = Arc::new(put_keys(&self.host, keys.bundle().to_vec())?);
        *there = Some(Arc::clone(&put));
        Ok(put)
    }

    fn place(&self, keys: &ForwardedKeys) -> PutKeys {
        let mut known = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST_KEYS && !known.contains_key(&keys.id()) {
            known.clear();
        }
        Arc::clone(known.entry(keys.id()).or_default())
    }
}

impl ShardAccess for ShardElsewhere {
    fn describe(&self) -> Result<Vec<u8>, ShardFailure> {
        let described = Python::attach(|py| self.host.call_method0(py, "description")?.extract::<Option<Vec<u8>>>(py));
        described.ok().flatten().ok_or(ShardFailure::NoAnswer)
    }

    fn ask(
        &self,
        keys: &ForwardedKeys,
        query: &[u8],
        most: usize,
        cancel: &Arc<AtomicBool>,
    ) -> Result<Vec<u8>, ShardFailure> {
        let keys = self.keys(keys).map_err(|_| ShardFailure::NoAnswer)?;
        // Shards do not know the clients of the router.
        let client = ClientId::new([0; 16]);
        match asked(&self.host, (client, &keys, query), cancel, &AnswerProgress::new()) {
            Ok(answer) if answer.len() <= most => Ok(answer),
            Err(ApplicationError::Cancelled) => Err(ShardFailure::Cancelled),
            _ => Err(ShardFailure::NoAnswer),
        }
    }
}

/// The local disk, whose finished key bundles a Python object copies elsewhere.
struct MirroredDisk(Py<PyAny>);

impl MirroredDisk {
    fn call(&self, method: &str, from: &Path, bundle: &str) -> io::Result<()> {
        let from = from.display().to_string();
        let called = Python::attach(|py| self.0.call_method1(py, method, (from, bundle)).map(drop));
        called.map_err(|error| io::Error::other(error.to_string()))
    }
}

/// The directory of bundles in which a path is, and its last name: `keys/ID`.
fn bundle_of(path: &Path) -> Option<(&str, &str)> {
    let directory = path.parent()?.file_name()?.to_str()?;
    Some((directory, path.file_name()?.to_str()?))
}

impl Disk for MirroredDisk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        LocalDisk.create_dir(path)
    }

    fn write_at(&self, path: &Path, offset: u64, bytes: &[u8]) -> io::Result<()> {
        LocalDisk.write_at(path, offset, bytes)
    }

    fn truncate(&self, path: &Path, length: u64) -> io::Result<()> {
        LocalDisk.truncate(path, length)
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        LocalDisk.replace(path, bytes)
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        LocalDisk.sync(path)
    }

    /// A bundle becomes usable by one rename, and is deleted by one: the copy is made before the first and deleted
    /// before the second.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        match (bundle_of(from), bundle_of(to)) {
            (_, Some(("keys", bundle))) => self.call("stored", from, bundle)?,
            (Some(("keys", bundle)), Some(("trash", _))) => self.call("removed", from, bundle)?,
            (Some(("keys", bundle)), Some(("uploads", _))) => self.call("removed", from, bundle)?,
            _ => {}
        }
        LocalDisk.rename(from, to)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        LocalDisk.open(path)
    }

    fn length(&self, path: &Path) -> io::Result<u64> {
        LocalDisk.length(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        LocalDisk.list(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        LocalDisk.remove_dir(path)
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        LocalDisk.free_bytes(path)
    }
}

/// A service whose applications run elsewhere.
#[pyclass(frozen, module = "unspoken._unspoken")]
pub(crate) struct ServiceGateway {
    running: Mutex<Option<Running>>,
    url: String,
    metrics_url: Option<String>,
}

/// An application for a gateway: its facts, the model that its owner publishes, and its host.
type Offered<'py> = (Bound<'py, PyDict>, Option<Vec<u8>>, Py<PyAny>);

/// A service that runs: what stops it, and its end.
struct Running {
    runtime: Runtime,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<()>,
}

#[pymethods]
impl ServiceGateway {
    /// Starts a service. `config` is the text of a configuration file, in TOML. Each application has its facts, the
    /// model that its owner publishes, and its host; each database its name and the hosts of its shards. `mirror` has
    /// the methods `stored(path, bundle)` and `removed(path, bundle)`.
    #[new]
    #[pyo3(signature = (config, applications, databases, mirror=None))]
    fn new(
        py: Python<'_>,
        config: &str,
        applications: Vec<Offered<'_>>,
        databases: Vec<(String, Vec<Py<PyAny>>)>,
        mirror: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let config = ServerConfig::from_toml(config).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let mut offered = Applications::new();
        for (facts, published, host) in applications {
            let application = Elsewhere::new(&facts, host)?;
            let name = application.name.clone();
            offered = offered.with(application).map_err(|error| PyValueError::new_err(error.to_string()))?;
            if let Some(bytes) = published {
                let model = decode::<PublishedModel>(&bytes, bytes.len());
                offered = offered.publish(&name, &model.map_err(|error| PyValueError::new_err(error.to_string()))?);
            }
        }
        for (name, hosts) in databases {
            let keys = SharedKeys::default();
            let shards = hosts.into_iter().map(|host| ShardElsewhere { host, keys: Arc::clone(&keys) }).collect();
            let routed = py.detach(|| unspoken_offers::route::<ShardElsewhere>(&name, shards, offered));
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
