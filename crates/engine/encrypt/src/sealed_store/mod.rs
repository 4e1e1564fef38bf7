//! A store of sealed entries in a file. Each entry is taken at most once.
//!
//! Entries are numbered when they are made, and taken in that order. A second file, the state file, records which
//! entries are taken: it contains the number of the next entry, and is durable before the entry leaves this module. The
//! state of the file of entries therefore does not matter. If it was restored, copied or damaged, it may contain an old
//! entry again, but the number of that entry is below the number in the state file, so the entry is not used. Entries
//! are overwritten in the file only so that old ones cannot be read. If one record of the state file is incomplete, the
//! other may be one entry behind, so the next entry is skipped.
//!
//! File of entries: magic and version (8 bytes), an id that binds it to its state file (16); from byte 4096 on slots. A
//! slot contains the number of its entry (u64, 0 for none), the nonce, the sealed bytes and the tag, and is padded to a
//! multiple of 4096 bytes.

mod device;
#[cfg(test)]
mod process_tests;
mod seal;
#[cfg(test)]
mod simulated;
mod state;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

pub(crate) use device::Device;
pub(crate) use seal::SealingKey;
use seal::{NONCE_BYTES, TAG_BYTES};
use state::{STATE_BYTES, StoreState};
use unspoken_ring::{RingError, declassify, process_generation};
use zeroize::Zeroizing;

use crate::error::EncryptError;

const MAGIC: [u8; 8] = *b"uspool\x01\x00";
const ID_BYTES: usize = 16;
/// Bytes before the first slot, and the unit of the length of slots.
const PAGE: u64 = 4096;
/// Bytes of number and nonce. Without them the rest of a slot cannot be decrypted, even with the key.
const HEAD_BYTES: usize = 8 + NONCE_BYTES;

/// Number and length of the entries, and a label, all of which must be the same whenever the files are opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) slots: u32,
    pub(crate) payload_bytes: usize,
    pub(crate) label: Vec<u8>,
}

impl Shape {
    fn slot_bytes(&self) -> u64 {
        ((HEAD_BYTES + self.payload_bytes + TAG_BYTES) as u64).next_multiple_of(PAGE)
    }

    /// Bytes of the file of entries.
    pub(crate) fn file_bytes(&self) -> u64 {
        PAGE + u64::from(self.slots) * self.slot_bytes()
    }
}

/// A store: both files and the key.
pub(crate) struct SealedStore<D> {
    entries: D,
    state_file: D,
    key: SealingKey,
    shape: Shape,
    /// Data that every seal is bound to: the id and the shape.
    context: Vec<u8>,
    generation: u64,
    /// Version of the state file that this handle last made durable, 0 for none.
    durable: AtomicU64,
    /// Whether a write to the state file failed, so that the state on the disk is unknown.
    failed: AtomicBool,
}

/// The lock on a state file. It is released when this is dropped.
struct Locked<'a, D: Device>(&'a D);

impl<'a, D: Device> Locked<'a, D> {
    fn new(device: &'a D) -> Result<Self, EncryptError> {
        device.lock()?;
        Ok(Locked(device))
    }
}

impl<D: Device> Drop for Locked<'_, D> {
    fn drop(&mut self) {
        // If this fails, the lock is held until the file is closed, so no entry is taken twice.
        let _ = self.0.unlock();
    }
}

impl<D: Device> SealedStore<D> {
    /// Initialises both files, which must have the right lengths and contain zeros.
    pub(crate) fn create(entries: D, state_file: D, key: SealingKey, shape: Shape) -> Result<Self, EncryptError> {
        let mut id = [0; ID_BYTES];
        getrandom::fill(&mut id).map_err(RingError::from)?;
        let store = SealedStore::from_parts(entries, state_file, key, shape, id);
        let _locked = Locked::new(&store.state_file)?;
        store.entries.write_at(0, &[&MAGIC[..], &id].concat())?;
        store.entries.sync()?;
        let mut state = StoreState::new([store.state_file.identity()?, store.entries.identity()?]);
        state.write(&store.state_file, &store.key, &store.context)?;
        drop(_locked);
        store.durable.store(state.version, Ordering::Relaxed);
        Ok(store)
    }

    /// Opens files that [`SealedStore::create`] wrote. Copies are errors.
    pub(crate) fn open(entries: D, state_file: D, key: SealingKey, shape: Shape) -> Result<Self, EncryptError> {
        let found = [entries.length()?, state_file.length()?];
        let needed = [shape.file_bytes(), STATE_BYTES];
        if found != needed {
            return Err(EncryptError::Files {
                operation: "open a pool file",
                found: format!("files of {} and {} bytes", found[0], found[1]),
                needed: "the shape it was made with; if it is right, remove both files and make new ones",
            });
        }
        let mut head = [0; MAGIC.len() + ID_BYTES];
        entries.read_at(0, &mut head)?;
        let (magic, id) = head.split_at(MAGIC.len());
        if magic != MAGIC {
            let found = "another kind of file".into();
            let needed = "a pool file of this version; make a new one";
            return Err(EncryptError::Files { operation: "open a pool file", found, needed });
        }
        let id = std::array::from_fn(|i| id[i]);
        let store = SealedStore::from_parts(entries, state_file, key, shape, id);
        store.locked("open a pool file", |_| Ok(()))?;
        Ok(store)
    }

    fn from_parts(entries: D, state_file: D, key: SealingKey, shape: Shape, id: [u8; ID_BYTES]) -> Self {
        let mut context = id.to_vec();
        context.extend(shape.slots.to_le_bytes());
        context.extend((shape.payload_bytes as u64).to_le_bytes());
        context.extend(&shape.label);
        let (generation, durable, failed) = (process_generation(), AtomicU64::new(0), AtomicBool::new(false));
        SealedStore { entries, state_file, key, shape, context, generation, durable, failed }
    }

    /// Takes the next entry, if there is one. After this returns, no crash makes the entry available again.
    pub(crate) fn take(&mut self) -> Result<Option<Zeroizing<Vec<u8>>>, EncryptError> {
        self.locked("take from a pool file", |state| {
            let next = self.live(state)?.into_iter().min_by_key(|(_, number)| *number);
            let Some((slot, number)) = next else { return Ok(None) };
            let payload = self.read(slot, number)?;
            state.next_take = number + 1;
            self.write(state)?;
            self.entries.write_at(self.offset(slot), &[0; HEAD_BYTES])?;
            payload.map(Some).ok_or(EncryptError::Damaged { sequence: number })
        })
    }

    /// Adds an entry. Returns false if all slots are in use.
    pub(crate) fn put(&mut self, mut payload: Zeroizing<Vec<u8>>) -> Result<bool, EncryptError> {
        if payload.len() != self.shape.payload_bytes {
            return Err(EncryptError::Files {
                operation: "add to a pool file",
                found: format!("an entry of {} bytes", payload.len()),
                needed: "an entry of the length of the pool's entries",
            });
        }
        self.locked("add to a pool file", |state| {
            let free = |n: &u64| !(state.next_take..state.next_make).contains(n);
            let Some((slot, _)) = self.numbers()?.into_iter().find(|(_, number)| free(number)) else {
                return Ok(false);
            };
            let number = state.next_make;
            state.next_make += 1;
            self.write(state)?;
            let (nonce, tag) = self.key.seal(&self.context_of(number), &mut payload)?;
            let (start, body) = (self.offset(slot), self.offset(slot) + HEAD_BYTES as u64);
            self.entries.write_at(start, &[&[0; 8][..], &nonce].concat())?;
            self.entries.write_at(body, &payload)?;
            self.entries.write_at(body + payload.len() as u64, &tag)?;
            self.entries.sync()?;
            // The slot becomes an entry only with this write.
            self.entries.write_at(start, &number.to_le_bytes())?;
            self.entries.sync()?;
            Ok(true)
        })
    }

    /// Number of entries that can be taken.
    pub(crate) fn available(&self) -> Result<usize, EncryptError> {
        self.locked("count a pool file", |state| Ok(self.live(state)?.len()))
    }

    /// Runs `work` under the lock with the state read from the state file, after checking that process and files are
    /// the original ones.
    fn locked<T>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&mut StoreState) -> Result<T, EncryptError>,
    ) -> Result<T, EncryptError> {
        // A child shares its parent's open files, and the lock does not exclude the two from each other.
        if process_generation() != self.generation {
            return Err(EncryptError::Forked { operation });
        }
        if self.failed.load(Ordering::Relaxed) {
            return Err(EncryptError::Files {
                operation,
                found: "a state file that could not be written before".into(),
                needed: "a working disk; then open the files again",
            });
        }
        let _locked = Locked::new(&self.state_file)?;
        let mut state = StoreState::read(&self.state_file, &self.key, &self.context)?;
        if state.identities != [self.state_file.identity()?, self.entries.identity()?] {
            return Err(EncryptError::Files {
                operation,
                found: "files that were copied or restored".into(),
                needed: "the originals, whose entries nobody else can have taken; remove these and make new ones",
            });
        }
        if state.alone
            && let Some(next) = self.live(&state)?.into_iter().map(|(_, number)| number).min()
        {
            state.next_take = next + 1;
        }
        work(&mut state)
    }

    /// Writes the state file and returns when it is durable. If that fails, all later calls on this handle fail.
    fn write(&self, state: &mut StoreState) -> Result<(), EncryptError> {
        self.failed.store(true, Ordering::Relaxed);
        if self.durable.load(Ordering::Relaxed) != state.version {
            state.settle(&self.state_file)?;
        }
        state.write(&self.state_file, &self.key, &self.context)?;
        self.durable.store(state.version, Ordering::Relaxed);
        self.failed.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Slots whose entries can be taken, and the numbers of these entries.
    fn live(&self, state: &StoreState) -> Result<Vec<(u32, u64)>, EncryptError> {
        let live = state.next_take..state.next_make;
        Ok(self.numbers()?.into_iter().filter(|(_, number)| live.contains(number)).collect())
    }

    /// All slots and the numbers of their entries.
    fn numbers(&self) -> Result<Vec<(u32, u64)>, EncryptError> {
        let number = |slot| {
            let mut number = [0; 8];
            self.entries.read_at(self.offset(slot), &mut number)?;
            Ok((slot, u64::from_le_bytes(number)))
        };
        (0..self.shape.slots).map(number).collect()
    }

    /// The entry in a slot; `None` if its authentication fails.
    fn read(&self, slot: u32, number: u64) -> Result<Option<Zeroizing<Vec<u8>>>, EncryptError> {
        let start = self.offset(slot) + 8;
        let (mut nonce, mut tag) = ([0; NONCE_BYTES], [0; TAG_BYTES]);
        let mut payload = Zeroizing::new(vec![0; self.shape.payload_bytes]);
        let body = start + NONCE_BYTES as u64;
        self.entries.read_at(start, &mut nonce)?;
        self.entries.read_at(body, &mut payload)?;
        self.entries.read_at(body + payload.len() as u64, &mut tag)?;
        let opened = self.key.open(&self.context_of(number), nonce, tag, &mut payload);
        Ok(declassify(opened).then_some(payload))
    }

    fn offset(&self, slot: u32) -> u64 {
        PAGE + u64::from(slot) * self.shape.slot_bytes()
    }

    fn context_of(&self, number: u64) -> Vec<u8> {
        [&self.context[..], &number.to_le_bytes()].concat()
    }
}

/// Bytes of a state file.
pub(crate) const fn state_file_bytes() -> u64 {
    STATE_BYTES
}
