//! Databases are built, read, changed, followed, compacted and replaced, at insecure parameters.

use std::convert::Infallible;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use unspoken_database::{Builder, Built, Database, DatabaseError, Duplicates, Progress, Record, Snapshot, Writer};
use unspoken_pir::{Layout, LayoutError, Length, Preset, encode_entry};
use unspoken_ring::{Basis, Domain, Poly};

const GO_ON: AtomicBool = AtomicBool::new(false);

fn keyed(key: String, value: Vec<u8>) -> Result<Record, Infallible> {
    Ok(Record { key: Some(key.into_bytes()), value })
}

fn plain(value: Vec<u8>) -> Result<Record, Infallible> {
    Ok(Record { key: None, value })
}

fn value(i: usize) -> Vec<u8> {
    (0..i * 7 % 90).map(|j| (i * 31 + j) as u8).collect()
}

fn builder() -> Builder {
    Builder { seed: Some([5; 16]), ..Builder::new(Preset::InsecureN11) }
}

fn build(
    builder: &Builder,
    dir: &Path,
    records: impl IntoIterator<Item = Result<Record, Infallible>>,
) -> Result<Built, DatabaseError> {
    builder.build(dir, records, |_: Progress| (), &GO_ON)
}

/// Every entry of every plane, words and changes together, is what the cells encode to.
fn check_tables(snapshot: &Snapshot) {
    let (parameters, shape) = (snapshot.parameters(), snapshot.shape());
    let (ring, table) = (parameters.ring(), shape.table(parameters));
    let (pieces, length) = (parameters.pieces(), parameters.piece_bytes());
    let tables = snapshot.tables().unwrap();
    assert_eq!(tables.len(), snapshot.layout().planes(parameters));
    let mut one = ring.zero(ring.basis(), Domain::Evaluation);
    ring.add_constant_assign(&mut one, 1).unwrap();
    let zero = ring.zero(ring.basis(), Domain::Evaluation);
    for (plane, view) in tables.iter().enumerate() {
        for row in 0..table.rows {
            // A sum whose factors are one at a row and zero elsewhere is the row.
            let factors: Vec<[&Poly; 2]> = (0..table.rows).map(|i| [if i == row { &one } else { &zero }; 2]).collect();
            let sums = ring.table_sums(table, view.words, &factors).unwrap();
            for (column, [sum, _]) in sums.into_iter().enumerate() {
                let mut found = sum;
                for change in view.changes.iter().filter(|change| (change.row, change.column) == (row, column)) {
                    ring.add_assign(&mut found, &change.difference).unwrap();
                }
                let mut bytes = Vec::new();
                for place in 0..pieces {
                    let cell = snapshot.cell(((row * table.columns + column) * pieces + place) as u64);
                    bytes.extend_from_slice(cell.chunks(length).nth(plane).unwrap_or_default());
                    bytes.resize((place + 1) * length, 0);
                }
                let expected = encode_entry(parameters, &bytes).unwrap();
                assert_eq!(expected.basis(), Basis::chain(table.chain));
                assert_eq!(residues(ring, &found), residues(ring, &expected), "plane {plane}, {row}, {column}");
            }
        }
    }
}

fn residues(ring: &unspoken_ring::Ring, poly: &Poly) -> Vec<u8> {
    let mut bytes = Vec::new();
    ring.write_residues(poly, &mut bytes);
    bytes
}

#[test]
fn records_with_keys_are_found_and_absent_ones_are_not() {
    for (count, candidates) in [(1, 1), (3000, 1), (3000, 2), (3000, 3)] {
        let temporary = tempfile::tempdir().unwrap();
        let dir = temporary.path().join("database");
        let records = (0..count).map(|i| keyed(format!("key {i}"), value(i)));
        let built = build(&Builder { candidates, ..builder() }, &dir, records).unwrap();
        assert_eq!((built.records, built.dropped, built.version), (count as u64, 0, 1));
        let database = Database::open(&dir).unwrap();
        let snapshot = database.snapshot();
        assert_eq!((snapshot.version(), snapshot.records(), *snapshot.layout()), (1, count as u64, built.layout));
        for i in 0..count {
            assert_eq!(snapshot.get(format!("key {i}").as_bytes()).unwrap(), Some(value(i)), "{i}");
        }
        assert_eq!(snapshot.get(b"key").unwrap(), None);
        assert!(count == 1 || (0.35..0.95).contains(&snapshot.load().unwrap()), "{:?}", snapshot.load());
        assert!(snapshot.record(0).is_err());
        check_tables(&snapshot);
        assert!(!database.refresh().unwrap());
    }
}

#[test]
fn records_of_all_lengths_are_found_by_index() {
    let long: Vec<u8> = (0..102_400).map(|i| (i * i / 7) as u8).collect();
    for records in [vec![vec![7; 256]; 700], vec![vec![]; 3], vec![vec![], vec![1; 300], vec![]], vec![long, vec![2]]] {
        let temporary = tempfile::tempdir().unwrap();
        let dir = temporary.path().join("database");
        let capacity = records.len() as u64 + 2;
        let built = build(&Builder { capacity, ..builder() }, &dir, records.iter().cloned().map(plain)).unwrap();
        let snapshot = Database::open(&dir).unwrap().snapshot();
        for (i, record) in records.iter().enumerate() {
            assert_eq!(snapshot.record(i as u64).unwrap().as_ref(), Some(record), "{i}");
        }
        let fixed = matches!(built.layout, Layout::Index { length: Length::Fixed(_), .. });
        assert_eq!(snapshot.record(capacity - 1).unwrap().is_some(), fixed);
        let error = snapshot.record(capacity).unwrap_err();
        assert!(matches!(error, DatabaseError::Layout(LayoutError::Index { .. })));
        check_tables(&snapshot);
    }
}
