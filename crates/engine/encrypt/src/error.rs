//! Errors of this crate.

use std::time::Duration;

use unspoken_ckks::CkksError;
use unspoken_ring::{Basis, RingError};
use unspoken_rlwe::RlweError;

/// An error of this crate. Each message contains the operation, what was found, what was needed and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncryptError {
    /// Encoding or encryption failed. If a value is not a finite number, the error contains its index.
    #[error(transparent)]
    Ckks(#[from] CkksError),
    /// An encryption of zero could not be made or read.
    #[error(transparent)]
    Rlwe(#[from] RlweError),
    /// A value is too large for the modulus. The message does not contain the value, because it is secret.
    #[error(
        "encrypt: value {index}, the largest, is too large: values times the scale 2^{scale_bits:.1} must stay \
         below 2^{log2_limit:.1}; use a smaller scale or a higher level"
    )]
    Overflow {
        /// Index of the largest value.
        index: usize,
        /// Bits of the scale.
        scale_bits: f64,
        /// Maximum bits of a coefficient.
        log2_limit: f64,
    },
    /// A pool has too little memory for one entry.
    #[error("make a pool: {found} bytes, needed {needed} for one entry; give it more or encrypt without a pool")]
    Capacity {
        /// Bytes the pool may use.
        found: usize,
        /// Bytes of an entry.
        needed: usize,
    },
    /// The vector has more primes than the entries of the pool.
    #[error(
        "encrypt: the vector is over {found}, the pool for vectors over some of {needed}; make the pool for the \
         vector's level"
    )]
    Primes {
        /// The primes of the vector.
        found: Basis,
        /// The primes of the pool.
        needed: Basis,
    },
    /// A pool had no entry in time.
    #[error(
        "take from a pool: no entry came within {waited:?}; wait longer, refill it, or let the encryptor fall back"
    )]
    Exhausted {
        /// The time the caller waited.
        waited: Duration,
    },
    /// The process was forked since the pool was made.
    #[error("{operation}: the pool belongs to the process this one was forked from; make or open a new one")]
    Forked {
        /// The operation.
        operation: &'static str,
    },
    /// The background thread of a pool failed.
    #[error("refill a pool: {reason}; the pool is empty, make a new one")]
    Refill {
        /// Reason of the failure.
        reason: String,
    },
    /// A pool's files cannot be used.
    #[error("{operation}: found {found}, needed {needed}")]
    Files {
        /// The operation.
        operation: &'static str,
        /// What was found.
        found: String,
        /// What was needed, or what to do.
        needed: &'static str,
    },
    /// A pool has entries for another key.
    #[error("{operation}: found entries for another key, needed a pool that was made or opened with the same key")]
    OtherKey {
        /// The operation.
        operation: &'static str,
    },
    /// An entry of a pool file failed authentication and was discarded.
    #[error("take from a pool file: entry {sequence} is damaged and was discarded; take the next one")]
    Damaged {
        /// Number of the entry.
        sequence: u64,
    },
    /// Reading or writing failed.
    #[error("read or write a pool file: {0}")]
    Io(#[from] std::io::Error),
    /// The operating system provided no randomness.
    #[error(transparent)]
    Ring(#[from] RingError),
}
