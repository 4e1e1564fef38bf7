//! Adapter that offers the server half of an application as an [`Application`].

use std::io::{self, Read};
use std::sync::atomic::AtomicBool;

use unspoken_protocol::{
    self as protocol, AnswerHelpers, AnswerProgress, ClientId, ErrorKind, Group, KeySetId, Request, ServerHalf,
};

use crate::application::{Application, ApplicationError, ApplicationLimits};

/// A [`ServerHalf`] with a name.
pub struct ProtocolApplication<H> {
    name: String,
    half: H,
}

impl<H: ServerHalf> ProtocolApplication<H> {
    /// Offers `half` as `name`, for instance `classify/spam`.
    pub fn new(name: impl Into<String>, half: H) -> Self {
        Self { name: name.into(), half }
    }

    /// Runs the work of an answer inside the thread pool, so that parallel work does not switch threads at every step;
    /// on this thread if it waits for other services.
    fn in_place<T: Send>(&self, work: impl FnOnce(&H) -> T + Send) -> T {
        match self.half.waits_for_others() {
            true => work(&self.half),
            false => rayon::scope(|_| work(&self.half)),
        }
    }
}

impl<H: ServerHalf> Application for ProtocolApplication<H> {
    type Keys = H::Keys;

    fn name(&self) -> &str {
        &self.name
    }

    fn describe(&self) -> Vec<u8> {
        self.half.describe()
    }

    fn limits(&self) -> ApplicationLimits {
        ApplicationLimits {
            key_format: self.half.key_format(),
            header_bytes: self.half.key_front_bytes(),
            max_key_bytes: self.half.max_key_bytes(),
            key_memory_bytes: self.half.key_memory_bytes(),
            max_query_bytes: self.half.query_bytes(),
            max_answer_bytes: self.half.answer_bytes(),
        }
    }

    fn check_ready(&self) -> Result<(), String> {
        self.half.check_ready().map_err(|error| error.to_string())
    }

    fn key_set(&self) -> KeySetId {
        self.half.key_set()
    }

    fn check_keys(&self, keys: &H::Keys) -> Result<(), ApplicationError> {
        self.half.check_keys(keys).map_err(|error| refusal(&error))
    }

    fn loaded_key_bytes(&self, header: &[u8]) -> Result<u64, ApplicationError> {
        self.half.loaded_key_bytes(header).map_err(|error| refusal(&error))
    }

    fn load_keys(&self, bundle: &mut dyn Read) -> Result<H::Keys, ApplicationError> {
        let mut bundle = bundle;
        self.half.load_keys(&mut bundle).map_err(|error| refusal(&error))
    }

    fn prepared_bytes(&self) -> u64 {
        self.half.prepared_bytes()
    }

    fn working_bytes(&self) -> u64 {
        self.half.working_bytes()
    }

    fn release_idle_memory(&self) {
        self.half.release_idle_memory();
    }

    fn answer(
        &self,
        client: ClientId,
        keys: &H::Keys,
        query: &[u8],
        cancel: &AtomicBool,
    ) -> Result<Vec<u8>, ApplicationError> {
        self.answer_with_progress(client, keys, query, cancel, &AnswerProgress::new())
    }

    fn answer_with_progress(
        &self,
        client: ClientId,
        keys: &H::Keys,
        query: &[u8],
        cancel: &AtomicBool,
        progress: &AnswerProgress,
    ) -> Result<Vec<u8>, ApplicationError> {
        let answer = self.in_place(|half| half.answer_with_progress(client, keys, query, cancel, progress));
        answer.map_err(|error| refusal(&error))
    }

    fn answer_with_helpers(
        &self,
        client: ClientId,
        keys: &H::Keys,
        query: &[u8],
        cancel: &AtomicBool,
        progress: &AnswerProgress,
        helpers: &dyn AnswerHelpers,
    ) -> Result<Vec<u8>, ApplicationError> {
        let answer = self.in_place(|half| half.answer_with_helpers(client, keys, query, cancel, progress, helpers));
        answer.map_err(|error| refusal(&error))
    }

    fn compute_part(&self, keys: &H::Keys, part: &[u8], cancel: &AtomicBool) -> Result<Vec<u8>, ApplicationError> {
        let none = || ApplicationError::Internal(format!("found a part of an answer of {}, which has none", self.name));
        let result = self.in_place(|half| half.compute_part(keys, part, cancel)).ok_or_else(none)?;
        result.map_err(|error| refusal(&error))
    }

    fn most_together(&self) -> usize {
        self.half.most_together()
    }

    fn waits_for_others(&self) -> bool {
        self.half.waits_for_others()
    }

    fn group(&self, keys: &H::Keys, query: &[u8]) -> Group {
        self.half.group(keys, query)
    }

    fn answer_together(
        &self,
        requests: &[Request<'_, H::Keys>],
        cancel: &AtomicBool,
    ) -> Vec<Result<Vec<u8>, ApplicationError>> {
        let answers = self.in_place(|half| half.answer_together(requests, cancel));
        answers.into_iter().map(|answer| answer.map_err(|error| refusal(&error))).collect()
    }
}

/// The error for the client. Errors about the client's own bytes are sent with their text; the text of internal errors
/// is only logged.
fn refusal(error: &impl protocol::ApplicationError) -> ApplicationError {
    match error.kind() {
        ErrorKind::Cancelled => ApplicationError::Cancelled,
        ErrorKind::Busy => ApplicationError::Busy(error.to_string()),
        ErrorKind::Exhausted { wait_seconds } => ApplicationError::Exhausted { text: error.to_string(), wait_seconds },
        ErrorKind::Malformed => ApplicationError::Malformed(error.to_string()),
        ErrorKind::Mismatch => ApplicationError::DoesNotFit(error.to_string()),
        ErrorKind::Refused { remedy } => ApplicationError::Refused { text: error.to_string(), remedy: remedy.into() },
        ErrorKind::Io(kind) => ApplicationError::Read(io::Error::new(kind, error.to_string())),
        // Only clients decrypt.
        ErrorKind::Unreadable | ErrorKind::Internal => ApplicationError::Internal(error.to_string()),
    }
}
