//! A client half with its keys in place: made once, uploaded once, found again.

use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Instant;

use unspoken_classify::ClassifyError;
use unspoken_digits::DigitsError;
use unspoken_embed::EmbedError;
use unspoken_files::create_private_file;
use unspoken_protocol::{ClientHalf, Described, Failure, ProtocolError};
use unspoken_retrieve::RetrieveError;
use unspoken_wire::ProblemCode;
use unspoken_wire::v1::KeyState;

use crate::state::{StateDir, Uploaded};
use crate::transport::{self, Cancel, KeyId, Progress, Transport};

/// Bytes that travelled and seconds that passed, since the client was made.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// Messages, tokens, images or records asked about.
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
    /// Asking.
    Asking {
        /// What is done there, for instance "classifying".
        work: &'static str,
        /// Messages, tokens, images or records answered.
        done: usize,
        /// How many were asked about.
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
    /// Keys, or two sides that do not fit.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// A classification.
    #[error(transparent)]
    Classify(#[from] ClassifyError),
    /// An embedding lookup.
    #[error(transparent)]
    Embed(#[from] EmbedError),
    /// A recognition of digits.
    #[error(transparent)]
    Digits(#[from] DigitsError),
    /// A retrieval.
    #[error(transparent)]
    Retrieve(#[from] RetrieveError),
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
            ClientError::Protocol(error) => error.is_interrupted(),
            ClientError::Classify(error) => error.is_interrupted(),
            ClientError::Embed(error) => error.is_interrupted(),
            ClientError::Digits(error) => error.is_interrupted(),
            ClientError::Retrieve(error) => error.is_interrupted(),
            _ => false,
        }
    }
}

/// Whom long work tells, and what stops it.
pub(crate) struct Watch<'a> {
    pub(crate) progress: &'a mut dyn FnMut(Step),
    pub(crate) cancel: &'a Cancel,
}

/// A half whose keys the service has.
pub(crate) struct Session<H> {
    pub(crate) half: H,
    pub(crate) key: KeyId,
    /// Bytes and seconds of the keys.
    pub(crate) usage: Usage,
}

impl<H: ClientHalf> Session<H>
where
    ClientError: From<H::Error>,
{
    /// Makes the half, from the stored secret key if there is one, and sees to it that the service has its keys.
    pub(crate) fn open(
        transport: &Transport,
        application: &str,
        model: H::Model,
        state: &StateDir,
        accept_insecure: bool,
        watch: &mut Watch,
    ) -> Result<Self, ClientError> {
        let offer = transport.describe(application, watch.cancel)?;
        let description = H::Description::read(&offer.description, accept_insecure).map_err(H::Error::from)?;
        let name = H::secret_name(&description, &model);
        let at = |source| ClientError::State { path: state.path().display().to_string(), source };
        let start = Instant::now();
        // Two processes that make keys here at once would mix theirs.
        let lock = state.lock(watch.cancel).map_err(|error| match error.kind() {
            std::io::ErrorKind::Interrupted => transport::Error::Cancelled.into(),
            _ => at(error),
        })?;
        let entry = state.entry(&name);
        let stored = entry.secret().map_err(at)?;
        let half = H::open(description, model, stored.as_ref().map(|secret| secret.as_slice()))?;
        let secret = half.secret_bytes().map_err(H::KeyError::into)?;
        let made_for = half.keys_are_for(&offer.description);
        if stored.is_none() {
            entry.store_secret(&secret).map_err(at)?;
        }
        let mut usage = Usage::default();
        let known = entry.uploaded().map_err(at)?.filter(|uploaded| uploaded.fits(&secret, &made_for));
        let key = match find_uploaded(transport, known, watch.cancel)? {
            Some(key) => key,
            None => {
                let bundle = entry.bundle(&secret, &made_for);
                write_bundle(&half, &bundle, watch)?;
                let key = upload_bundle(transport, application, offer.limits.key_format, &bundle, watch)?;
                let uploaded = Uploaded::new(key.as_str(), &secret, &made_for);
                entry.store_uploaded(&uploaded).map_err(at)?;
                usage.key_bytes = half.key_bytes();
                key
            }
        };
        drop(lock);
        usage.key_seconds = start.elapsed().as_secs_f64();
        Ok(Self { half, key, usage })
    }
}

/// Writes the bundle to a private file, unless an earlier attempt left it whole.
fn write_bundle<H: ClientHalf>(half: &H, path: &Path, watch: &mut Watch) -> Result<(), ClientError>
where
    ClientError: From<H::Error>,
{
    let at = |source| ClientError::State { path: path.display().to_string(), source };
    if path.exists() {
        return Ok(());
    }
    let unfinished = path.with_extension("part");
    let mut file = BufWriter::new(create_private_file(&unfinished).map_err(at)?);
    let report = |done, total| (watch.progress)(Step::MakingKeys { done, total });
    half.write_keys(&mut file, report, watch.cancel.flag()).map_err(H::KeyError::into)?;
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
    watch: &mut Watch,
) -> Result<KeyId, ClientError> {
    let at = |source| ClientError::State { path: path.display().to_string(), source };
    let mut file = std::fs::File::open(path).map_err(at)?;
    let report = |sent| (watch.progress)(Step::Uploading(sent));
    let uploaded = transport.upload_keys(application, key_format, &mut file, report, watch.cancel);
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
