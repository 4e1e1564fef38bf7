//! Databases in memory, at insecure parameters.

use std::sync::Arc;

use unspoken_pir::PirServer;
use unspoken_pir_scheme::{
    Database, DatabaseVersion, Layout, Length, PirParameters, Planes, Preset, TableKind, Tables, VersionedDatabase,
};

/// Bytes of the longest record.
const LENGTH: u32 = 60;

/// Records in memory, as one version of a database by index.
pub struct Cells {
    tables: Tables,
    table: Database,
}

impl Cells {
    /// A database of `records` records, some of them damaged: the padding after the record is not zero.
    pub fn new(records: u64, damaged: &[u64]) -> Self {
        let parameters = parameters();
        let layout = Layout::Index { records, length: Length::Variable { max: LENGTH } };
        let cells = (0..records).flat_map(|i| {
            let mut cell = layout.cell(Some(&record(i))).unwrap();
            cell[LENGTH as usize] |= u8::from(damaged.contains(&i));
            cell.resize(parameters.piece_bytes(), 0);
            cell
        });
        let tables = Tables::new(&parameters, layout, TableKind::Transformed).unwrap();
        Cells { tables, table: Database::new(&parameters, 0, &cells.collect::<Vec<u8>>()).unwrap() }
    }
}

/// The record with an index.
pub fn record(index: u64) -> Vec<u8> {
    format!("record {index}").into_bytes()
}

/// The parameters of all databases.
fn parameters() -> PirParameters {
    Preset::InsecureN11.build().unwrap()
}

impl DatabaseVersion for Cells {
    fn version(&self) -> u64 {
        1
    }

    fn tables(&self) -> &Tables {
        &self.tables
    }

    fn planes(&self) -> Planes<'_> {
        Planes::Transformed(vec![self.table.view()])
    }
}

/// A database of one version.
pub struct TestDatabase(PirParameters, Arc<Cells>);

impl VersionedDatabase for TestDatabase {
    type Version = Cells;

    fn parameters(&self) -> &PirParameters {
        &self.0
    }

    fn current(&self) -> Arc<Cells> {
        Arc::clone(&self.1)
    }

    fn resident_bytes(&self) -> u64 {
        0
    }
}

/// The server half of a database.
pub fn half(cells: Cells) -> PirServer<TestDatabase> {
    PirServer::new(TestDatabase(parameters(), Arc::new(cells))).unwrap()
}
