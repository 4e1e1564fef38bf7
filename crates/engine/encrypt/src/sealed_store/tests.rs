//! Tests with simulated crashes at every step: no entry is taken twice.

use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::Rc;

use super::simulated::{Crash, Disk, Simulated};
use super::*;

const SLOTS: u32 = 3;
/// Bytes of a payload. With head and tag a slot covers two sectors.
const PAYLOAD: usize = 700;

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
    assert_eq!(payload, payload_bytes(id), "an entry differs from what was put");
    id
}

fn payload_bytes(id: u64) -> Vec<u8> {
    payload(id).to_vec()
}

/// The entries that users of the store have put and taken.
#[derive(Default)]
struct Seen {
    /// Number of puts that were started. Each put has a new id.
    begun: u64,
    /// Ids of puts that succeeded.
    put: HashSet<u64>,
    used: HashSet<u64>,
}

impl Seen {
    fn put(&mut self, store: &mut SealedStore<Simulated>) -> Result<bool, EncryptError> {
        self.begun += 1;
        let id = self.begun;
        let done = store.put(payload(id))?;
        if done {
            self.put.insert(id);
        }
        Ok(done)
    }

    fn take(&mut self, store: &mut SealedStore<Simulated>) -> Result<bool, EncryptError> {
        let Some(payload) = store.take()? else { return Ok(false) };
        let id = id_of(&payload);
        assert!(id <= self.begun, "an entry that was never put");
        assert!(self.used.insert(id), "entry {id} was taken twice");
        Ok(true)
    }

    /// A script with every kind of step: puts into empty, full and partly filled files, takes from full and empty ones.
    fn script(&mut self, store: &mut SealedStore<Simulated>) -> Result<(), EncryptError> {
        self.follow(store, b"ptpptpppptttttpptpt")
    }

    fn follow(&mut self, store: &mut SealedStore<Simulated>, operations: &[u8]) -> Result<(), EncryptError> {
        for operation in operations {
            match operation {
                b'p' => self.put(store)?,
                _ => self.take(store)?,
            };
        }
        Ok(())
    }

    /// Takes the remaining entries and returns the number of lost ones.
    fn finish(&mut self, disk: &Rc<RefCell<Disk>>) -> u64 {
        disk.borrow_mut().left = u64::MAX;
        let mut store = open(disk).unwrap();
        while self.take(&mut store).unwrap() {}
        let lost = self.put.difference(&self.used).count() as u64;
        // The store still works.
        assert!(self.put(&mut store).unwrap() && self.take(&mut store).unwrap() && !self.take(&mut store).unwrap());
        lost
    }
}

fn open(disk: &Rc<RefCell<Disk>>) -> Result<SealedStore<Simulated>, EncryptError> {
    SealedStore::open(Simulated(Rc::clone(disk), 0), Simulated(Rc::clone(disk), 1), key(), shape())
}

fn create(seed: u64) -> Rc<RefCell<Disk>> {
    let disk = Disk::new(seed);
    SealedStore::create(Simulated(Rc::clone(&disk), 0), Simulated(Rc::clone(&disk), 1), key(), shape()).unwrap();
    disk
}

/// Runs the script and crashes, `crashes` times: the first time at call `first`, then at varying later calls. The kinds
/// of crashes alternate.
fn crash_again_and_again(seed: u64, first: u64, crashes: u64, kinds: &[Crash]) {
    let disk = create(seed);
    let mut seen = Seen::default();
    for (crash, kind) in (0..crashes).zip(kinds.iter().cycle()) {
        disk.borrow_mut().left = first + crash * 7 % 40;
        // The result is an error, unless the script ends before the crash.
        let _ = open(&disk).and_then(|mut store| seen.script(&mut store));
        disk.borrow_mut().crash(*kind);
    }
    let lost = seen.finish(&disk);
    assert!(lost <= crashes, "{lost} entries lost in {crashes} crashes");
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
    for kinds in [&[Crash::Killed][..], &[Crash::PowerLost], &[Crash::Killed, Crash::PowerLost]] {
        for first in 0..=calls {
            for (seed, crashes) in [(1, 1), (2, 1), (3, 4)] {
                crash_again_and_again(seed + 10 * first, first, crashes, kinds);
                kills += crashes;
            }
        }
    }
    assert!(kills > 3000, "{kills}");
}

/// The writes of a killed process may exist only in the cache. The next process must not assume that they are on the
/// disk.
#[test]
fn a_kill_and_then_a_power_loss_bring_no_entry_back() {
    for (killed, lost) in (0..25).flat_map(|killed| (0..35).map(move |lost| (killed, lost))) {
        for seed in 0..8 {
            let disk = create(seed + 8 * (35 * killed + lost));
            let mut seen = Seen::default();
            seen.follow(&mut open(&disk).unwrap(), b"pppt").unwrap();
            for (left, kind) in [(killed, Crash::Killed), (lost, Crash::PowerLost)] {
                disk.borrow_mut().left = left;
                let _ = open(&disk).and_then(|mut store| seen.follow(&mut store, b"tt"));
                disk.borrow_mut().crash(kind);
            }
            seen.finish(&disk);
        }
    }
}

#[test]
fn a_failed_sync_ends_a_handle_and_brings_no_entry_back() {
    for (seed, lost) in (0..8).flat_map(|seed| (0..35).map(move |lost| (seed, lost))) {
        let disk = create(seed + 8 * lost);
        let (mut seen, mut store) = (Seen::default(), open(&disk).unwrap());
        seen.follow(&mut store, b"pppt").unwrap();
        disk.borrow_mut().failing = true;
        assert!(matches!(store.take(), Err(EncryptError::Io(_))));
        let refused = [store.take().map(drop), store.put(payload(9)).map(drop), store.available().map(drop)];
        assert!(refused.iter().all(|result| matches!(result, Err(EncryptError::Files { .. }))), "{refused:?}");

        disk.borrow_mut().left = lost;
        let _ = open(&disk).and_then(|mut store| seen.follow(&mut store, b"t"));
        disk.borrow_mut().crash(Crash::PowerLost);
        assert!(seen.finish(&disk) <= 2);
    }
}

#[test]
fn entries_come_in_order_and_only_as_many_as_fit() {
    let disk = create(1);
    let mut store = open(&disk).unwrap();
    assert!(store.take().unwrap().is_none());
    for id in 1..=u64::from(SLOTS) {
        assert!(store.put(payload(id)).unwrap());
    }
    assert!(!store.put(payload(9)).unwrap());
    assert_eq!(store.available().unwrap(), SLOTS as usize);
    assert_eq!(id_of(&store.take().unwrap().unwrap()), 1);
    assert!(store.put(payload(4)).unwrap());
    let rest: Vec<u64> = std::iter::from_fn(|| store.take().unwrap()).map(|payload| id_of(&payload)).collect();
    assert_eq!(rest, [2, 3, 4]);
    assert!(store.put(Zeroizing::new(vec![0; PAYLOAD - 1])).is_err());
}

#[test]
fn damage_costs_what_is_damaged() {
    let disk = create(2);
    let mut store = open(&disk).unwrap();
    (1..=3).for_each(|id| assert!(store.put(payload(id)).unwrap()));
    let slot = shape().slot_bytes() as usize;
    // Damage a byte of the first entry, and the number of the second.
    disk.borrow_mut().files[0].cached[PAGE as usize + 100] ^= 1;
    disk.borrow_mut().files[0].cached[PAGE as usize + slot] = 0xff;
    assert!(matches!(store.take(), Err(EncryptError::Damaged { sequence: 1 })));
    assert_eq!(id_of(&store.take().unwrap().unwrap()), 3);
    assert!(store.take().unwrap().is_none());

    // Damage one record of the state file. The other record is current or one entry behind; in both cases no entry is
    // left.
    let state_file = disk.borrow().files[1].cached.clone();
    for record in 0..2 {
        disk.borrow_mut().files[1].cached.copy_from_slice(&state_file);
        disk.borrow_mut().files[1].cached[record * 4096 + 3] ^= 1;
        assert!(open(&disk).unwrap().take().unwrap().is_none());
    }
    disk.borrow_mut().files[1].cached.fill(0);
    assert!(matches!(open(&disk), Err(EncryptError::Files { .. })));
}

#[test]
fn old_entries_are_dead_and_other_keys_and_shapes_are_refused() {
    let disk = create(3);
    let mut store = open(&disk).unwrap();
    store.put(payload(1)).unwrap();
    store.put(payload(2)).unwrap();
    let backup = disk.borrow().files[0].cached.clone();
    assert_eq!(id_of(&store.take().unwrap().unwrap()), 1);
    // The file of entries is restored in place; the state file still marks the entry as taken.
    disk.borrow_mut().files[0].cached.copy_from_slice(&backup);
    assert_eq!(id_of(&store.take().unwrap().unwrap()), 2);
    disk.borrow_mut().files[0].cached.copy_from_slice(&backup);
    assert!(store.take().unwrap().is_none());

    let attempt = |key: SealingKey, shape: Shape| {
        SealedStore::open(Simulated(Rc::clone(&disk), 0), Simulated(Rc::clone(&disk), 1), key, shape).map(drop)
    };
    assert!(attempt(key(), shape()).is_ok());
    assert!(attempt(SealingKey::new(&[8; 32]), shape()).is_err());
    assert!(attempt(key(), Shape { label: b"other".to_vec(), ..shape() }).is_err());
    assert!(attempt(key(), Shape { slots: SLOTS + 1, ..shape() }).is_err());
    assert!(attempt(key(), Shape { payload_bytes: PAYLOAD + 1, ..shape() }).is_err());
    disk.borrow_mut().files[0].cached[0] ^= 1;
    assert!(attempt(key(), shape()).is_err());
}
