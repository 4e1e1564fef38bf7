//! Connecting to an application: opens the client half, makes and uploads its keys once, and finds them again.

use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Instant;

use bytes::Bytes;
use unspoken_files::create_private_file;
use unspoken_protocol::{ApplicationDescription, ClientHalf, application_kind};
use unspoken_wire::ProblemCode;
use unspoken_wire::v1::{KeyState, Limits};
use zeroize::Zeroizing;

use crate::cost::Cost;
use crate::error::ClientError;
use crate::progress::{CallControl, Progress, UsageStats};
use crate::state::{HeldLock, KeySetFiles, StateDir, Uploaded, remove_if_there};
use crate::transport::{self, Cancel, KeyId, Transport};

/// The application to connect to, and the client's model and state.
pub(crate) struct Target<H: ClientHalf> {
    transport: Transport,
    application: String,
    model: H::Model,
    state: StateDir,
    accept_insecure: bool,
}

/// The bundles that a client may use.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bundle {
    /// Any bundle with the application's keys, also a bundle that other applications share.
    Shared,
    /// A bundle with the application's keys alone.
    Own,
}

/// A client half whose keys the service has.
pub(crate) struct Connected<H> {
    pub(crate) half: H,
    pub(crate) key: KeyId,
    /// Whether the bundle has more keys than the application needs.
    pub(crate) surplus: bool,
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

    /// Opens the client's half, with the stored secret key if there is one. Then uploads evaluation keys, unless the
    /// service already has a bundle of that secret with all the keys that are needed; with `Bundle::Own`, a bundle with
    /// these keys and no others. The bound of the error is at least the bound of the `earlier` description.
    pub(crate) fn connect(
        &self,
        earlier: Option<&H::Description>,
        bundle: Bundle,
        control: &mut CallControl,
    ) -> Result<Connected<H>, ClientError> {
        let described = self.describe(control.cancel)?;
        let mut description = self.read(&described.description)?;
        if let Some(earlier) = earlier {
            description.keep_from(earlier);
        }
        let at = ClientError::at(self.state.path());
        let files = self.state.key_set(H::secret_name(&description, &self.model));
        let start = Instant::now();
        let lock = locked(&self.state, &files, control.cancel)?;
        self.check_change(&description)?;
        let (mut half, secret) = open_stored::<H>(&self.state, &files, description, self.model.clone())?;
        self.accept(&described.description)?;
        let held = self.still_held(files.uploaded().map_err(at)?, &secret, control.cancel)?;
        let alone = half.bundle_contents();
        let serves = |held: &Uploaded| match bundle {
            Bundle::Shared => half.is_covered_by(&held.contents),
            Bundle::Own => held.contents == alone,
        };
        let mut usage = UsageStats::default();
        let uploaded = match held.iter().find(|held| serves(held)) {
            Some(found) => {
                files.remove_stale_bundles(Path::new("")).map_err(at)?;
                files.store_uploaded(found).map_err(at)?;
                found.clone()
            }
            None => {
                let shared = held.first().filter(|_| bundle == Bundle::Shared);
                let uploaded = self.upload(&mut half, &files, &secret, shared, &described.limits, control)?;
                usage.key_bytes = half.key_bytes();
                uploaded
            }
        };
        drop(lock);
        usage.key_seconds = start.elapsed().as_secs_f64();
        let key = KeyId::parse(&uploaded.id).map_err(|_| at(io::ErrorKind::InvalidData.into()))?;
        let surplus = uploaded.contents != alone;
        Ok(Connected { half, key, surplus, described: described.description, usage })
    }

    /// The bytes that `questions` questions will take, and the bytes of the keys if the service does not have them.
    /// Makes and stores nothing.
    pub(crate) fn cost(&self, questions: usize, cancel: &Cancel) -> Result<Cost, ClientError> {
        let described = self.describe(cancel)?;
        let description = self.read(&described.description)?;
        let at = ClientError::at(self.state.path());
        let files = self.state.key_set(H::secret_name(&description, &self.model));
        let stored = files.secret().map_err(at)?;
        let mut half = opened::<H>(&files, description, self.model.clone(), stored.as_deref())?;
        let secret = half.secret_bytes().map_err(of_key_error::<H>)?;
        let held = self.still_held(files.uploaded().map_err(at)?, &secret, cancel)?;
        if held.iter().any(|held| half.is_covered_by(&held.contents)) {
            return Ok(Cost { key_bytes: 0, ..Cost::of_questions(&half, questions) });
        }
        if let Some(shared) = held.first() {
            half.set_shared_keys(&shared.contents, described.limits.max_key_bytes);
        }
        Ok(Cost { key_bytes: half.key_bytes(), ..Cost::of_questions(&half, questions) })
    }

    /// The application as the service describes it; it is of this client's kind.
    fn describe(&self, cancel: &Cancel) -> Result<transport::DescribedApplication, ClientError> {
        let described = self.transport.describe(&self.application, cancel)?;
        let needed = H::Description::PROTOCOL.kind;
        match application_kind(&described.description) {
            Some(found) if found != needed => Err(ClientError::OtherKind {
                url: self.transport.url().into(),
                application: self.application.clone(),
                found: found.into(),
                needed,
            }),
            // One without a kind is refused when it is read.
            _ => Ok(described),
        }
    }

    /// Makes and uploads a bundle with the keys of this application and the keys of a `shared` bundle that the service
    /// has. The new bundle serves the applications of both and replaces the shared one. If the service has no room for
    /// it, the new bundle has this application's keys alone. Records the new bundle.
    fn upload(
        &self,
        half: &mut H,
        files: &KeySetFiles<'_>,
        secret: &[u8],
        shared: Option<&Uploaded>,
        limits: &Limits,
        control: &mut CallControl,
    ) -> Result<Uploaded, ClientError> {
        let at = ClientError::at(self.state.path());
        let mut replaced = shared.filter(|shared| half.set_shared_keys(&shared.contents, limits.max_key_bytes));
        loop {
            let contents = half.bundle_contents();
            let bundle = files.bundle(secret, &contents);
            files.remove_stale_bundles(&bundle).map_err(at)?;
            (control.progress)(Progress::KeysToSend { bytes: half.key_bytes() });
            write_bundle(half, &bundle, control)?;
            match self.upload_bundle(limits.key_format, &bundle, control) {
                Ok(key) => {
                    let uploaded = Uploaded::new(key.as_str(), secret, &contents);
                    files.store_uploaded(&uploaded).map_err(at)?;
                    if let Some(old) = replaced {
                        files.replace_uploaded(&old.id, &uploaded).map_err(at)?;
                        // If this fails, it expires.
                        let _ = KeyId::parse(&old.id).map(|old| self.transport.delete_key(&old, control.cancel));
                    }
                    return Ok(uploaded);
                }
                Err(error) if replaced.is_some() && is_too_large(&error) => {
                    half.set_shared_keys(&[], 0);
                    replaced = None;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The recorded bundles of this secret that the service still has.
    fn still_held(&self, known: Vec<Uploaded>, secret: &[u8], cancel: &Cancel) -> Result<Vec<Uploaded>, ClientError> {
        let mut held = Vec::new();
        for uploaded in known.into_iter().filter(|uploaded| uploaded.is_of(secret)) {
            let Ok(key) = KeyId::parse(&uploaded.id) else { continue };
            match self.transport.key_status(&key, cancel) {
                Ok(status) if status.state() == KeyState::Ready => held.push(uploaded),
                Ok(_) => {}
                Err(transport::Error::Refused(problem)) if problem.known_code() == Some(ProblemCode::KeyNotFound) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(held)
    }

    /// Whether the service's description of the application differs from `known`.
    pub(crate) fn has_changed(&self, known: &[u8], cancel: &Cancel) -> Result<bool, ClientError> {
        Ok(self.transport.describe(&self.application, cancel)?.description != known)
    }

    /// Sends a query and waits for an answer of at most `most` bytes.
    pub(crate) fn ask(
        &self,
        key: &KeyId,
        query: Vec<u8>,
        most: usize,
        control: &mut CallControl,
    ) -> Result<Bytes, ClientError> {
        let report = |done, total| (control.progress)(Progress::Answering { done, total });
        Ok(self.transport.ask_with_progress(&self.application, key, query, most, report, control.cancel)?)
    }

    fn read(&self, description: &[u8]) -> Result<H::Description, ClientError> {
        let read = H::Description::read(description, self.accept_insecure);
        read.map_err(|error| ClientError::of_application(H::Error::from(error)))
    }

    /// Refuses a description that must not follow the last description that a client with this state accepted.
    fn check_change(&self, now: &H::Description) -> Result<(), ClientError> {
        // A description that cannot be read belongs to another version.
        if let Some(earlier) = self.accepted()?.as_deref().and_then(|earlier| self.read(earlier).ok()) {
            H::check_change(&earlier, now).map_err(ClientError::of_application)?;
        }
        Ok(())
    }

    /// Stores a description that the client half has accepted.
    fn accept(&self, description: &[u8]) -> Result<(), ClientError> {
        match self.accepted()?.as_deref() == Some(description) {
            true => Ok(()),
            false => self.state.store_description(description).map_err(ClientError::at(self.state.path())),
        }
    }

    /// The last description that a client with this state accepted.
    fn accepted(&self) -> Result<Option<Vec<u8>>, ClientError> {
        self.state.description().map_err(ClientError::at(self.state.path()))
    }

    /// Uploads the bundle file. The file is kept if another attempt may send the same bytes and resume.
    fn upload_bundle(&self, key_format: u32, path: &Path, control: &mut CallControl) -> Result<KeyId, ClientError> {
        let at = ClientError::at(path);
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

/// Locks the files of a key set: two processes that make keys at the same time would mix them.
pub(crate) fn locked(state: &StateDir, files: &KeySetFiles<'_>, cancel: &Cancel) -> Result<HeldLock, ClientError> {
    files.lock(cancel).map_err(|source| match source.kind() {
        io::ErrorKind::Interrupted => transport::Error::Cancelled.into(),
        _ => ClientError::at(state.path())(source),
    })
}

/// Opens the half with the stored secret key, or with a new one, which is then stored. The files must be locked.
pub(crate) fn open_stored<H: ClientHalf>(
    state: &StateDir,
    files: &KeySetFiles<'_>,
    description: H::Description,
    model: H::Model,
) -> Result<(H, Zeroizing<Vec<u8>>), ClientError> {
    let at = ClientError::at(state.path());
    let stored = files.secret().map_err(at)?;
    let half = opened::<H>(files, description, model, stored.as_deref())?;
    let secret = half.secret_bytes().map_err(of_key_error::<H>)?;
    if stored.is_none() {
        half.begin().map_err(ClientError::of_application)?;
        files.store_secret(&secret).map_err(at)?;
    }
    Ok((half, secret))
}

/// Opens the half with the stored secret key, if there is one.
fn opened<H: ClientHalf>(
    files: &KeySetFiles<'_>,
    description: H::Description,
    model: H::Model,
    stored: Option<&Vec<u8>>,
) -> Result<H, ClientError> {
    let Some(stored) = stored else {
        return H::open(description, model, None).map_err(ClientError::of_application);
    };
    H::open(description.clone(), model.clone(), Some(stored)).map_err(|error| {
        // If it opens without the stored key, the key is at fault.
        match H::open(description, model, None) {
            Ok(_) => {
                let path = files.secret_path().display().to_string();
                ClientError::SecretKey { path, reason: Box::new(error) }
            }
            Err(_) => ClientError::of_application(error),
        }
    })
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

/// Whether the service will never accept so large a bundle.
fn is_too_large(error: &ClientError) -> bool {
    let ClientError::Transport(transport::Error::Refused(problem)) = error else { return false };
    let codes = [ProblemCode::TooLarge, ProblemCode::MemoryFull, ProblemCode::StorageFull, ProblemCode::TooManyKeys];
    problem.retry_after.is_none() && problem.known_code().is_some_and(|code| codes.contains(&code))
}

pub(crate) fn of_key_error<H: ClientHalf>(error: H::KeyError) -> ClientError {
    let error: H::Error = error.into();
    ClientError::of_application(error)
}

/// Writes the bundle to a private file, unless an earlier attempt completed it.
fn write_bundle<H: ClientHalf>(half: &H, path: &Path, control: &mut CallControl) -> Result<(), ClientError> {
    let at = ClientError::at(path);
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
    let at = ClientError::at(path);
    let mut file = BufWriter::new(create_private_file(path).map_err(at)?);
    let report = |done, total| (control.progress)(Progress::MakingKeys { done, total });
    half.write_keys(&mut file, report, control.cancel.flag()).map_err(of_key_error::<H>)?;
    file.flush().map_err(at)
}
