//! Databases of encrypted entries: uploads, restarts, damage, at insecure parameters.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::common::{GO_ON, build, builder, keyed, value};
use unspoken_database::{Builder, Database, DatabaseError, Declaration, EncryptedStore, Snapshot, Writer};
use unspoken_pir_scheme::encrypted;
use unspoken_pir_scheme::{
    DatabaseVersion, EncryptedEntry, Mode, PirSecret, PlaneShape, Planes, PreparedKeys, SchemeError, TableKind, Tables,
    Upload, UploadState, UploadedDatabase, VersionedDatabase,
};
use unspoken_ring::SecretRng;

const WRITE_KEY: [u8; 32] = [9; 32];

/// The owner: a database in plaintext at home, and a secret.
struct Owner {
    home: Database,
    secret: PirSecret,
    keys: PreparedKeys,
    rng: SecretRng,
}

impl Owner {
    fn new(dir: &Path, records: usize) -> Self {
        let builder = Builder { tables: TableKind::Encrypted, ..builder() };
        build(&builder, dir, (0..records).map(|i| keyed(format!("key {i}"), value(i)))).unwrap();
        let home = Database::open(dir).unwrap();
        let mut rng = SecretRng::insecure_from_seed(4);
        let secret = PirSecret::generate(home.parameters(), &mut rng).unwrap();
        let keys = secret.keys(Mode::Packed, &mut rng).unwrap().expand().unwrap();
        Owner { home, secret, keys, rng }
    }

    fn snapshot(&self) -> std::sync::Arc<Snapshot> {
        self.home.snapshot()
    }

    fn tables(&self) -> Tables {
        self.snapshot().tables().clone()
    }

    fn declaration(&self) -> Declaration {
        Declaration::new(&self.tables(), &WRITE_KEY).unwrap()
    }

    fn entries(&mut self, numbers: impl Iterator<Item = u64>) -> BTreeMap<u64, Vec<u8>> {
        let (snapshot, tables) = (self.home.snapshot(), self.tables());
        let mut encrypt = |number| {
            let entry = self.secret.encrypt_entry(&tables, number, |cell| snapshot.cell(cell), &mut self.rng);
            (number, entry.unwrap().to_bytes(&tables))
        };
        numbers.map(&mut encrypt).collect()
    }

    fn all(&mut self) -> BTreeMap<u64, Vec<u8>> {
        let count = EncryptedEntry::count(&self.tables());
        self.entries(0..count)
    }

    /// The record of a key, from the store's current version.
    fn ask(&mut self, store: &EncryptedStore, key: &str) -> Result<Option<Vec<u8>>, SchemeError> {
        let (version, tables) = (store.snapshot(), self.tables());
        let (PlaneShape::Encrypted(shape), Planes::Encrypted(view)) = (tables.shape(), version.planes()) else {
            panic!("{tables:?}")
        };
        let mut cells = Vec::new();
        for &cell in tables.layout().candidates(key.as_bytes()).unwrap().iter() {
            let query = self.secret.query(Mode::Packed, shape, cell, &mut self.rng).unwrap();
            let responses = encrypted::answer(&self.keys, &tables, view, &query, &GO_ON).unwrap();
            let mut content = Vec::new();
            for (plane, response) in responses.iter().enumerate() {
                content.extend_from_slice(&self.secret.extract_encrypted(response, &tables, plane, cell)?);
            }
            cells.push(content);
        }
        Ok(tables.layout().find(key.as_bytes(), &cells).unwrap().map(<[u8]>::to_vec))
    }
}

fn chunk(entries: &BTreeMap<u64, Vec<u8>>, numbers: impl Fn(u64) -> bool) -> Vec<(u64, &[u8])> {
    entries.iter().filter(|(number, _)| numbers(**number)).map(|(number, entry)| (*number, entry.as_slice())).collect()
}

fn upload(store: &EncryptedStore, id: u64, entries: &BTreeMap<u64, Vec<u8>>) -> UploadState {
    let upload = Upload { id, base: store.snapshot().version() };
    let state = store.stage(upload, 0, &chunk(entries, |_| true)).unwrap();
    assert_eq!((state.upload, state.chunks, state.version), (upload, 1, upload.base));
    store.commit_upload(upload, 1, &GO_ON).unwrap()
}

fn refusal<T: std::fmt::Debug>(result: Result<T, SchemeError>) -> String {
    match result {
        Err(error @ SchemeError::Upload { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn uploads_and_changes_are_read_also_after_a_restart() {
    let temporary = tempfile::tempdir().unwrap();
    let (home, dir) = (temporary.path().join("home"), temporary.path().join("store"));
    let mut owner = Owner::new(&home, 60);
    EncryptedStore::create(&dir, &owner.declaration(), &GO_ON).unwrap();
    let store = EncryptedStore::open(&dir).unwrap();
    assert_eq!(store.snapshot().version(), 1);
    assert!(matches!(owner.ask(&store, "key 3"), Err(SchemeError::Unreadable | SchemeError::Forged)));
    assert!(store.is_write_key(&WRITE_KEY) && !store.is_write_key(&[8; 32]));
    let all = owner.all();
    assert_eq!(upload(&store, 11, &all).version, 2);
    for i in [0, 7, 59] {
        assert_eq!(owner.ask(&store, &format!("key {i}")).unwrap(), Some(value(i)));
    }
    assert_eq!(owner.ask(&store, "key 60").unwrap(), None);
    // A change of one record changes few entries.
    let before = owner.snapshot();
    let mut writer = Writer::open(&home).unwrap();
    writer.put(b"key 7", b"another").unwrap();
    writer.commit().unwrap();
    assert!(owner.home.refresh().unwrap());
    let after = owner.snapshot();
    let pieces = owner.tables().parameters().pieces() as u64;
    let differs =
        |number: &u64| (number * pieces..(number + 1) * pieces).any(|cell| before.cell(cell) != after.cell(cell));
    let changed: Vec<u64> = all.keys().copied().filter(differs).collect();
    assert!((1..=2).contains(&changed.len()), "{changed:?}");
    let held = store.snapshot();
    let changed = owner.entries(changed.into_iter());
    assert_eq!(upload(&store, 12, &changed).version, 3);
    assert_eq!((held.version(), store.snapshot().version()), (2, 3));
    assert_eq!(owner.ask(&store, "key 7").unwrap().as_deref(), Some(&b"another"[..]));
    drop((store, held));
    let store = EncryptedStore::open(&dir).unwrap();
    let last = UploadState { version: 3, upload: Upload { id: 12, base: 2 }, chunks: 0 };
    assert_eq!(store.upload_state().unwrap(), last);
    assert_eq!(owner.ask(&store, "key 7").unwrap().as_deref(), Some(&b"another"[..]));
    assert_eq!(owner.ask(&store, "key 59").unwrap(), Some(value(59)));
    // No file has a record in plaintext.
    for file in fs::read_dir(&dir).unwrap() {
        let bytes = fs::read(file.unwrap().path()).unwrap();
        assert!(!bytes.windows(7).any(|window| window == b"another"));
    }
}

#[test]
fn an_upload_goes_on_after_a_restart_and_may_be_repeated() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("store");
    let mut owner = Owner::new(&temporary.path().join("home"), 60);
    EncryptedStore::create(&dir, &owner.declaration(), &GO_ON).unwrap();
    let (all, begun) = (owner.all(), Upload { id: 5, base: 1 });
    let store = EncryptedStore::open(&dir).unwrap();
    store.stage(begun, 0, &chunk(&all, |number| number < 3)).unwrap();
    drop(store);
    let store = EncryptedStore::open(&dir).unwrap();
    assert_eq!(store.upload_state().unwrap(), UploadState { version: 1, upload: begun, chunks: 1 });
    // A repeated chunk is not stored twice, and a missing one is not skipped.
    assert_eq!(store.stage(begun, 0, &chunk(&all, |number| number < 3)).unwrap().chunks, 1);
    assert!(refusal(store.stage(begun, 2, &[])).contains("needed chunk 1"));
    assert!(refusal(store.commit_upload(begun, 2, &GO_ON)).contains("1 chunks"));
    assert_eq!(store.stage(begun, 1, &chunk(&all, |number| number >= 3)).unwrap().chunks, 2);
    for _ in 0..2 {
        assert_eq!(store.commit_upload(begun, 2, &GO_ON).unwrap().version, 2);
    }
    assert_eq!(owner.ask(&store, "key 31").unwrap(), Some(value(31)));
}

#[test]
fn the_last_of_two_uploads_is_stored() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("store");
    let mut owner = Owner::new(&temporary.path().join("home"), 60);
    EncryptedStore::create(&dir, &owner.declaration(), &GO_ON).unwrap();
    let store = EncryptedStore::open(&dir).unwrap();
    assert!(matches!(EncryptedStore::open(&dir), Err(DatabaseError::Locked { .. })));
    let (all, first, second) = (owner.all(), Upload { id: 1, base: 1 }, Upload { id: 2, base: 1 });
    store.stage(first, 0, &chunk(&all, |number| number < 3)).unwrap();
    store.stage(second, 0, &chunk(&all, |_| true)).unwrap();
    assert!(refusal(store.stage(first, 1, &chunk(&all, |number| number >= 3))).contains("another upload has begun"));
    assert!(refusal(store.commit_upload(first, 1, &GO_ON)).contains("another one has begun"));
    assert_eq!(store.commit_upload(second, 1, &GO_ON).unwrap().version, 2);
    assert!(refusal(store.stage(first, 0, &[])).contains("needed 2, the current one"));
    assert_eq!(owner.ask(&store, "key 31").unwrap(), Some(value(31)));
}

#[test]
fn entries_that_do_not_fit_are_refused() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("store");
    let mut owner = Owner::new(&temporary.path().join("home"), 60);
    EncryptedStore::create(&dir, &owner.declaration(), &GO_ON).unwrap();
    let store = EncryptedStore::open(&dir).unwrap();
    let (all, begun) = (owner.all(), Upload { id: 1, base: 1 });
    let (count, entry) = (all.len() as u64, all[&0].as_slice());
    let large = vec![0xFF; entry.len()];
    for entries in [
        vec![(count, entry)],
        vec![(1, entry), (1, entry)],
        vec![(2, entry), (1, entry)],
        vec![(0, &entry[1..])],
        vec![(0, &large)],
    ] {
        refusal(store.stage(begun, 0, &entries));
    }
    // A chunk without entries would be stored without end.
    assert!(refusal(store.stage(begun, 0, &[])).contains("found no entries"));
    assert_eq!(store.upload_state().unwrap().chunks, 0);
    store.stage(begun, 0, &[(3, entry)]).unwrap();
    assert!(refusal(store.stage(begun, 1, &[(3, entry)])).contains("above 3"));
}

#[test]
fn damage_is_found_when_a_store_is_opened() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("store");
    let mut owner = Owner::new(&temporary.path().join("home"), 60);
    EncryptedStore::create(&dir, &owner.declaration(), &GO_ON).unwrap();
    assert!(matches!(EncryptedStore::create(&dir, &owner.declaration(), &GO_ON), Err(DatabaseError::Exists { .. })));
    let all = owner.all();
    let store = EncryptedStore::open(&dir).unwrap();
    upload(&store, 1, &all);
    let begun = Upload { id: 2, base: 2 };
    store.stage(begun, 0, &chunk(&all, |number| number < 3)).unwrap();
    drop(store);
    for name in ["encrypted.json", "cells-1.bin", "sums-1.bin", "journal-1.log", "newest-1.txt", "upload.log"] {
        let sound = fs::read(dir.join(name)).unwrap();
        let mut damaged = sound.clone();
        damaged[sound.len() / 2] ^= 1;
        fs::write(dir.join(name), &damaged).unwrap();
        match EncryptedStore::open(&dir) {
            Err(DatabaseError::Corrupted { file, .. }) => assert_eq!(file, name),
            other => panic!("{name}: {other:?}"),
        }
        fs::write(dir.join(name), &sound).unwrap();
    }
    let store = EncryptedStore::open(&dir).unwrap();
    assert_eq!(owner.ask(&store, "key 31").unwrap(), Some(value(31)));
    drop(store);
    // A journal that was cut off between two frames.
    let journal = fs::OpenOptions::new().write(true).open(dir.join("journal-1.log")).unwrap();
    journal.set_len(64).unwrap();
    assert!(matches!(EncryptedStore::open(&dir), Err(DatabaseError::VersionsLost { found: 1, needed: 2, .. })));
}

#[test]
fn many_changed_entries_make_a_new_generation() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("store");
    // Over 16 MiB of entries.
    let mut owner = Owner::new(&temporary.path().join("home"), 60_000);
    EncryptedStore::create(&dir, &owner.declaration(), &GO_ON).unwrap();
    let store = EncryptedStore::open(&dir).unwrap();
    let all = owner.all();
    assert!(all.values().map(Vec::len).sum::<usize>() > 16 << 20);
    assert_eq!(upload(&store, 1, &all).version, 2);
    assert!(!dir.join("cells-1.bin").exists() && dir.join("cells-2.bin").exists());
    let few = owner.entries(0..2);
    assert_eq!(upload(&store, 2, &few).version, 3);
    // The journal does not grow beyond 16 MiB, also if the same entries change again and again.
    let some = owner.entries(0..600);
    for id in 3..6 {
        upload(&store, id, &some);
    }
    let journals = fs::read_dir(&dir).unwrap().map(Result::unwrap);
    let journals = journals.filter(|file| file.file_name().to_string_lossy().starts_with("journal-"));
    let lengths: Vec<u64> = journals.map(|file| file.metadata().unwrap().len()).collect();
    assert!(matches!(lengths.as_slice(), [length] if *length <= 16 << 20), "{lengths:?}");
    drop(store);
    let store = EncryptedStore::open(&dir).unwrap();
    assert_eq!(store.snapshot().version(), 6);
    assert_eq!(owner.ask(&store, "key 59999").unwrap(), Some(value(59_999)));
}

#[test]
fn declarations_are_checked() {
    let temporary = tempfile::tempdir().unwrap();
    let owner = Owner::new(&temporary.path().join("home"), 60);
    let bytes = owner.declaration().to_bytes().unwrap();
    assert_eq!(Declaration::from_bytes(&bytes).unwrap(), owner.declaration());
    let text = String::from_utf8(bytes).unwrap();
    for (from, to) in [
        ("\"format\": 1", "\"format\": 2"),
        ("\"candidates\": 2", "\"candidates\": 9"),
        ("\"owner\": \"", "\"owner\": \"0"),
        ("insecure_n11_pir256", "other"),
        ("\"format\"", "\"unknown\": 1, \"format\""),
    ] {
        let changed = text.replace(from, to);
        assert_ne!(changed, text, "{from}");
        assert!(Declaration::from_bytes(changed.as_bytes()).is_err(), "{to}");
    }
    // Dense and transformed tables are not uploaded.
    let layout = owner.tables().layout();
    let tables = Tables::new(owner.tables().parameters(), layout, TableKind::Transformed).unwrap();
    assert!(Declaration::new(&tables, &WRITE_KEY).is_err());
}
