//! Parts of dense tables, which shards hold.

use std::ops::Range;

use unspoken_ring::BYTE_BLOCK;

use crate::dense::failure::{check_failure, check_readable};
use crate::dense::shape::{CellPlace, DenseShape, DenseSplit};
use crate::error::{SchemeError, range};
use crate::parameters::PirParameters;

/// A part of a dense table: some of its rows in some of its groups of columns. The bytes of a group of the part are,
/// for each [`BYTE_BLOCK`] columns and each row of the part, those columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DensePart {
    shape: DenseShape,
    rows: Range<usize>,
    groups: Range<usize>,
}

impl DensePart {
    /// The whole table.
    pub fn whole(shape: DenseShape) -> Self {
        DensePart { shape, rows: 0..shape.rows(), groups: 0..shape.groups() }
    }

    /// A part of a table. Masks are drawn for blocks of rows, one row for each coefficient of the ring. So a part
    /// begins at the first row of a block, and ends with a block or with the table.
    ///
    /// # Errors
    /// If a range is empty or not in the table, or the rows do not begin and end at such places.
    pub fn new(
        parameters: &PirParameters,
        shape: DenseShape,
        rows: Range<usize>,
        groups: Range<usize>,
    ) -> Result<Self, SchemeError> {
        let degree = parameters.ring().degree();
        if rows.is_empty() || !rows.start.is_multiple_of(degree) || rows.end > shape.rows() {
            let needed = format!("a multiple of {degree}, below {}, and rows after it", shape.rows());
            return Err(range("take a part of a dense table: first row", rows.start as u64, needed));
        }
        if !rows.end.is_multiple_of(degree) && rows.end != shape.rows() {
            let needed = format!("a multiple of {degree}, or {}", shape.rows());
            return Err(range("take a part of a dense table: end of the rows", rows.end as u64, needed));
        }
        if groups.is_empty() || groups.end > shape.groups() {
            let needed = format!("more than {} and at most {}", groups.start, shape.groups());
            return Err(range("take a part of a dense table: end of the groups", groups.end as u64, needed));
        }
        Ok(DensePart { shape, rows, groups })
    }

    /// The shape of the whole table.
    pub fn shape(&self) -> DenseShape {
        self.shape
    }

    /// The rows of the part, among the rows of the table.
    pub fn rows(&self) -> Range<usize> {
        self.rows.clone()
    }

    /// The groups of the part, among the groups of the table.
    pub fn groups(&self) -> Range<usize> {
        self.groups.clone()
    }

    /// Bytes of a group of the part.
    pub fn group_bytes(&self, parameters: &PirParameters) -> usize {
        self.rows.len() * parameters.ring().degree()
    }

    /// Bytes of all groups of the part.
    pub fn table_bytes(&self, parameters: &PirParameters) -> usize {
        self.groups.len() * self.group_bytes(parameters)
    }

    /// The cells of a group of the table with their places in this part, in the order of the cells. The rows of places
    /// count from the first row of the part.
    pub fn cells_of(&self, parameters: &PirParameters, group: usize) -> impl Iterator<Item = (u64, CellPlace)> {
        let (shape, first, places) = (self.shape, self.rows.start, self.shape.places(parameters));
        let all = (0..self.rows.len()).flat_map(move |row| (0..places).map(move |place| CellPlace { row, place }));
        let number = move |at: &CellPlace| (((first + at.row) << shape.group_bits | group) * places + at.place) as u64;
        all.map(move |at| (number(&at), at)).filter(move |&(cell, _)| cell < shape.cells)
    }

    /// Writes a cell to the bytes of its group. A shorter cell is padded with zeros.
    ///
    /// # Errors
    /// If the cell is too long.
    pub fn write_cell(
        &self,
        parameters: &PirParameters,
        bytes: &mut [u8],
        at: CellPlace,
        content: &[u8],
    ) -> Result<(), SchemeError> {
        let cell_bytes = self.shape.cell_bytes();
        if content.len() > cell_bytes {
            let needed = format!("at most {cell_bytes} bytes");
            return Err(range("write a cell of a dense table", content.len() as u64, needed));
        }
        let places = self.shape.places(parameters);
        let padded = content.iter().copied().chain(std::iter::repeat(0)).take(cell_bytes);
        for (i, byte) in padded.enumerate() {
            bytes[self.byte_at(at.row, i * places + at.place)] = byte;
        }
        Ok(())
    }

    /// Place of a byte among the bytes of its group. Rows count from the first row of the part.
    pub fn byte_at(&self, row: usize, column: usize) -> usize {
        (column / BYTE_BLOCK * self.rows.len() + row) * BYTE_BLOCK + column % BYTE_BLOCK
    }
}

impl DenseSplit {
    /// Cuts a table into a number of parts. It cuts the groups first, into the largest possible number of ranges,
    /// because each group of each part needs a packing, however few rows the part has. Then it cuts the rows, in whole
    /// blocks.
    ///
    /// # Errors
    /// If it cannot be cut into `parts` parts, or answers that are added from them would be wrong too often.
    pub fn new(parameters: &PirParameters, shape: DenseShape, parts: usize) -> Result<Self, SchemeError> {
        let (groups, blocks) = (shape.groups(), shape.rows().div_ceil(parameters.ring().degree()));
        let fits = |&group_parts: &usize| parts.is_multiple_of(group_parts) && parts / group_parts <= blocks;
        let Some(group_parts) = (1..=groups.min(parts)).rev().find(fits) else {
            let needed = format!(
                "at least 1, the product of at most {groups} ranges of groups and at most {blocks} ranges of rows"
            );
            return Err(range("cut a dense table: shards", parts as u64, needed));
        };
        let split = DenseSplit { shape, row_parts: parts / group_parts, group_parts };
        check_failure(parameters, split)?;
        check_readable(parameters, split)?;
        Ok(split)
    }

    /// The shape of the whole table.
    pub fn shape(&self) -> DenseShape {
        self.shape
    }

    /// The part with a number, from zero.
    ///
    /// # Errors
    /// If there is no such part.
    pub fn part(&self, parameters: &PirParameters, number: usize) -> Result<DensePart, SchemeError> {
        if number >= self.parts() {
            let needed = format!("less than their number, {}", self.parts());
            return Err(range("take a part of a dense table: number of the part", number as u64, needed));
        }
        let degree = parameters.ring().degree();
        let blocks = nth(self.shape.rows().div_ceil(degree), self.row_parts, number / self.group_parts);
        let rows = blocks.start * degree..(blocks.end * degree).min(self.shape.rows());
        DensePart::new(
            parameters,
            self.shape,
            rows,
            nth(self.shape.groups(), self.group_parts, number % self.group_parts),
        )
    }
}

/// The range with a number of `parts` ranges of nearly the same length that `0..total` is cut into.
fn nth(total: usize, parts: usize, number: usize) -> Range<usize> {
    total * number / parts..total * (number + 1) / parts
}

/// Checks that the bytes of a group have the length that they have in a part of a table.
pub(crate) fn check_group(parameters: &PirParameters, part: &DensePart, bytes: &[u8]) -> Result<(), SchemeError> {
    check("bytes of a group of a dense table", bytes.len(), part.group_bytes(parameters))
}

pub(crate) fn check(what: &'static str, found: usize, needed: usize) -> Result<(), SchemeError> {
    match found == needed {
        true => Ok(()),
        false => Err(SchemeError::Table { what, found: found as u64, needed: needed as u64 }),
    }
}
