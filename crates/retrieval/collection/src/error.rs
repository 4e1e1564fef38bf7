//! Errors of collections.

use std::path::PathBuf;

use unspoken_database::DatabaseError;
use unspoken_pir_scheme::SchemeError;
use unspoken_ring::RingError;
use unspoken_search_index::IndexError;

/// Errors of this crate. Each says what was found, what was needed and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CollectionError {
    /// The index.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// The documents.
    #[error(transparent)]
    Documents(#[from] DatabaseError),
    /// The parameters.
    #[error(transparent)]
    Scheme(#[from] SchemeError),
    /// The operating system has no randomness.
    #[error(transparent)]
    Randomness(#[from] RingError),
    /// There is a collection already.
    #[error("{dir} has a collection already; replace it, or take another directory", dir = dir.display())]
    Exists {
        /// The directory.
        dir: PathBuf,
    },
    /// There are more documents than vectors, or fewer.
    #[error("build a collection: found {documents} documents and {vectors} vectors, needed as many")]
    Counts {
        /// Number of documents.
        documents: usize,
        /// Number of vectors.
        vectors: usize,
    },
    /// Two documents have one id.
    #[error("build a collection: found two documents with the id {id}, needed one")]
    Twice {
        /// The id.
        id: String,
    },
    /// The documents do not belong to the index.
    #[error(
        "open a collection: found {found} documents in {dir}, needed one for each of the {needed} positions of the \
         index; build it again",
        dir = dir.display()
    )]
    Positions {
        /// The directory of the documents.
        dir: PathBuf,
        /// Records in it.
        found: u64,
        /// Positions of the index.
        needed: u64,
    },
    /// The documents are older than the index.
    #[error(
        "open a collection: found version {found} of the documents in {dir}, needed {needed} or later, which the index \
         has; copy the directory again, whole",
        dir = dir.display()
    )]
    Versions {
        /// The directory of the documents.
        dir: PathBuf,
        /// Their version.
        found: u32,
        /// The version that the index was changed with.
        needed: u32,
    },
    /// Another collection with other parameters took the place of one that is served.
    #[error("follow a collection: found parameters {found}, needed {needed} as before; restart the service")]
    Parameters {
        /// Name of the new parameters.
        found: String,
        /// Name of those before.
        needed: String,
    },
    /// The work was cancelled.
    #[error("the work was cancelled")]
    Cancelled,
}
