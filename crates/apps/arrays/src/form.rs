//! How a batch of matrices looks as an array.

use unspoken_matrix::Layout;

use crate::bytes::{Reader, Writer};
use crate::error::ArraysError;

/// Largest number of rows or columns of a matrix.
pub(crate) const MOST_EXTENT: usize = 1 << 13;
/// Most entries of a matrix.
pub(crate) const MOST_ENTRIES: usize = 1 << 24;
/// Most tiles of a matrix.
const MOST_TILES: usize = 1 << 12;
/// Most matrices of a batch.
pub(crate) const MOST_BATCH: usize = 1 << 20;

/// Whether a matrix of this shape has a number of tiles that can be worked with.
pub(crate) fn has_room(layout: Layout, (rows, columns): (usize, usize)) -> bool {
    layout.tiles(rows).saturating_mul(layout.tiles(columns)) <= MOST_TILES
}

/// The matrix behind an array, and which of its axes the array has: a vector is a row or a column whose other axis is not
/// there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// Rows and columns of the matrix.
    pub matrix: (usize, usize),
    /// Whether the array has the batch as its first axis.
    pub batch: bool,
    /// Whether it has the axis of rows.
    pub rows: bool,
    /// Whether it has the axis of columns.
    pub columns: bool,
}

impl Form {
    /// The shape of the array, for a batch of this many matrices.
    pub fn shape(&self, batch: usize) -> Vec<usize> {
        let axes = [(self.batch, batch), (self.rows, self.matrix.0), (self.columns, self.matrix.1)];
        axes.into_iter().filter(|(there, _)| *there).map(|(_, extent)| extent).collect()
    }

    /// Whether it is of a size that can be worked with, and has only axes of extent 1 left out.
    pub(crate) fn check(self, operation: &'static str) -> Result<Self, ArraysError> {
        let (rows, columns) = self.matrix;
        let sized = (1..=MOST_EXTENT).contains(&rows) && (1..=MOST_EXTENT).contains(&columns);
        if !sized || rows * columns > MOST_ENTRIES {
            let needed = format!("1 to {MOST_EXTENT} rows and columns and at most {MOST_ENTRIES} entries");
            return Err(ArraysError::mismatch(operation, format!("shape ({rows}, {columns})"), needed));
        }
        if (!self.rows && rows != 1) || (!self.columns && columns != 1) {
            let found = format!("an axis of extent above 1 left out of shape ({rows}, {columns})");
            return Err(ArraysError::mismatch(operation, found, "axes of extent 1 to leave out"));
        }
        Ok(self)
    }

    pub(crate) fn write(&self, out: &mut Writer) {
        out.u32(self.matrix.0);
        out.u32(self.matrix.1);
        out.u8(u8::from(self.batch) | u8::from(self.rows) << 1 | u8::from(self.columns) << 2);
    }

    pub(crate) fn read(input: &mut Reader<'_>) -> Result<Self, ArraysError> {
        let matrix = (input.u32()?, input.u32()?);
        let axes = input.u8()?;
        if axes > 7 {
            return Err(input.refuse(format!("axes {axes}"), "three bits"));
        }
        let form = Form { matrix, batch: axes & 1 != 0, rows: axes & 2 != 0, columns: axes & 4 != 0 };
        form.check(input.what())
    }
}
