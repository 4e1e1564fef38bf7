//! What a service and a client need of an application, whatever it is encrypted with.

use std::io::{Read, Write};
use std::sync::atomic::AtomicBool;

use zeroize::Zeroizing;

use crate::error::{Failure, ProtocolError};

/// What a service does with the keys of an application's clients.
pub trait KeyLoader: Send + Sync + 'static {
    /// The keys of one client, ready for use.
    type Keys: Send + Sync + 'static;
    /// What can go wrong with them.
    type KeyError: Failure;

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
    type Error: Failure;

    /// What clients are told.
    fn describe(&self) -> Vec<u8>;

    /// Most bytes of a query.
    fn query_bytes(&self) -> usize;

    /// Most bytes of an answer.
    fn answer_bytes(&self) -> usize;

    /// Bytes of memory the prepared model takes for as long as it is served, encoded on first use or now.
    fn prepared_bytes(&self) -> u64;

    /// Bytes of memory one answer takes while it is computed, beyond keys and model.
    fn working_bytes(&self) -> u64;

    /// Computes the answer to a query of untrusted bytes; stops soon after `cancel` is set.
    ///
    /// # Errors
    /// If the query is malformed or does not fit, or when cancelled.
    fn answer(&self, keys: &Self::Keys, query: &[u8], cancel: &AtomicBool) -> Result<Vec<u8>, Self::Error>;
}

/// A description: what the two halves of one application must both know.
pub trait Described: Sized {
    /// What can go wrong.
    type Error: Failure;

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
pub trait KeyMaker {
    /// What can go wrong with it.
    type KeyError: Failure;

    /// The secret key's bytes, to store: whoever has them reads every query.
    ///
    /// # Errors
    /// Only if the key's parameters refuse, which their own check rules out.
    fn secret_bytes(&self) -> Result<Zeroizing<Vec<u8>>, Self::KeyError>;

    /// Bytes of the key bundle [`KeyMaker::write_keys`] writes.
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

/// The client's half of an application: what it knows besides its secret key.
pub trait ClientHalf: KeyMaker<KeyError: Into<Self::Error>> + Sized {
    /// What can go wrong.
    type Error: Failure + From<<Self::Description as Described>::Error> + From<ProtocolError>;
    /// What the server says of itself.
    type Description: Described;
    /// The client's part of the model, and what it chose.
    type Model;

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

    /// What the keys are made for besides the secret, given the bytes of the description: where it changes, keys are made
    /// anew. All of it, unless the application knows better.
    fn keys_are_for(&self, description: &[u8]) -> Vec<u8> {
        description.to_vec()
    }
}
