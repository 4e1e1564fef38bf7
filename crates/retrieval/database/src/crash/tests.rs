//! Ends every sequence of writes at every step, in every kind of crash, and checks that the old or the new version is
//! complete.

use std::convert::Infallible;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use unspoken_pir_scheme::{
    DatabaseVersion, EncryptedEntry, Layout, Length, Planes, Preset, TableKind, Tables, Upload, UploadedDatabase,
};

use super::model::{Crash, Model};
use super::{Log, Step};
use crate::disk::Disk;
use crate::progress::Monitor;
use crate::{Builder, Database, DatabaseError, Declaration, EncryptedStore, Record, Writer};

static GO_ON: AtomicBool = AtomicBool::new(false);

/// Content of a version: the record of each key.
type Content = Vec<Option<Vec<u8>>>;

const KEYS: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];

/// A temporary directory, in memory if possible: the model tracks durability, so the disk need not be durable.
fn scratch() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap()
}

fn records(of: &Content) -> impl Iterator<Item = Result<Record, Infallible>> {
    let present = KEYS.into_iter().zip(of).filter_map(|(key, value)| Some((key.to_vec(), value.clone()?)));
    present.map(|(key, value)| Ok(Record { key: Some(key), value }))
}

fn build(disk: &Disk, dir: &Path, replace: bool, of: &Content) {
    let builder = Builder { seed: Some([3; 16]), replace, ..Builder::new(Preset::InsecureN11) };
    let monitor = &mut Monitor { progress: &mut |_| (), cancel: &GO_ON };
    builder.build_on(disk, dir, records(of), monitor).unwrap();
}

/// Recorded writes, and the versions that were durable after each number of steps.
struct Recorded {
    root: tempfile::TempDir,
    before: Model,
    steps: Vec<Step>,
    /// Number of steps, version, content. The first one is the state before.
    versions: Vec<(usize, u64, Content)>,
}

impl Recorded {
    /// Records the writes of `work`. It is called with the directory, and calls its third argument after each durable
    /// version.
    fn new(
        prepare: impl FnOnce(&Path),
        before: (u64, Content),
        work: impl FnOnce(Disk, &Path, &mut dyn FnMut(u64, Content)),
    ) -> Self {
        let root = scratch();
        let dir = root.path().join("database");
        prepare(&dir);
        let model = Model::load(root.path());
        let log = Arc::new(Log::default());
        let mut versions = vec![(0, before.0, before.1)];
        let mut durable = |version, content| versions.push((log.steps().len(), version, content));
        work(Disk { log: Some(Arc::clone(&log)) }, &dir, &mut durable);
        let steps = log.steps();
        Recorded { root, before: model, steps, versions }
    }

    /// Ends the writes after every step in every way, and calls `check` with the database's directory, the newest
    /// durable version and the version that was being written.
    fn crash(&self, check: impl Fn(&Path, &str, &(usize, u64, Content), &(usize, u64, Content))) -> usize {
        let (mut model, mut states) = (self.before.clone(), 0);
        for (number, step) in self.steps.iter().enumerate() {
            let newest = self.versions.iter().rev().find(|(at, ..)| *at <= number).unwrap();
            let next = self.versions.iter().find(|(at, ..)| *at > number).unwrap_or(newest);
            let mut half = None;
            if let Step::Write(path, offset, bytes) = step {
                let mut torn = model.clone();
                torn.apply(self.root.path(), &Step::Write(path.clone(), *offset, bytes[..bytes.len() / 2].to_vec()));
                half = Some(torn);
            }
            // Tables are written in hundreds of runs; testing a few is enough.
            let table = matches!(step, Step::Write(path, ..) if path.to_string_lossy().contains("table-"));
            if !table || number % 61 == 0 {
                let torn = half.iter().map(|torn| (torn, Crash::Kill));
                let whole = [Crash::Kill, Crash::Content, Crash::All].map(|crash| (&model, crash));
                for (model, crash) in whole.into_iter().chain(torn) {
                    let target = scratch();
                    model.store(crash, target.path());
                    let what = format!("before step {number}, {crash:?}");
                    check(&target.path().join("database"), &what, newest, next);
                    states += 1;
                }
            }
            model.apply(self.root.path(), step);
        }
        // Check the model: at the end it has the files on disk.
        let target = scratch();
        model.store(Crash::Kill, target.path());
        let names = |path: &Path| -> Vec<_> {
            let mut names: Vec<_> = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            names.retain(|name| name != "writer.lock");
            names.sort();
            names
        };
        let dir = self.root.path().join("database");
        assert_eq!(names(&dir), names(&target.path().join("database")));
        for name in names(&dir) {
            assert!(
                fs::read(dir.join(&name)).unwrap() == fs::read(target.path().join("database").join(&name)).unwrap()
            );
        }
        states
    }
}

/// The version and the content of a database. Checks that it opens and that it can be written further.
fn opened(dir: &Path, what: &str) -> (u64, Content) {
    let database = Database::open(dir).unwrap_or_else(|error| panic!("{what}: {error}"));
    let snapshot = database.snapshot();
    let content: Content = KEYS.iter().map(|key| snapshot.get(key).unwrap()).collect();
    assert_eq!(snapshot.records(), content.iter().flatten().count() as u64, "{what}");
    let mut writer = Writer::open(dir).unwrap_or_else(|error| panic!("{what}: {error}"));
    writer.put(b"d", what.as_bytes()).unwrap();
    assert_eq!(writer.commit().unwrap(), snapshot.version() + 1, "{what}");
    drop(writer);
    assert!(database.refresh().unwrap(), "{what}");
    for database in [database, Database::open(dir).unwrap()] {
        assert_eq!(database.snapshot().get(b"d").unwrap(), Some(what.as_bytes().to_vec()));
        assert_eq!(database.snapshot().get(b"a").unwrap(), content[0]);
    }
    (snapshot.version(), content)
}

fn old_or_new(dir: &Path, what: &str, newest: &(usize, u64, Content), next: &(usize, u64, Content)) {
    let (version, content) = opened(dir, what);
    let expected = if version == newest.1 { newest } else { next };
    assert_eq!((version, &content), (expected.1, &expected.2), "{what}");
}

fn contents() -> [Content; 4] {
    let value = |byte: u8| Some(vec![byte; 60]);
    [
        vec![value(1), value(2), None, None],
        vec![value(3), None, None, None],
        vec![value(3), None, Some(vec![]), None],
        vec![None, value(9), Some(vec![]), None],
    ]
}

fn commit(writer: &mut Writer, content: &Content) -> u64 {
    for (key, value) in KEYS.iter().zip(content) {
        match value {
            Some(value) => _ = writer.put(key, value).unwrap(),
            None => _ = writer.delete(key).unwrap(),
        }
    }
    writer.commit().unwrap()
}

#[test]
fn a_commit_is_there_or_not() {
    let contents = contents();
    let prepare = |dir: &Path| build(&Disk::default(), dir, false, &contents[0]);
    let recorded = Recorded::new(prepare, (1, contents[0].clone()), |disk, dir, durable| {
        let mut writer = Writer::open_on(disk, dir).unwrap();
        for content in &contents[1..] {
            durable(commit(&mut writer, content), content.clone());
        }
    });
    assert!(recorded.crash(old_or_new) > 40);
}

#[test]
fn a_compaction_changes_nothing_wherever_it_ends() {
    let contents = contents();
    let prepare = |dir: &Path| {
        build(&Disk::default(), dir, false, &contents[0]);
        commit(&mut Writer::open(dir).unwrap(), &contents[1]);
    };
    let recorded = Recorded::new(prepare, (2, contents[1].clone()), |disk, dir, durable| {
        let mut writer = Writer::open_on(disk, dir).unwrap();
        writer.compact(|_| (), &GO_ON).unwrap();
        durable(commit(&mut writer, &contents[2]), contents[2].clone());
        writer.compact(|_| (), &GO_ON).unwrap();
        durable(commit(&mut writer, &contents[3]), contents[3].clone());
    });
    assert!(recorded.crash(old_or_new) > 100);
}

#[test]
fn a_replacement_is_there_or_not() {
    let contents = contents();
    let prepare = |dir: &Path| {
        build(&Disk::default(), dir, false, &contents[0]);
        commit(&mut Writer::open(dir).unwrap(), &contents[1]);
    };
    let recorded = Recorded::new(prepare, (2, contents[1].clone()), |disk, dir, durable| {
        build(&disk, dir, true, &contents[3]);
        let version = Database::open(dir).unwrap().snapshot().version();
        assert!(version > 2);
        durable(version, contents[3].clone());
    });
    assert!(recorded.crash(old_or_new) > 50);
}

#[test]
fn a_new_database_is_there_whole_or_not_at_all() {
    let contents = contents();
    let recorded = Recorded::new(
        |_| (),
        (0, vec![None; 4]),
        |disk, dir, durable| {
            build(&disk, dir, false, &contents[0]);
            durable(1, contents[0].clone());
        },
    );
    let states = recorded.crash(|dir, what, newest, next| match Database::open(dir) {
        Err(DatabaseError::Missing { .. }) => {
            assert_eq!(newest.1, 0, "{what}");
            // Building it succeeds now.
            if !what.contains("Content") {
                build(&Disk::default(), dir, false, &next.2);
                assert_eq!(opened(dir, what), (1, next.2.clone()));
            }
        }
        _ => assert_eq!(opened(dir, what), (1, next.2.clone())),
    });
    assert!(states > 40);
}

#[test]
fn damage_of_a_journal_is_found_at_every_byte() {
    let contents = contents();
    let root = scratch();
    let dir = root.path().join("database");
    build(&Disk::default(), &dir, false, &contents[0]);
    let mut ends = vec![fs::metadata(dir.join("journal-1.log")).unwrap().len() as usize];
    let mut writer = Writer::open(&dir).unwrap();
    for content in &contents[1..] {
        commit(&mut writer, content);
        ends.push(writer.journal_bytes() as usize);
    }
    drop(writer);
    let (path, manifest) = (dir.join("journal-1.log"), crate::manifest::Manifest::read(&dir).unwrap());
    let (geometry, ..) = crate::generation::open_cells(&dir, &manifest).unwrap();
    let read = || {
        let (journal, start) = crate::journal::Journal::open(&dir, &manifest, &geometry)?;
        journal.read(start)
    };
    let good = fs::read(&path).unwrap();
    assert_eq!(read().unwrap().0.len(), 3);
    for at in 0..good.len() {
        for bit in [1, 128] {
            let mut bad = good.clone();
            bad[at] ^= bit;
            fs::write(&path, bad).unwrap();
            let error = read().unwrap_err();
            let DatabaseError::Corrupted { file, bytes, .. } = error else { panic!("{at}: {error:?}") };
            assert!(file == "journal-1.log" && bytes.contains(&(at as u64)), "{at}: {bytes:?}");
        }
    }
    // A truncated journal has fewer commits; zeros after it are ignored.
    for at in ends[0]..=good.len() {
        let whole = ends.iter().filter(|&&end| end <= at).count() - 1;
        for zeros in [0, 1, 64, 5000] {
            fs::write(&path, [&good[..at], &vec![0; zeros]].concat()).unwrap();
            let found = read();
            let cut_in_a_frame = !ends.contains(&at);
            match found {
                Ok((frames, _)) => assert!(frames.len() == whole || zeros > 0, "{at} {zeros}"),
                Err(_) => assert!(cut_in_a_frame && zeros > 0, "{at} {zeros}"),
            }
        }
    }
}

/// The declaration of a database of three encrypted entries of one plane.
fn declaration() -> Declaration {
    let layout = Layout::Index { records: 12, length: Length::Fixed(9) };
    let tables = Tables::new(&Preset::InsecureN11.build().unwrap(), layout, TableKind::Encrypted).unwrap();
    Declaration::new(&tables, &[1; 32]).unwrap()
}

/// An entry whose bytes are zeros but the first one.
fn encrypted_entry(value: u8) -> Vec<u8> {
    let mut entry = vec![0; EncryptedEntry::byte_len(&declaration().tables().unwrap())];
    entry[0] = value;
    entry
}

/// Uploads entries of these values, each in a chunk of its own.
fn upload(store: &EncryptedStore, id: u64, values: &[Option<u8>; 3]) -> u64 {
    let upload = Upload { id, base: store.snapshot().version() };
    let values = (0..).zip(values).filter_map(|(number, value)| Some((number, (*value)?)));
    let mut chunks = 0;
    for (number, value) in values {
        chunks = store.stage(upload, chunks, &[(number, &encrypted_entry(value))]).unwrap().chunks;
    }
    store.commit_upload(upload, chunks, &GO_ON).unwrap().version
}

/// The version of a store, and the first bytes of its entries. Checks that it can be written further.
fn opened_store(dir: &Path, what: &str) -> (u64, Content) {
    let read = |store: &EncryptedStore| -> Content {
        let snapshot = store.snapshot();
        let Planes::Encrypted(view) = snapshot.planes() else { panic!("{what}") };
        let entries = (0..).zip(view.entries.chunks(encrypted_entry(0).len()));
        entries.map(|(number, entry)| Some(vec![view.changes.get(&number).map_or(entry[0], |new| new[0])])).collect()
    };
    let store = EncryptedStore::open(dir).unwrap_or_else(|error| panic!("{what}: {error}"));
    let (version, content) = (store.snapshot().version(), read(&store));
    assert_eq!(upload(&store, 99, &[None, None, Some(77)]), version + 1, "{what}");
    drop(store);
    let store = EncryptedStore::open(dir).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(store.snapshot().version(), version + 1, "{what}");
    assert_eq!(read(&store)[2], Some(vec![77]), "{what}");
    (version, content)
}

#[test]
fn an_upload_is_there_or_not() {
    let content = |values: [u8; 3]| -> Content { values.iter().map(|&value| Some(vec![value])).collect() };
    let prepare = |dir: &Path| EncryptedStore::create(dir, &declaration(), &GO_ON).unwrap();
    let recorded = Recorded::new(prepare, (1, content([0; 3])), |disk, dir, durable| {
        // The third upload does not fit into the journal, and makes a new generation.
        let store = EncryptedStore::open_on(disk, dir, 4 * encrypted_entry(0).len() as u64).unwrap();
        durable(upload(&store, 1, &[Some(1), Some(2), None]), content([1, 2, 0]));
        durable(upload(&store, 2, &[None, Some(3), None]), content([1, 3, 0]));
        durable(upload(&store, 3, &[Some(4), None, Some(5)]), content([4, 3, 5]));
        durable(upload(&store, 4, &[Some(6), None, None]), content([6, 3, 5]));
        assert!(!dir.join("cells-1.bin").exists() && dir.join("cells-2.bin").exists());
    });
    let states = recorded.crash(|dir, what, newest, next| {
        let (version, content) = opened_store(dir, what);
        let expected = if version == newest.1 { newest } else { next };
        assert_eq!((version, &content), (expected.1, &expected.2), "{what}");
    });
    assert!(states > 100);
}

#[test]
fn a_new_store_is_there_or_can_be_made() {
    let recorded = Recorded::new(
        |_| (),
        (0, vec![None; 3]),
        |disk, dir, durable| {
            EncryptedStore::create_on(&disk, dir, &declaration(), &GO_ON).unwrap();
            durable(1, vec![Some(vec![0]); 3]);
        },
    );
    let states = recorded.crash(|dir, what, _, next| {
        if matches!(EncryptedStore::open(dir), Err(DatabaseError::Missing { .. })) {
            EncryptedStore::create(dir, &declaration(), &GO_ON).unwrap();
        }
        assert_eq!(opened_store(dir, what), (1, next.2.clone()));
    });
    assert!(states > 20);
}
