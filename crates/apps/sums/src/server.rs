//! The service's half: adds contributions, and releases the sum once.
//!
//! # What the service stores
//!
//! The encrypted sum, the number of contributions, and the id of each added contribution: 16 random bytes. An id that
//! arrives again, however late, counts once, so a client may send unacknowledged contributions again. New ids are
//! written after the ids that count, then the new state replaces the old one atomically, then the request is answered.
//! A crash loses no acknowledged contribution and counts none twice; a test lets every write fail in every way. After
//! an error of the store the state is loaded again before anything is added.
//!
//! Contributions themselves are not stored.
//!
//! Requests wait for a disk, and for each other, so the service does not answer them on the pool of threads that
//! computations share. A request's own contributions are decoded and added up before the state is locked.
//!
//! An older copy of what is stored, or another directory, opens a closed collection again: a collection has one service
//! and one directory, which is never restored.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use unspoken_protocol::{Call, Limits, Request, ServerHalf, impl_registering_server};

use crate::description::Description;
use crate::error::SumsError;
use crate::messages;
use crate::state::{Addends, State};
use crate::store::SumStore;

/// Adds what contributors send, and gives the sum to the collector. It sees no value: it has no secret.
///
/// The collector's request closes the collection, if it has enough contributions: nothing is added any more, and every
/// later request gets the same sum. So there are no two sums whose difference would be a contribution.
pub struct SumsServer {
    description: Description,
    store: Box<dyn SumStore>,
    /// Empty after an error of the store: what is stored is then loaded again before it is used.
    state: Mutex<Option<State>>,
    /// Whether the store failed when it was last used.
    store_failed: AtomicBool,
}

impl SumsServer {
    /// Serves a collection whose state is in `store`.
    ///
    /// # Errors
    /// If the store belongs to another collection or is damaged, or reading or writing fails.
    pub fn new(description: Description, store: impl SumStore) -> Result<Self, SumsError> {
        let state = State::load(&description, &store)?;
        let store_failed = AtomicBool::new(false);
        Ok(SumsServer { description, store: Box::new(store), state: Mutex::new(Some(state)), store_failed })
    }

    /// Number of contributions in the sum.
    ///
    /// # Errors
    /// If the state must be loaded again, and that fails.
    pub fn count(&self) -> Result<u32, SumsError> {
        self.with_state(|state| Ok(state.count()))
    }

    /// Works with the state. After an error of the store the state is loaded again, because either of two states may be
    /// stored. Other errors leave the state as it was.
    fn with_state<T>(&self, work: impl FnOnce(&mut State) -> Result<T, SumsError>) -> Result<T, SumsError> {
        let mut slot = self.state.lock().unwrap_or_else(|poisoned| {
            // The panic may have come between two steps.
            let mut slot = PoisonError::into_inner(poisoned);
            *slot = None;
            slot
        });
        let loaded = match slot.take() {
            Some(state) => Ok(state),
            None => State::load(&self.description, &*self.store),
        };
        let mut state = loaded.inspect_err(|_| self.store_failed.store(true, Ordering::Relaxed))?;
        let result = work(&mut state);
        let failed = matches!(result, Err(SumsError::Io { .. }));
        self.store_failed.store(failed, Ordering::Relaxed);
        if !failed {
            *slot = Some(state);
        }
        self.state.clear_poison();
        result
    }

    fn check_token(&self, token: &[u8; 32]) -> Result<(), SumsError> {
        if self.description.is_token(token) { Ok(()) } else { Err(SumsError::Token) }
    }
}

impl_registering_server!(SumsServer);

impl ServerHalf for SumsServer {
    type Error = SumsError;

    fn describe(&self) -> Vec<u8> {
        self.description.to_bytes()
    }

    /// Fails after an error of the store, until a request finds that it works again. Uses neither the state nor the
    /// store.
    fn check_ready(&self) -> Result<(), SumsError> {
        match self.store_failed.load(Ordering::Relaxed) {
            false => Ok(()),
            true => {
                let source = io::Error::other("an earlier request failed; check the disk of the service");
                Err(SumsError::Io { what: "use the stored state of a collection", source })
            }
        }
    }

    fn limits(&self) -> Limits {
        let parameters = self.description.parameters();
        let ciphertext = 2 * parameters.ring().poly_bytes(parameters.basis()) as u64;
        Limits {
            query_bytes: self.description.query_bytes(self.description.batch()),
            answer_bytes: messages::sum_bytes(&self.description),
            // The decoded contributions, their sum, another sum, and its bytes.
            working_bytes: (self.description.batch() as u64 + 3) * ciphertext
                + 2 * State::stored_bytes(&self.description),
            most_together: 1,
            // The state is locked while it is written. The arithmetic uses the pool that computations share. A thread
            // of the pool that waited for the arithmetic could start another request, and so wait for a lock that it
            // holds itself.
            waits_for_others: true,
        }
    }

    fn prepared_bytes(&self) -> u64 {
        State::most_bytes(&self.description)
    }

    fn answer(&self, request: &Request<'_, ()>, call: &Call<'_>) -> Result<Vec<u8>, SumsError> {
        let asked = messages::Request::read(&self.description, request.query)?;
        if call.is_cancelled() {
            return Err(SumsError::Cancelled);
        }
        match asked {
            messages::Request::Contribute(addends) => {
                let addends = Addends::new(&self.description, addends)?;
                Ok(messages::receipts(&self.with_state(|state| state.add(&addends, &*self.store))?))
            }
            messages::Request::Count(token) => {
                self.check_token(&token)?;
                Ok(messages::counted(self.count()?))
            }
            messages::Request::Close(token) => {
                self.check_token(&token)?;
                self.with_state(|state| {
                    state.close(&*self.store)?;
                    Ok(messages::closed(state))
                })
            }
        }
    }
}
