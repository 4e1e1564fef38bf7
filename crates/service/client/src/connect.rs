//! Connecting to an application: opens the client half, makes and uploads its keys once, and finds them again.

use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Instant;

use bytes::Bytes;
use unspoken_files::create_private_file;
use unspoken_protocol::{ApplicationDescription, ClientHalf, application_kind};
use unspoken_wire::ProblemCode;
use unspoken_wire::v1::KeyState;

use crate::cost::Cost;
use crate::error::ClientError;
use crate::progress::{CallControl, Progress, UsageStats};
use crate::state::{StateDir, Uploaded};
use crate::transport::{self, Cancel, KeyId, Transport};

/// The application to connect to, and the client's model and state.
pub(crate) struct Target<H: ClientHalf> {
    transport: Transport,
    application: String,
    model: H::Model,
    state: StateDir,
    accept_insecure: bool,
}

/// A client half whose keys the service has.
pub(crate) struct Connected<H> {
    pub(crate) half: H,
    pub(crate) key: KeyId,
    /// The bytes of the description.
    pub(crate) described: Vec<u8>,
    /// Bytes and seconds of the keys.
    pub(crate) usage: UsageStats,
}

impl<H: ClientHalf> Target<H> {
    pub(crate) fn new(
        transport: Transport,
        application: &str,
        model: H::Model,
        state: &StateDir,
        accept_insecure: bool,
    ) -> Self {
        Target { transport, application: application.into(), model, state: state.clone(), accept_insecure }
    }

    /// Opens the half, with the stored secret key if there is one, and uploads its keys if the service does not have
    /// them. The bound of the error does not fall below that of an `earlier` description.
    pub(crate) fn connect(
        &self,
        earlier: Option<&H::Description>,
        control: &mut CallControl,
    ) -> Result<Connected<H>, ClientError> {
        let offer = self.describe(control.cancel)?;
        let mut description = self.read(&offer.description)?;
        if let Some(earlier) = earlier {
            description.keep_error_bound(earlier);
        }
        let name = H::secret_name(&description, &self.model);
        let at = |source| ClientError::State { path: self.state.path().display().to_string(), source };
        let start = Instant::now();
        // Two processes that make keys here at the same time would mix their files.
        let lock = self.state.lock(control.cancel).map_err(|error| match error.kind() {
            io::ErrorKind::Interrupted => transport::Error::Cancelled.into(),
            _ => at(error),
        })?;
        self.check_change(&description, &offer.description)?;
        let entry = self.state.entry(&name);
        let stored = entry.secret().map_err(at)?;
        let half = H::open(description, self.model.clone(), stored.as_ref().map(|secret| secret.as_slice()))
            .map_err(ClientError::of_application)?;
        let secret = half.secret_bytes().map_err(of_key_error::<H>)?;
        let made_for = half.keys_are_for(&offer.description);
        if stored.is_none() {
            entry.store_secret(&secret).map_err(at)?;
        }
        let mut usage = UsageStats::default();
        let bundle = entry.bundle(&secret, &made_for);
        entry.remove_stale_bundles(&bundle).map_err(at)?;
        let known = entry.uploaded().map_err(at)?.filter(|uploaded| uploaded.fits(&secret, &made_for));
        let key = match find_uploaded(&self.transport, known, control.cancel)? {
            Some(key) => {
                remove_if_there(&bundle).map_err(at)?;
                key
            }
            None => {
                (control.progress)(Progress::KeysToSend { bytes: half.key_bytes() });
                write_bundle(&half, &bundle, control)?;
                let key = self.upload_bundle(offer.limits.key_format, &bundle, control)?;
                let uploaded = Uploaded::new(key.as_str(), &secret, &made_for);
                entry.store_uploaded(&uploaded).map_err(at)?;
                usage.key_bytes = half.key_bytes();
                key
            }
        };
        drop(lock);
        usage.key_seconds = start.elapsed().as_secs_f64();
        Ok(Connected { half, key, described: offer.description, usage })
    }

    /// The bytes that so many questions will take, and those of the keys if the service does not have them. Makes and
    /// stores nothing.
    pub(crate) fn cost(&self, questions: usize, cancel: &Cancel) -> Result<Cost, ClientError> {
        let offer = self.describe(cancel)?;
        let description = self.read(&offer.description)?;
        let at = |source| ClientError::State { path: self.state.path().display().to_string(), source };
        let name = H::secret_name(&description, &self.model);
        let entry = self.state.entry(&name);
        let stored = entry.secret().map_err(at)?;
        let uploaded = entry.uploaded().map_err(at)?;
        let half = H::open(description, self.model.clone(), stored.as_ref().map(|secret| secret.as_slice()))
            .map_err(ClientError::of_application)?;
        let (secret, made_for) =
            (half.secret_bytes().map_err(of_key_error::<H>)?, half.keys_are_for(&offer.description));
        let known = uploaded.filter(|uploaded| uploaded.fits(&secret, &made_for));
        let has_keys = find_uploaded(&self.transport, known, cancel)?.is_some();
        let key_bytes = if has_keys { 0 } else { half.key_bytes() };
        Ok(Cost { key_bytes, ..Cost::of_questions(&half, questions) })
    }

    /// The description of the application, which is of this client's kind.
    fn describe(&self, cancel: &Cancel) -> Result<transport::Description, ClientError> {
        let offer = self.transport.describe(&self.application, cancel)?;
        let needed = H::Description::PROTOCOL.kind;
        match application_kind(&offer.description) {
            Some(found) if found != needed => Err(ClientError::OtherKind {
                url: self.transport.url().into(),
                application: self.application.clone(),
                found: found.into(),
                needed,
            }),
            // One without a kind is refused when it is read.
            _ => Ok(offer),
        }
    }

    /// Whether the service's description of the application differs from `known`.
    pub(crate) fn has_changed(&self, known: &[u8], cancel: &Cancel) -> Result<bool, ClientError> {
        Ok(self.transport.describe(&self.application, cancel)?.description != known)
    }

    /// Sends a query and waits for an answer of at most `most` bytes.
    pub(crate) fn ask(&self, key: &KeyId, query: Vec<u8>, most: usize, cancel: &Cancel) -> Result<Bytes, ClientError> {
        Ok(self.transport.ask_at_most(&self.application, key, query, most, cancel)?)
    }

    fn read(&self, description: &[u8]) -> Result<H::Description, ClientError> {
        let read = H::Description::read(description, self.accept_insecure);
        read.map_err(|error| ClientError::of_application(H::Error::from(error)))
    }

    /// Refuses a description that must not follow the last one that a client with this state accepted, and stores an
    /// accepted one.
    fn check_change(&self, now: &H::Description, bytes: &[u8]) -> Result<(), ClientError> {
        let at = |source| ClientError::State { path: self.state.path().display().to_string(), source };
        let stored = self.state.description().map_err(at)?;
        // A description that cannot be read belongs to another version.
        if let Some(earlier) = stored.as_deref().and_then(|earlier| self.read(earlier).ok()) {
            H::check_change(&earlier, now).map_err(ClientError::of_application)?;
        }
        if stored.as_deref() != Some(bytes) {
            self.state.store_description(bytes).map_err(at)?;
        }
        Ok(())
    }

    /// Uploads the bundle file. The file is kept if another attempt may send the same bytes and resume.
    fn upload_bundle(&self, key_format: u32, path: &Path, control: &mut CallControl) -> Result<KeyId, ClientError> {
        let at = |source| ClientError::State { path: path.display().to_string(), source };
        let mut file = std::fs::File::open(path).map_err(at)?;
        let report = |sent| (control.progress)(Progress::Uploading(sent));
        let uploaded = self.transport.upload_keys(&self.application, key_format, &mut file, report, control.cancel);
        let resumable = uploaded.as_ref().is_err_and(may_resume);
        if !resumable {
            remove_if_there(path).map_err(at)?;
        }
        Ok(uploaded?)
    }
}

/// Whether a failed upload can be resumed.
fn may_resume(error: &transport::Error) -> bool {
    use transport::Error;
    match error {
        Error::Unreachable { .. } | Error::TimedOut { .. } | Error::GaveUp { .. } | Error::Cancelled => true,
        // Not accepted now, but the bytes are valid.
        Error::Refused(problem) => problem.retry_after.is_some(),
        _ => false,
    }
}

fn of_key_error<H: ClientHalf>(error: H::KeyError) -> ClientError {
    let error: H::Error = error.into();
    ClientError::of_application(error)
}

/// Writes the bundle to a private file, unless an earlier attempt completed it.
fn write_bundle<H: ClientHalf>(half: &H, path: &Path, control: &mut CallControl) -> Result<(), ClientError> {
    let at = |source| ClientError::State { path: path.display().to_string(), source };
    if path.exists() {
        return Ok(());
    }
    let unfinished = path.with_extension("part");
    let written = write_unfinished(half, &unfinished, control);
    if written.is_err() {
        // The first error is the one to report.
        let _ = remove_if_there(&unfinished);
    }
    written?;
    std::fs::rename(&unfinished, path).map_err(at)
}

fn write_unfinished<H: ClientHalf>(half: &H, path: &Path, control: &mut CallControl) -> Result<(), ClientError> {
    let at = |source| ClientError::State { path: path.display().to_string(), source };
    let mut file = BufWriter::new(create_private_file(path).map_err(at)?);
    let report = |done, total| (control.progress)(Progress::MakingKeys { done, total });
    half.write_keys(&mut file, report, control.cancel.flag()).map_err(of_key_error::<H>)?;
    file.flush().map_err(at)
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
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
