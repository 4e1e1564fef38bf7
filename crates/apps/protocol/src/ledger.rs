//! Which seeds queries came with: two vectors under one seed give away their difference.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};

use unspoken_ckks::{Ciphertext, CkksParameters, SeededCiphertext};

use crate::error::ProtocolError;

/// Seeds remembered; the oldest are forgotten first.
const CAPACITY: usize = 1 << 18;

/// The seeds of the queries so far, with a hash of what came with each.
#[derive(Default)]
pub struct Ledger(Mutex<Seen>);

#[derive(Default)]
struct Seen {
    hashes: HashMap<Vec<u8>, blake3::Hash>,
    order: VecDeque<Vec<u8>>,
}

impl Ledger {
    /// Reads a query's vectors of untrusted bytes, each a [`SeededCiphertext`].
    ///
    /// # Errors
    /// If one is malformed, or as for [`Ledger::admit`].
    pub fn read(&self, parameters: &CkksParameters, vectors: &[Vec<u8>]) -> Result<Vec<Ciphertext>, ProtocolError> {
        let read = |bytes: &Vec<u8>| SeededCiphertext::from_bytes(parameters, bytes);
        let seeded = vectors.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        self.admit(seeded.iter().map(|vector| vector.seed().as_slice()), vectors)?;
        Ok(seeded.iter().map(|vector| vector.expand(parameters)).collect())
    }

    /// Notes the seeds of a query's vectors.
    ///
    /// # Errors
    /// If a seed comes twice, in this query or with another vector in an earlier one: the difference of such a pair is that
    /// of its messages, in the clear but for small errors.
    pub fn admit<'a>(
        &self,
        seeds: impl ExactSizeIterator<Item = &'a [u8]>,
        vectors: &[Vec<u8>],
    ) -> Result<(), ProtocolError> {
        let mut own = HashSet::with_capacity(seeds.len());
        for (seed, vector) in seeds.zip(vectors) {
            if !own.insert(seed) || !self.accept(seed, vector) {
                return Err(ProtocolError::mismatch("a seed", "one used before", "a fresh seed for each vector"));
            }
        }
        Ok(())
    }

    /// Notes a seed and the vector that came with it; `false` if the seed came with another vector before. The same vector
    /// again is a client that tries again.
    fn accept(&self, seed: &[u8], vector: &[u8]) -> bool {
        let hash = blake3::hash(vector);
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = seen.hashes.get(seed) {
            return *known == hash;
        }
        if seen.order.len() == CAPACITY
            && let Some(oldest) = seen.order.pop_front()
        {
            seen.hashes.remove(&oldest);
        }
        seen.hashes.insert(seed.to_vec(), hash);
        seen.order.push_back(seed.to_vec());
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_serves_one_vector() {
        let ledger = Ledger::default();
        assert!(ledger.accept(&[1; 16], b"first"));
        assert!(ledger.accept(&[1; 16], b"first"), "a retry");
        assert!(!ledger.accept(&[1; 16], b"second"));
        assert!(ledger.accept(&[2; 16], b"second"));
    }

    #[test]
    fn old_seeds_are_forgotten() {
        let ledger = Ledger::default();
        for i in 0..=CAPACITY as u32 {
            assert!(ledger.accept(&i.to_le_bytes(), b"one"));
        }
        assert_eq!(ledger.0.lock().unwrap().hashes.len(), CAPACITY);
        assert!(ledger.accept(&0u32.to_le_bytes(), b"two"), "the oldest");
        assert!(!ledger.accept(&9u32.to_le_bytes(), b"two"));
    }
}
