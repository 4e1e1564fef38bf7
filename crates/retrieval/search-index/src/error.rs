//! Errors of indices.

use std::path::{Path, PathBuf};

use unspoken_pir_scheme::SchemeError;

/// Errors of this crate. Each says what was found, what was needed and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// There are no vectors.
    #[error("index vectors: found none, needed one or more")]
    Empty,
    /// A vector has another number of coordinates than the first.
    #[error("index vectors: found {found} coordinates in vector {vector}, needed {needed} as in vector 0")]
    Width {
        /// Number of the vector, from zero.
        vector: usize,
        /// Its coordinates.
        found: usize,
        /// Coordinates of the first vector.
        needed: usize,
    },
    /// A vector has another number of coordinates than those of the index.
    #[error("vector of a new document: found {found} coordinates, needed {needed}, as the index has")]
    OtherWidth {
        /// Its coordinates.
        found: usize,
        /// Coordinates of a vector of the index.
        needed: usize,
    },
    /// There is no room for a new document near its vector.
    #[error("add a document: found the {clusters} nearest clusters full, needed room in one; build the index again")]
    Full {
        /// The clusters that it may go to.
        clusters: usize,
    },
    /// An id is too long.
    #[error("id of a document: found {found} bytes, needed at most {max}", max = crate::MAX_ID_BYTES)]
    Id {
        /// Bytes of the id.
        found: usize,
    },
    /// A record is no document.
    #[error("document: found {found} bytes of something else, needed the record of a document of this release")]
    Record {
        /// Bytes of the record.
        found: usize,
    },
    /// A vector has no direction.
    #[error(
        "index vectors: found {found} in vector {vector}, needed finite coordinates that are not all zero; leave it out"
    )]
    Direction {
        /// Number of the vector, from zero.
        vector: usize,
        /// What was found.
        found: &'static str,
    },
    /// There is no such shard of an index.
    #[error(
        "shard of an index: found shard {number} of {shards}, needed one of 1 to {shards}, and at most {groups} \
         shards, since the index has so many groups of columns"
    )]
    Shard {
        /// Number of the shard.
        number: usize,
        /// Number of shards.
        shards: usize,
        /// Groups of the index.
        groups: usize,
    },
    /// No layout serves these vectors.
    #[error("plan an index: found {found}, needed {needed}")]
    Plan {
        /// What was found.
        found: String,
        /// What was needed.
        needed: String,
    },
    /// A file could not be read or written.
    #[error("{what} {path}: {source}; check the path and its permissions", path = path.display())]
    Io {
        /// What was done.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A file of an index is not as it was written.
    #[error("open an index: found {found} in {path}, needed {needed}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What was found.
        found: String,
        /// What was needed.
        needed: String,
    },
    /// The table has no such shape.
    #[error(transparent)]
    Scheme(#[from] SchemeError),
}

impl IndexError {
    pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| IndexError::Io { what, path, source }
    }

    pub(crate) fn file(path: &Path, found: impl ToString, needed: impl ToString) -> Self {
        IndexError::File { path: path.to_owned(), found: found.to_string(), needed: needed.to_string() }
    }
}
