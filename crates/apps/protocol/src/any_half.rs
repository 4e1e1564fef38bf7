//! Client halves without the types of their applications.

use std::io::Write;
use std::sync::atomic::AtomicBool;

use zeroize::Zeroizing;

use crate::client_half::{ApplicationDescription, ClientHalf};
use crate::error::ApplicationError;

/// Why an operation of a client half failed, whatever its application is.
pub type AnyError = Box<dyn ApplicationError>;

/// What a client half tells and does whatever its application is: object-safe, and implemented for every
/// [`ClientHalf`]. Each method has the meaning of its namesake there; import one of the two traits.
pub trait AnyHalf {
    /// Kind of the application, for instance "classify".
    fn kind(&self) -> &'static str;

    /// The secret key's bytes, to store.
    ///
    /// # Errors
    /// As for [`KeyGenerator::secret_bytes`](crate::KeyGenerator::secret_bytes).
    fn secret_bytes(&self) -> Result<Zeroizing<Vec<u8>>, AnyError>;

    /// Describes which keys a bundle of this client has.
    fn bundle_contents(&self) -> Vec<u8>;

    /// Whether a bundle with these contents has all keys that the application needs.
    fn is_covered_by(&self, contents: &[u8]) -> bool;

    /// Bytes of the key bundle.
    fn key_bytes(&self) -> u64;

    /// Makes the keys with which a service computes and writes them as a bundle.
    ///
    /// # Errors
    /// If writing fails, or when `cancel` is set.
    fn write_keys(
        &self,
        out: &mut dyn Write,
        progress: &mut dyn FnMut(usize, usize),
        cancel: &AtomicBool,
    ) -> Result<(), AnyError>;

    /// Maximum number of questions in one query.
    fn batch(&self) -> usize;

    /// Maximum length in bytes of a query of `questions` questions.
    fn query_bytes(&self, questions: usize) -> usize;

    /// Maximum length in bytes of the answer to a query of `questions` questions.
    fn answer_bytes(&self, questions: usize) -> usize;

    /// Expected length in bytes of the answer to a query of `questions` questions.
    fn expected_answer_bytes(&self, questions: usize) -> usize;
}

/// The error of a key, as one of the application.
fn key_error<H: ClientHalf>(error: H::KeyError) -> AnyError {
    Box::<H::Error>::new(error.into())
}

impl<H: ClientHalf> AnyHalf for H {
    fn kind(&self) -> &'static str {
        H::Description::PROTOCOL.kind
    }

    fn secret_bytes(&self) -> Result<Zeroizing<Vec<u8>>, AnyError> {
        self.secret_bytes().map_err(key_error::<H>)
    }

    fn bundle_contents(&self) -> Vec<u8> {
        self.bundle_contents()
    }

    fn is_covered_by(&self, contents: &[u8]) -> bool {
        self.is_covered_by(contents)
    }

    fn key_bytes(&self) -> u64 {
        self.key_bytes()
    }

    fn write_keys(
        &self,
        mut out: &mut dyn Write,
        progress: &mut dyn FnMut(usize, usize),
        cancel: &AtomicBool,
    ) -> Result<(), AnyError> {
        self.write_keys(&mut out, progress, cancel).map_err(key_error::<H>)
    }

    fn batch(&self) -> usize {
        self.batch()
    }

    fn query_bytes(&self, questions: usize) -> usize {
        self.query_bytes(questions)
    }

    fn answer_bytes(&self, questions: usize) -> usize {
        self.answer_bytes(questions)
    }

    fn expected_answer_bytes(&self, questions: usize) -> usize {
        self.expected_answer_bytes(questions)
    }
}
