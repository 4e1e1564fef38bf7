//! A pool of precomputed encryptions of zero in a file. It is filled when time and power are available, and any process
//! can use it later.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use unspoken_ring::{Basis, SecretRng};
use unspoken_rlwe::{Parameters, ZeroEncryption};
use zeroize::Zeroizing;

use crate::error::EncryptError;
use crate::key::ClientKey;
use crate::sealed_store::{SealedStore, SealingKey, Shape, state_file_bytes};

/// Paths of a pool file and its state file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolPaths {
    /// The file of entries.
    pub entries: PathBuf,
    /// The state file: 8 KiB that record which entries have been taken. A place outside backups is best.
    pub state_file: PathBuf,
}

impl PoolPaths {
    /// Places the state file in the directory of the entries, under the same name with `.ledger` appended.
    pub fn beside(entries: impl Into<PathBuf>) -> Self {
        let entries = entries.into();
        PoolPaths { state_file: entries.with_added_extension("ledger"), entries }
    }
}

/// The shape of a pool file, which must be the same whenever it is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolShape {
    /// The primes of an entry: `CkksParameters::basis_up_to` a level, or all primes of the ring for exact schemes. A
    /// message over some of them can use it.
    pub basis: Basis,
    /// Maximum number of entries.
    pub capacity: u32,
}

impl PoolShape {
    /// Bytes of the file of entries.
    pub fn file_bytes(&self, parameters: &Parameters, seeded: bool) -> u64 {
        self.store_shape(parameters, seeded, Vec::new()).file_bytes()
    }

    fn store_shape(&self, parameters: &Parameters, seeded: bool, label: Vec<u8>) -> Shape {
        let payload_bytes = ZeroEncryption::byte_len(parameters, self.basis, seeded);
        Shape { slots: self.capacity, payload_bytes, label }
    }
}

/// A pool of encryptions of zero in a file. Each entry is handed out at most once, even after a crash.
///
/// Fill it when time and power are available. Entries are sealed with XChaCha20-Poly1305 under a key of the caller,
/// bound to the parameters, the level, the client's key, the file and the number of the entry. Numbers only increase. A
/// second file of 8 KiB, the state file, contains the number of the next entry to take. To take an entry, the pool
/// locks the state file, reads and opens the entry, writes the state file, waits until the write is durable, unlocks,
/// and returns the entry. So:
///
/// * After a crash before the state file is durable, the entry is still available. After a later crash, the entry is
///   lost and never used.
/// * The state file has two records, written alternately. Before the older record is overwritten, the newer record is
///   made durable, even if another process wrote it. If only one record is complete, it may be one entry behind, so the
///   next entry is skipped.
/// * After a failed write to the state file, all calls on the handle fail until the files are opened again.
/// * If an old file of entries is used with the current state file, its taken entries are ignored.
/// * Several processes may share the files on a local file system (the lock is `flock`).
/// * Damage is detected, and only the damaged entry is lost. If the state file has no complete record, the pool cannot
///   be used any more.
///
/// Each take waits for one sync of the disk, so a pool file is not fast on a disk with slow syncs. Entries cannot be
/// moved from a file to memory in advance: taking an entry uses it.
///
/// # Copies of the files
/// The state file also contains the inode numbers and the birth times of both files, which detects some copies:
///
/// * One or both files copied, or restored as new files, as most backup programs do: an error.
/// * The file of entries overwritten in place with an old one: its used entries are ignored, the others are valid.
///
/// **Not detected:**
///
/// 1. Both files overwritten in place, or an image of the disk or of a virtual machine restored.
/// 2. A writable snapshot or clone of the directory (btrfs, ZFS, LVM), which keeps inode numbers and birth times.
/// 3. Copies on a file system without birth times, if the inode number is reused.
/// 4. An image of memory restored next to or after the original: a virtual machine's snapshot with its memory, or CRIU.
///
/// If one of the first three cannot be ruled out, use the pool in memory ([`Pool`](crate::Pool)), because backups of
/// files do not contain memory. A state file on another disk, or outside backups and snapshots ([`PoolPaths`]), makes
/// the first two much less likely. Device numbers are not compared, because they can change when a machine restarts.
///
/// The fourth does not depend on files: an image of memory duplicates the pool in memory and every [`SecretRng`], and
/// both copies draw the same randomness, as with any program that encrypts. Do not restore a running client; start a
/// new one.
pub struct PoolFile {
    store: SealedStore<File>,
    key: ClientKey,
    shape: PoolShape,
}

impl PoolFile {
    /// Creates both files, empty. `sealing_key` is 32 random bytes that the caller must store like a secret: together
    /// with the files they reveal the messages that will be sent.
    ///
    /// # Errors
    /// If a file exists already, or writing fails.
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

    /// Opens the files that [`PoolFile::create`] made, with the same keys and shape.
    ///
    /// # Errors
    /// If the files do not exist, belong to another pool, were copied or restored, or cannot be read.
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

    /// The primes of an entry. A message over some of them can use it.
    pub fn basis(&self) -> Basis {
        self.shape.basis
    }

    /// Checks that its entries are encryptions under `key`, in the same ring.
    ///
    /// # Errors
    /// [`EncryptError::OtherKey`] if they are not, or if the key belongs to another object of the parameters.
    pub fn check_key(&self, key: &ClientKey) -> Result<(), EncryptError> {
        key.check_pool("encrypt with a pool file", &self.key)
    }

    /// Number of entries that can be taken now.
    ///
    /// # Errors
    /// As for [`PoolFile::take`].
    pub fn available(&self) -> Result<usize, EncryptError> {
        self.store.available()
    }

    /// Takes an entry if there is one. When this returns, the entry is durably removed from the file.
    ///
    /// # Errors
    /// [`EncryptError::Damaged`] if the next entry is damaged, in which case only that entry is lost;
    /// [`EncryptError::Forked`] in a child of the process that opened the file; or if reading or writing fails.
    pub fn take(&mut self) -> Result<Option<ZeroEncryption>, EncryptError> {
        let Some(bytes) = self.store.take()? else { return Ok(None) };
        let (parameters, seeded) = (self.key.parameters(), self.key.is_seeded());
        Ok(Some(ZeroEncryption::from_bytes(parameters, bytes, self.shape.basis, seeded)?))
    }

    /// Makes and adds at most `count` entries, one at a time. Returns the number added, which is smaller if the file
    /// becomes full.
    ///
    /// # Errors
    /// As for [`PoolFile::take`], or if the ring has fewer primes than the entries.
    pub fn refill(&mut self, rng: &mut SecretRng, count: usize) -> Result<usize, EncryptError> {
        for made in 0..count {
            if self.available()? >= self.shape.capacity as usize {
                return Ok(made);
            }
            let zero = self.key.zero(self.shape.basis, rng)?;
            // Another process may have filled the file.
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

/// Data that seals are bound to in addition to the store's own context: parameters, primes, key.
fn label(key: &ClientKey, shape: PoolShape) -> Result<Vec<u8>, EncryptError> {
    let mut label = key.parameters().fingerprint().0.to_vec();
    label.extend((shape.basis.chain as u32).to_le_bytes());
    label.extend((shape.basis.terminal as u32).to_le_bytes());
    label.push(u8::from(key.is_seeded()));
    label.extend(key.identity()?);
    Ok(label)
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options
}
