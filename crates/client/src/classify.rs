//! Asking a text classifier: keys once, then messages in and labels out.

use std::{
    io::{BufWriter, Write},
    path::Path,
    time::Instant,
};

use unspoken_classify::{Asker, Classified, ClassifyError, Description};
use unspoken_fasttext as fasttext;
use unspoken_wire::{ProblemCode, v1::KeyState};

use crate::{
    state::{StateDir, Uploaded, private_file},
    transport::{self, Cancel, KeyId, Progress, Transport},
};

/// A client of one classifier of one service, its keys made and uploaded.
pub struct ClassifyClient {
    transport: Transport,
    application: String,
    asker: Asker,
    key: KeyId,
    usage: Usage,
}

/// Bytes that travelled and seconds that passed, since the client was made.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// Messages asked about.
    pub messages: usize,
    /// Bytes of the key bundle; 0 if the service had it already.
    pub key_bytes: u64,
    /// Bytes of all queries.
    pub query_bytes: u64,
    /// Bytes of all answers.
    pub answer_bytes: u64,
    /// Seconds making and uploading keys.
    pub key_seconds: f64,
    /// Seconds encrypting and decrypting here.
    pub client_seconds: f64,
    /// Seconds waiting for the service.
    pub server_seconds: f64,
}

/// How far long work is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// Making switching keys.
    MakingKeys {
        /// Keys made.
        done: usize,
        /// Keys to make.
        total: usize,
    },
    /// Uploading them.
    Uploading(Progress),
    /// Classifying.
    Classifying {
        /// Messages answered.
        done: usize,
        /// Messages asked.
        total: usize,
    },
}

/// Why asking failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The service or the way to it.
    #[error(transparent)]
    Transport(#[from] transport::Error),
    /// The cryptography, or two sides that do not fit.
    #[error(transparent)]
    Classify(#[from] ClassifyError),
    /// The client's own files.
    #[error("client state in {path}: {source}")]
    State {
        /// The directory.
        path: String,
        /// What went wrong.
        source: std::io::Error,
    },
}

impl ClientError {
    /// Whether the caller cancelled.
    pub fn is_cancelled(&self) -> bool {
        match self {
            ClientError::Transport(transport::Error::Cancelled) => true,
            ClientError::Classify(error) => error.is_interrupted(),
            _ => false,
        }
    }
}

impl ClassifyClient {
    /// Connects to an application of a service with the model's client half.
    ///
    /// The secret key and the bundle's id are taken from `state` if they are there and the service still has the bundle;
    /// otherwise keys are made and uploaded, and stored there. An upload that was cut off goes on where it stopped.
    ///
    /// # Errors
    /// [`ClientError`], with what to do about it.
    pub fn connect(
        transport: Transport,
        application: &str,
        words: fasttext::Encoder,
        state: &StateDir,
        progress: &mut dyn FnMut(Step),
        cancel: &Cancel,
    ) -> Result<Self, ClientError> {
        Self::connect_with(transport, application, words, state, progress, cancel, Description::from_bytes)
    }

    /// As [`ClassifyClient::connect`], and accepts insecure presets: for tests.
    ///
    /// # Errors
    /// As for [`ClassifyClient::connect`].
    pub fn insecure_connect(
        transport: Transport,
        application: &str,
        words: fasttext::Encoder,
        state: &StateDir,
        progress: &mut dyn FnMut(Step),
        cancel: &Cancel,
    ) -> Result<Self, ClientError> {
        Self::connect_with(transport, application, words, state, progress, cancel, Description::insecure_from_bytes)
    }

    fn connect_with(
        transport: Transport,
        application: &str,
        words: fasttext::Encoder,
        state: &StateDir,
        progress: &mut dyn FnMut(Step),
        cancel: &Cancel,
        read_description: impl Fn(&[u8]) -> Result<Description, ClassifyError>,
    ) -> Result<Self, ClientError> {
        let offer = transport.describe(application, cancel)?;
        let description = read_description(&offer.description)?;
        let at = |source| ClientError::State { path: state.path().display().to_string(), source };
        let start = Instant::now();
        // Two processes that make keys here at once would mix theirs.
        let lock = state.lock(cancel).map_err(|error| match error.kind() {
            std::io::ErrorKind::Interrupted => transport::Error::Cancelled.into(),
            _ => at(error),
        })?;
        let entry = state.entry(&description.parameters().rlwe().fingerprint().0);
        let asker = match entry.secret().map_err(at)? {
            Some(secret) => Asker::with_secret(description, words, &secret)?,
            None => {
                let asker = Asker::new(description, words)?;
                entry.store_secret(&asker.secret_bytes()?).map_err(at)?;
                asker
            }
        };
        let secret = asker.secret_bytes()?;
        let mut usage = Usage::default();
        let known = entry.uploaded().map_err(at)?.filter(|uploaded| uploaded.fits(&secret, &offer.description));
        let key = match find_uploaded(&transport, known, cancel)? {
            Some(key) => key,
            None => {
                let bundle = entry.bundle(&secret, &offer.description);
                write_bundle(&asker, &bundle, progress, cancel)?;
                let format = offer.limits.key_format;
                let key = upload_bundle(&transport, application, format, &bundle, progress, cancel)?;
                let uploaded = Uploaded::new(key.as_str(), &secret, &offer.description);
                entry.store_uploaded(&uploaded).map_err(at)?;
                usage.key_bytes = asker.key_bytes();
                key
            }
        };
        drop(lock);
        usage.key_seconds = start.elapsed().as_secs_f64();
        Ok(Self { transport, application: application.into(), asker, key, usage })
    }

    /// What the server said of itself.
    pub fn description(&self) -> &Description {
        self.asker.description()
    }

    /// The label names, in the order of the scores.
    pub fn labels(&self) -> &[String] {
        self.asker.labels()
    }

    /// The id of the key bundle at the service.
    pub fn key(&self) -> &KeyId {
        &self.key
    }

    /// Bytes and seconds so far.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Classifies messages without showing them: as many queries as their number takes. `seen` is handed the bytes of
    /// every query as the server sees them.
    ///
    /// # Errors
    /// [`ClientError`]; with `key_not_found` the keys expired: connect again.
    pub fn classify<S: AsRef<str>>(
        &mut self,
        messages: &[S],
        progress: &mut dyn FnMut(Step),
        seen: &mut dyn FnMut(&[u8]),
        cancel: &Cancel,
    ) -> Result<Vec<Classified>, ClientError> {
        let total = messages.len();
        let mut results = Vec::with_capacity(total);
        progress(Step::Classifying { done: 0, total });
        for batch in messages.chunks(self.description().batch()) {
            let start = Instant::now();
            let query = self.asker.query(batch)?;
            seen(&query);
            let encrypted = start.elapsed();
            self.usage.query_bytes += query.len() as u64;
            let answer = self.transport.ask(&self.application, &self.key, query, cancel)?;
            let answered = start.elapsed();
            self.usage.answer_bytes += answer.len() as u64;
            results.extend(self.asker.read(&answer, batch.len())?);
            let read = start.elapsed();
            self.usage.messages += batch.len();
            self.usage.server_seconds += (answered - encrypted).as_secs_f64();
            self.usage.client_seconds += (encrypted + (read - answered)).as_secs_f64();
            progress(Step::Classifying { done: results.len(), total });
        }
        Ok(results)
    }
}

/// Writes the bundle to a private file, unless an earlier attempt left it whole.
fn write_bundle(
    asker: &Asker,
    path: &Path,
    progress: &mut dyn FnMut(Step),
    cancel: &Cancel,
) -> Result<(), ClientError> {
    let at = |source| ClientError::State { path: path.display().to_string(), source };
    if path.exists() {
        return Ok(());
    }
    let unfinished = path.with_extension("part");
    let mut file = BufWriter::new(private_file(&unfinished).map_err(at)?);
    asker.write_keys(&mut file, |done, total| progress(Step::MakingKeys { done, total }), cancel.flag())?;
    file.flush().map_err(at)?;
    std::fs::rename(&unfinished, path).map_err(at)
}

/// Uploads the bundle file. It stays until the service has it, so that another attempt sends the same bytes and goes on
/// where this one stopped; refused bytes are not kept.
fn upload_bundle(
    transport: &Transport,
    application: &str,
    key_format: u32,
    path: &Path,
    progress: &mut dyn FnMut(Step),
    cancel: &Cancel,
) -> Result<KeyId, ClientError> {
    let at = |source| ClientError::State { path: path.display().to_string(), source };
    let mut file = std::fs::File::open(path).map_err(at)?;
    let report = |sent| progress(Step::Uploading(sent));
    let uploaded = transport.upload_keys(application, key_format, &mut file, report, cancel);
    if matches!(&uploaded, Ok(_) | Err(transport::Error::Refused(_))) {
        std::fs::remove_file(path).map_err(at)?;
    }
    Ok(uploaded?)
}

/// The bundle of an earlier run, if the service still has it.
fn find_uploaded(
    transport: &Transport,
    known: Option<Uploaded>,
    cancel: &Cancel,
) -> Result<Option<KeyId>, ClientError> {
    let Some(key) = known.and_then(|uploaded| KeyId::parse(&uploaded.id).ok()) else { return Ok(None) };
    match transport.key_status(&key, cancel) {
        Ok(status) if status.state() == KeyState::Ready => Ok(Some(key)),
        Ok(_) => Ok(None),
        Err(transport::Error::Refused(problem)) if problem.known_code() == Some(ProblemCode::KeyNotFound) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
