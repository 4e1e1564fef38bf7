//! What a service and a client need of an application.

use std::io::Read;
use std::sync::atomic::AtomicBool;

use unspoken_encrypt::{Needs, Plan};
use unspoken_rlwe::{EvaluationKeys, KeyBundle};

use crate::error::{Failure, ProtocolError};
use crate::keyring::Keyring;
use crate::terms::Terms;

/// The server's half of an application: a model that never sees what it is asked.
pub trait ServerHalf: Send + Sync + 'static {
    /// What can go wrong.
    type Error: Failure;

    /// What all applications tell their clients.
    fn terms(&self) -> &Terms;

    /// What clients are told: the terms and the application's own fields.
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
    fn answer(&self, keys: &EvaluationKeys, query: &[u8], cancel: &AtomicBool) -> Result<Vec<u8>, Self::Error>;

    /// Reads the plan at the front of a key bundle and tells what its keys will take in memory.
    ///
    /// # Errors
    /// If it is malformed, of other parameters, or not that of the terms.
    fn loaded_key_bytes(&self, front: &[u8]) -> Result<u64, ProtocolError> {
        let parameters = self.terms().parameters();
        let plan = KeyBundle::read_plan(parameters.rlwe(), &mut &front[..])?;
        if plan != *self.terms().key_plan() {
            let needed = "exactly the keys of the description; read it again and make new keys";
            return Err(ProtocolError::mismatch("key bundle", format!("{} keys of another plan", plan.len()), needed));
        }
        Ok(plan.memory_bytes(parameters.ring()))
    }

    /// Reads and expands a key bundle.
    ///
    /// # Errors
    /// If it is malformed, of other parameters, lacks a key, or reading fails.
    fn load_keys(&self, bundle: &mut impl Read) -> Result<EvaluationKeys, ProtocolError> {
        let keys = KeyBundle::read(self.terms().parameters().rlwe(), bundle)?;
        keys.check("the application", self.terms().key_plan())?;
        Ok(keys)
    }
}

/// A description: terms, and what else the two halves of one application must know.
pub trait Described: Sized {
    /// What can go wrong.
    type Error: Failure;

    /// Reads a description from untrusted bytes.
    ///
    /// # Errors
    /// As for [`Terms::open`], or if the application's own fields make no sense.
    fn read(bytes: &[u8], accept_insecure: bool) -> Result<Self, Self::Error>;

    /// The terms.
    fn terms(&self) -> &Terms;
}

/// The client's half of an application: what it knows besides its secret key.
pub trait ClientHalf: Sized {
    /// What can go wrong.
    type Error: Failure + From<<Self::Description as Described>::Error> + From<ProtocolError>;
    /// What the server says of itself.
    type Description: Described;
    /// The client's part of the model.
    type Model;

    /// A client with a stored secret key, whose switching keys the server may have already, or with a new one.
    ///
    /// # Errors
    /// If the client's part of the model does not belong to the server's, or the stored key to the server's preset.
    fn open(description: Self::Description, model: Self::Model, stored: Option<&[u8]>) -> Result<Self, Self::Error>;

    /// What the server said of itself.
    fn description(&self) -> &Self::Description;

    /// The secret key.
    fn keyring(&self) -> &Keyring;

    /// From now on keeps encryptions of zero ready, so that a query takes encoding and one addition per vector; a thread
    /// makes them. `needs.burst` counts queries here. What was decided: nothing is kept where queries are no vectors of
    /// slots, or memory does not suffice for one.
    ///
    /// # Errors
    /// If the operating system has no randomness or no thread.
    fn prepare(&mut self, needs: Needs) -> Result<Plan, Self::Error>;
}
