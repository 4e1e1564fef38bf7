//! Dense tables in memory.

use rayon::prelude::*;
use unspoken_ring::{DeviceCopy, Stored};

use crate::dense::packing::Packing;
use crate::dense::part::{DensePart, check};
use crate::dense::shape::DenseShape;
use crate::dense::view::GroupView;
use crate::error::SchemeError;
use crate::parameters::PirParameters;

/// A dense table, or a part of one, with what the packing of its sums needs, in memory.
#[derive(Debug)]
pub struct DenseTable {
    parameters: PirParameters,
    part: DensePart,
    bytes: Vec<u8>,
    /// Of each group.
    copies: Vec<DeviceCopy>,
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
    ) -> Result<Self, SchemeError> {
        Self::build_part(parameters, DensePart::whole(shape), cell)
    }

    /// As [`DenseTable::build`], but builds a part of the table alone. Only the cells of the part are requested.
    ///
    /// # Errors
    /// If a cell is too long.
    pub fn build_part<C: AsRef<[u8]>>(
        parameters: &PirParameters,
        part: DensePart,
        cell: impl Fn(u64) -> C + Sync,
    ) -> Result<Self, SchemeError> {
        let group_bytes = part.group_bytes(parameters);
        let mut bytes = vec![0; part.table_bytes(parameters)];
        let fill = |(group, bytes): (usize, &mut [u8])| {
            let mut cells = part.cells_of(parameters, part.groups().start + group);
            cells.try_for_each(|(number, at)| part.write_cell(parameters, bytes, at, cell(number).as_ref()))
        };
        bytes.par_chunks_mut(group_bytes).enumerate().try_for_each(fill)?;
        Self::from_bytes(parameters, part, bytes)
    }

    /// A table, or a part of one, whose groups have these bytes, in the order of [`DensePart`]. Uses all threads.
    ///
    /// # Errors
    /// If there are more or fewer bytes.
    pub fn from_bytes(parameters: &PirParameters, part: DensePart, bytes: Vec<u8>) -> Result<Self, SchemeError> {
        check("bytes of a dense table", bytes.len(), part.table_bytes(parameters))?;
        let packing = |bytes| Packing::new(parameters, &part, bytes);
        let packings = bytes.chunks(part.group_bytes(parameters)).map(packing).collect::<Result<Vec<_>, _>>()?;
        let copies = packings.iter().map(|_| DeviceCopy::default()).collect();
        Ok(DenseTable { parameters: parameters.clone(), part, bytes, copies, packings })
    }

    /// The shape of the whole table.
    pub fn shape(&self) -> DenseShape {
        self.part.shape()
    }

    /// The part of the table that this is.
    pub fn part(&self) -> &DensePart {
        &self.part
    }

    /// The parameters.
    pub fn parameters(&self) -> &PirParameters {
        &self.parameters
    }

    /// The bytes of all groups.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Views of all groups of the part, for [`answer`](crate::dense::answer).
    pub fn groups(&self) -> Vec<GroupView<'_>> {
        let bytes = self.bytes.chunks(self.part.group_bytes(&self.parameters)).zip(&self.copies);
        let bytes = bytes.map(|(bytes, copy)| Stored::new(bytes, copy));
        let groups = bytes.zip(&self.packings);
        groups.map(|(bytes, packing)| GroupView { bytes, changes: &[], packing: packing.view() }).collect()
    }

    /// Bytes in memory: of the table and of the packings.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.len() + self.packings.len() * Packing::memory_bytes(&self.parameters)
    }

    /// Bytes of memory that building a part of a table needs: its bytes, the packings and the work for one of them.
    pub fn needed_bytes(parameters: &PirParameters, part: &DensePart) -> u64 {
        let packings = part.groups().len() * Packing::memory_bytes(parameters);
        (part.table_bytes(parameters) + packings + Packing::work_bytes(parameters)) as u64
    }
}
