//! The kinds of tables, and the shapes of their planes.

use serde::{Deserialize, Serialize};

use crate::dense::{self, DenseShape, DenseSplit};
use crate::error::SchemeError;
use crate::mode::Mode;
use crate::parameters::PirParameters;
use crate::shape::{DatabaseShape, MAX_INDEX_BITS};

/// Maximum number of planes: pieces of a cell, and responses to a query.
pub const MAX_PLANES: usize = 4096;

/// Bytes of the tag of an encrypted piece.
pub(crate) const TAG_BYTES: usize = 16;

/// The kind of a database's tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TableKind {
    /// Transformed ring elements ([`crate::Database`]): 16 bytes of table for each byte of a cell, small queries of all
    /// modes.
    #[default]
    Transformed,
    /// Bytes ([`crate::dense`]): 1.5 bytes of table for each byte of a cell, and queries of about 147 KB with the keys
    /// of packed queries.
    Dense,
    /// As [`TableKind::Dense`], with half as many rows of twice the length: 2 bytes of table for each byte of a cell,
    /// and queries of about 93 KB.
    Wide,
    /// Entries that the owner of the records has encrypted ([`crate::encrypted`]): 15 bytes for each byte of a cell,
    /// queries of all modes, of the owner alone.
    Encrypted,
}

impl TableKind {
    /// All kinds.
    pub const ALL: [TableKind; 4] = [TableKind::Transformed, TableKind::Dense, TableKind::Wide, TableKind::Encrypted];

    /// Whether the tables are bytes ([`crate::dense`]).
    pub fn is_dense(self) -> bool {
        matches!(self, TableKind::Dense | TableKind::Wide)
    }

    /// The modes of queries that such tables answer.
    pub fn modes(self) -> &'static [Mode] {
        match self {
            TableKind::Transformed | TableKind::Encrypted => &Mode::ALL,
            TableKind::Dense | TableKind::Wide => &[Mode::Packed],
        }
    }

    /// Bytes of a piece of a cell with this length.
    pub fn piece_bytes(self, parameters: &PirParameters, cell_bytes: usize) -> usize {
        match self {
            TableKind::Transformed => parameters.piece_bytes(),
            TableKind::Encrypted => parameters.piece_bytes() - TAG_BYTES,
            TableKind::Dense | TableKind::Wide => {
                cell_bytes.clamp(DenseShape::MIN_CELL_BYTES, parameters.ring().degree()).next_power_of_two()
            }
        }
    }

    /// Bytes of the longest cell.
    pub(crate) fn most_cell_bytes(self, parameters: &PirParameters) -> usize {
        MAX_PLANES * self.piece_bytes(parameters, usize::MAX)
    }

    /// Maximum number of cells.
    pub(crate) fn most_cells(self) -> u64 {
        match self {
            TableKind::Transformed | TableKind::Encrypted => 1 << MAX_INDEX_BITS,
            // Journals have four bytes for the number of a cell.
            TableKind::Dense | TableKind::Wide => 1 << u32::BITS,
        }
    }

    /// The shape of planes for `cells` cells of `cell_bytes` bytes.
    pub(crate) fn shape(
        self,
        parameters: &PirParameters,
        cells: u64,
        cell_bytes: usize,
    ) -> Result<PlaneShape, SchemeError> {
        let piece_bytes = self.piece_bytes(parameters, cell_bytes);
        Ok(match self {
            TableKind::Transformed => PlaneShape::Transformed(DatabaseShape::new(parameters, cells)?),
            TableKind::Encrypted => PlaneShape::Encrypted(DatabaseShape::new(parameters, cells)?),
            TableKind::Dense => PlaneShape::Dense(DenseShape::new(parameters, cells, piece_bytes)?),
            TableKind::Wide => PlaneShape::Dense(DenseShape::wide(parameters, cells, piece_bytes)?),
        })
    }
}

impl std::fmt::Display for TableKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            TableKind::Transformed => "transformed",
            TableKind::Dense => "dense",
            TableKind::Wide => "wide",
            TableKind::Encrypted => "encrypted",
        })
    }
}

impl std::str::FromStr for TableKind {
    type Err = SchemeError;

    fn from_str(name: &str) -> Result<Self, SchemeError> {
        let found = TableKind::ALL.into_iter().find(|kind| kind.to_string() == name);
        found.ok_or_else(|| SchemeError::format("kind of tables", name, "transformed, dense, wide or encrypted"))
    }
}

/// The shape of each plane of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaneShape {
    /// Of transformed ring elements.
    Transformed(DatabaseShape),
    /// Of bytes.
    Dense(DenseShape),
    /// Of encrypted entries.
    Encrypted(DatabaseShape),
}

impl PlaneShape {
    /// Number of cells that fill a row.
    pub(crate) fn row_cells(&self, parameters: &PirParameters) -> u64 {
        match self {
            PlaneShape::Transformed(shape) => 1 << (shape.column_bits + shape.piece_bits),
            PlaneShape::Dense(shape) => shape.row_cells(parameters),
            // There are no rows: entries are filled.
            PlaneShape::Encrypted(shape) => 1 << shape.piece_bits,
        }
    }

    /// `log2` of the probability that a response to a query is wrong.
    pub(crate) fn log2_failure(&self, parameters: &PirParameters, mode: Mode) -> Result<f64, SchemeError> {
        match self {
            // An encrypted entry has less noise than a sum over rows.
            PlaneShape::Transformed(shape) | PlaneShape::Encrypted(shape) => Ok(parameters.log2_failure(*shape, mode)),
            PlaneShape::Dense(shape) => dense::log2_failure(parameters, DenseSplit::whole(*shape)),
        }
    }
}
