//! Encryptions of zero made ahead, in a file: filled while there is time and power, used later, by whichever process.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use unspoken_ring::SecretRng;
use unspoken_rlwe::{Parameters, ZeroEncryption};
use zeroize::Zeroizing;

use crate::error::EncryptError;
use crate::key::ClientKey;
use crate::sealed_store::{SealedStore, SealingKey, Shape, state_file_bytes};

/// Where a pool file and its state file are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolPaths {
    /// The entries: as many bytes as they take.
    pub entries: PathBuf,
    /// The state file: 8 KiB that say which entries have been taken. Where backups do not reach is a good place for it.
    pub state_file: PathBuf,
}

impl PoolPaths {
    /// The state file beside the entries, with `.ledger` after the name.
    pub fn beside(entries: impl Into<PathBuf>) -> Self {
        let entries = entries.into();
        let mut state_file = entries.clone().into_os_string();
        state_file.push(".ledger");
        PoolPaths { entries, state_file: state_file.into() }
    }
}

/// What a pool file is for; the same whenever it is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolShape {
    /// Most primes of a message its entries serve: `CkksParameters::chain` of a level, or all of the ring for exact
    /// schemes.
    pub chain: usize,
    /// Most entries it holds.
    pub capacity: u32,
}

impl PoolShape {
    /// Bytes of the file of entries.
    pub fn file_bytes(&self, parameters: &Parameters, seeded: bool) -> u64 {
        self.store_shape(parameters, seeded, Vec::new()).file_bytes()
    }

    fn store_shape(&self, parameters: &Parameters, seeded: bool, label: Vec<u8>) -> Shape {
        let payload_bytes = ZeroEncryption::byte_len(parameters, self.chain, seeded);
        Shape { slots: self.capacity, payload_bytes, label }
    }
}

/// Encryptions of zero in a file, each handed out once, whatever crashes.
///
/// An entry is durably marked as taken before it is handed out: a crash may lose one, never bring one back. Several
/// processes may use one pool file on a local file system. The module's README says which copies are noticed and which
/// cannot be.
pub struct PoolFile {
    store: SealedStore<File>,
    key: ClientKey,
    shape: PoolShape,
}

impl PoolFile {
    /// Makes both files, empty. `sealing_key` is 32 random bytes that the caller keeps where secrets are kept: together
    /// with the files they are as good as the messages that will be sent.
    ///
    /// # Errors
    /// If a file is there already, or writing fails.
    pub fn create(
        paths: &PoolPaths,
        sealing_key: &Zeroizing<[u8; 32]>,
        key: ClientKey,
        shape: PoolShape,
    ) -> Result<Self, EncryptError> {
        let store_shape = shape.store_shape(key.parameters(), key.is_seeded(), label(&key, shape)?);
        let make = |path: &Path, bytes: u64| -> Result<File, EncryptError> {
            let file = options().create_new(true).open(path)?;
            file.set_len(bytes)?;
            unspoken_files::sync_parent(path)?;
            Ok(file)
        };
        let entries = make(&paths.entries, store_shape.file_bytes())?;
        let state_file = make(&paths.state_file, state_file_bytes())?;
        let store = SealedStore::create(entries, state_file, SealingKey::new(sealing_key), store_shape)?;
        Ok(PoolFile { store, key, shape })
    }

    /// Opens what [`PoolFile::create`] made, with the same keys and shape.
    ///
    /// # Errors
    /// If the files are not there, belong to something else, were copied or restored, or cannot be read.
    pub fn open(
        paths: &PoolPaths,
        sealing_key: &Zeroizing<[u8; 32]>,
        key: ClientKey,
        shape: PoolShape,
    ) -> Result<Self, EncryptError> {
        let store_shape = shape.store_shape(key.parameters(), key.is_seeded(), label(&key, shape)?);
        let (entries, state_file) = (options().open(&paths.entries)?, options().open(&paths.state_file)?);
        let store = SealedStore::open(entries, state_file, SealingKey::new(sealing_key), store_shape)?;
        Ok(PoolFile { store, key, shape })
    }

    /// Most primes of a message its entries serve.
    pub fn chain(&self) -> usize {
        self.shape.chain
    }

    /// Whether its entries are encryptions under `key`, in the same ring.
    pub(crate) fn check_key(&self, key: &ClientKey) -> Result<(), EncryptError> {
        const OPERATION: &str = "encrypt with a pool file";
        key.parameters().check_key(OPERATION, self.key.parameters())?;
        if label(key, self.shape)? == label(&self.key, self.shape)? {
            return Ok(());
        }
        Err(EncryptError::Files {
            operation: OPERATION,
            found: "entries for another key".into(),
            needed: "a pool file that was opened with the encryptor's key",
        })
    }

    /// Entries there are now.
    ///
    /// # Errors
    /// As for [`PoolFile::take`].
    pub fn available(&self) -> Result<usize, EncryptError> {
        self.store.available()
    }

    /// An entry if there is one. It is durably gone from the file when this returns.
    ///
    /// # Errors
    /// [`EncryptError::Damaged`] if the next entry is, which loses that one alone; [`EncryptError::Forked`] in a child
    /// of the process that opened the file; or if reading or writing fails.
    pub fn take(&mut self) -> Result<Option<ZeroEncryption>, EncryptError> {
        let Some(bytes) = self.store.take()? else { return Ok(None) };
        Ok(Some(ZeroEncryption::from_bytes(self.key.parameters(), &bytes)?))
    }

    /// Makes and adds at most `count` entries, one at a time; how many, less if the file is full.
    ///
    /// # Errors
    /// As for [`PoolFile::take`], or if the ring has fewer primes than the entries.
    pub fn refill(&mut self, rng: &mut SecretRng, count: usize) -> Result<usize, EncryptError> {
        for made in 0..count {
            if self.available()? >= self.shape.capacity as usize {
                return Ok(made);
            }
            let zero = self.key.zero(self.shape.chain, rng)?;
            // Another process may have been faster.
            if !self.store.put(zero.into_bytes(self.key.parameters())?)? {
                return Ok(made);
            }
        }
        Ok(count)
    }
}

impl fmt::Debug for PoolFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolFile")
            .field("parameters", &self.key.parameters().name())
            .field("shape", &self.shape)
            .finish_non_exhaustive()
    }
}

/// What seals are bound to besides the store's own: parameters, primes, key.
fn label(key: &ClientKey, shape: PoolShape) -> Result<Vec<u8>, EncryptError> {
    let mut label = key.parameters().fingerprint().0.to_vec();
    label.extend((shape.chain as u64).to_le_bytes());
    label.push(u8::from(key.is_seeded()));
    label.extend(key.identity()?);
    Ok(label)
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options
}
