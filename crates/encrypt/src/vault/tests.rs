//! Crashes at every step, simulated: no entry is ever taken twice.

use std::cell::RefCell;
use std::collections::HashSet;
use std::io;
use std::rc::Rc;

use super::device::IDENTITY_BYTES;
use super::*;

const SLOTS: u32 = 3;
/// Two sectors with head and tag.
const PAYLOAD: usize = 700;
const SECTOR: usize = 512;

pub(super) fn shape() -> Shape {
    Shape { slots: SLOTS, payload_bytes: PAYLOAD, label: b"test".to_vec() }
}

pub(super) fn key() -> SealingKey {
    SealingKey::new(&[7; 32])
}

pub(super) fn payload(id: u64) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(id.to_le_bytes().into_iter().cycle().take(PAYLOAD).collect())
}

pub(super) fn id_of(payload: &[u8]) -> u64 {
    let id = u64::from_le_bytes(std::array::from_fn(|i| payload[i]));
    assert_eq!(payload, payload_bytes(id), "an entry is not what was put");
    id
}

fn payload_bytes(id: u64) -> Vec<u8> {
    payload(id).to_vec()
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }
}

/// What of a write that was not synced survives.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Crash {
    /// The process dies: what it wrote is in the system's cache.
    Killed,
    /// The power goes: any set of the sectors written since the last sync is on the disk, the others are as before.
    PowerLost,
}

struct Disk {
    files: [Contents; 2],
    /// Calls until the crash.
    left: u64,
    calls: u64,
    random: Random,
    locked: bool,
}

#[derive(Default)]
struct Contents {
    cached: Vec<u8>,
    durable: Vec<u8>,
}

impl Disk {
    fn new(seed: u64) -> Rc<RefCell<Disk>> {
        let contents = |bytes: u64| Contents { cached: vec![0; bytes as usize], durable: vec![0; bytes as usize] };
        let files = [contents(shape().file_bytes()), contents(LEDGER_BYTES)];
        Rc::new(RefCell::new(Disk { files, left: u64::MAX, calls: 0, random: Random(seed), locked: false }))
    }

    fn crash(&mut self, crash: Crash) {
        self.locked = false;
        for file in &mut self.files {
            if crash == Crash::PowerLost {
                for (cached, durable) in file.cached.chunks_mut(SECTOR).zip(file.durable.chunks_mut(SECTOR)) {
                    if self.random.below(2) == 0 {
                        durable.copy_from_slice(cached);
                    }
                }
                file.cached.copy_from_slice(&file.durable);
            }
        }
    }

    /// Counts a call; an error from the crash on.
    fn step(&mut self) -> io::Result<()> {
        self.calls += 1;
        self.left = self.left.checked_sub(1).ok_or_else(|| io::Error::other("crashed"))?;
        Ok(())
    }
}

#[derive(Clone)]
struct Simulated(Rc<RefCell<Disk>>, usize);

impl Device for Simulated {
    fn length(&self) -> io::Result<u64> {
        Ok(self.0.borrow().files[self.1].cached.len() as u64)
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let mut disk = self.0.borrow_mut();
        disk.step()?;
        assert!(disk.locked || offset == 0, "a read without the lock");
        bytes.copy_from_slice(&disk.files[self.1].cached[offset as usize..][..bytes.len()]);
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut disk = self.0.borrow_mut();
        assert!(disk.locked, "a write without the lock");
        let step = disk.step();
        // The write that the crash interrupts gets as far as it gets.
        let written = if step.is_ok() {
            bytes.len()
        } else if disk.left == 0 {
            disk.random.below(bytes.len() + 1)
        } else {
            0
        };
        disk.files[self.1].cached[offset as usize..][..written].copy_from_slice(&bytes[..written]);
        step
    }

    fn sync(&self) -> io::Result<()> {
        let mut disk = self.0.borrow_mut();
        disk.step()?;
        let Contents { cached, durable } = &mut disk.files[self.1];
        durable.copy_from_slice(cached);
        Ok(())
    }

    fn lock(&self) -> io::Result<()> {
        let mut disk = self.0.borrow_mut();
        disk.step()?;
        assert!(!disk.locked, "locked twice");
        disk.locked = true;
        Ok(())
    }

    fn unlock(&self) -> io::Result<()> {
        self.0.borrow_mut().locked = false;
        Ok(())
    }

    fn identity(&self) -> io::Result<[u8; IDENTITY_BYTES]> {
        Ok([self.1 as u8; IDENTITY_BYTES])
    }
}

/// What the rest of the world saw.
#[derive(Default)]
struct Seen {
    /// Puts that were begun; each id is new.
    begun: u64,
    /// Puts that succeeded.
    put: HashSet<u64>,
    used: HashSet<u64>,
}

impl Seen {
    fn put(&mut self, vault: &mut Vault<Simulated>) -> Result<bool, EncryptError> {
        self.begun += 1;
        let id = self.begun;
        let done = vault.put(payload(id))?;
        if done {
            self.put.insert(id);
        }
        Ok(done)
    }

    fn take(&mut self, vault: &mut Vault<Simulated>) -> Result<bool, EncryptError> {
        let Some(payload) = vault.take()? else { return Ok(false) };
        let id = id_of(&payload);
        assert!(id <= self.begun, "an entry that nobody put");
        assert!(self.used.insert(id), "entry {id} was taken twice");
        Ok(true)
    }

    /// Every step there is: into empty, full and partly filled files, from full and empty ones.
    fn script(&mut self, vault: &mut Vault<Simulated>) -> Result<(), EncryptError> {
        for operation in b"ptpptpppptttttpptpt" {
            match operation {
                b'p' => self.put(vault)?,
                _ => self.take(vault)?,
            };
        }
        Ok(())
    }
}

fn open(disk: &Rc<RefCell<Disk>>) -> Result<Vault<Simulated>, EncryptError> {
    Vault::open(Simulated(Rc::clone(disk), 0), Simulated(Rc::clone(disk), 1), key(), shape())
}

fn create(seed: u64) -> Rc<RefCell<Disk>> {
    let disk = Disk::new(seed);
    Vault::create(Simulated(Rc::clone(&disk), 0), Simulated(Rc::clone(&disk), 1), key(), shape()).unwrap();
    disk
}

/// Runs the script until the given call and crashes; the same again with the call after it, and so on.
fn crash_again_and_again(seed: u64, first: u64, crashes: u64, kind: Crash) {
    let disk = create(seed);
    let mut seen = Seen::default();
    for crash in 0..crashes {
        disk.borrow_mut().left = first + crash * 7 % 40;
        // An error, unless the script ends before the crash.
        let _ = open(&disk).and_then(|mut vault| seen.script(&mut vault));
        disk.borrow_mut().crash(kind);
    }
    disk.borrow_mut().left = u64::MAX;
    let mut vault = open(&disk).unwrap();
    while seen.take(&mut vault).unwrap() {}
    let lost = seen.put.difference(&seen.used).count() as u64;
    assert!(lost <= crashes, "{lost} entries lost in {crashes} crashes");
    // What is left works.
    assert!(seen.put(&mut vault).unwrap() && seen.take(&mut vault).unwrap() && !seen.take(&mut vault).unwrap());
}

#[test]
fn no_crash_brings_an_entry_back() {
    let disk = create(0);
    disk.borrow_mut().calls = 0;
    let mut seen = Seen::default();
    seen.script(&mut open(&disk).unwrap()).unwrap();
    let calls = disk.borrow().calls;
    assert!(calls > 200 && seen.used.len() > 5, "{calls} calls, {} entries", seen.used.len());
    let mut kills = 0;
    for kind in [Crash::Killed, Crash::PowerLost] {
        for first in 0..=calls {
            for (seed, crashes) in [(1, 1), (2, 1), (3, 4)] {
                crash_again_and_again(seed + 10 * first, first, crashes, kind);
                kills += crashes;
            }
        }
    }
    assert!(kills > 2000, "{kills}");
}

#[test]
fn entries_come_in_order_and_only_as_many_as_fit() {
    let disk = create(1);
    let mut vault = open(&disk).unwrap();
    assert!(vault.take().unwrap().is_none());
    for id in 1..=u64::from(SLOTS) {
        assert!(vault.put(payload(id)).unwrap());
    }
    assert!(!vault.put(payload(9)).unwrap());
    assert_eq!(vault.available().unwrap(), SLOTS as usize);
    assert_eq!(id_of(&vault.take().unwrap().unwrap()), 1);
    assert!(vault.put(payload(4)).unwrap());
    let rest: Vec<u64> = std::iter::from_fn(|| vault.take().unwrap()).map(|payload| id_of(&payload)).collect();
    assert_eq!(rest, [2, 3, 4]);
    assert!(vault.put(Zeroizing::new(vec![0; PAYLOAD - 1])).is_err());
}

#[test]
fn damage_costs_what_is_damaged() {
    let disk = create(2);
    let mut vault = open(&disk).unwrap();
    (1..=3).for_each(|id| assert!(vault.put(payload(id)).unwrap()));
    let slot = shape().slot_bytes() as usize;
    // A byte of the first entry, and the number of the second.
    disk.borrow_mut().files[0].cached[PAGE as usize + 100] ^= 1;
    disk.borrow_mut().files[0].cached[PAGE as usize + slot] = 0xff;
    assert!(matches!(vault.take(), Err(EncryptError::Damaged { sequence: 1 })));
    assert_eq!(id_of(&vault.take().unwrap().unwrap()), 3);
    assert!(vault.take().unwrap().is_none());

    // One record of the ledger: the other still says what is taken, or less, but then nothing is there.
    let ledger = disk.borrow().files[1].cached.clone();
    for record in 0..2 {
        disk.borrow_mut().files[1].cached.copy_from_slice(&ledger);
        disk.borrow_mut().files[1].cached[record * 4096 + 3] ^= 1;
        assert!(open(&disk).unwrap().take().unwrap().is_none());
    }
    disk.borrow_mut().files[1].cached.fill(0);
    assert!(matches!(open(&disk), Err(EncryptError::Files { .. })));
}

#[test]
fn old_entries_are_dead_and_other_keys_and_shapes_are_refused() {
    let disk = create(3);
    let mut vault = open(&disk).unwrap();
    vault.put(payload(1)).unwrap();
    vault.put(payload(2)).unwrap();
    let backup = disk.borrow().files[0].cached.clone();
    assert_eq!(id_of(&vault.take().unwrap().unwrap()), 1);
    // Restored in place: the ledger knows better.
    disk.borrow_mut().files[0].cached.copy_from_slice(&backup);
    assert_eq!(id_of(&vault.take().unwrap().unwrap()), 2);
    disk.borrow_mut().files[0].cached.copy_from_slice(&backup);
    assert!(vault.take().unwrap().is_none());

    let attempt = |key: SealingKey, shape: Shape| {
        Vault::open(Simulated(Rc::clone(&disk), 0), Simulated(Rc::clone(&disk), 1), key, shape).map(drop)
    };
    assert!(attempt(key(), shape()).is_ok());
    assert!(attempt(SealingKey::new(&[8; 32]), shape()).is_err());
    assert!(attempt(key(), Shape { label: b"other".to_vec(), ..shape() }).is_err());
    assert!(attempt(key(), Shape { slots: SLOTS + 1, ..shape() }).is_err());
    assert!(attempt(key(), Shape { payload_bytes: PAYLOAD + 1, ..shape() }).is_err());
    disk.borrow_mut().files[0].cached[0] ^= 1;
    assert!(attempt(key(), shape()).is_err());
}
