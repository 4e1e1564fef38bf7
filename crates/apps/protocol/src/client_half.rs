//! The interface of an application towards a client, for every encryption scheme.

use std::borrow::Borrow;
use std::io::Write;
use std::sync::atomic::AtomicBool;

use zeroize::Zeroizing;

use crate::error::{ApplicationError, ProtocolError};
use crate::key_set::KeySetId;
use crate::kind::Protocol;

/// The data that both halves of one application must know: made by the server, checked by the client.
pub trait ApplicationDescription: Clone {
    /// Errors of descriptions.
    type Error: ApplicationError;

    /// Kind and version of the application.
    const PROTOCOL: Protocol;

    /// Reads a description from untrusted bytes.
    ///
    /// # Errors
    /// If it is malformed, of another kind or version, of an unknown parameter set, or of an insecure one without
    /// `accept_insecure`, or if it requests more than an application needs.
    fn read(bytes: &[u8], accept_insecure: bool) -> Result<Self, Self::Error>;

    /// Identifies the parameters and the kind of the client's keys.
    fn key_set(&self) -> KeySetId;

    /// Takes over from an `earlier` description what a service must not change by describing itself again: the bound of
    /// the error, which may not fall, and that the content of an answer was refused.
    fn keep_from(&mut self, _earlier: &Self) {}
}

/// Operations of a client with its secret key besides asking questions.
pub trait KeyGenerator {
    /// Errors of keys.
    type KeyError: ApplicationError;

    /// The secret key's bytes, to store: anyone who has them can decrypt every query.
    ///
    /// # Errors
    /// Only for invalid parameters of the key, which the check of the parameters rules out.
    fn secret_bytes(&self) -> Result<Zeroizing<Vec<u8>>, Self::KeyError>;

    /// Describes which keys the bundle has that [`KeyGenerator::write_keys`] writes. The description is not secret.
    fn bundle_contents(&self) -> Vec<u8>;

    /// Whether a bundle of this secret has all keys that this application needs.
    /// [`bundle_contents`](Self::bundle_contents) described the bundle when it was made.
    fn is_covered_by(&self, contents: &[u8]) -> bool {
        contents == self.bundle_contents()
    }

    /// Sets the keys that [`KeyGenerator::write_keys`] makes in addition to the keys of this application: all keys of a
    /// bundle with these contents. No keys, if `contents` has other parameters than this secret, or if the bundle would
    /// have more than `most_bytes` bytes. Returns whether the bundle will have all keys of `contents`. By default keys
    /// are not shared.
    fn set_shared_keys(&mut self, contents: &[u8], _most_bytes: u64) -> bool {
        contents == self.bundle_contents()
    }

    /// Bytes of the key bundle that [`KeyGenerator::write_keys`] writes.
    fn key_bytes(&self) -> u64;

    /// Makes the keys with which a service computes and writes them as a bundle. `progress` receives the number of keys
    /// done and in total. Every call makes new keys for the same secret, with new randomness.
    ///
    /// # Errors
    /// If writing fails, or when `cancel` is set.
    fn write_keys(
        &self,
        out: &mut impl Write,
        progress: impl FnMut(usize, usize),
        cancel: &AtomicBool,
    ) -> Result<(), Self::KeyError>;
}

/// The client's half of an application.
///
/// A service sees when queries are sent and how long they are. So neither may depend on the content of questions or
/// answers. [`encode`](Self::encode) does all work on questions whose time or failure depends on their content, before
/// anything is sent. The time and the length of [`query`](Self::query) depend only on the number of questions.
/// [`read`](Self::read) is called when the last answer has arrived.
pub trait ClientHalf: KeyGenerator<KeyError: Into<Self::Error>> + Sized {
    /// Errors of the application.
    type Error: ApplicationError + From<<Self::Description as ApplicationDescription>::Error> + From<ProtocolError>;
    /// The server's description.
    type Description: ApplicationDescription;
    /// The client's part of the model, and its options. Cheap to clone.
    type Model: Clone;
    /// One question.
    type Question: ?Sized;
    /// A question, encoded for encryption. Wiped when dropped.
    type Encoded;
    /// The answer to one question.
    type Answer;

    /// Name of the activity in progress messages, for instance "classifying".
    const VERB: &'static str;

    /// Identifies the secret key for this description and this model: all applications of a service with the same name
    /// share one secret key and one bundle.
    fn secret_name(description: &Self::Description, _model: &Self::Model) -> KeySetId {
        description.key_set()
    }

    /// Opens a client with a stored secret key, whose switching keys the server may have already, or with a new one. A
    /// new one is used for queries only after [`begin`](Self::begin). Stores nothing.
    ///
    /// # Errors
    /// If the client's part of the model does not match the server's, or the stored key does not match the server's
    /// preset.
    fn open(description: Self::Description, model: Self::Model, stored: Option<&[u8]>) -> Result<Self, Self::Error>;

    /// Stores what a new secret key needs besides itself, before the key is stored.
    ///
    /// # Errors
    /// If it cannot be stored.
    fn begin(&self) -> Result<(), Self::Error> {
        Ok(())
    }

    /// The server's description.
    fn description(&self) -> &Self::Description;

    /// Refuses a description that must not follow an earlier one of the same service, which the client accepted.
    ///
    /// # Errors
    /// If continuing would reveal something to the service.
    fn check_change(_earlier: &Self::Description, _now: &Self::Description) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Maximum number of questions in one query.
    fn batch(&self) -> usize;

    /// Maximum length in bytes of a query of `questions` questions.
    fn query_bytes(&self, questions: usize) -> usize;

    /// Maximum length in bytes of the answer to a query of `questions` questions, according to the description.
    fn answer_bytes(&self, questions: usize) -> usize;

    /// Expected length in bytes of the answer to a query of `questions` questions, for people: the service may send any
    /// length up to [`answer_bytes`](Self::answer_bytes), which is the default.
    fn expected_answer_bytes(&self, questions: usize) -> usize {
        self.answer_bytes(questions)
    }

    /// Encodes questions for encryption.
    ///
    /// # Errors
    /// If a question cannot be asked.
    fn encode<Q: Borrow<Self::Question>>(&self, questions: &[Q]) -> Result<Vec<Self::Encoded>, Self::Error>;

    /// Encrypts one to [`batch`](Self::batch) questions. The time and the length depend only on their number.
    ///
    /// # Errors
    /// If their number is out of this range, or the system has no randomness.
    fn query(&mut self, questions: &[Self::Encoded]) -> Result<Vec<u8>, Self::Error>;

    /// Checks everything in an answer that can be checked without the secret.
    ///
    /// # Errors
    /// If it is malformed, or was computed for another description.
    fn check_answer(&self, _answer: &[u8], _questions: usize) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Decrypts the answer to these questions, in their order.
    ///
    /// # Errors
    /// If it is malformed, was computed for another description or with other keys, or a question had no answer.
    fn read(&self, answer: &[u8], questions: &[Self::Encoded]) -> Result<Vec<Self::Answer>, Self::Error>;
}
