//! The state of a collection at the service: the encrypted sum so far, and which contributions are in it.
//!
//! Contributions are added in three steps: their ids are written after the ids that count, then the state with the new
//! sum and the new number of ids replaces the old one, then the request is answered. A crash before the second step
//! leaves the old sum, and ids that do not count and are overwritten by the next ones. A crash after the second step
//! leaves the new sum with its ids, so that a repeated contribution is known. The state has a hash of the ids that
//! count.

use std::collections::HashSet;

use unspoken_exact::{Ciphertext, EncryptionKey, Evaluator};
use unspoken_protocol::{append_checksum, checked};
use unspoken_rlwe as rlwe;

use crate::description::Description;
use crate::error::SumsError;
use crate::format::{ID_BYTES, Id};
use crate::receipt::Receipt;
use crate::store::SumStore;

/// First bytes of a stored state.
const MAGIC: [u8; 8] = *b"SUMSTAT\x01";

/// Bytes of a stored state before the sum: format, fingerprint, number of contributions, whether it is closed, hash of
/// the ids.
const FRONT_BYTES: usize = MAGIC.len() + 32 + 4 + 1 + 32;

/// Bytes of memory of an id: a set grows to twice its size, and is filled to seven eighths at most.
const ID_MEMORY_BYTES: u64 = 40;

/// A contribution of an untrusted request, decoded and checked.
pub(crate) struct Addend {
    pub(crate) id: Id,
    pub(crate) ciphertext: Ciphertext,
}

/// The contributions of one request, and their sum, where each id counts once: made without the state.
pub(crate) struct Addends {
    all: Vec<Addend>,
    different: usize,
    sum: Ciphertext,
}

impl Addends {
    /// Adds up the contributions of a request.
    ///
    /// # Errors
    /// If there are none.
    pub(crate) fn new(description: &Description, all: Vec<Addend>) -> Result<Self, SumsError> {
        let mut ids = HashSet::new();
        let different: Vec<&Addend> = all.iter().filter(|addend| ids.insert(addend.id)).collect();
        let sum = sum_of(&Evaluator::new(description.parameters()), &different)?;
        Ok(Addends { different: different.len(), sum, all })
    }
}

/// The sum of contributions.
fn sum_of(evaluator: &Evaluator, addends: &[&Addend]) -> Result<Ciphertext, SumsError> {
    let refuse = || SumsError::mismatch("request", "no contributions", "at least one");
    let (first, rest) = addends.split_first().ok_or_else(refuse)?;
    let mut sum = first.ciphertext.clone();
    rest.iter().try_for_each(|addend| evaluator.add_assign(&mut sum, &addend.ciphertext))?;
    Ok(sum)
}

/// The state of a collection.
pub(crate) struct State {
    description: Description,
    evaluator: Evaluator,
    ids: HashSet<Id>,
    ids_hash: blake3::Hasher,
    sum: Ciphertext,
    closed: bool,
}

impl State {
    /// Loads what is stored, or starts at zero. What was loaded is written again, because a write that failed before
    /// may not be durable.
    ///
    /// # Errors
    /// If it belongs to another collection or is damaged, or reading or writing fails.
    pub(crate) fn load(description: &Description, store: &dyn SumStore) -> Result<Self, SumsError> {
        let stored = store.state().map_err(reading)?;
        let state = match stored {
            Some(bytes) => Self::from_bytes(description, &bytes, store)?,
            None if store.ids(1).map_err(reading)?.is_empty() => Self::empty(description)?,
            None => {
                let needed = "the state that belongs to them; restore it, or make a new collection";
                return Err(SumsError::Stored { found: "ids of contributions without a state".into(), needed });
            }
        };
        store.replace_state(&state.to_bytes()).map_err(writing)?;
        Ok(state)
    }

    fn empty(description: &Description) -> Result<Self, SumsError> {
        let parameters = description.parameters();
        let zero = rlwe::Ciphertext::zero(parameters.ring(), parameters.basis());
        let sum = description.encoder().import_fresh(zero, EncryptionKey::Public)?;
        Ok(State {
            description: description.clone(),
            evaluator: Evaluator::new(parameters),
            ids: HashSet::new(),
            ids_hash: blake3::Hasher::new(),
            sum,
            closed: false,
        })
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(self.description.fingerprint().0);
        bytes.extend(self.count().to_le_bytes());
        bytes.push(u8::from(self.closed));
        bytes.extend(self.ids_hash.finalize().as_bytes());
        bytes.extend(self.sum.to_bytes());
        append_checksum(&mut bytes);
        bytes
    }

    fn from_bytes(description: &Description, bytes: &[u8], store: &dyn SumStore) -> Result<Self, SumsError> {
        let refuse = |found: String, needed| SumsError::Stored { found, needed };
        let bytes = checked("stored state of a collection", bytes)?;
        let Some((front, sum)) = bytes.split_first_chunk::<FRONT_BYTES>().filter(|_| bytes.starts_with(&MAGIC)) else {
            return Err(refuse("other bytes".into(), "a state that this service wrote; name another directory"));
        };
        let (fingerprint, rest) = front[MAGIC.len()..].split_at(32);
        if fingerprint != description.fingerprint().0 {
            let needed = "that of this one; name another directory for each collection";
            return Err(refuse("the state of another collection".into(), needed));
        }
        let (count, rest) = rest.split_at(4);
        let count = u32::from_le_bytes(count.try_into().expect("four bytes"));
        let bytes_of_ids = store.ids(count as usize * ID_BYTES).map_err(reading)?;
        let mut state = Self::empty(description)?;
        state.ids_hash.update(&bytes_of_ids);
        state.ids = bytes_of_ids.as_chunks().0.iter().copied().collect();
        if state.count() != count || state.ids_hash.finalize().as_bytes() != &rest[1..] {
            let needed = "those of the state; restore both files of one time, or make a new collection";
            return Err(refuse(format!("other ids than those of {count} contributions"), needed));
        }
        state.closed = rest[0] != 0;
        state.sum = Ciphertext::from_bytes(description.parameters(), sum)?;
        Ok(state)
    }

    /// Number of contributions in the sum.
    pub(crate) fn count(&self) -> u32 {
        // Not above the most contributions.
        self.ids.len() as u32
    }

    /// The encrypted sum.
    pub(crate) fn sum(&self) -> &Ciphertext {
        &self.sum
    }

    /// Bytes of memory of a state with all contributions that the collection may have.
    pub(crate) fn most_bytes(description: &Description) -> u64 {
        let parameters = description.parameters();
        let sum = 2 * parameters.ring().poly_bytes(parameters.basis()) as u64;
        u64::from(description.most_contributions()) * ID_MEMORY_BYTES + sum
    }

    /// Bytes of a stored state.
    pub(crate) fn stored_bytes(description: &Description) -> u64 {
        // Exact ciphertexts have a few bytes more than the RLWE ciphertexts of contributions.
        description.contribution_bytes() as u64 + 256
    }

    /// Adds the contributions whose ids are new, all or none: they are stored when this returns.
    ///
    /// # Errors
    /// If the collection is closed or would be too full, or writing fails. After a failed write the state must be
    /// loaded again before it is used.
    pub(crate) fn add(&mut self, addends: &Addends, store: &dyn SumStore) -> Result<Vec<Receipt>, SumsError> {
        let mut new: Vec<&Addend> = Vec::new();
        let receipts = addends.all.iter().map(|addend| {
            if self.ids.contains(&addend.id) || new.iter().any(|other| other.id == addend.id) {
                return Receipt::AddedBefore;
            }
            new.push(addend);
            Receipt::Added
        });
        let receipts: Vec<Receipt> = receipts.collect();
        if new.is_empty() {
            return Ok(receipts);
        }
        if self.closed {
            return Err(SumsError::Closed);
        }
        let (found, needed) = (self.count(), self.description.most_contributions());
        if found as usize + new.len() > needed as usize {
            return Err(SumsError::Full { found, needed });
        }
        // Only some of a request are new when it repeats a part of another one.
        let mut sum = match new.len() == addends.different {
            true => addends.sum.clone(),
            false => sum_of(&self.evaluator, &new)?,
        };
        // The zero of the start is left out, because it counts with the noise of an encryption.
        if !self.ids.is_empty() {
            self.evaluator.add_assign(&mut sum, &self.sum)?;
        }
        let ids: Vec<u8> = new.iter().flat_map(|addend| addend.id).collect();
        store.write_ids(u64::from(found) * ID_BYTES as u64, &ids).map_err(writing)?;
        self.ids_hash.update(&ids);
        self.ids.extend(new.iter().map(|addend| addend.id));
        self.sum = sum;
        store.replace_state(&self.to_bytes()).map_err(writing)?;
        Ok(receipts)
    }

    /// Closes the collection, if it has enough contributions: nothing is added any more, so that there is one sum. A
    /// closed collection stays closed.
    ///
    /// # Errors
    /// If there are too few contributions, or writing fails. After a failed write the state must be loaded again before
    /// it is used.
    pub(crate) fn close(&mut self, store: &dyn SumStore) -> Result<(), SumsError> {
        let (found, needed) = (self.count(), self.description.least_contributions());
        if found < needed {
            return Err(SumsError::TooFew { found, needed });
        }
        if !self.closed {
            self.closed = true;
            store.replace_state(&self.to_bytes()).map_err(writing)?;
        }
        Ok(())
    }
}

fn reading(source: std::io::Error) -> SumsError {
    SumsError::Io { what: "read the state of a collection", source }
}

fn writing(source: std::io::Error) -> SumsError {
    SumsError::Io { what: "write the state of a collection", source }
}
