//! What can go wrong with encryption and with pools.

use std::time::Duration;

use unspoken_ckks::CkksError;
use unspoken_ring::RingError;
use unspoken_rlwe::RlweError;

/// Errors of this crate. Each says the operation, what was found, what was needed and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncryptError {
    /// Encoding or encryption failed; a value that is no finite number is one such error, with its index.
    #[error(transparent)]
    Ckks(#[from] CkksError),
    /// An encryption of zero could not be made or read.
    #[error(transparent)]
    Rlwe(#[from] RlweError),
    /// A value is too large for the modulus. The value is not said: it is a secret.
    #[error(
        "encrypt: value {index} is the largest, and too large: times the scale 2^{scale_bits:.1} values must stay \
         below 2^{log2_limit:.1}; use a smaller scale or a higher level"
    )]
    Overflow {
        /// Index of the largest value.
        index: usize,
        /// Bits of the scale.
        scale_bits: f64,
        /// Bits that coefficients may have.
        log2_limit: f64,
    },
    /// A pool has less memory than one entry takes.
    #[error("make a pool: {found} bytes, needed {needed} for one entry; give it more or encrypt without a pool")]
    Capacity {
        /// Bytes it may use.
        found: usize,
        /// Bytes of an entry.
        needed: usize,
    },
    /// A pool is for vectors over fewer primes than the one to be encrypted.
    #[error(
        "encrypt: a vector over {found} primes, and a pool for vectors over at most {needed}; make the pool for the \
         vector's level"
    )]
    Primes {
        /// The vector's primes.
        found: usize,
        /// The pool's.
        needed: usize,
    },
    /// A pool had nothing in time.
    #[error(
        "take from a pool: no entry came within {waited:?}; wait longer, refill it, or let the encryptor fall back"
    )]
    Exhausted {
        /// How long the caller waited.
        waited: Duration,
    },
    /// The process was forked since the pool was made.
    #[error("{operation}: the pool belongs to the process this one was forked from; make or open one here")]
    Forked {
        /// The operation.
        operation: &'static str,
    },
    /// The thread that refills a pool stopped.
    #[error("refill a pool: {reason}; what was there is used up, make a new pool")]
    Refill {
        /// Why.
        reason: String,
    },
    /// A pool's files cannot be used.
    #[error("{operation}: found {found}, needed {needed}")]
    Files {
        /// The operation.
        operation: &'static str,
        /// What was there.
        found: String,
        /// What should have been there, or what to do.
        needed: &'static str,
    },
    /// An entry of a pool file is not what was sealed; it has been thrown away.
    #[error("take from a pool file: entry {sequence} is damaged and was thrown away; take the next one")]
    Damaged {
        /// Its number.
        sequence: u64,
    },
    /// Reading or writing failed.
    #[error("a pool file: {0}")]
    Io(#[from] std::io::Error),
    /// The operating system gave no randomness.
    #[error(transparent)]
    Ring(#[from] RingError),
}
