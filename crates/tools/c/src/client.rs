//! The client that a handle stands for, and what it makes.

use std::io::{self, BufWriter, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError, TryLockError};

use prost::Message;
use unspoken_pir::{Answer, PirClient, PirError, PirOptions, Question};
use unspoken_pir_scheme::{KEY_FORMAT, Mode};
use unspoken_protocol::{ClientHalf, HalfRequest, KeyGenerator, NoCounters, OpenedHalf};
use unspoken_wire::v1::KeyDeclaration;
use zeroize::Zeroizing;

use crate::counters::UnspokenPirCounters;
use crate::failure::Failure;
use crate::status::UnspokenPirStatus;

/// Bytes of a client's secret.
pub const UNSPOKEN_PIR_SECRET_BYTES: usize = 32;

/// Bytes of the BLAKE3 hash of evaluation keys.
pub const UNSPOKEN_PIR_HASH_BYTES: usize = 32;

/// Maximum length of a chunk of keys, in bytes.
const CHUNK_BYTES: usize = 1 << 16;

/// A client of one database of a service.
pub struct UnspokenPirClient {
    opened: Mutex<Option<Opened>>,
    error: Mutex<String>,
}

/// What a client is after it has read a description.
pub(crate) struct Opened(OpenedHalf<PirClient>);

/// A request: questions, and the bytes to send to the service.
pub struct UnspokenPirRequest(pub(crate) HalfRequest<PirClient>);

/// Records from an answer.
pub struct UnspokenPirRecords {
    pub(crate) answers: Vec<Answer>,
}

impl UnspokenPirClient {
    pub(crate) fn new() -> Self {
        UnspokenPirClient { opened: Mutex::new(None), error: Mutex::new(String::new()) }
    }

    /// The text of the last error; empty if the last call succeeded.
    pub(crate) fn error(&self) -> String {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Runs `work` on what the client is, unless another call does. Keeps the text of its error. After a panic the
    /// client is not open.
    pub(crate) fn run(&self, work: impl FnOnce(&mut Option<Opened>) -> Result<(), Failure>) -> UnspokenPirStatus {
        let mut opened = match self.opened.try_lock() {
            Ok(opened) => opened,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return UnspokenPirStatus::Busy,
        };
        let result = catch_unwind(AssertUnwindSafe(|| work(&mut opened))).unwrap_or(Err(Failure::Panicked));
        if result.as_ref().is_err_and(|error| error.status() == UnspokenPirStatus::Internal) {
            *opened = None;
        }
        let (status, text) = match result {
            Ok(()) => (UnspokenPirStatus::Ok, String::new()),
            Err(error) => (error.status(), error.to_string()),
        };
        *self.error.lock().unwrap_or_else(PoisonError::into_inner) = text;
        status
    }
}

impl Opened {
    /// Opens a client of a service's description with a stored secret, or with a new one.
    pub(crate) fn open(
        kind: &str,
        description: &[u8],
        secret: Option<&[u8; UNSPOKEN_PIR_SECRET_BYTES]>,
        counters: Option<UnspokenPirCounters>,
    ) -> Result<Self, Failure> {
        let mode = kind.parse().map_err(|_| Failure::Argument {
            what: "open a client: kind of queries",
            found: format!("{kind:?}"),
            needed: Mode::ALL.map(|mode| mode.to_string()).join(", "),
        })?;
        let options = match (mode, counters) {
            (mode, Some(counters)) => PirOptions::new(mode, counters),
            (Mode::Session, None) => {
                let needed = "functions that store the numbers of session queries; or use another kind".to_owned();
                return Err(Failure::Argument { what: "open a client: counters", found: "none".to_owned(), needed });
            }
            (mode, None) => PirOptions::new(mode, NoCounters),
        };
        let secret = secret.map(<[u8; UNSPOKEN_PIR_SECRET_BYTES]>::as_slice);
        Ok(Opened(OpenedHalf::open(description, options, (secret, None), false)?))
    }

    /// Takes up a newer description of the same service. Requests of the earlier one can no longer be read.
    pub(crate) fn update(&mut self, description: &[u8]) -> Result<(), Failure> {
        Ok(self.0.update(description)?)
    }

    /// The secret, to store.
    pub(crate) fn secret(&self) -> Result<Zeroizing<Vec<u8>>, Failure> {
        Ok(self.0.half().secret_bytes()?)
    }

    /// Bytes of the evaluation keys.
    pub(crate) fn key_bytes(&self) -> u64 {
        self.0.half().key_bytes()
    }

    /// Makes evaluation keys, passes them to `write` in chunks, and returns their hash.
    pub(crate) fn write_keys(&self, write: impl FnMut(&[u8]) -> i32) -> Result<[u8; UNSPOKEN_PIR_HASH_BYTES], Failure> {
        let mut out = BufWriter::with_capacity(CHUNK_BYTES, Hashing { write, hasher: blake3::Hasher::new(), found: 0 });
        let written = self.0.half().write_keys(&mut out, |_, _| (), &AtomicBool::new(false));
        let flushed = out.flush();
        let (hashing, _) = out.into_parts();
        match (hashing.found, written, flushed) {
            (0, written, flushed) => {
                written?;
                flushed.map_err(|source| PirError::Io { what: "write keys", source })?;
                Ok(*hashing.hasher.finalize().as_bytes())
            }
            (found, ..) => Err(Failure::Stopped { found }),
        }
    }

    /// The message that declares keys before they are uploaded, of this length and hash.
    pub(crate) fn key_declaration(&self, application: &str, hash: &[u8; UNSPOKEN_PIR_HASH_BYTES]) -> Vec<u8> {
        let (length, blake3) = (self.key_bytes(), hash.to_vec());
        KeyDeclaration { application: application.to_owned(), key_format: KEY_FORMAT, length, blake3 }.encode_to_vec()
    }

    /// Maximum number of questions of a request.
    pub(crate) fn most_questions(&self) -> usize {
        self.0.half().batch()
    }

    /// Encrypts questions.
    pub(crate) fn ask(&mut self, questions: &[Question]) -> Result<UnspokenPirRequest, Failure> {
        Ok(UnspokenPirRequest(self.0.ask(questions)?))
    }

    /// Checks everything in the answer to a request that can be checked without the secret.
    pub(crate) fn check_answer(&self, request: &UnspokenPirRequest, answer: &[u8]) -> Result<(), Failure> {
        Ok(self.0.check_answer(&request.0, answer)?)
    }

    /// Checks and decrypts the answer to a request.
    pub(crate) fn read(&self, request: &UnspokenPirRequest, answer: &[u8]) -> Result<UnspokenPirRecords, Failure> {
        self.check_answer(request, answer)?;
        let answers = self.0.read(&request.0, answer).map_err(Failure::Decrypted)?;
        Ok(UnspokenPirRecords { answers })
    }
}

/// Passes bytes on to a function and hashes them.
struct Hashing<F> {
    write: F,
    hasher: blake3::Hasher,
    /// What the function returned when it failed; 0 before.
    found: i32,
}

impl<F: FnMut(&[u8]) -> i32> Write for Hashing<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let bytes = bytes.get(..CHUNK_BYTES).unwrap_or(bytes);
        if self.found == 0 {
            self.found = (self.write)(bytes);
        }
        if self.found != 0 {
            return Err(io::Error::other("the callback returned an error"));
        }
        self.hasher.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use unspoken_pir::Description;
    use unspoken_pir_scheme::{Layout, Length, Preset, TableKind, Tables};

    use super::*;

    fn description() -> Vec<u8> {
        let layout = Layout::Index { records: 50, length: Length::Fixed(4) };
        let tables = Tables::new(&Preset::N11.build().unwrap(), layout, TableKind::Transformed).unwrap();
        Description::new(&tables).unwrap().to_bytes()
    }

    #[test]
    fn a_panic_becomes_an_error_and_closes_the_client() {
        let client = UnspokenPirClient::new();
        let description = description();
        let open = |opened: &mut Option<Opened>| {
            *opened = Some(Opened::open("packed", &description, None, None)?);
            Ok(())
        };
        assert_eq!(client.run(open), UnspokenPirStatus::Ok);
        assert_eq!(client.error(), "");
        assert_eq!(client.run(|_| panic!("a bug")), UnspokenPirStatus::Internal);
        assert!(client.error().contains("this library has a bug"), "{}", client.error());
        let closed = |opened: &mut Option<Opened>| if opened.is_none() { Err(Failure::NotOpen) } else { Ok(()) };
        assert_eq!(client.run(closed), UnspokenPirStatus::Argument);
    }

    #[test]
    fn a_request_of_another_client_is_refused() {
        let description = description();
        let open = || Opened::open("packed", &description, None, None).unwrap();
        let (mut one, mut other) = (open(), open());
        let request = one.ask(&[Question::Index(7)]).unwrap();
        let refused = |client: &Opened| {
            let error = client.check_answer(&request, &[]).unwrap_err();
            error.to_string().starts_with("request: found one of another client")
        };
        assert!(refused(&other) && !refused(&one));
        one.update(&description).unwrap();
        assert!(refused(&one));
        let none = other.ask(&[]).err().unwrap();
        assert!(none.to_string().starts_with("number of questions: found 0, needed 1 to "), "{none}");
        assert_eq!(none.status(), UnspokenPirStatus::Argument);
    }

    #[test]
    fn chunks_are_bounded_and_hashed() {
        let mut chunks = Vec::new();
        let write = |bytes: &[u8]| {
            chunks.push(bytes.to_vec());
            0
        };
        let mut hashing = Hashing { write, hasher: blake3::Hasher::new(), found: 0 };
        let bytes: Vec<u8> = (0..3 * CHUNK_BYTES + 5).map(|i| i as u8).collect();
        hashing.write_all(&bytes).unwrap();
        assert_eq!(hashing.hasher.finalize(), blake3::hash(&bytes));
        let lengths: Vec<usize> = chunks.iter().map(Vec::len).collect();
        assert_eq!(lengths, [CHUNK_BYTES, CHUNK_BYTES, CHUNK_BYTES, 5]);
        assert_eq!(chunks.concat(), bytes);
    }
}
