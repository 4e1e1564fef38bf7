//! Subtables to look up in: random ones of a shape, or those of a compressed embedding table.

use std::path::Path;

use safetensors::{Dtype, SafeTensors};
use unspoken_lookup::{LookupError, Table};

use crate::error::BenchError;

/// The server's half of a compressed table, and the tensor in it: subtables x rows x columns, of `f32`.
const FILE: &str = "server.safetensors";
const TENSOR: &str = "subtables";

/// Subtables of one shape.
pub(super) struct Subtables {
    pub(super) tables: Vec<Table>,
    /// What they are, for the case of a row and for its parameters.
    pub(super) label: &'static str,
    pub(super) source: &'static str,
}

impl Subtables {
    /// Entries from -1 to 1 that depend on nothing but their place.
    pub(super) fn random(subtables: usize, rows: usize, columns: usize) -> Result<Self, BenchError> {
        // A step of Weyl's sequence: equidistributed, and no two rows alike.
        let entry = |i: usize| (i as f64 * 0.754_877_666_246_693).fract() * 2.0 - 1.0;
        let table = |t: usize| {
            let entries: Vec<f64> = (0..rows * columns).map(|i| entry(t * rows * columns + i + 1)).collect();
            Table::new(rows, &entries)
        };
        let tables = (0..subtables).map(table).collect::<Result<_, _>>()?;
        Ok(Subtables { tables, label: "embedding", source: "random entries: they do not change the time" })
    }

    /// Those of the directory of a compressed table.
    pub(super) fn read(directory: &Path) -> Result<Self, BenchError> {
        let path = directory.join(FILE);
        let refuse = |found: String| LookupError::Table {
            what: "the file of a compressed table",
            found: format!("{}: {found}", path.display()),
            needed: format!("a tensor '{TENSOR}' of subtables x rows x columns in f32"),
        };
        let bytes = std::fs::read(&path).map_err(|error| refuse(error.to_string()))?;
        let file = SafeTensors::deserialize(&bytes).map_err(|error| refuse(error.to_string()))?;
        let tensor = file.tensor(TENSOR).map_err(|error| refuse(error.to_string()))?;
        let &[subtables, rows, columns] = tensor.shape() else {
            return Err(refuse(format!("shape {:?}", tensor.shape())).into());
        };
        if tensor.dtype() != Dtype::F32 || subtables == 0 || rows * columns == 0 {
            return Err(refuse(format!("{:?} of shape {:?}", tensor.dtype(), tensor.shape())).into());
        }
        let (values, _) = tensor.data().as_chunks();
        let values: Vec<f64> = values.iter().map(|&value| f64::from(f32::from_le_bytes(value))).collect();
        let table = |entries: &[f64]| Table::new(rows, entries);
        let tables = values.chunks_exact(rows * columns).map(table).collect::<Result<_, _>>()?;
        Ok(Subtables { tables, label: "compressed embedding", source: "a compressed table" })
    }

    pub(super) fn rows(&self) -> usize {
        self.tables.first().map_or(0, Table::rows)
    }

    pub(super) fn columns(&self) -> usize {
        self.tables.first().map_or(0, Table::columns)
    }

    /// The first `rows` rows.
    pub(super) fn first_rows(&self, rows: usize) -> Result<Self, BenchError> {
        let cut = |table: &Table| {
            let entries: Vec<f64> = (0..rows.min(table.rows())).flat_map(|r| table.row(r).to_vec()).collect();
            Table::new(rows.min(table.rows()), &entries)
        };
        Ok(Subtables { tables: self.tables.iter().map(cut).collect::<Result<_, _>>()?, ..*self })
    }

    /// The largest magnitude of a sum of one column of each.
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
    use super::*;
    use safetensors::tensor::TensorView;

    #[test]
    fn the_subtables_of_a_directory() {
        let directory = std::env::temp_dir().join(format!("unspoken-bench-subtables-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let write = |dtype, shape: &[usize]| {
            let size = if dtype == Dtype::F32 { 4 } else { 8 };
            let data: Vec<u8> = (0..shape.iter().product::<usize>())
                .flat_map(|i| (i as f32).to_le_bytes()[..].repeat(size / 4))
                .collect();
            let view = TensorView::new(dtype, shape.to_vec(), &data).unwrap();
            safetensors::serialize_to_file([(TENSOR, view)], None, &directory.join(FILE)).unwrap();
        };
        write(Dtype::F32, &[2, 3, 8]);
        let found = Subtables::read(&directory).unwrap();
        assert_eq!((found.tables.len(), found.rows(), found.columns()), (2, 3, 8));
        assert_eq!(found.tables[1].row(2)[7], 47.0);
        assert_eq!((found.bound(), found.sum(1, |t| t)), (70.0, 8.0 + 33.0));
        assert_eq!(found.first_rows(2).unwrap().rows(), 2);
        write(Dtype::F64, &[2, 3, 8]);
        assert!(Subtables::read(&directory).is_err());
        write(Dtype::F32, &[2, 24]);
        assert!(Subtables::read(&directory).err().unwrap().to_string().contains("shape [2, 24]"));
        std::fs::remove_dir_all(&directory).unwrap();
        assert!(Subtables::read(&directory).is_err());
    }
}
