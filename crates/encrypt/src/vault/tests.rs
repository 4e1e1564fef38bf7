//! Crashes at every step, simulated and real: no entry is ever taken twice.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::rc::Rc;
use std::time::Duration;

use super::device::IDENTITY_BYTES;
use super::*;

const SLOTS: u32 = 3;
/// Two sectors with head and tag.
const PAYLOAD: usize = 700;
const SECTOR: usize = 512;

fn shape() -> Shape {
    Shape { slots: SLOTS, payload_bytes: PAYLOAD, label: b"test".to_vec() }
}

fn key() -> SealingKey {
    SealingKey::new(&[7; 32])
}

fn payload(id: u64) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(id.to_le_bytes().into_iter().cycle().take(PAYLOAD).collect())
}

fn id_of(payload: &[u8]) -> u64 {
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

/// A file that ends the process at the given call.
struct Fatal<'a>(File, &'a std::cell::Cell<u64>);

impl Fatal<'_> {
    fn step(&self) {
        if self.1.get() == 0 {
            std::process::abort();
        }
        self.1.set(self.1.get() - 1);
    }
}

impl Device for Fatal<'_> {
    fn length(&self) -> io::Result<u64> {
        self.0.length()
    }
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.step();
        self.0.read_at(offset, bytes)
    }
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.step();
        self.0.write_at(offset, bytes)
    }
    fn sync(&self) -> io::Result<()> {
        self.step();
        self.0.sync()
    }
    fn lock(&self) -> io::Result<()> {
        self.step();
        Device::lock(&self.0)
    }
    fn unlock(&self) -> io::Result<()> {
        Device::unlock(&self.0)
    }
    fn identity(&self) -> io::Result<[u8; IDENTITY_BYTES]> {
        self.0.identity()
    }
}

fn file(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).unwrap()
}

fn paths(directory: &Path) -> [PathBuf; 3] {
    ["entries", "ledger", "log"].map(|name| directory.join(name))
}

/// Real files, empty.
fn real_files() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let [entries, ledger, _] = paths(directory.path());
    let (entries, ledger) = (file(&entries), file(&ledger));
    entries.set_len(shape().file_bytes()).unwrap();
    ledger.set_len(LEDGER_BYTES).unwrap();
    Vault::create(entries, ledger, key(), shape()).unwrap();
    directory
}

const CHILD: &str = "UNSPOKEN_VAULT_CHILD";

/// What a child process does: told a directory, a number of its own, calls to live and rounds, it puts and takes and writes
/// the id of every entry that it uses to a log.
#[test]
#[ignore = "run by the tests below, as a process of its own"]
fn child() {
    let Ok(orders) = std::env::var(CHILD) else { return };
    let [directory, own, calls, rounds] = orders.split('|').collect::<Vec<_>>().try_into().unwrap();
    let [entries, ledger, log] = paths(Path::new(directory));
    let [own, calls, rounds] = [own, calls, rounds].map(|number| number.parse::<u64>().unwrap());
    let left = std::cell::Cell::new(calls);
    let mut log = OpenOptions::new().append(true).create(true).open(log).unwrap();
    let mut vault = Vault::open(Fatal(file(&entries), &left), Fatal(file(&ledger), &left), key(), shape()).unwrap();
    for round in 0..rounds {
        vault.put(payload(own << 32 | round)).unwrap();
        if let Some(payload) = vault.take().unwrap() {
            log.write_all(&id_of(&payload).to_le_bytes()).unwrap();
        }
    }
}

fn start_child(directory: &Path, own: u64, calls: u64, rounds: u64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "vault::tests::child", "--ignored", "--quiet", "--test-threads=1"])
        .env(CHILD, format!("{}|{own}|{calls}|{rounds}", directory.display()))
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap()
}

/// The ids in a log, none of them twice.
fn logged(directory: &Path) -> HashSet<u64> {
    let bytes = std::fs::read(&paths(directory)[2]).unwrap_or_default();
    let mut ids = HashSet::new();
    for id in bytes.as_chunks::<8>().0 {
        assert!(ids.insert(u64::from_le_bytes(*id)), "entry {id:?} was used twice");
    }
    ids
}

#[test]
fn killed_processes_bring_no_entry_back() {
    let directory = real_files();
    let mut aborted = 0;
    for calls in 0..200 {
        let status = start_child(directory.path(), calls, calls % 70, 3).wait().unwrap();
        aborted += usize::from(!status.success());
    }
    assert!(aborted > 100, "only {aborted} were killed");
    assert!(logged(directory.path()).len() > 50);
}

#[test]
fn two_processes_share_files_and_no_entry() {
    let directory = real_files();
    for round in 0..3 {
        let mut children = [0, 1].map(|own| start_child(directory.path(), 2 * round + own, u64::MAX, 40));
        if round == 2 {
            std::thread::sleep(Duration::from_millis(30));
            children[0].kill().unwrap();
            children[0].wait().unwrap();
            assert!(children[1].wait().unwrap().success());
        } else {
            children.iter_mut().for_each(|child| assert!(child.wait().unwrap().success()));
        }
    }
    // Every round of the children that lived took an entry, but for those that another had taken first.
    let used = logged(directory.path());
    assert!(used.len() >= 150, "{}", used.len());
    let owners: HashSet<u64> = used.iter().map(|id| id >> 32).collect();
    assert!(owners.len() >= 5);
}

#[test]
fn copies_are_refused() {
    let directory = real_files();
    let [entries, ledger, _] = paths(directory.path());
    let open = |entries: &Path, ledger: &Path| Vault::open(file(entries), file(ledger), key(), shape());
    let mut vault = open(&entries, &ledger).unwrap();
    assert!(vault.put(payload(1)).unwrap());
    let [entries_copy, ledger_copy] = ["entries.copy", "ledger.copy"].map(|name| directory.path().join(name));
    std::fs::copy(&entries, &entries_copy).unwrap();
    std::fs::copy(&ledger, &ledger_copy).unwrap();
    for (entries, ledger) in [(&entries_copy, &ledger_copy), (&entries, &ledger_copy), (&entries_copy, &ledger)] {
        let error = open(entries, ledger).map(drop).unwrap_err();
        assert!(error.to_string().contains("copied or restored"), "{error}");
    }
    assert!(vault.take().unwrap().is_some());
    // Restored under their own names, as backup programs do.
    std::fs::rename(&entries_copy, &entries).unwrap();
    std::fs::rename(&ledger_copy, &ledger).unwrap();
    assert!(open(&entries, &ledger).is_err());
}
