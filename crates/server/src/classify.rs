//! The text classifier as an application of the service.

use std::{io::Read, sync::atomic::AtomicBool};

use unspoken_classify::{Classifier, ClassifyError};
use unspoken_rlwe::{EvaluationKeys, FORMAT_VERSION, KeyBundle, RlweError};

use crate::application::{Application, ApplicationError, ApplicationLimits};

/// A [`Classifier`] under a name.
pub struct ClassifyApplication {
    name: String,
    classifier: Classifier,
}

impl ClassifyApplication {
    /// Offers `classifier` as `name`, for instance `classify/spam`.
    pub fn new(name: impl Into<String>, classifier: Classifier) -> Self {
        Self { name: name.into(), classifier }
    }
}

impl Application for ClassifyApplication {
    type Keys = EvaluationKeys;

    fn name(&self) -> &str {
        &self.name
    }

    fn describe(&self) -> Vec<u8> {
        self.classifier.description().to_bytes()
    }

    fn limits(&self) -> ApplicationLimits {
        let description = self.classifier.description();
        ApplicationLimits {
            key_format: FORMAT_VERSION.into(),
            header_bytes: KeyBundle::plan_bytes(description.key_plan()),
            max_key_bytes: KeyBundle::byte_len(description.parameters().rlwe(), description.key_plan()),
            max_query_bytes: description.query_bytes(),
            max_answer_bytes: self.classifier.answer_bytes(),
        }
    }

    fn loaded_key_bytes(&self, header: &[u8]) -> Result<u64, ApplicationError> {
        self.classifier.loaded_key_bytes(header).map_err(refusal)
    }

    fn load_keys(&self, bundle: &mut dyn Read) -> Result<EvaluationKeys, ApplicationError> {
        let mut bundle = bundle;
        self.classifier.load_keys(&mut bundle).map_err(|error| match error {
            ClassifyError::Rlwe(RlweError::Io(error)) => ApplicationError::Read(error),
            other => refusal(other),
        })
    }

    fn working_bytes(&self) -> u64 {
        self.classifier.working_bytes()
    }

    fn answer(&self, keys: &EvaluationKeys, query: &[u8], cancel: &AtomicBool) -> Result<Vec<u8>, ApplicationError> {
        // Inside the pool, so that parallel work does not cross threads at every step.
        rayon::scope(|_| self.classifier.answer(keys, query, cancel)).map_err(refusal)
    }
}

/// What a client is told. Whatever was wrong with its bytes is its own business; the rest stays in the log.
fn refusal(error: ClassifyError) -> ApplicationError {
    if error.is_interrupted() {
        return ApplicationError::Cancelled;
    }
    let text = error.to_string();
    match error {
        ClassifyError::Mismatch { .. } => ApplicationError::DoesNotFit(text),
        ClassifyError::Rlwe(RlweError::MissingKeys { .. }) => ApplicationError::DoesNotFit(text),
        ClassifyError::Rlwe(RlweError::Decode { .. } | RlweError::Ring(_)) => ApplicationError::Malformed(text),
        ClassifyError::Ckks(_) | ClassifyError::Lookup(_) => ApplicationError::Malformed(text),
        _ => ApplicationError::Internal(text),
    }
}
