//! Uploads to databases of encrypted entries: what a service accepts from the owner of such a database.

use std::sync::atomic::AtomicBool;

use crate::error::SchemeError;
use crate::version::VersionedDatabase;

/// Bytes of a write key.
pub const WRITE_KEY_BYTES: usize = 32;

/// The version of a database before its first upload is committed: it has no entries.
pub const EMPTY_VERSION: u64 = 1;

/// An upload: entries that replace entries of one version, and together make the next version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upload {
    /// Random number that distinguishes the upload from others.
    pub id: u64,
    /// The version that it changes.
    pub base: u64,
}

/// How far a database has come with an upload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UploadState {
    /// The current version of the database.
    pub version: u64,
    /// The last upload that was begun; all numbers are zero if there was none. It has been committed if its base is
    /// below the current version.
    pub upload: Upload,
    /// Number of its chunks that are stored durably and not committed yet.
    pub chunks: u64,
}

/// A database of encrypted entries that its owner changes while it is served.
///
/// An upload consists of chunks, which are stored as they arrive, and a commit, which makes one version of all of them.
/// All calls may be repeated after a lost reply. A new upload takes the place of one that was not committed.
///
/// The calls come from threads of the pool, and a commit uses all of these. So a call must not wait for another call:
/// it could run on a thread on which the other call is suspended. It fails with [`SchemeError::Busy`].
pub trait UploadedDatabase: VersionedDatabase {
    /// Whether this is the key of the database's owner. Takes the same time for every key of other people.
    fn is_write_key(&self, key: &[u8; WRITE_KEY_BYTES]) -> bool;

    /// How far the database has come.
    ///
    /// # Errors
    /// [`SchemeError::Busy`].
    fn upload_state(&self) -> Result<UploadState, SchemeError>;

    /// Stores a chunk durably: entries by number, in ascending order, also from one chunk to the next. The first chunk
    /// has number 0 and begins the upload. A chunk that is stored already is not stored again.
    ///
    /// # Errors
    /// If the base is not the current version, another upload has begun, a chunk is missing before this one or has no
    /// entries, a number is out of range or not in order, an entry is malformed, storing fails, or
    /// [`SchemeError::Busy`].
    fn stage(&self, upload: Upload, chunk: u64, entries: &[(u64, &[u8])]) -> Result<UploadState, SchemeError>;

    /// Makes the next version of all entries of an upload of `chunks` chunks, atomically and durably. An upload that is
    /// committed already is not committed again.
    ///
    /// # Errors
    /// If the upload is not the last one that was begun, a chunk is missing, storing fails, when `cancel` is set, or
    /// [`SchemeError::Busy`].
    fn commit_upload(&self, upload: Upload, chunks: u64, cancel: &AtomicBool) -> Result<UploadState, SchemeError>;
}
