//! Errors of this crate.

use unspoken_ring::RingError;

use crate::key_kind::KeyKind;

/// Errors of this crate. Each names the operation, what was found, what was needed and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RlweError {
    /// An operation of the ring failed.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// A parameter set has less than 128 bits of security, and its name does not begin with `insecure_`.
    #[error(
        "parameters '{name}' have a modulus of {found:.1} bits at ring degree {degree} with a {secret} secret, which \
         leaves {bits:.0} bits of security; 128 bits allow {needed:.0}. Use a smaller modulus or a larger ring, or \
         begin the name with 'insecure_' for a test"
    )]
    Insecure {
        /// Name of the set.
        name: String,
        /// Ring degree.
        degree: usize,
        /// The secret's distribution.
        secret: String,
        /// Its largest modulus, in bits.
        found: f64,
        /// Its security level.
        bits: f64,
        /// The largest modulus with 128 bits of security.
        needed: f64,
    },
    /// A parameter set has no sparse secret for bootstrapping, or an impossible one.
    #[error("parameters '{name}' cannot switch to a sparse secret: {reason}; use a preset made for bootstrapping")]
    Encapsulation {
        /// Name of the set.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// A parameter set has no ring of half the degree.
    #[error(
        "parameters '{name}' have no ring of half the degree: their ring is conjugate-invariant; use a preset without \
         'real' in its name"
    )]
    HalfRing {
        /// Name of the set.
        name: String,
    },
    /// A switching key was requested for a parameter set without special primes.
    #[error(
        "parameters '{name}' have no special primes, so the noise of a {kind} would destroy the result; use a preset \
         without 'linear' in its name for products and rotations"
    )]
    NoSpecialPrimes {
        /// Name of the set.
        name: String,
        /// The key asked for.
        kind: KeyKind,
    },
    /// Keys are missing. The error names all of them.
    #[error("{operation} needs keys that are missing: {}; make them with the key plan of the circuit", list(missing))]
    MissingKeys {
        /// The operation.
        operation: &'static str,
        /// Each missing key with the number of chain primes it must cover.
        missing: Vec<(KeyKind, usize)>,
    },
    /// A ciphertext has the wrong number of components.
    #[error("{operation} needs ciphertexts of {needed} components, found {found}; relinearise first")]
    Components {
        /// The operation.
        operation: &'static str,
        /// Components found.
        found: usize,
        /// Components needed.
        needed: usize,
    },
    /// A key belongs to another parameter object.
    #[error("{operation}: a key of {found}, needed one of parameters '{needed}'; make both with one parameter object")]
    OtherParameters {
        /// The operation.
        operation: &'static str,
        /// What the key was made for.
        found: String,
        /// Name of the parameters it was needed for.
        needed: String,
    },
    /// The process was forked after an encryption of zero was made, so both processes may have it.
    #[error("{operation}: the encryption of zero belongs to the parent process; make one in this process")]
    Forked {
        /// The operation.
        operation: &'static str,
    },
    /// Serialised data cannot be read.
    #[error("cannot read {what}: found {found}, needed {needed}")]
    Decode {
        /// The object that was read.
        what: &'static str,
        /// The data found.
        found: String,
        /// The data needed.
        needed: String,
    },
    /// Reading or writing failed.
    #[error("input or output failed: {0}")]
    Io(#[from] std::io::Error),
    /// The caller cancelled the operation.
    #[error("interrupted")]
    Interrupted,
}

fn list(keys: &[(KeyKind, usize)]) -> String {
    let name = |(kind, chain): &(KeyKind, usize)| format!("{kind} ({chain} primes)");
    keys.iter().map(name).collect::<Vec<_>>().join(", ")
}
