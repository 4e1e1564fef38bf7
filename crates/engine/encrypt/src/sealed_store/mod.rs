//! Sealed entries in a file, each taken once.
//!
//! Entries are numbered as they are made and taken in that order. What says that an entry is taken is the state file, a
//! second file: it holds the number of the next entry, and is durable before the entry leaves this module. So it does
//! not matter what happens to the file of entries: one that was restored, copied or damaged may offer an old entry
//! again, but its number is below the state file's and it is dead. The file of entries is overwritten only so that old
//! ones cannot be read. Where one record of the state file is not whole, the other may be one entry behind: the next
//! entry is skipped.
//!
//! File of entries: magic and version (8 bytes), an id that ties it to its state file (16); from byte 4096 on slots,
//! each the number of its entry (u64, 0 for none), the nonce, the sealed bytes, the tag, padded to 4096 bytes.

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
use unspoken_ring::{RingError, process_generation};
use zeroize::Zeroizing;

use crate::error::EncryptError;

const MAGIC: [u8; 8] = *b"uspool\x01\x00";
const ID_BYTES: usize = 16;
/// Bytes before the first slot, and the grain of slots.
const PAGE: u64 = 4096;
/// The part of a slot without which the rest is noise, even to who has the key: number and nonce.
const HEAD_BYTES: usize = 8 + NONCE_BYTES;

/// How many entries there may be, how long they are, and what else must be the same whenever the files are opened.
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

/// Both files and the key.
pub(crate) struct SealedStore<D> {
    entries: D,
    state_file: D,
    key: SealingKey,
    shape: Shape,
    /// What every seal is bound to: the id and the shape.
    context: Vec<u8>,
    generation: u64,
    /// Version of the state file that this handle made durable, 0 for none.
    durable: AtomicU64,
    /// A write to the state file failed: what is on the disk, nobody knows.
    failed: AtomicBool,
}

/// The lock on a state file; it is given back when this is dropped.
struct Locked<'a, D: Device>(&'a D);

impl<'a, D: Device> Locked<'a, D> {
    fn new(device: &'a D) -> Result<Self, EncryptError> {
        device.lock()?;
        Ok(Locked(device))
    }
}

impl<D: Device> Drop for Locked<'_, D> {
    fn drop(&mut self) {
        // If this fails the lock stays until the file is closed: nobody takes anything twice.
        let _ = self.0.unlock();
    }
}

impl<D: Device> SealedStore<D> {
    /// Writes both files, which are as long as they must be and hold zeros.
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

    /// Opens what [`SealedStore::create`] wrote, if it is the original.
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

    /// The next entry, if there is one. When it is returned, no crash brings it back.
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

    /// Adds an entry; false if all slots are in use.
    pub(crate) fn put(&mut self, mut payload: Zeroizing<Vec<u8>>) -> Result<bool, EncryptError> {
        if payload.len() != self.shape.payload_bytes {
            return Err(EncryptError::Files {
                operation: "add to a pool file",
                found: format!("an entry of {} bytes", payload.len()),
                needed: "one as long as the others",
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
            // Only now is it an entry.
            self.entries.write_at(start, &number.to_le_bytes())?;
            self.entries.sync()?;
            Ok(true)
        })
    }

    /// How many entries there are to take.
    pub(crate) fn available(&self) -> Result<usize, EncryptError> {
        self.locked("count a pool file", |state| Ok(self.live(state)?.len()))
    }

    /// Runs `work` under the lock, with what the state file says, if this is the process and these are the files.
    fn locked<T>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&mut StoreState) -> Result<T, EncryptError>,
    ) -> Result<T, EncryptError> {
        // A child shares its parent's open files, and a lock does not keep the two apart.
        if process_generation() != self.generation {
            return Err(EncryptError::Forked { operation });
        }
        if self.failed.load(Ordering::Relaxed) {
            return Err(EncryptError::Files {
                operation,
                found: "a state file that could not be written before".into(),
                needed: "a disk that works; then open the files again",
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

    /// Writes the state file and returns when it is durable. If that fails, this handle is of no more use.
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

    /// Slots with entries to take, and their numbers.
    fn live(&self, state: &StoreState) -> Result<Vec<(u32, u64)>, EncryptError> {
        let live = state.next_take..state.next_make;
        Ok(self.numbers()?.into_iter().filter(|(_, number)| live.contains(number)).collect())
    }

    /// Slots and the numbers of their entries.
    fn numbers(&self) -> Result<Vec<(u32, u64)>, EncryptError> {
        let number = |slot| {
            let mut number = [0; 8];
            self.entries.read_at(self.offset(slot), &mut number)?;
            Ok((slot, u64::from_le_bytes(number)))
        };
        (0..self.shape.slots).map(number).collect()
    }

    /// The entry in a slot; `None` if it is not what was sealed.
    fn read(&self, slot: u32, number: u64) -> Result<Option<Zeroizing<Vec<u8>>>, EncryptError> {
        let start = self.offset(slot) + 8;
        let (mut nonce, mut tag) = ([0; NONCE_BYTES], [0; TAG_BYTES]);
        let mut payload = Zeroizing::new(vec![0; self.shape.payload_bytes]);
        let body = start + NONCE_BYTES as u64;
        self.entries.read_at(start, &mut nonce)?;
        self.entries.read_at(body, &mut payload)?;
        self.entries.read_at(body + payload.len() as u64, &mut tag)?;
        Ok(self.key.open(&self.context_of(number), nonce, tag, &mut payload).then_some(payload))
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
