//! Uploading a key bundle, starting at the offset that the service has.

use std::io::{Read, Seek, SeekFrom};
use std::time::Instant;

use bytes::Bytes;
use reqwest::Method;
use unspoken_wire::http::KEYS_PATH;
use unspoken_wire::v1::{KeyDeclaration, KeyState, KeyStatus};
use unspoken_wire::{Message, ProblemCode};

use super::{Cancel, Error, KeyId, Outgoing, Transport, UnreachableCause, Watch, key_path, read};

/// Number of chunks sent in a row without progress, and number of times that a bundle may be sent in all, after which
/// the upload fails: a service must not be able to make a client upload for ever.
const MAX_REPETITIONS: u64 = 16;

/// Progress of an upload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UploadProgress {
    /// Computing the checksum.
    Hashing {
        /// Bytes read.
        done: u64,
        /// Bytes of the bundle.
        total: u64,
    },
    /// Sending.
    Sending {
        /// Bytes the service has.
        done: u64,
        /// Bytes of the bundle.
        total: u64,
    },
    /// The service checks the bundle.
    Checking,
}

impl Transport {
    /// Uploads a key bundle in `key_format` and returns its id once the service has checked and stored it.
    ///
    /// Resuming needs no stored state: the service identifies a bundle by its checksum. So calling this again with the
    /// same bytes, also from another process, continues at the offset that the service has, or returns at once if it
    /// has all. Uploads resume after lost connections within one call too.
    ///
    /// # Errors
    /// [`Error::Source`] if the bundle cannot be read, [`Error::Refused`] if the application rejects it, or an error of
    /// any call.
    pub fn upload_keys(
        &self,
        application: &str,
        key_format: u32,
        bundle: &mut (impl Read + Seek),
        mut progress: impl FnMut(UploadProgress),
        cancel: &Cancel,
    ) -> Result<KeyId, Error> {
        let (length, hash) = hash(bundle, &mut progress, cancel)?;
        let declaration =
            KeyDeclaration { application: application.into(), key_format, length, blake3: hash.as_bytes().to_vec() };
        let outgoing = Outgoing::new(Method::POST, KEYS_PATH).with_body(declaration.encode_to_vec().into());
        let status = read::<KeyStatus>(&self.control(outgoing, cancel)?)?;
        let id = KeyId::parse(&status.id)?;
        if status.state() == KeyState::Ready {
            return Ok(id);
        }
        self.send_from(&id, status.offset, length, bundle, &mut progress, cancel)?;
        progress(UploadProgress::Checking);
        let outgoing = Outgoing::new(Method::POST, format!("{}/complete", key_path(&id)))
            .expecting(super::Expect::Control, self.config.answer_timeout);
        self.control(outgoing, cancel)?;
        Ok(id)
    }

    fn send_from(
        &self,
        id: &KeyId,
        mut offset: u64,
        length: u64,
        bundle: &mut (impl Read + Seek),
        progress: &mut impl FnMut(UploadProgress),
        cancel: &Cancel,
    ) -> Result<(), Error> {
        let mut pauses = self.pauses();
        let (mut without_progress, mut sent) = (0, 0);
        let most = MAX_REPETITIONS.saturating_mul(length.max(self.config.chunk_bytes as u64));
        progress(UploadProgress::Sending { done: offset, total: length });
        while offset < length {
            let chunk = self.read_chunk(bundle, offset, length)?;
            sent += chunk.len() as u64;
            let outgoing = Outgoing::new(Method::PATCH, key_path(id)).with_body(chunk).at_offset(offset);
            let began = Instant::now();
            let mut watch = Watch { progress: &mut |_, _| {}, was_held: false };
            let have = match self.connection.send(&outgoing, pauses.left(), &mut watch, cancel) {
                Ok(answer) => read::<KeyStatus>(&answer)?.offset,
                Err(error) => {
                    let error = if may_resume(&error) { lost(error) } else { error };
                    pauses.after(error, began, cancel)?;
                    self.key_status(id, cancel)?.offset
                }
            };
            if have > length {
                return Err(Error::protocol(format!("the service has {have} bytes of {length}")));
            }
            if have > offset {
                (pauses, without_progress) = (self.pauses(), 0);
                progress(UploadProgress::Sending { done: have, total: length });
            } else {
                without_progress += 1;
            }
            if without_progress == MAX_REPETITIONS || sent > most {
                let reason = format!("after {sent} bytes of an upload the service has {have} of {length}");
                return Err(Error::protocol(reason));
            }
            offset = have;
        }
        Ok(())
    }

    fn read_chunk(&self, bundle: &mut (impl Read + Seek), offset: u64, length: u64) -> Result<Bytes, Error> {
        let count = (length - offset).min(self.config.chunk_bytes.max(1) as u64);
        bundle.seek(SeekFrom::Start(offset)).map_err(Error::Source)?;
        let mut chunk = vec![0; count as usize];
        bundle.read_exact(&mut chunk).map_err(Error::Source)?;
        Ok(chunk.into())
    }
}

/// Whether the service may have part of the chunk, so that continuing at its offset helps.
fn may_resume(error: &Error) -> bool {
    let stalled = [ProblemCode::OffsetMismatch, ProblemCode::BodyTimeout];
    matches!(error, Error::TimedOut { .. }) || error.code().is_some_and(|c| stalled.contains(&c))
}

/// The same failure, marked as one after which to try again.
fn lost(error: Error) -> Error {
    match error {
        Error::Refused(mut problem) => {
            problem.retry_after.get_or_insert_default();
            Error::Refused(problem)
        }
        Error::TimedOut { url, after } => Error::Unreachable { url, cause: UnreachableCause::Silent(after) },
        other => other,
    }
}

fn hash(
    bundle: &mut (impl Read + Seek),
    progress: &mut impl FnMut(UploadProgress),
    cancel: &Cancel,
) -> Result<(u64, blake3::Hash), Error> {
    let total = bundle.seek(SeekFrom::End(0)).map_err(Error::Source)?;
    bundle.seek(SeekFrom::Start(0)).map_err(Error::Source)?;
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 1 << 20];
    let mut done = 0;
    loop {
        cancel.check()?;
        let count = bundle.read(&mut buffer).map_err(Error::Source)?;
        if count == 0 {
            return Ok((done, hasher.finalize()));
        }
        hasher.update(&buffer[..count]);
        done += count as u64;
        progress(UploadProgress::Hashing { done, total });
    }
}
