//! Connections to a service: its address, and a classifier, an embedding table, a layer over one, or a digit recogniser
//! with uploaded keys.

use std::borrow::Borrow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use numpy::{PyArray2, PyReadonlyArray2};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use unspoken_classify::{Classified, ClassifyClient};
use unspoken_client::transport::{Cancel, Transport, TransportConfig};
use unspoken_client::{ClientError, Progress, ServiceClient, StateDir, UsageStats};
use unspoken_digits::{DigitsClient, Recognised};
use unspoken_digits_model::CLASSES;
use unspoken_embed::EmbedClient;
use unspoken_encrypt::Needs;
use unspoken_layer::{LayerClient, LayerModel, ScoredText};
use unspoken_protocol::{CkksClientHalf, ClientHalf};

use crate::digits::image_list;
use crate::embedding::Codes;
use crate::failure::Failure;
use crate::interruptible;
use crate::model::{Words, matrix};
use crate::offline::{decrypt, encrypt, tag};
use crate::progress::Reporter;

/// Address of a service and credentials of the client. Nothing is sent before the first call of a method.
#[pyclass(frozen, module = "unspoken._unspoken")]
pub(crate) struct Service(TransportConfig);

impl Service {
    fn transport(&self) -> Result<Transport, Failure> {
        Ok(Transport::new(self.0.clone())?)
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
        authorities_pem: Option<Vec<u8>>,
        insecure_http: bool,
        timeout_seconds: Option<f64>,
    ) -> PyResult<Self> {
        let mut config = TransportConfig { token, authorities_pem, insecure_http, ..TransportConfig::new(url) };
        if let Some(seconds) = timeout_seconds {
            config = config.with_timeout(seconds).map_err(Failure::from)?;
        }
        config.on_wait = Some(Arc::new(interruptible::report_wait));
        let service = Service(config);
        // Fails now if the address, the token or the certificates are wrong.
        service.transport()?;
        Ok(service)
    }

    /// Address of the service, with its scheme.
    #[getter]
    fn url(&self) -> &str {
        &self.0.url
    }

    /// Names of the service's applications.
    fn applications(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        interruptible::run(py, Reporter::Silent, |_, cancel| Ok(self.transport()?.applications(cancel)?))
    }
}

/// A classifier of a service, with generated and uploaded keys.
#[pyclass(module = "unspoken._unspoken")]
pub(crate) struct Connection {
    client: ServiceClient<ClassifyClient>,
    application: String,
}

#[pymethods]
impl Connection {
    #[staticmethod]
    fn open(
        py: Python<'_>,
        service: &Service,
        application: Option<String>,
        words: &Words,
        state_dir: PathBuf,
        ready: (usize, usize),
        progress: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let model = |_: &StateDir| words.encoder().clone();
        let (client, application) =
            connect(py, service, application, &state_dir, progress, model, |client| prepare(client, ready))?;
        Ok(Connection { client, application })
    }

    /// What so many questions will take, by name.
    #[staticmethod]
    fn cost<'py>(
        py: Python<'py>,
        service: &Service,
        application: Option<String>,
        words: &Words,
        state_dir: PathBuf,
        questions: usize,
    ) -> PyResult<Bound<'py, PyDict>> {
        predicted_cost::<ClassifyClient>(py, service, application, &state_dir, questions, |_| words.encoder().clone())
    }

    /// One label per message, and scores of shape (messages, classes), with noise if they are to be shared.
    fn classify<'py>(
        &mut self,
        py: Python<'py>,
        messages: Vec<String>,
        share_bits: Option<u32>,
        progress: &Bound<'py, PyAny>,
    ) -> PyResult<(Vec<String>, Bound<'py, PyArray2<f64>>)> {
        let answers = ask_to_share(py, &mut self.client, &messages, share_bits, progress, |half, answers, bits| {
            half.share(answers, bits)
        })?;
        self.labelled(py, answers)
    }

    /// A query of one batch at most, to be answered later.
    fn encrypt<'py>(&mut self, py: Python<'py>, messages: Vec<String>) -> PyResult<Bound<'py, PyBytes>> {
        encrypt(py, &mut self.client, &messages)
    }

    /// What `classify` returns, from the answer to a query of `encrypt` with these messages.
    fn decrypt<'py>(
        &mut self,
        py: Python<'py>,
        messages: Vec<String>,
        answer: &[u8],
    ) -> PyResult<(Vec<String>, Bound<'py, PyArray2<f64>>)> {
        let answers = decrypt(py, &mut self.client, &messages, answer)?;
        self.labelled(py, answers)
    }

    /// Authenticates bytes, such that only this client can.
    fn tag<'py>(&self, py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        tag(py, &self.client, bytes)
    }

    /// The id of the keys at the service.
    #[getter]
    fn key(&self) -> &str {
        self.client.key().as_str()
    }

    #[getter]
    fn application(&self) -> &str {
        &self.application
    }

    #[getter]
    fn preset(&self) -> &str {
        self.client.description().parameters().name()
    }

    /// Number of messages in one query.
    #[getter]
    fn batch(&self) -> usize {
        self.client.description().batch()
    }

    /// Bytes and seconds so far, by name.
    #[getter]
    fn usage<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        usage_dict(py, self.client.usage())
    }
}

impl Connection {
    fn labelled<'py>(
        &self,
        py: Python<'py>,
        answers: Vec<Classified>,
    ) -> PyResult<(Vec<String>, Bound<'py, PyArray2<f64>>)> {
        let (labels, scores): (Vec<_>, Vec<_>) = answers.into_iter().map(|a| (a.label, a.scores)).unzip();
        let scores =
            matrix(py, scores.into_iter().flatten().collect(), labels.len(), self.client.half().labels().len())?;
        Ok((labels, scores))
    }
}

/// An embedding table of a service, with generated and uploaded keys.
#[pyclass(module = "unspoken._unspoken")]
pub(crate) struct EmbeddingConnection {
    client: ServiceClient<EmbedClient>,
    application: String,
}

#[pymethods]
impl EmbeddingConnection {
    #[staticmethod]
    fn open(
        py: Python<'_>,
        service: &Service,
        application: Option<String>,
        codes: &Codes,
        state_dir: PathBuf,
        ready: (usize, usize),
        progress: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let model = |_: &StateDir| codes.codes().clone();
        let (client, application) =
            connect(py, service, application, &state_dir, progress, model, |client| prepare(client, ready))?;
        Ok(EmbeddingConnection { client, application })
    }

    /// What so many questions will take, by name.
    #[staticmethod]
    fn cost<'py>(
        py: Python<'py>,
        service: &Service,
        application: Option<String>,
        codes: &Codes,
        state_dir: PathBuf,
        questions: usize,
    ) -> PyResult<Bound<'py, PyDict>> {
        predicted_cost::<EmbedClient>(py, service, application, &state_dir, questions, |_| codes.codes().clone())
    }

    /// Embeddings of shape (ids, width).
    fn embed<'py>(
        &mut self,
        py: Python<'py>,
        ids: Vec<usize>,
        progress: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let client = &mut self.client;
        let embeddings = interruptible::run(py, Reporter::from_argument(progress)?, |report, cancel| {
            let mut report = |step: Progress| report(step.into());
            client.ask(&ids, &mut report, cancel).map_err(ClientError::into)
        })?;
        self.rows(py, embeddings)
    }

    /// A query of one batch at most, to be answered later.
    fn encrypt<'py>(&mut self, py: Python<'py>, ids: Vec<usize>) -> PyResult<Bound<'py, PyBytes>> {
        encrypt(py, &mut self.client, &ids)
    }

    /// What `embed` returns, from the answer to a query of `encrypt` with these ids.
    fn decrypt<'py>(&mut self, py: Python<'py>, ids: Vec<usize>, answer: &[u8]) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let embeddings = decrypt(py, &mut self.client, &ids, answer)?;
        self.rows(py, embeddings)
    }

    /// Number of tokens in one query.
    #[getter]
    fn batch(&self) -> usize {
        self.client.half().batch()
    }

    /// Authenticates bytes, such that only this client can.
    fn tag<'py>(&self, py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        tag(py, &self.client, bytes)
    }

    /// The id of the keys at the service.
    #[getter]
    fn key(&self) -> &str {
        self.client.key().as_str()
    }

    #[getter]
    fn application(&self) -> &str {
        &self.application
    }

    /// Bytes and seconds so far, by name.
    #[getter]
    fn usage<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        usage_dict(py, self.client.usage())
    }
}

impl EmbeddingConnection {
    fn rows<'py>(&self, py: Python<'py>, embeddings: Vec<Vec<f64>>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let (rows, width) = (embeddings.len(), self.client.description().width());
        matrix(py, embeddings.into_iter().flatten().collect(), rows, width)
    }
}

/// A linear head over an embedding table of a service, with generated and uploaded keys.
#[pyclass(module = "unspoken._unspoken")]
pub(crate) struct LayerConnection {
    client: ServiceClient<LayerClient>,
    application: String,
}

/// The client's part of a layer.
fn layer_model(codes: &Codes, cut: bool) -> LayerModel {
    LayerModel { codes: codes.codes().clone(), cut }
}

#[pymethods]
impl LayerConnection {
    #[staticmethod]
    #[expect(clippy::too_many_arguments, reason = "each is an argument of the Python class")]
    fn open(
        py: Python<'_>,
        service: &Service,
        application: Option<String>,
        codes: &Codes,
        cut: bool,
        state_dir: PathBuf,
        ready: (usize, usize),
        progress: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let model = |_: &StateDir| layer_model(codes, cut);
        let (client, application) =
            connect(py, service, application, &state_dir, progress, model, |client| prepare(client, ready))?;
        Ok(LayerConnection { client, application })
    }

    /// What so many questions will take, by name.
    #[staticmethod]
    fn cost<'py>(
        py: Python<'py>,
        service: &Service,
        application: Option<String>,
        codes: &Codes,
        state_dir: PathBuf,
        questions: usize,
    ) -> PyResult<Bound<'py, PyDict>> {
        predicted_cost::<LayerClient>(py, service, application, &state_dir, questions, |_| layer_model(codes, false))
    }

    /// One label per text, and scores of shape (texts, classes), with noise if they are to be shared.
    fn classify<'py>(
        &mut self,
        py: Python<'py>,
        texts: Vec<String>,
        share_bits: Option<u32>,
        progress: &Bound<'py, PyAny>,
    ) -> PyResult<(Vec<String>, Bound<'py, PyArray2<f64>>)> {
        let answers = ask_to_share(py, &mut self.client, &texts, share_bits, progress, |half, answers, bits| {
            half.share(answers, bits)
        })?;
        self.labelled(py, answers)
    }

    /// A query of one batch at most, to be answered later.
    fn encrypt<'py>(&mut self, py: Python<'py>, texts: Vec<String>) -> PyResult<Bound<'py, PyBytes>> {
        encrypt(py, &mut self.client, &texts)
    }

    /// What `classify` returns, from the answer to a query of `encrypt` with these texts.
    fn decrypt<'py>(
        &mut self,
        py: Python<'py>,
        texts: Vec<String>,
        answer: &[u8],
    ) -> PyResult<(Vec<String>, Bound<'py, PyArray2<f64>>)> {
        let answers = decrypt(py, &mut self.client, &texts, answer)?;
        self.labelled(py, answers)
    }

    /// Number of texts in one query.
    #[getter]
    fn batch(&self) -> usize {
        self.client.half().batch()
    }

    /// Authenticates bytes, such that only this client can.
    fn tag<'py>(&self, py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        tag(py, &self.client, bytes)
    }

    /// The id of the keys at the service.
    #[getter]
    fn key(&self) -> &str {
        self.client.key().as_str()
    }

    /// Names of the classes, in the order of the scores.
    #[getter]
    fn labels(&self) -> &[String] {
        self.client.description().classes()
    }

    /// Tokens of a text that the service reads.
    #[getter]
    fn max_tokens(&self) -> usize {
        self.client.description().max_tokens()
    }

    #[getter]
    fn application(&self) -> &str {
        &self.application
    }

    /// Bytes and seconds so far, by name.
    #[getter]
    fn usage<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        usage_dict(py, self.client.usage())
    }
}

impl LayerConnection {
    fn labelled<'py>(
        &self,
        py: Python<'py>,
        answers: Vec<ScoredText>,
    ) -> PyResult<(Vec<String>, Bound<'py, PyArray2<f64>>)> {
        let (labels, scores): (Vec<_>, Vec<_>) = answers.into_iter().map(|a| (a.label, a.scores)).unzip();
        let scores = matrix(py, scores.concat(), labels.len(), self.client.description().classes().len())?;
        Ok((labels, scores))
    }
}

/// Asks questions; if the answers are to be shared, `share` adds noise of so many bits to them.
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

/// A digit recogniser of a service, with generated and uploaded keys.
#[pyclass(module = "unspoken._unspoken")]
pub(crate) struct DigitsConnection {
    client: ServiceClient<DigitsClient>,
    application: String,
}

#[pymethods]
impl DigitsConnection {
    #[staticmethod]
    fn open(
        py: Python<'_>,
        service: &Service,
        application: Option<String>,
        state_dir: PathBuf,
        ready: (usize, usize),
        progress: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let (client, application) =
            connect(py, service, application, &state_dir, progress, |_| (), |client| prepare(client, ready))?;
        Ok(DigitsConnection { client, application })
    }

    /// What so many questions will take, by name.
    #[staticmethod]
    fn cost<'py>(
        py: Python<'py>,
        service: &Service,
        application: Option<String>,
        state_dir: PathBuf,
        questions: usize,
    ) -> PyResult<Bound<'py, PyDict>> {
        predicted_cost::<DigitsClient>(py, service, application, &state_dir, questions, |_| ())
    }

    /// Scores of shape (images, 10) for images of shape (images, 784), with noise if they are to be shared.
    fn recognise<'py>(
        &mut self,
        py: Python<'py>,
        images: PyReadonlyArray2<'py, u8>,
        share_bits: Option<u32>,
        progress: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let images = image_list(&images)?;
        let answers = ask_to_share(py, &mut self.client, &images, share_bits, progress, |half, answers, bits| {
            half.share(answers, bits)
        })?;
        score_rows(py, answers)
    }

    /// A query of one batch at most, to be answered later.
    fn encrypt<'py>(&mut self, py: Python<'py>, images: PyReadonlyArray2<'py, u8>) -> PyResult<Bound<'py, PyBytes>> {
        encrypt(py, &mut self.client, &image_list(&images)?)
    }

    /// What `recognise` returns, from the answer to a query of `encrypt` with these images.
    fn decrypt<'py>(
        &mut self,
        py: Python<'py>,
        images: PyReadonlyArray2<'py, u8>,
        answer: &[u8],
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let answers = decrypt(py, &mut self.client, &image_list(&images)?, answer)?;
        score_rows(py, answers)
    }

    /// Number of images in one query.
    #[getter]
    fn batch(&self) -> usize {
        self.client.half().batch()
    }

    /// Authenticates bytes, such that only this client can.
    fn tag<'py>(&self, py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        tag(py, &self.client, bytes)
    }

    /// The id of the keys at the service.
    #[getter]
    fn key(&self) -> &str {
        self.client.key().as_str()
    }

    #[getter]
    fn application(&self) -> &str {
        &self.application
    }

    /// Bytes and seconds so far, by name.
    #[getter]
    fn usage<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        usage_dict(py, self.client.usage())
    }
}

fn score_rows<'py>(py: Python<'py>, answers: Vec<Recognised>) -> PyResult<Bound<'py, PyArray2<f64>>> {
    let rows = answers.len();
    matrix(py, answers.into_iter().flat_map(|answer| answer.scores).collect(), rows, CLASSES)
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
        let mut client = ServiceClient::connect(transport, &application, model, &state, &mut report, cancel)?;
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

/// What so many questions will take, by name, for a client with the model that `model` returns. Sends no keys and no
/// queries.
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
