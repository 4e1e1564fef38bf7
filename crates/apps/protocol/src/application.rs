//! Interfaces of an application towards a service and a client, for every encryption scheme.

use std::borrow::Borrow;
use std::io::{Read, Write};
use std::sync::atomic::AtomicBool;

use zeroize::Zeroizing;

use crate::client_id::ClientId;
use crate::error::{ApplicationError, ProtocolError};
use crate::key_set::KeySetId;
use crate::kind::Protocol;
use crate::progress::AnswerProgress;

/// Loading of the keys of an application's clients, for a service.
pub trait KeyLoader: Send + Sync + 'static {
    /// The keys of one client, ready for use.
    type Keys: Send + Sync + 'static;
    /// Errors of keys.
    type KeyError: ApplicationError;

    /// Identifies the parameters and the kind of the keys. Applications with the same key set have the same type of
    /// keys, and each can load the bundles of the others.
    fn key_set(&self) -> KeySetId;

    /// Version of the format of bundles.
    fn key_format(&self) -> u32;

    /// Bytes at the start of a bundle that [`KeyLoader::loaded_key_bytes`] reads.
    fn key_front_bytes(&self) -> usize;

    /// Maximum length in bytes of a bundle with the keys of this application alone.
    fn max_key_bytes(&self) -> u64;

    /// Maximum memory in bytes of the loaded keys of this application alone.
    fn key_memory_bytes(&self) -> u64;

    /// Reads the start of a key bundle and returns the bytes of memory that its keys will need.
    ///
    /// # Errors
    /// If it is malformed, of other parameters, or lacks keys that the application needs.
    fn loaded_key_bytes(&self, front: &[u8]) -> Result<u64, Self::KeyError>;

    /// Reads and expands a key bundle of untrusted bytes.
    ///
    /// # Errors
    /// If it is malformed, of other parameters, lacks a key, or reading fails.
    fn load_keys(&self, bundle: &mut impl Read) -> Result<Self::Keys, Self::KeyError>;

    /// Checks that keys that another application of this key set loaded are all that this one needs.
    ///
    /// # Errors
    /// If a key is missing.
    fn check_keys(&self, keys: &Self::Keys) -> Result<(), Self::KeyError>;
}

/// A request of a client.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a, K> {
    /// The client.
    pub client: ClientId,
    /// Its keys.
    pub keys: &'a K,
    /// The untrusted bytes of its query.
    pub query: &'a [u8],
}

/// Requests that [`ServerHalf::answer_together`] answers together: those with the same number, up to a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// Number of the group.
    pub id: u32,
    /// Weight of this request, for instance its number of queries.
    pub weight: usize,
    /// Maximum weight of the requests of the group that are answered together. A heavier one is answered alone. With 1,
    /// every request is answered alone, and others of the group at the same time.
    pub most: usize,
}

impl Group {
    /// The group of requests that are answered alone.
    pub const ALONE: Group = Group { id: 0, weight: 1, most: 1 };
}

/// Other processes with the same application and the keys of the same client, which compute parts of an answer. They
/// belong to the service: parts and their results are no hostile bytes.
pub trait AnswerHelpers: Sync {
    /// How many there are. It stays the same during an answer.
    fn count(&self) -> usize;

    /// Computes a part in one of them by [`ServerHalf::compute_part`], and waits for the result. `None` if it does not
    /// compute it now, also because it has ended: then the process that asks computes the part.
    fn compute(&self, helper: usize, part: &[u8]) -> Option<Vec<u8>>;
}

/// The server's half of an application: a model or a database that never sees the questions.
pub trait ServerHalf: KeyLoader {
    /// Errors of answers.
    type Error: ApplicationError;

    /// The description for clients. It may change while the application is served, and the limits on queries and
    /// answers with it: clients then read it again.
    fn describe(&self) -> Vec<u8>;

    /// Checks that answers are computed from the newest data, as far as known. Called often.
    ///
    /// # Errors
    /// Why they are not, and what the owner of the service should do. Strangers may read it.
    fn check_ready(&self) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Maximum length of a query in bytes.
    fn query_bytes(&self) -> usize;

    /// Maximum length of an answer in bytes.
    fn answer_bytes(&self) -> usize;

    /// Bytes of memory that the application uses for as long as it is served: the prepared model, whether it is encoded
    /// already or on first use, and the replay guards.
    fn prepared_bytes(&self) -> u64;

    /// Bytes of memory that one answer needs while it is computed, beyond keys and model.
    fn working_bytes(&self) -> u64;

    /// Gives back the memory that answers left behind for the next ones. Called when the last answer that was being
    /// computed has ended, so that it never exceeds [`working_bytes`](Self::working_bytes) of answers that run.
    fn release_idle_memory(&self) {}

    /// Whether an answer waits for other services or for a disk. It must not wait on a thread of the pool that
    /// computations of this process share.
    fn waits_for_others(&self) -> bool {
        false
    }

    /// Computes the answer to a query of untrusted bytes of a client; stops soon after `cancel` is set.
    ///
    /// # Errors
    /// If the query is malformed or does not fit, or when cancelled.
    fn answer(
        &self,
        client: ClientId,
        keys: &Self::Keys,
        query: &[u8],
        cancel: &AtomicBool,
    ) -> Result<Vec<u8>, Self::Error>;

    /// Like [`answer`](Self::answer), and reports to `progress` which steps are done. This is what a service calls. By
    /// default nothing is reported; an application whose answers take seconds implements it, and `answer` by it.
    ///
    /// # Errors
    /// As for [`answer`](Self::answer).
    fn answer_with_progress(
        &self,
        client: ClientId,
        keys: &Self::Keys,
        query: &[u8],
        cancel: &AtomicBool,
        _progress: &AnswerProgress,
    ) -> Result<Vec<u8>, Self::Error> {
        self.answer(client, keys, query, cancel)
    }

    /// Like [`answer_with_progress`](Self::answer_with_progress), with other processes that compute parts of it. By
    /// default they are not used.
    ///
    /// # Errors
    /// As for [`answer`](Self::answer).
    fn answer_with_helpers(
        &self,
        client: ClientId,
        keys: &Self::Keys,
        query: &[u8],
        cancel: &AtomicBool,
        progress: &AnswerProgress,
        _helpers: &dyn AnswerHelpers,
    ) -> Result<Vec<u8>, Self::Error> {
        self.answer_with_progress(client, keys, query, cancel, progress)
    }

    /// Computes a part of an answer of another process, with the same client's keys; stops soon after `cancel` is set.
    /// `None` if answers of this application have no parts, which is the default.
    fn compute_part(
        &self,
        _keys: &Self::Keys,
        _part: &[u8],
        _cancel: &AtomicBool,
    ) -> Option<Result<Vec<u8>, Self::Error>> {
        None
    }

    /// Maximum number of requests that may wait to be answered together, or for other services. With 1, the default,
    /// every request is answered alone, and as few at the same time as there are workers.
    fn most_together(&self) -> usize {
        1
    }

    /// The group of a request with untrusted bytes.
    fn group(&self, _keys: &Self::Keys, _query: &[u8]) -> Group {
        Group::ALONE
    }

    /// Answers requests of one group together, each as [`answer`](Self::answer) would, in their order; stops soon after
    /// `cancel` is set. A request that cannot be answered must not keep the others from their answers.
    fn answer_together(
        &self,
        requests: &[Request<'_, Self::Keys>],
        cancel: &AtomicBool,
    ) -> Vec<Result<Vec<u8>, Self::Error>> {
        let answer = |request: &Request<'_, _>| self.answer(request.client, request.keys, request.query, cancel);
        requests.iter().map(answer).collect()
    }
}

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

    /// Whether a bundle of this secret, described by [`bundle_contents`](Self::bundle_contents) when it was made, has
    /// all keys that this application needs.
    fn is_covered_by(&self, contents: &[u8]) -> bool {
        contents == self.bundle_contents()
    }

    /// Sets the keys that [`KeyGenerator::write_keys`] makes besides those of this application: all that a bundle of
    /// these contents has. None, if `contents` is not of this secret's parameters, or if the bundle would have more
    /// than `most_bytes` bytes. Returns whether the bundle will have all keys of `contents`. By default keys are not
    /// shared.
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

    /// Maximum length in bytes of a query of that many questions.
    fn query_bytes(&self, questions: usize) -> usize;

    /// Maximum length in bytes of the answer to a query of that many questions, according to the description.
    fn answer_bytes(&self, questions: usize) -> usize;

    /// Expected length in bytes of the answer to a query of that many questions, for people: the service may send any
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
