//! Positions of cells in a dense table.

use unspoken_ring::declassify;

use crate::dense::{MaskSeed, QUERY_BITS};
use crate::error::SchemeError;
use crate::parameters::PirParameters;

/// Rows that [`DenseShape::new`] aims at, at most. With more rows queries are longer; with fewer, packings take more
/// memory and time for each byte of data.
pub(super) const ROWS: u64 = 1 << 15;

/// Rows that [`DenseShape::wide`] aims at, at most.
pub(super) const WIDE_ROWS: u64 = ROWS / 2;

/// Bits of the words of queries to tables of up to [`ROWS`] rows.
const FEW_WORD_BITS: u32 = 26;

/// Most rows, so that queries stay below 4 MB.
pub(super) const MAX_ROWS: u64 = 1 << 20;

/// Most groups of columns.
pub(super) const MAX_GROUP_BITS: u32 = 10;

/// Position of a cell in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellPlace {
    /// Row of the group.
    pub row: usize,
    /// Place in the row: byte `i` of the cell is in column `i places + place`.
    pub place: usize,
}

/// The shape of a dense table. The bytes of a group are, for each block of [`BYTE_BLOCK`](unspoken_ring::BYTE_BLOCK)
/// columns and each row, the columns of the block; groups follow each other. The number of a cell is, from the highest
/// to the lowest bits, its row, its group of columns and its place in the group.
///
/// The shape also names the public masks of queries, which packings depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DenseShape {
    pub(crate) cells: u64,
    /// A power of two.
    pub(crate) cell_bytes: usize,
    pub(crate) rows: usize,
    /// Bits that choose a group of columns.
    pub(crate) group_bits: u32,
    pub(crate) masks: Option<MaskSeed>,
}

impl DenseShape {
    /// Bytes of the shortest cell.
    pub const MIN_CELL_BYTES: usize = 32;

    /// The same shape with masks of its own.
    pub fn with_masks(self, masks: MaskSeed) -> Self {
        DenseShape { masks: Some(masks), ..self }
    }

    /// The seed of its masks; `None` for the masks that databases of earlier releases share.
    pub fn masks(&self) -> Option<MaskSeed> {
        self.masks
    }

    /// Number of cells.
    pub fn cells(&self) -> u64 {
        self.cells
    }

    /// Bytes of a cell.
    pub fn cell_bytes(&self) -> usize {
        self.cell_bytes
    }

    /// Number of rows, and of words of a query.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of groups of columns. A group has one column of bytes for each coefficient of the ring.
    pub fn groups(&self) -> usize {
        1 << self.group_bits
    }

    /// Bits of the words of a query. Their rounding errors add up over the rows.
    pub(crate) fn word_bits(&self) -> u32 {
        if self.rows <= ROWS as usize { FEW_WORD_BITS } else { QUERY_BITS }
    }

    /// Cells in a row of a group.
    pub fn places(&self, parameters: &PirParameters) -> usize {
        parameters.ring().degree() / self.cell_bytes
    }

    /// Number of encrypted bits that select a group and a place.
    pub fn selection_bits(&self, parameters: &PirParameters) -> u32 {
        self.group_bits + self.places(parameters).ilog2()
    }

    /// Cells in a row of all groups together.
    pub fn row_cells(&self, parameters: &PirParameters) -> u64 {
        1 << self.selection_bits(parameters)
    }

    /// Bytes of a group of the table.
    pub fn group_bytes(&self, parameters: &PirParameters) -> usize {
        self.rows * parameters.ring().degree()
    }

    /// Bytes of the table.
    pub fn table_bytes(&self, parameters: &PirParameters) -> usize {
        self.groups() * self.group_bytes(parameters)
    }

    /// Group of a cell, and its row and place there.
    ///
    /// # Errors
    /// If there is no such cell.
    pub fn place_of(&self, parameters: &PirParameters, cell: u64) -> Result<(usize, CellPlace), SchemeError> {
        let (row, selected) = self.position(parameters, cell)?;
        let (places, selected) = (self.places(parameters), selected as usize);
        Ok((selected / places, CellPlace { row: row as usize, place: selected % places }))
    }

    /// Row of a cell, and the number of its group and place.
    ///
    /// # Errors
    /// If there is no such cell.
    pub(crate) fn position(&self, parameters: &PirParameters, cell: u64) -> Result<(u64, u64), SchemeError> {
        let bits = self.selection_bits(parameters);
        // Whether there is such a cell is not secret.
        match declassify(cell < self.cells) {
            true => Ok((cell >> bits, cell & ((1 << bits) - 1))),
            false => Err(SchemeError::Index { pieces: self.cells }),
        }
    }
}

/// A table that is cut into parts of nearly the same size: its rows into `row_parts` ranges, its groups into
/// `group_parts`. Each part is a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DenseSplit {
    pub(crate) shape: DenseShape,
    pub(crate) row_parts: usize,
    pub(crate) group_parts: usize,
}

impl DenseSplit {
    /// A table that is not cut.
    pub fn whole(shape: DenseShape) -> Self {
        DenseSplit { shape, row_parts: 1, group_parts: 1 }
    }

    /// Number of parts.
    pub fn parts(&self) -> usize {
        self.row_parts * self.group_parts
    }
}
