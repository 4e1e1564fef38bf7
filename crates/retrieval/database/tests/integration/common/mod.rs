//! Helpers for the tests.
#![allow(dead_code, reason = "each test file uses a part")]

use std::convert::Infallible;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use unspoken_database::{Builder, Built, DatabaseError, Progress, Record, Snapshot};
use unspoken_pir_scheme::{DatabaseVersion, PlaneShape, Planes, Preset, encode_entry};
use unspoken_ring::{Basis, Domain, Poly};

pub static GO_ON: AtomicBool = AtomicBool::new(false);

pub fn keyed(key: String, value: Vec<u8>) -> Result<Record, Infallible> {
    Ok(Record { key: Some(key.into_bytes()), value })
}

pub fn plain(value: Vec<u8>) -> Result<Record, Infallible> {
    Ok(Record { key: None, value })
}

pub fn value(i: usize) -> Vec<u8> {
    (0..i * 7 % 90).map(|j| (i * 31 + j) as u8).collect()
}

pub fn builder() -> Builder {
    Builder { seed: Some([5; 16]), ..Builder::new(Preset::InsecureN11) }
}

pub fn build(
    builder: &Builder,
    dir: &Path,
    records: impl IntoIterator<Item = Result<Record, Infallible>>,
) -> Result<Built, DatabaseError> {
    builder.build(dir, records, |_: Progress| (), &GO_ON)
}

/// Checks that every entry of every plane, words and changes together, is the encoding of its cells.
pub fn check_tables(snapshot: &Snapshot) {
    let parameters = snapshot.parameters();
    let (PlaneShape::Transformed(shape), Planes::Transformed(tables)) = (snapshot.tables().shape(), snapshot.planes())
    else {
        panic!("tables of another kind")
    };
    let (ring, table) = (parameters.ring(), shape.table(parameters));
    let (pieces, length) = (parameters.pieces(), parameters.piece_bytes());
    assert_eq!(tables.len(), snapshot.tables().planes());
    let mut one = ring.zero(ring.basis(), Domain::Evaluation);
    ring.add_constant_assign(&mut one, 1).unwrap();
    let zero = ring.zero(ring.basis(), Domain::Evaluation);
    for (plane, view) in tables.iter().enumerate() {
        for row in 0..table.rows {
            // A sum whose factors are one at a row and zero elsewhere equals the row.
            let factors: Vec<[&Poly; 2]> = (0..table.rows).map(|i| [if i == row { &one } else { &zero }; 2]).collect();
            let factors = ring.table_factors(table.chain, &factors).unwrap();
            let sums = ring.table_sums(table, view.words, 0..table.columns, &factors).unwrap();
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
                let expected = encode_entry(parameters, plane, (row * table.columns + column) as u64, &bytes).unwrap();
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
