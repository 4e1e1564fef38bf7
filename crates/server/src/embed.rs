//! The embedding lookup as an application of the service.

use std::{io::Read, sync::atomic::AtomicBool};

use unspoken_embed::{EmbedError, Embedder};
use unspoken_rlwe::{EvaluationKeys, FORMAT_VERSION, KeyBundle, RlweError};

use crate::application::{Application, ApplicationError, ApplicationLimits};

/// An [`Embedder`] under a name.
pub struct EmbedApplication {
    name: String,
    embedder: Embedder,
}

impl EmbedApplication {
    /// Offers `embedder` as `name`, for instance `embed/glove`.
    pub fn new(name: impl Into<String>, embedder: Embedder) -> Self {
        Self { name: name.into(), embedder }
    }
}

impl Application for EmbedApplication {
    type Keys = EvaluationKeys;

    fn name(&self) -> &str {
        &self.name
    }

    fn describe(&self) -> Vec<u8> {
        self.embedder.description().to_bytes()
    }

    fn limits(&self) -> ApplicationLimits {
        let description = self.embedder.description();
        ApplicationLimits {
            key_format: FORMAT_VERSION.into(),
            header_bytes: KeyBundle::plan_bytes(description.key_plan()),
            max_key_bytes: KeyBundle::byte_len(description.parameters().rlwe(), description.key_plan()),
            max_query_bytes: description.query_bytes(),
            max_answer_bytes: self.embedder.answer_bytes(),
        }
    }

    fn loaded_key_bytes(&self, header: &[u8]) -> Result<u64, ApplicationError> {
        self.embedder.loaded_key_bytes(header).map_err(refusal)
    }

    fn load_keys(&self, bundle: &mut dyn Read) -> Result<EvaluationKeys, ApplicationError> {
        let mut bundle = bundle;
        self.embedder.load_keys(&mut bundle).map_err(|error| match error {
            EmbedError::Rlwe(RlweError::Io(error)) => ApplicationError::Read(error),
            other => refusal(other),
        })
    }

    fn working_bytes(&self) -> u64 {
        self.embedder.working_bytes()
    }

    fn answer(&self, keys: &EvaluationKeys, query: &[u8], cancel: &AtomicBool) -> Result<Vec<u8>, ApplicationError> {
        // Inside the pool, so that parallel work does not cross threads at every step.
        rayon::scope(|_| self.embedder.answer(keys, query, cancel)).map_err(refusal)
    }
}

/// What a client is told. Whatever was wrong with its bytes is its own business; the rest stays in the log.
fn refusal(error: EmbedError) -> ApplicationError {
    if error.is_interrupted() {
        return ApplicationError::Cancelled;
    }
    let text = error.to_string();
    match error {
        EmbedError::Mismatch { .. } => ApplicationError::DoesNotFit(text),
        EmbedError::Rlwe(RlweError::MissingKeys { .. }) => ApplicationError::DoesNotFit(text),
        EmbedError::Rlwe(RlweError::Decode { .. } | RlweError::Ring(_)) => ApplicationError::Malformed(text),
        EmbedError::Ckks(_) | EmbedError::Lookup(_) => ApplicationError::Malformed(text),
        _ => ApplicationError::Internal(text),
    }
}
