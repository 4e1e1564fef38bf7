//! Tests with real processes that are killed at every step or share the files: no entry is taken twice.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use super::device::IDENTITY_BYTES;
use super::tests::{id_of, key, payload, shape};
use super::*;

/// A file that aborts the process at a given call.
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
    ["entries", "state", "log"].map(|name| directory.join(name))
}

/// Creates a store with real files and no entries.
fn real_files() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let [entries, state_file, _] = paths(directory.path());
    let (entries, state_file) = (file(&entries), file(&state_file));
    entries.set_len(shape().file_bytes()).unwrap();
    state_file.set_len(STATE_BYTES).unwrap();
    SealedStore::create(entries, state_file, key(), shape()).unwrap();
    directory
}

const CHILD: &str = "UNSPOKEN_VAULT_CHILD";

/// The program of a child process. The arguments are a directory, the number of the process, the calls until it aborts,
/// and the rounds. In each round it puts and takes an entry. It writes the id of every used entry to a log.
#[test]
#[ignore = "run by the tests below, as a process of its own"]
fn child() {
    let Ok(orders) = std::env::var(CHILD) else { return };
    let [directory, own, calls, rounds] = orders.split('|').collect::<Vec<_>>().try_into().unwrap();
    let [entries, state_file, log] = paths(Path::new(directory));
    let [own, calls, rounds] = [own, calls, rounds].map(|number| number.parse::<u64>().unwrap());
    let left = std::cell::Cell::new(calls);
    let mut log = OpenOptions::new().append(true).create(true).open(log).unwrap();
    let mut store =
        SealedStore::open(Fatal(file(&entries), &left), Fatal(file(&state_file), &left), key(), shape()).unwrap();
    for round in 0..rounds {
        store.put(payload(own << 32 | round)).unwrap();
        if let Some(payload) = store.take().unwrap() {
            log.write_all(&id_of(&payload).to_le_bytes()).unwrap();
        }
    }
}

fn start_child(directory: &Path, own: u64, calls: u64, rounds: u64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "sealed_store::process_tests::child", "--ignored", "--quiet", "--test-threads=1"])
        .env(CHILD, format!("{}|{own}|{calls}|{rounds}", directory.display()))
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap()
}

/// The ids in a log. Checks that no id occurs twice.
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
    // Every round of the surviving children took an entry, except where another process had taken it first.
    let used = logged(directory.path());
    assert!(used.len() >= 150, "{}", used.len());
    let owners: HashSet<u64> = used.iter().map(|id| id >> 32).collect();
    assert!(owners.len() >= 5);
}

#[test]
fn copies_are_refused() {
    let directory = real_files();
    let [entries, state_file, _] = paths(directory.path());
    let open = |entries: &Path, state_file: &Path| SealedStore::open(file(entries), file(state_file), key(), shape());
    let mut store = open(&entries, &state_file).unwrap();
    assert!(store.put(payload(1)).unwrap());
    let [entries_copy, state_copy] = ["entries.copy", "state.copy"].map(|name| directory.path().join(name));
    std::fs::copy(&entries, &entries_copy).unwrap();
    std::fs::copy(&state_file, &state_copy).unwrap();
    for (entries, state_file) in [(&entries_copy, &state_copy), (&entries, &state_copy), (&entries_copy, &state_file)] {
        let error = open(entries, state_file).map(drop).unwrap_err();
        assert!(error.to_string().contains("copied or restored"), "{error}");
    }
    assert!(store.take().unwrap().is_some());
    // Copies restored under the original names, as backup programs do.
    std::fs::rename(&entries_copy, &entries).unwrap();
    std::fs::rename(&state_copy, &state_file).unwrap();
    assert!(open(&entries, &state_file).is_err());
}
