//! Views of dense tables, in memory or on disk, that answers are computed from.

use std::sync::Arc;

use unspoken_ring::{ByteChanges, Stored};

use crate::dense::packing::{Packing, PackingView};
use crate::dense::part::{DensePart, check, check_group};
use crate::dense::shape::{CellPlace, DenseShape};
use crate::error::SchemeError;
use crate::parameters::PirParameters;

/// View of a group of columns: the bytes as they were written, the changes of cells since then, and the packing of the
/// sums.
#[derive(Clone, Copy, Debug)]
pub struct GroupView<'a> {
    /// The bytes, in the order of [`DensePart`].
    pub bytes: Stored<'a, u8>,
    /// At most one change for each cell.
    pub changes: &'a [Arc<CellChange>],
    /// The packing of the sums after these changes.
    pub packing: PackingView<'a>,
}

/// Change of a cell since its table was written.
#[derive(Debug)]
pub struct CellChange {
    at: CellPlace,
    /// For each byte, as a signed number: `new - old`.
    differences: Vec<i16>,
}

impl CellChange {
    /// The change from an old to a new content of a cell. Missing bytes at the ends are zeros.
    pub fn new(shape: DenseShape, at: CellPlace, old: &[u8], new: &[u8]) -> Self {
        let byte = |bytes: &[u8], i: usize| i16::from(bytes.get(i).copied().unwrap_or(0).cast_signed());
        let differences = (0..shape.cell_bytes).map(|i| byte(new, i) - byte(old, i)).collect();
        CellChange { at, differences }
    }
}

impl GroupView<'_> {
    /// The changes as changes of the bytes of a table.
    pub(crate) fn byte_changes(
        &self,
        parameters: &PirParameters,
        shape: DenseShape,
    ) -> Result<ByteChanges, SchemeError> {
        let mut changes = ByteChanges::new(shape.cell_bytes, shape.places(parameters));
        for CellChange { at, differences } in self.changes.iter().map(AsRef::as_ref) {
            changes.push((at.row, at.place), differences)?;
        }
        Ok(changes)
    }
}

/// Checks that a plane has the groups of this part. A wrong table is an error of the database, not of the client.
pub(crate) fn check_plane(
    parameters: &PirParameters,
    part: &DensePart,
    groups: &[GroupView<'_>],
) -> Result<(), SchemeError> {
    let (shape, rows) = (part.shape(), part.rows().len());
    check("groups of a dense table", groups.len(), part.groups().len())?;
    groups.iter().try_for_each(|group| {
        check_group(parameters, part, group.bytes.items)?;
        let wrong = group.changes.iter().find(|change| {
            change.at.row >= rows
                || change.at.place >= shape.places(parameters)
                || change.differences.len() != shape.cell_bytes
        });
        if let Some(change) = wrong {
            let (what, found) = ("row of a changed cell, in a table with rows", change.at.row);
            return Err(SchemeError::Table { what, found: found as u64, needed: rows as u64 });
        }
        check("words of a packing", group.packing.words.items.len(), Packing::word_count(parameters))
    })
}
