//! Subtables for lookups: random subtables of a given shape, or the subtables of a compressed embedding table.

use std::path::Path;

use unspoken_lookup::Table;

/// Subtables of one shape.
pub(super) struct Subtables {
    pub(super) tables: Vec<Table>,
    /// Description, for the case and the parameters of a row.
    pub(super) label: &'static str,
    pub(super) source: &'static str,
}

impl Subtables {
    /// Entries from -1 to 1 that depend only on their position.
    pub(super) fn random(subtables: usize, rows: usize, columns: usize) -> anyhow::Result<Self> {
        // A Weyl sequence: equidistributed, and no two rows are equal.
        let entry = |i: usize| (i as f64 * 0.754_877_666_246_693).fract() * 2.0 - 1.0;
        let table = |t: usize| {
            let entries: Vec<f64> = (0..rows * columns).map(|i| entry(t * rows * columns + i + 1)).collect();
            Table::new(rows, &entries)
        };
        let tables = (0..subtables).map(table).collect::<Result<_, _>>()?;
        Ok(Subtables { tables, label: "embedding", source: "random entries: they do not change the time" })
    }

    /// The subtables of a compressed table's directory.
    pub(super) fn read(directory: &Path) -> anyhow::Result<Self> {
        let given = unspoken_embedding::Subtables::load(directory)?;
        let shape = given.shape();
        let table = |t: usize| {
            let entries = given.subtable(t).unwrap_or_default().iter().copied().map(f64::from).collect::<Vec<_>>();
            Table::new(shape.width, &entries)
        };
        let tables = (0..shape.subtables).map(table).collect::<Result<_, _>>()?;
        Ok(Subtables { tables, label: "compressed embedding", source: "a compressed table" })
    }

    pub(super) fn rows(&self) -> usize {
        self.tables.first().map_or(0, Table::rows)
    }

    pub(super) fn columns(&self) -> usize {
        self.tables.first().map_or(0, Table::columns)
    }

    /// The first `rows` rows.
    pub(super) fn first_rows(&self, rows: usize) -> anyhow::Result<Self> {
        let cut = |table: &Table| {
            let entries: Vec<f64> = (0..rows.min(table.rows())).flat_map(|r| table.row(r).to_vec()).collect();
            Table::new(rows.min(table.rows()), &entries)
        };
        Ok(Subtables { tables: self.tables.iter().map(cut).collect::<Result<_, _>>()?, ..*self })
    }

    /// Every row twice: tables of twice the number of rows.
    pub(super) fn twice(&self) -> anyhow::Result<Self> {
        let twice = |table: &Table| {
            let rows = table.rows();
            let entries: Vec<f64> = (0..2 * rows).flat_map(|r| table.row(r % rows).to_vec()).collect();
            Table::new(2 * rows, &entries)
        };
        let tables = self.tables.iter().map(twice).collect::<Result<_, _>>()?;
        Ok(Subtables { tables, source: "a compressed table, every row twice", ..*self })
    }

    /// The largest magnitude of a sum with one column of each subtable.
    pub(super) fn bound(&self) -> f64 {
        let row = |r: usize| self.tables.iter().map(|table| table.row_bound(r)).sum::<f64>();
        (0..self.rows()).map(row).fold(0.0, f64::max)
    }

    /// Entry `r` of the sum of the columns at `indices`, one per subtable.
    pub(super) fn sum(&self, r: usize, indices: impl Fn(usize) -> usize) -> f64 {
        self.tables.iter().enumerate().map(|(t, table)| table.row(r)[indices(t)]).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use unspoken_embedding::{CompressOptions, EmbeddingTable, TokenList, compress};

    use super::*;

    #[test]
    fn the_subtables_of_a_directory() {
        let directory = std::env::temp_dir().join(format!("unspoken-bench-subtables-{}", std::process::id()));
        let tokens = TokenList::new((0..40).map(|i| format!("w{i}")).collect()).unwrap();
        let table = EmbeddingTable::new(tokens, 3, (0..120).map(|i| (i as f32).sin()).collect()).unwrap();
        let options = CompressOptions { columns: 8, rounds: 1, ..CompressOptions::default() };
        let compressed = compress(&table, &options, &mut |_| {}, &AtomicBool::new(false)).unwrap();
        compressed.save(&directory).unwrap();
        let found = Subtables::read(&directory).unwrap();
        assert_eq!((found.tables.len(), found.rows(), found.columns()), (4, 3, 8));
        let given = compressed.subtables().subtable(1).unwrap()[2 * 8 + 7];
        assert_eq!(found.tables[1].row(2)[7], f64::from(given));
        assert!(found.sum(1, |t| t).abs() <= found.bound());
        assert_eq!(found.first_rows(2).unwrap().rows(), 2);
        let twice = found.twice().unwrap();
        assert_eq!((twice.rows(), twice.tables[1].row(5)), (6, found.tables[1].row(2)));
        std::fs::remove_dir_all(&directory).unwrap();
        assert!(Subtables::read(&directory).is_err());
    }
}
