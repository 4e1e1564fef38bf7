//! Dense tables.

use std::collections::BTreeSet;

use rayon::prelude::*;
use unspoken_ring::BYTE_BLOCK;

use crate::dense::packing::Packing;
use crate::dense::shape::DenseShape;
use crate::error::{PirError, range};
use crate::parameters::PirParameters;

/// A dense table with what the packing of its sums needs, in memory.
///
/// The order of its bytes is: for each group and each [`BYTE_BLOCK`] columns, for each row, those columns. Byte `i` of
/// the cell at place `k` of a group is in column `i places + k`.
#[derive(Debug)]
pub struct DenseTable {
    parameters: PirParameters,
    shape: DenseShape,
    bytes: Vec<u8>,
    packings: Vec<Packing>,
}

impl DenseTable {
    /// Builds the table from cells that a function returns; shorter cells are padded with zeros. Uses all threads.
    ///
    /// # Errors
    /// If a cell is too long.
    pub fn build<C: AsRef<[u8]>>(
        parameters: &PirParameters,
        shape: DenseShape,
        cell: impl Fn(u64) -> C + Sync,
    ) -> Result<Self, PirError> {
        let group_bytes = shape.rows * parameters.ring().degree();
        let mut bytes = vec![0; shape.table_bytes(parameters)];
        let fill = |(group, bytes): (usize, &mut [u8])| fill_group(parameters, shape, group, bytes, &cell);
        bytes.par_chunks_mut(group_bytes).enumerate().try_for_each(fill)?;
        let packing = |bytes| Packing::new(parameters, bytes, shape.rows);
        let packings = bytes.chunks(group_bytes).map(packing).collect::<Result<_, _>>()?;
        Ok(DenseTable { parameters: parameters.clone(), shape, bytes, packings })
    }

    /// Changes cells and prepares the packings of their groups anew.
    ///
    /// # Errors
    /// If there is no such cell, or it is too long.
    pub fn change(&mut self, cells: &[(u64, &[u8])]) -> Result<(), PirError> {
        let (parameters, shape) = (self.parameters.clone(), self.shape);
        let places = shape.places(&parameters);
        // Everything is checked before anything changes: bytes and packings must belong together.
        let position = |&(cell, content): &(u64, &[u8])| {
            check_length(shape, content)?;
            let (row, selected) = shape.position(&parameters, cell)?;
            Ok((selected as usize / places, (row as usize, selected as usize % places)))
        };
        let positions: Vec<_> = cells.iter().map(position).collect::<Result<_, PirError>>()?;
        let changed: BTreeSet<usize> = positions.iter().map(|(group, _)| *group).collect();
        for ((group, place), (_, content)) in positions.into_iter().zip(cells) {
            write_cell(&parameters, shape, self.group_mut(group), place, content);
        }
        for group in changed {
            self.packings[group] = Packing::new(&parameters, self.group(group), shape.rows)?;
        }
        Ok(())
    }

    /// The shape.
    pub fn shape(&self) -> DenseShape {
        self.shape
    }

    /// The parameters.
    pub fn parameters(&self) -> &PirParameters {
        &self.parameters
    }

    /// The bytes of all groups.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes in memory: of the table and of the packings.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.len() + self.packings.len() * Packing::byte_len(&self.parameters)
    }

    /// Bytes of memory that building a table of a shape needs: the table, the packings and the work for one of them.
    pub fn needed_bytes(parameters: &PirParameters, shape: DenseShape) -> u64 {
        let packings = shape.groups() * Packing::byte_len(parameters);
        (shape.table_bytes(parameters) + packings + Packing::work_bytes(parameters)) as u64
    }

    pub(crate) fn group(&self, group: usize) -> &[u8] {
        let length = self.shape.rows * self.parameters.ring().degree();
        &self.bytes[group * length..][..length]
    }

    fn group_mut(&mut self, group: usize) -> &mut [u8] {
        let length = self.shape.rows * self.parameters.ring().degree();
        &mut self.bytes[group * length..][..length]
    }

    pub(crate) fn packing(&self, group: usize) -> &Packing {
        &self.packings[group]
    }
}

/// Writes all cells of a group.
fn fill_group<C: AsRef<[u8]>>(
    parameters: &PirParameters,
    shape: DenseShape,
    group: usize,
    bytes: &mut [u8],
    cell: &(impl Fn(u64) -> C + Sync),
) -> Result<(), PirError> {
    let places = shape.places(parameters);
    for (row, place) in (0..shape.rows).flat_map(|row| (0..places).map(move |place| (row, place))) {
        let number = ((row << shape.group_bits | group) * places + place) as u64;
        if number < shape.cells {
            let content = cell(number);
            check_length(shape, content.as_ref())?;
            write_cell(parameters, shape, bytes, (row, place), content.as_ref());
        }
    }
    Ok(())
}

/// Writes a cell at a row and a place of a group.
fn write_cell(
    parameters: &PirParameters,
    shape: DenseShape,
    bytes: &mut [u8],
    (row, place): (usize, usize),
    content: &[u8],
) {
    let places = shape.places(parameters);
    let padded = content.iter().copied().chain(std::iter::repeat(0)).take(shape.cell_bytes);
    for (i, byte) in padded.enumerate() {
        let column = i * places + place;
        bytes[(column / BYTE_BLOCK * shape.rows + row) * BYTE_BLOCK + column % BYTE_BLOCK] = byte;
    }
}

fn check_length(shape: DenseShape, content: &[u8]) -> Result<(), PirError> {
    match content.len() <= shape.cell_bytes {
        true => Ok(()),
        false => {
            let needed = format!("at most {} bytes", shape.cell_bytes);
            Err(range("write a cell of a dense table", content.len() as u64, needed))
        }
    }
}
