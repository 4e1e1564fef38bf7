//! Databases whose records are encrypted too (Pirouette, Remark 1): a client stores its records at a server, which
//! learns neither the records nor which one is read.

use std::sync::atomic::AtomicBool;

use rayon::prelude::*;
use unspoken_gsw::RlweCiphertext;
use unspoken_ring::{Domain, Poly, SecretRng, Seed};

use crate::client::PirSecret;
use crate::entry::encode_secret;
use crate::error::{PirError, range};
use crate::expansion;
use crate::keys::PreparedKeys;
use crate::parameters::PirParameters;
use crate::query::Query;
use crate::response::Response;
use crate::server::{PhaseTimes, Stopwatch, rotated_to_front, selected};
use crate::shape::DatabaseShape;

/// An encryption of [`PirParameters::pieces`] consecutive pieces, as stored and sent: a seed and a polynomial.
#[derive(Clone, Debug)]
pub struct EncryptedEntry {
    seed: Seed,
    body: Poly,
}

impl EncryptedEntry {
    /// Bytes of an entry.
    pub fn byte_len(parameters: &PirParameters) -> usize {
        size_of::<Seed>() + parameters.ring().residue_bytes(parameters.ring().basis())
    }

    /// Serialises the entry: the seed, then the packed residues.
    pub fn to_bytes(&self, parameters: &PirParameters) -> Vec<u8> {
        let mut bytes = self.seed.0.to_vec();
        parameters.ring().write_residues(&self.body, &mut bytes);
        bytes
    }

    /// Reads an entry from untrusted bytes.
    ///
    /// # Errors
    /// If the length is wrong, or a residue is not below its prime.
    pub fn from_bytes(parameters: &PirParameters, bytes: &[u8]) -> Result<Self, PirError> {
        let needed = Self::byte_len(parameters);
        let wrong = || PirError::format("encrypted entry", format!("{} bytes", bytes.len()), format!("{needed} bytes"));
        let (seed, rest) = bytes.split_first_chunk().filter(|_| bytes.len() == needed).ok_or_else(wrong)?;
        let ring = parameters.ring();
        Ok(EncryptedEntry { seed: Seed(*seed), body: ring.read_residues(rest, ring.basis(), Domain::Evaluation)? })
    }
}

impl PirSecret {
    /// Encrypts [`PirParameters::pieces`] consecutive pieces; missing bytes count as zeros. Every encryption has fresh
    /// randomness; to change an entry, encrypt it again.
    ///
    /// # Errors
    /// If there are too many bytes.
    pub fn encrypt_entry(&self, pieces: &[u8], rng: &mut SecretRng) -> Result<EncryptedEntry, PirError> {
        let parameters = self.parameters();
        let mut message = encode_secret(parameters, pieces)?;
        parameters.ring().scale_assign(&mut message, parameters.delta())?;
        let seed = rng.seed();
        Ok(EncryptedEntry { body: self.ring().encrypt_seeded(&message, (&seed, 0), rng)?, seed })
    }
}

/// A table of encrypted entries in memory.
#[derive(Debug)]
pub struct EncryptedDatabase {
    parameters: PirParameters,
    shape: DatabaseShape,
    /// All entries that an index can address; those not written are zero.
    entries: Vec<RlweCiphertext>,
}

impl EncryptedDatabase {
    /// A database of `pieces` pieces, all zeros.
    ///
    /// # Errors
    /// As for [`DatabaseShape::new`].
    pub fn new(parameters: &PirParameters, pieces: u64) -> Result<Self, PirError> {
        let shape = DatabaseShape::new(parameters, pieces)?;
        let ring = parameters.ring();
        let zero = RlweCiphertext::trivial(ring, &ring.zero(ring.basis(), Domain::Evaluation))?;
        let entries = vec![zero; 1 << (shape.row_bits + shape.column_bits)];
        Ok(EncryptedDatabase { parameters: parameters.clone(), shape, entries })
    }

    /// Shape of the database: piece `i` is in entry `i` divided by the pieces of an entry.
    pub fn shape(&self) -> DatabaseShape {
        self.shape
    }

    /// Overwrites an entry.
    ///
    /// # Errors
    /// If there is no such entry.
    pub fn write(&mut self, number: u64, entry: &EncryptedEntry) -> Result<(), PirError> {
        let needed = self.shape.pieces.div_ceil(self.parameters.pieces() as u64);
        match self.entries.get_mut(number as usize).filter(|_| number < needed) {
            Some(place) => {
                *place = RlweCiphertext::expand(self.parameters.ring(), &entry.body, &entry.seed)?;
                Ok(())
            }
            None => Err(range("write an encrypted entry", number, format!("a number below {needed}"))),
        }
    }

    /// Computes the response to a query: every bit of the index selects one half of the remaining entries. The keys and
    /// the query must be of the secret that encrypted the entries.
    ///
    /// # Errors
    /// If the keys do not fit the query's mode, if anything has other parameters, or when `cancel` is set.
    pub fn answer(
        &self,
        keys: &PreparedKeys,
        query: &Query,
        cancel: &AtomicBool,
    ) -> Result<(Response, PhaseTimes), PirError> {
        /// Bits of the number of entries in a range. Ranges are selected from one after the other.
        const RANGE_BITS: usize = 9;
        let (ring, shape) = (self.parameters.ring(), self.shape);
        let mut phases = PhaseTimes::default();
        let mut watch = Stopwatch::new(cancel);
        let bits = expansion::expand(keys, shape, query, cancel)?;
        watch.lap(&mut phases.expansion)?;
        let (places, entries) = bits.split_at(shape.piece_bits as usize);
        let (inner, outer) = entries.split_at(entries.len().min(RANGE_BITS));
        let mut chosen = Vec::with_capacity(1 << outer.len());
        for range in self.entries.chunks(1 << inner.len()) {
            chosen.push(match inner.split_last() {
                // The first selection reads the entries without copying them.
                Some((bit, rest)) => {
                    let (zeros, ones) = range.split_at(range.len() / 2);
                    let pairs = zeros.par_iter().zip(ones);
                    let half = pairs.map(|(zero, one)| bit.select(ring, zero, one)).collect::<Result<_, _>>()?;
                    selected(ring, half, rest)?
                }
                None => selected(ring, range.to_vec(), inner)?,
            });
            watch.lap(&mut phases.selection)?;
        }
        let chosen = rotated_to_front(ring, selected(ring, chosen, outer)?, places)?;
        watch.lap(&mut phases.selection)?;
        let response = Response::compress(keys, &chosen)?;
        watch.lap(&mut phases.compression)?;
        Ok((response, phases))
    }
}
