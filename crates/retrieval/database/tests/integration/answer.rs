//! Tests of answers from mapped tables and later changes, at insecure parameters.

use std::path::Path;

use crate::common::{GO_ON, build, builder, keyed, value};
use unspoken_database::{Builder, Database, DatabaseError, Snapshot, Writer};
use unspoken_pir_scheme::{
    DatabaseVersion, Layout, Mode, PirSecret, PlaneShape, Planes, PreparedKeys, TableKind, VersionedDatabase, answer,
    dense,
};
use unspoken_ring::SecretRng;

/// A client of a database, with keys for packed queries.
struct Client {
    secret: PirSecret,
    keys: PreparedKeys,
    rng: SecretRng,
}

impl Client {
    fn new(database: &Database) -> Self {
        let mut rng = SecretRng::insecure_from_seed(4);
        let secret = PirSecret::generate(database.parameters(), &mut rng).unwrap();
        let keys = secret.keys(Mode::Packed, &mut rng).unwrap().expand().unwrap();
        Client { secret, keys, rng }
    }

    /// The decrypted pieces of a cell.
    fn cell(&mut self, version: &Snapshot, cell: u64) -> Vec<u8> {
        match (version.tables().shape(), version.planes()) {
            (PlaneShape::Transformed(shape), Planes::Transformed(planes)) => {
                let query = self.secret.query(Mode::Packed, shape, cell, &mut self.rng).unwrap();
                let responses = answer(&self.keys, shape, &planes, &query, &GO_ON).unwrap();
                let pieces = responses.iter().enumerate();
                pieces
                    .flat_map(|(plane, response)| self.secret.extract(response, plane, cell).unwrap().to_vec())
                    .collect()
            }
            (PlaneShape::Dense(shape), Planes::Dense(planes)) => {
                let query = self.secret.dense_query(shape, cell, &mut self.rng).unwrap();
                let queries = [(&self.keys, &query)];
                let responses = dense::answer(version.parameters(), shape, &planes, &queries, &GO_ON).unwrap();
                let pieces = responses[0].iter();
                pieces.flat_map(|response| self.secret.dense_extract(response, shape).unwrap().to_vec()).collect()
            }
            (shape, planes) => panic!("{shape:?} of {planes:?}"),
        }
    }

    fn ask(&mut self, version: &Snapshot, key: &str) -> Option<Vec<u8>> {
        let layout = version.layout();
        let candidates = layout.candidates(key.as_bytes()).unwrap();
        let cells: Vec<Vec<u8>> = candidates.iter().map(|&cell| self.cell(version, cell)).collect();
        layout.find(key.as_bytes(), &cells).unwrap().map(<[u8]>::to_vec)
    }
}

fn answers_are_of_the_version_that_is_held(tables: TableKind) {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("database");
    let builder = Builder { tables, ..builder() };
    build(&builder, &dir, (0..2000).map(|i| keyed(format!("key {i}"), value(i)))).unwrap();
    let database = Database::open(&dir).unwrap();
    let mut client = Client::new(&database);
    let before = database.snapshot();
    assert_eq!(before.tables().kind(), tables);
    assert_eq!(client.ask(&before, "key 77"), Some(value(77)));
    assert_eq!(client.ask(&before, "key 2000"), None);
    let mut writer = Writer::open(&dir).unwrap();
    writer.put(b"key 77", b"changed").unwrap();
    writer.delete(b"key 78").unwrap();
    writer.put(b"key 2000", b"added").unwrap();
    for i in 300..330 {
        writer.put(format!("key {i}").as_bytes(), b"another").unwrap();
        writer.commit().unwrap();
    }
    assert!(database.refresh().unwrap());
    let after = database.snapshot();
    assert!(after.changed_entries() > 20 && after.resident_bytes() > before.resident_bytes());
    writer.compact(|_| (), &GO_ON).unwrap();
    assert!(database.refresh().unwrap());
    let compacted = database.snapshot();
    assert_eq!((compacted.changed_entries(), compacted.tables().kind()), (0, tables));
    for version in [&after, &compacted] {
        assert_eq!(client.ask(version, "key 77"), Some(b"changed".to_vec()));
        assert_eq!(client.ask(version, "key 78"), None);
        assert_eq!(client.ask(version, "key 79"), Some(value(79)));
        assert_eq!(client.ask(version, "key 2000"), Some(b"added".to_vec()));
        assert_eq!(client.ask(version, "key 329"), Some(b"another".to_vec()));
    }
    assert_eq!(client.ask(&before, "key 77"), Some(value(77)));
    assert_eq!(client.ask(&before, "key 78"), Some(value(78)));
}

#[test]
fn answers_from_transformed_tables_are_of_the_version_that_is_held() {
    answers_are_of_the_version_that_is_held(TableKind::Transformed);
}

#[test]
fn answers_from_dense_tables_are_of_the_version_that_is_held() {
    answers_are_of_the_version_that_is_held(TableKind::Dense);
    answers_are_of_the_version_that_is_held(TableKind::Wide);
}

#[test]
fn a_database_is_replaced_by_one_with_tables_of_another_kind() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("database");
    // Longer records than a piece of either kind.
    let records = |length: usize| (0..5).map(move |i| crate::common::plain(vec![i + 1; length]));
    build(&builder(), &dir, records(3000)).unwrap();
    let database = Database::open(&dir).unwrap();
    let mut client = Client::new(&database);
    assert_eq!(client.cell(&database.snapshot(), 3)[..3000], [4; 3000]);
    let dense = Builder { tables: TableKind::Dense, replace: true, ..builder() };
    let built = build(&dense, &dir, records(2500)).unwrap();
    assert_eq!(built.tables.planes(), 2);
    assert!(database.refresh().unwrap());
    let now = database.snapshot();
    assert_eq!((now.version(), now.tables().kind()), (2, TableKind::Dense));
    assert_eq!(client.cell(&now, 3)[..2500], [4; 2500]);
    let mut writer = Writer::open(&dir).unwrap();
    writer.set(3, &[9; 2500]).unwrap();
    writer.commit().unwrap();
    assert!(database.refresh().unwrap());
    let changed = database.snapshot();
    assert_eq!(
        (client.cell(&changed, 3)[..2500].to_vec(), client.cell(&changed, 4)[..2500].to_vec()),
        (vec![9; 2500], vec![5; 2500])
    );
    assert_eq!(client.cell(&now, 3)[..2500], [4; 2500]);
    assert!(matches!(now.layout(), Layout::Index { records: 5, .. }));
}

#[test]
fn a_dense_database_has_masks_of_its_own_and_keeps_them() {
    let temporary = tempfile::tempdir().unwrap();
    let dense = |name: &str, replace| {
        let dir = temporary.path().join(name);
        let builder = Builder { tables: TableKind::Dense, seed: None, replace, ..builder() };
        build(&builder, &dir, (0..9).map(|i| crate::common::plain(vec![i; 2000]))).unwrap();
        dir
    };
    let masks = |dir: &Path| Database::open(dir).unwrap().snapshot().tables().masks();
    let dir = dense("one", false);
    let first = masks(&dir).unwrap();
    assert_ne!(masks(&dense("other", false)), Some(first));
    let mut writer = Writer::open(&dir).unwrap();
    writer.set(3, &[9; 2000]).unwrap();
    writer.commit().unwrap();
    assert_eq!(masks(&dir), Some(first), "after a commit");
    writer.compact(|_| (), &GO_ON).unwrap();
    assert_eq!(masks(&dir), Some(first), "after a compaction");
    drop(writer);
    dense("one", true);
    assert_eq!(masks(&dir), Some(first), "after a replacement");
    let transformed = Builder { seed: None, replace: true, ..builder() };
    build(&transformed, &dir, [crate::common::plain(vec![1; 2000])]).unwrap();
    assert_eq!(masks(&dir), None);
}

#[test]
fn a_damaged_dense_table_is_found() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("database");
    let builder = Builder { tables: TableKind::Dense, ..builder() };
    build(&builder, &dir, (0..100).map(|i| keyed(format!("key {i}"), value(i)))).unwrap();
    let table = dir.join("table-1.bin");
    let mut bytes = std::fs::read(&table).unwrap();
    let last = bytes.len() - 10;
    bytes[last] ^= 1;
    std::fs::write(&table, bytes).unwrap();
    assert!(matches!(Database::open(&dir), Err(DatabaseError::Corrupted { .. })));
}
