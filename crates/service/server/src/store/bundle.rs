//! Bundles of a store, their states, and why one is refused.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};
use std::{fmt, io};

use tokio_util::sync::CancellationToken;

use crate::store::{Holder, Meta};

/// Id of a key bundle: 128 random bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct KeyId([u8; 16]);

impl KeyId {
    pub(super) fn random() -> io::Result<Self> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
        Ok(Self(bytes))
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let id = Self(hex::decode_to_array(text).ok()?);
        // Upper-case digits or a prefix 0x would be a second name for the same bundle.
        (id.to_string() == text).then_some(id)
    }

    pub(crate) fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    #[cfg(test)]
    pub(crate) fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

/// Why the store refused an operation. It is not part of `ServerError`, which whoever starts a service sees: each of
/// these becomes a `Refusal`, which a client sees.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    #[error("no such key bundle")]
    NotFound,
    #[error("the bundle has {needed} bytes; the client's other bundles have {held} of the {limit} bytes for one token")]
    TokenQuota { needed: u64, held: u64, limit: u64 },
    #[error(
        "the bundle has {needed} bytes; of the {limit} bytes for keys, {kept} are taken by bundles that are in use or \
         belong to tokens; needed at least {mib} MiB for keys",
        mib = kept.saturating_add(*needed).div_ceil(1 << 20)
    )]
    Quota { needed: u64, kept: u64, limit: u64 },
    #[error("the client's other bundles are {held} of the {limit} that one token may have")]
    TokenCount { held: usize, limit: usize },
    #[error(
        "clients without a token have {held} of the {limit} bundles from this address, and all of them are in use or \
         arriving"
    )]
    AddressCount { held: usize, limit: usize },
    #[error("all {limit} bundles that the service takes are in use, arriving, or belong to tokens")]
    Count { limit: usize },
    #[error("bundles that arrived meanwhile took the room for this one")]
    RoomTaken,
    #[error("the chunk starts at byte {found}; the server has {have} bytes")]
    OffsetMismatch { found: u64, have: u64 },
    #[error("the chunk ends at byte {end}; {length} were declared")]
    TooLong { end: u64, length: u64 },
    #[error("the bundle is {found}; needed {needed}")]
    WrongState { found: String, needed: &'static str },
    #[error("the stored bundle is damaged: {found}")]
    Damaged { found: String },
    #[error("the uploaded bytes do not match the declared checksum")]
    ChecksumMismatch,
    #[error("disk: {0}")]
    Io(#[from] io::Error),
}

/// Limits on what clients may store, and for how long.
#[derive(Clone, Debug)]
pub(crate) struct StorePolicy {
    /// 0: half of the free disk.
    pub(crate) key_disk_bytes: u64,
    /// 0: a quarter of `key_disk_bytes`.
    pub(crate) key_bytes_per_token: u64,
    /// Number of bundles of all clients.
    pub(crate) bundles: usize,
    /// Number of bundles of one token.
    pub(crate) bundles_per_token: usize,
    /// Number of bundles of clients without a token that connect from one address.
    pub(crate) bundles_per_address: usize,
    /// The key sets of the applications that are offered.
    pub(crate) key_sets: HashSet<String>,
    pub(crate) upload_lifetime: Duration,
    pub(crate) key_lifetime: Duration,
}

/// One bundle.
pub(crate) struct Bundle {
    pub(crate) id: KeyId,
    pub(crate) meta: Meta,
    pub(super) holder: Holder,
    progress: Mutex<Progress>,
    /// Held while a request changes the bundle.
    pub(super) writer: Arc<tokio::sync::Mutex<()>>,
    /// Cancelled when another request wants to write.
    current: Mutex<CancellationToken>,
}

/// The right to change one bundle.
pub(crate) type WriteGuard = tokio::sync::OwnedMutexGuard<()>;

#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    pub(super) state: State,
    pub(super) offset: u64,
    /// When its lifetime began: when it was finished, or when its last byte arrived.
    pub(super) touched: SystemTime,
    /// When it was last used; after a start of the service, when it was finished.
    pub(super) used: SystemTime,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Uploading,
    Ready,
    Gone,
}

impl Bundle {
    pub(super) fn new(id: KeyId, meta: Meta, holder: Holder, state: State, offset: u64, touched: SystemTime) -> Self {
        Self {
            id,
            meta,
            holder,
            progress: Mutex::new(Progress { state, offset, touched, used: touched }),
            writer: Arc::default(),
            current: Mutex::default(),
        }
    }

    /// Tells the current writer of this bundle to stop, and waits for the right to write. The returned token is
    /// cancelled when the next writer takes over.
    pub(crate) async fn take_over(&self) -> (WriteGuard, CancellationToken) {
        let token = CancellationToken::new();
        let previous = {
            let mut current = self.current.lock().unwrap_or_else(|poison| poison.into_inner());
            std::mem::replace(&mut *current, token.clone())
        };
        previous.cancel();
        (self.writer.clone().lock_owned().await, token)
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.progress().state == State::Ready
    }

    /// Whether it was deleted after a request found it.
    pub(crate) fn is_gone(&self) -> bool {
        self.progress().state == State::Gone
    }

    /// Notes that a query uses the bundle: others are deleted before it.
    pub(crate) fn mark_used(&self) {
        self.progress().used = SystemTime::now();
    }

    pub(crate) fn offset(&self) -> u64 {
        self.progress().offset
    }

    pub(super) fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(super) fn expires(&self, policy: &StorePolicy) -> SystemTime {
        let progress = self.progress();
        let lifetime = match progress.state {
            State::Ready => policy.key_lifetime,
            State::Uploading | State::Gone => policy.upload_lifetime,
        };
        progress.touched + lifetime
    }

    /// Makes a bundle unusable, before its files are deleted. Returns its state before.
    pub(super) fn begin_delete(&self) -> Result<State, StoreError> {
        match std::mem::replace(&mut self.progress().state, State::Gone) {
            State::Gone => Err(StoreError::NotFound),
            state => Ok(state),
        }
    }

    pub(super) fn expect_uploading(&self) -> Result<Progress, StoreError> {
        let progress = *self.progress();
        match progress.state {
            State::Uploading => Ok(progress),
            State::Gone => Err(StoreError::NotFound),
            State::Ready => Err(StoreError::WrongState { found: "finished".into(), needed: "an upload" }),
        }
    }
}
