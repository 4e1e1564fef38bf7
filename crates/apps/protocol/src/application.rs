//! What a service and a client need of an application, whatever it is encrypted with.

use std::borrow::Borrow;
use std::io::{Read, Write};
use std::sync::atomic::AtomicBool;

use zeroize::Zeroizing;

use crate::client_id::ClientId;
use crate::error::{ApplicationError, ProtocolError};

/// What a service does with the keys of an application's clients.
pub trait KeyLoader: Send + Sync + 'static {
    /// The keys of one client, ready for use.
    type Keys: Send + Sync + 'static;
    /// What can go wrong with them.
    type KeyError: ApplicationError;

    /// Version of the form of bundles.
    fn key_format(&self) -> u32;

    /// Bytes at the front of a bundle that [`KeyLoader::loaded_key_bytes`] reads.
    fn key_front_bytes(&self) -> usize;

    /// Most bytes of a bundle.
    fn max_key_bytes(&self) -> u64;

    /// Reads the front of a key bundle and tells what its keys will take in memory.
    ///
    /// # Errors
    /// If it is malformed, of other parameters, or not what the application asked for.
    fn loaded_key_bytes(&self, front: &[u8]) -> Result<u64, Self::KeyError>;

    /// Reads and expands a key bundle of untrusted bytes.
    ///
    /// # Errors
    /// If it is malformed, of other parameters, lacks a key, or reading fails.
    fn load_keys(&self, bundle: &mut impl Read) -> Result<Self::Keys, Self::KeyError>;
}

/// The server's half of an application: a model or a database that never sees what it is asked.
pub trait ServerHalf: KeyLoader {
    /// What can go wrong.
    type Error: ApplicationError;

    /// What clients are told.
    fn describe(&self) -> Vec<u8>;

    /// Most bytes of a query.
    fn query_bytes(&self) -> usize;

    /// Most bytes of an answer.
    fn answer_bytes(&self) -> usize;

    /// Bytes of memory the application takes for as long as it is served: the prepared model, encoded on first use or
    /// now, and the replay guards.
    fn prepared_bytes(&self) -> u64;

    /// Bytes of memory one answer takes while it is computed, beyond keys and model.
    fn working_bytes(&self) -> u64;

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
}

/// What the two halves of one application must both know: made by the server, checked by the client.
pub trait ApplicationDescription: Sized {
    /// What can go wrong.
    type Error: ApplicationError;

    /// Reads a description from untrusted bytes.
    ///
    /// # Errors
    /// If it is malformed, of another version, of an unknown parameter set, or of an insecure one without
    /// `accept_insecure`, or if it asks for more than anybody has use for.
    fn read(bytes: &[u8], accept_insecure: bool) -> Result<Self, Self::Error>;

    /// Names the numbers of the parameter set.
    fn fingerprint(&self) -> [u8; 16];
}

/// What a client does with its secret key besides asking.
pub trait KeyGenerator {
    /// What can go wrong with it.
    type KeyError: ApplicationError;

    /// The secret key's bytes, to store: whoever has them reads every query.
    ///
    /// # Errors
    /// Only if the key's parameters refuse, which their own check rules out.
    fn secret_bytes(&self) -> Result<Zeroizing<Vec<u8>>, Self::KeyError>;

    /// Bytes of the key bundle [`KeyGenerator::write_keys`] writes.
    fn key_bytes(&self) -> u64;

    /// Makes the keys a service computes with and writes them as a bundle; `progress` is told how many of how many are
    /// done. Every call makes new keys for the same secret.
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
/// A service sees when queries are sent and how long they are. So neither may depend on what is asked, nor on what was
/// answered: [`encode`](Self::encode) does all work on questions whose time or failure depends on their content, before
/// anything is sent; [`query`](Self::query) takes a time and makes a length that depend on the number of questions
/// alone; [`read`](Self::read) is called when the last answer has arrived.
pub trait ClientHalf: KeyGenerator<KeyError: Into<Self::Error>> + Sized {
    /// What can go wrong.
    type Error: ApplicationError + From<<Self::Description as ApplicationDescription>::Error> + From<ProtocolError>;
    /// What the server says of itself.
    type Description: ApplicationDescription;
    /// The client's part of the model, and its options. Cheap to clone.
    type Model: Clone;
    /// One question.
    type Question: ?Sized;
    /// A question made ready to be encrypted. Wiped when dropped.
    type Encoded;
    /// What one question gets.
    type Answer;

    /// What asking is called while it is done, for instance "classifying".
    const VERB: &'static str;

    /// Names the secret key that serves this description and this model: clients of one name share one secret.
    fn secret_name(description: &Self::Description, _model: &Self::Model) -> [u8; 16] {
        description.fingerprint()
    }

    /// A client with a stored secret key, whose switching keys the server may have already, or with a new one.
    ///
    /// # Errors
    /// If the client's part of the model does not belong to the server's, or the stored key to the server's preset.
    fn open(description: Self::Description, model: Self::Model, stored: Option<&[u8]>) -> Result<Self, Self::Error>;

    /// What the server said of itself.
    fn description(&self) -> &Self::Description;

    /// What the keys are made for besides the secret, given the bytes of the description: where it changes, keys are
    /// made anew. All of it, unless the application knows better.
    fn keys_are_for(&self, description: &[u8]) -> Vec<u8> {
        description.to_vec()
    }

    /// Refuses a description that must not follow an earlier one of the same service, which the client accepted.
    ///
    /// # Errors
    /// If a client that went on would tell the service something.
    fn check_change(_earlier: &Self::Description, _now: &Self::Description) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Most questions of one query.
    fn batch(&self) -> usize;

    /// Most bytes of the answer to a query of so many questions, as the description has it.
    fn answer_bytes(&self, questions: usize) -> usize;

    /// Makes questions ready to be encrypted.
    ///
    /// # Errors
    /// If one cannot be asked.
    fn encode<Q: Borrow<Self::Question>>(&self, questions: &[Q]) -> Result<Vec<Self::Encoded>, Self::Error>;

    /// Encrypts one to [`batch`](Self::batch) questions. The time and the length depend on their number alone.
    ///
    /// # Errors
    /// If their number is another, or the system has no randomness.
    fn query(&mut self, questions: &[Self::Encoded]) -> Result<Vec<u8>, Self::Error>;

    /// Checks all of an answer that can be checked without the secret.
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
