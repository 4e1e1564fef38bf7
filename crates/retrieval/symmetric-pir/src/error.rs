//! Errors of this crate.

/// Errors of sealed records. Each says what was found, what was needed and what to do. None contains a name, a key or
/// a record.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SymmetricPirError {
    /// Bytes from outside, or a number, are not what the operation needs.
    #[error("{what}: found {found}, needed {needed}")]
    Mismatch {
        /// What was checked.
        what: &'static str,
        /// What was found.
        found: String,
        /// What was needed, and what to do.
        needed: String,
    },
    /// The proof in an answer of the service is wrong.
    #[error(
        "read the answer to blinded names: the proof is wrong, so another service key than the public one was used, \
         or the answer belongs to another request; do not trust this service, unless its owner says that the database \
         was rebuilt with another key"
    )]
    Proof,
    /// The authentication of a sealed record failed.
    #[error(
        "this record cannot be opened with this key: it belongs to another name or another database, or it is \
         damaged; ask for the key of the name under which the record is stored"
    )]
    Unopened,
    /// A record is longer than the padded length of all records.
    #[error(
        "a record of {found} bytes does not fit: all records are padded to {needed} bytes, so that their length tells \
         nothing; shorten it, or rebuild the database for longer records"
    )]
    TooLong {
        /// Bytes of the record.
        found: usize,
        /// Bytes to which records are padded.
        needed: u32,
    },
    /// The operating system has no randomness.
    #[error("take randomness from the operating system: {0}")]
    Randomness(getrandom::Error),
    /// The pseudorandom function failed for a reason that its arguments rule out.
    #[error("evaluate the oblivious pseudorandom function: {0}")]
    Oprf(voprf::Error),
}

impl SymmetricPirError {
    pub(crate) fn mismatch(what: &'static str, found: impl ToString, needed: impl ToString) -> Self {
        SymmetricPirError::Mismatch { what, found: found.to_string(), needed: needed.to_string() }
    }
}
