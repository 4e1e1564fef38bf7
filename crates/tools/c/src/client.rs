//! The client that a handle stands for, and what it makes.

use std::io::{self, BufWriter, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, TryLockError};

use prost::Message;
use unspoken_pir::{Answer, Description, EncodedQuestion, PirClient, PirError, PirOptions, Question};
use unspoken_pir_scheme::{KEY_FORMAT, Mode};
use unspoken_protocol::{ApplicationDescription, ClientHalf, KeyGenerator, NoCounters};
use unspoken_wire::v1::KeyDeclaration;
use zeroize::Zeroizing;

use crate::boundary::{UNSPOKEN_PIR_HASH_BYTES, UNSPOKEN_PIR_SECRET_BYTES};
use crate::counters::UnspokenPirCounters;
use crate::failure::Failure;
use crate::status::UnspokenPirStatus;

/// Maximum length of a chunk of keys, in bytes.
const CHUNK_BYTES: usize = 1 << 16;

/// Distinguishes descriptions of all clients of this process.
static DESCRIPTIONS: AtomicU64 = AtomicU64::new(0);

/// A client of one database of a service.
pub struct UnspokenPirClient {
    opened: Mutex<Option<Opened>>,
    error: Mutex<String>,
}

/// What a client is after it has read a description.
pub(crate) struct Opened {
    half: PirClient,
    options: PirOptions,
    /// The number of its description.
    description: u64,
}

/// A request: questions, and the bytes to send to the service.
pub struct UnspokenPirRequest {
    description: u64,
    questions: Vec<EncodedQuestion>,
    pub(crate) bytes: Vec<u8>,
    /// Length of the answer.
    pub(crate) answer_bytes: usize,
}

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
        let description = Description::read(description, false)?;
        let half =
            PirClient::open(description, options.clone(), secret.map(<[u8; UNSPOKEN_PIR_SECRET_BYTES]>::as_slice))?;
        if secret.is_none() {
            half.begin()?;
        }
        Ok(Opened { half, options, description: next_description() })
    }

    /// Takes up a newer description of the same service. Requests of the earlier one can no longer be read.
    pub(crate) fn update(&mut self, description: &[u8]) -> Result<(), Failure> {
        let now = Description::read(description, false)?;
        let name = |description: &Description| PirClient::secret_name(description, &self.options);
        if name(&now) != name(self.half.description()) {
            return Err(Failure::OtherParameters);
        }
        PirClient::check_change(self.half.description(), &now)?;
        let secret = self.half.secret_bytes()?;
        self.half = PirClient::open(now, self.options.clone(), Some(&secret))?;
        self.description = next_description();
        Ok(())
    }

    /// The secret, to store.
    pub(crate) fn secret(&self) -> Result<Zeroizing<Vec<u8>>, Failure> {
        Ok(self.half.secret_bytes()?)
    }

    /// Bytes of the evaluation keys.
    pub(crate) fn key_bytes(&self) -> u64 {
        self.half.key_bytes()
    }

    /// Makes evaluation keys, passes them to `write` in chunks, and returns their hash.
    pub(crate) fn write_keys(&self, write: impl FnMut(&[u8]) -> i32) -> Result<[u8; UNSPOKEN_PIR_HASH_BYTES], Failure> {
        let mut out = BufWriter::with_capacity(CHUNK_BYTES, Hashing { write, hasher: blake3::Hasher::new(), found: 0 });
        let written = self.half.write_keys(&mut out, |_, _| (), &AtomicBool::new(false));
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
        self.half.batch()
    }

    /// Encrypts questions.
    pub(crate) fn ask(&mut self, questions: &[Question]) -> Result<UnspokenPirRequest, Failure> {
        let most = self.most_questions();
        if !(1..=most).contains(&questions.len()) {
            let (found, needed) = (format!("{} questions", questions.len()), format!("1 to {most}"));
            return Err(Failure::Argument { what: "ask", found, needed });
        }
        let encoded = self.half.encode(questions)?;
        let bytes = self.half.query(&encoded)?;
        let answer_bytes = self.half.answer_bytes(questions.len());
        Ok(UnspokenPirRequest { description: self.description, questions: encoded, bytes, answer_bytes })
    }

    /// Checks everything in the answer to a request that can be checked without the secret.
    pub(crate) fn check_answer(&self, request: &UnspokenPirRequest, answer: &[u8]) -> Result<(), Failure> {
        if request.description != self.description {
            return Err(Failure::OtherRequest);
        }
        Ok(self.half.check_answer(answer, request.questions.len())?)
    }

    /// Checks and decrypts the answer to a request.
    pub(crate) fn read(&self, request: &UnspokenPirRequest, answer: &[u8]) -> Result<UnspokenPirRecords, Failure> {
        self.check_answer(request, answer)?;
        let answers = self.half.read(answer, &request.questions).map_err(Failure::Decrypted)?;
        Ok(UnspokenPirRecords { answers })
    }
}

fn next_description() -> u64 {
    DESCRIPTIONS.fetch_add(1, Ordering::Relaxed)
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
    use unspoken_pir_scheme::{Layout, Length, Preset, TableKind, Tables};

    use super::*;

    #[test]
    fn a_panic_becomes_an_error_and_closes_the_client() {
        let client = UnspokenPirClient::new();
        let layout = Layout::Index { records: 50, length: Length::Fixed(4) };
        let tables = Tables::new(&Preset::N11.build().unwrap(), layout, TableKind::Transformed).unwrap();
        let description = Description::new(&tables).unwrap().to_bytes();
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
