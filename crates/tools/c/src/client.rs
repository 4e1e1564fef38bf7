//! The client that a handle stands for.

use std::any::Any;
use std::io::{self, BufWriter, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError, TryLockError};

use prost::Message;
use unspoken_model::ModelClient;
use unspoken_pir::PirClient;
use unspoken_protocol::{AnyHalf, AnyRequest, ClientHalf, OpenedHalf, Registration};
use unspoken_search::SearchClient;
use unspoken_wire::v1::KeyDeclaration;
use zeroize::Zeroizing;

use crate::failure::{Failure, StatusError};
use crate::status::UnspokenStatus;

/// Bytes of the secret of a client of retrieval or search.
pub const UNSPOKEN_SECRET_BYTES: usize = 32;

/// Bytes of the BLAKE3 hash of evaluation keys.
pub const UNSPOKEN_HASH_BYTES: usize = 32;

/// Maximum length of a chunk of keys, in bytes.
const CHUNK_BYTES: usize = 1 << 16;

/// A client of one application of a service.
pub struct UnspokenClient {
    opened: Mutex<Option<Opened>>,
    error: Mutex<String>,
}

/// An application that C can ask.
pub(crate) trait CApplication: ClientHalf<Error: StatusError, Model: Send> + Send + 'static {
    /// The function that opens its clients.
    const OPEN: &'static str;
    /// Version of the format of its evaluation keys.
    const KEY_FORMAT: u32;
}

impl CApplication for PirClient {
    const OPEN: &'static str = "unspoken_pir_open";
    const KEY_FORMAT: u32 = unspoken_pir_scheme::KEY_FORMAT;
}

impl CApplication for SearchClient {
    const OPEN: &'static str = "unspoken_search_open";
    const KEY_FORMAT: u32 = Registration::KEY_LIMITS.format;
}

impl CApplication for ModelClient {
    const OPEN: &'static str = "unspoken_model_open";
    const KEY_FORMAT: u32 = unspoken_rlwe::FORMAT_VERSION as u32;
}

/// The half of some application.
trait CHalf: Any + Send {
    fn half(&self) -> &dyn AnyHalf;
    fn open_function(&self) -> &'static str;
    fn key_format(&self) -> u32;
    fn update(&mut self, description: &[u8]) -> Result<(), Failure>;
    fn check_answer(&self, request: &AnyRequest, answer: &[u8]) -> Result<(), Failure>;
}

impl<H: CApplication> CHalf for OpenedHalf<H> {
    fn half(&self) -> &dyn AnyHalf {
        self.half()
    }

    fn open_function(&self) -> &'static str {
        H::OPEN
    }

    fn key_format(&self) -> u32 {
        H::KEY_FORMAT
    }

    fn update(&mut self, description: &[u8]) -> Result<(), Failure> {
        Ok(self.update(description)?)
    }

    fn check_answer(&self, request: &AnyRequest, answer: &[u8]) -> Result<(), Failure> {
        Ok(self.check_answer(request.of()?, answer)?)
    }
}

/// What a client is after it has read a description.
pub(crate) struct Opened(Box<dyn CHalf>);

/// A request: questions, and the bytes to send to the service.
pub struct UnspokenRequest(pub(crate) AnyRequest);

impl UnspokenRequest {
    pub(crate) fn new(request: impl Into<AnyRequest>) -> Self {
        UnspokenRequest(request.into())
    }
}

impl UnspokenClient {
    pub(crate) fn new() -> Self {
        UnspokenClient { opened: Mutex::new(None), error: Mutex::new(String::new()) }
    }

    /// The text of the last error; empty if the last call succeeded.
    pub(crate) fn error(&self) -> String {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Runs `work` on what the client is, unless another call does. Keeps the text of its error. After a panic the
    /// client is not open.
    pub(crate) fn run(&self, work: impl FnOnce(&mut Option<Opened>) -> Result<(), Failure>) -> UnspokenStatus {
        let mut opened = match self.opened.try_lock() {
            Ok(opened) => opened,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return UnspokenStatus::Busy,
        };
        let result = catch_unwind(AssertUnwindSafe(|| work(&mut opened))).unwrap_or(Err(Failure::Panicked));
        if result.as_ref().is_err_and(|error| error.status() == UnspokenStatus::Internal) {
            *opened = None;
        }
        let (status, text) = match result {
            Ok(()) => (UnspokenStatus::Ok, String::new()),
            Err(error) => (error.status(), error.to_string()),
        };
        *self.error.lock().unwrap_or_else(PoisonError::into_inner) = text;
        status
    }
}

impl Opened {
    pub(crate) fn new(half: OpenedHalf<impl CApplication>) -> Self {
        Opened(Box::new(half))
    }

    /// The client of this application.
    pub(crate) fn of<H: CApplication>(&mut self) -> Result<&mut OpenedHalf<H>, Failure> {
        let found = self.0.open_function();
        let half: &mut dyn Any = &mut *self.0;
        half.downcast_mut().ok_or(Failure::Kind { found, needed: H::OPEN })
    }

    /// Takes up a newer description of the same service. Requests of the earlier one can no longer be read.
    pub(crate) fn update(&mut self, description: &[u8]) -> Result<(), Failure> {
        self.0.update(description)
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
    pub(crate) fn write_keys(&self, write: impl FnMut(&[u8]) -> i32) -> Result<[u8; UNSPOKEN_HASH_BYTES], Failure> {
        let mut out = BufWriter::with_capacity(CHUNK_BYTES, Hashing { write, hasher: blake3::Hasher::new(), found: 0 });
        let written = self.0.half().write_keys(&mut out, &mut |_, _| (), &AtomicBool::new(false));
        let flushed = out.flush();
        let (hashing, _) = out.into_parts();
        match (hashing.found, written, flushed) {
            (0, Ok(()), Ok(())) => Ok(*hashing.hasher.finalize().as_bytes()),
            (0, Err(error), _) => Err(error.into()),
            // `found` is set whenever writing fails.
            (found, ..) => Err(Failure::Stopped { found }),
        }
    }

    /// The message that declares keys before they are uploaded, of this length and hash.
    pub(crate) fn key_declaration(&self, application: &str, hash: &[u8; UNSPOKEN_HASH_BYTES]) -> Vec<u8> {
        let (key_format, length, blake3) = (self.0.key_format(), self.key_bytes(), hash.to_vec());
        KeyDeclaration { application: application.to_owned(), key_format, length, blake3 }.encode_to_vec()
    }

    /// Maximum number of questions of a request.
    pub(crate) fn most_questions(&self) -> usize {
        self.0.half().batch()
    }

    /// Checks everything in the answer to a request that can be checked without the secret.
    pub(crate) fn check_answer(&self, request: &UnspokenRequest, answer: &[u8]) -> Result<(), Failure> {
        self.0.check_answer(&request.0, answer)
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
    use unspoken_pir::{Description, PirOptions, Question};
    use unspoken_pir_scheme::{Layout, Length, Mode, Preset, TableKind, Tables};
    use unspoken_protocol::NoCounters;

    use super::*;

    fn description() -> Vec<u8> {
        let layout = Layout::Index { records: 50, length: Length::Fixed(4) };
        let tables = Tables::new(&Preset::N11.build().unwrap(), layout, TableKind::Transformed).unwrap();
        Description::new(&tables).unwrap().to_bytes()
    }

    fn opened_with(description: &[u8]) -> Opened {
        let options = PirOptions::new(Mode::Packed, NoCounters);
        Opened::new(OpenedHalf::<PirClient>::open(description, options, (None, None), false).unwrap())
    }

    #[test]
    fn a_panic_becomes_an_error_and_closes_the_client() {
        let client = UnspokenClient::new();
        let description = description();
        let open = |opened: &mut Option<Opened>| {
            *opened = Some(opened_with(&description));
            Ok(())
        };
        assert_eq!(client.run(open), UnspokenStatus::Ok);
        assert_eq!(client.error(), "");
        assert_eq!(client.run(|_| panic!("a bug")), UnspokenStatus::Internal);
        assert!(client.error().contains("this library has a bug"), "{}", client.error());
        let closed = |opened: &mut Option<Opened>| if opened.is_none() { Err(Failure::NotOpen) } else { Ok(()) };
        assert_eq!(client.run(closed), UnspokenStatus::Argument);
    }

    #[test]
    fn a_request_of_another_client_is_refused() {
        let description = description();
        let (mut one, mut other) = (opened_with(&description), opened_with(&description));
        let ask = |client: &mut Opened, questions: &[Question]| -> Result<UnspokenRequest, Failure> {
            Ok(UnspokenRequest::new(client.of::<PirClient>()?.ask(questions)?))
        };
        let request = ask(&mut one, &[Question::Index(7)]).unwrap();
        let refused = |client: &Opened| {
            let error = client.check_answer(&request, &[]).unwrap_err();
            error.to_string().starts_with("request: found one of another client")
        };
        assert!(refused(&other) && !refused(&one));
        one.update(&description).unwrap();
        assert!(refused(&one));
        let none = ask(&mut other, &[]).err().unwrap();
        assert!(none.to_string().starts_with("number of questions: found 0, needed 1 to "), "{none}");
        assert_eq!(none.status(), UnspokenStatus::Argument);
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
