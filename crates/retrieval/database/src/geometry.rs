//! Offsets and sizes of the data in the files, derived from parameters, a layout and a kind of tables.

use unspoken_pir_scheme::dense::{DensePart, MaskSeed, TABLE_FORMAT};
use unspoken_pir_scheme::encrypted::ENCRYPTED_FORMAT;
use unspoken_pir_scheme::{ENTRY_FORMAT, Layout, PirParameters, PlaneShape, TableKind, Tables};

use crate::dense::DenseTables;
use crate::error::DatabaseError;
use crate::format::HEADER_BYTES;
use crate::transformed::TransformedTables;

/// Offsets and sizes of the data in the files.
#[derive(Clone, Debug)]
pub(crate) struct Geometry {
    pub tables: Tables,
    pub cell_bytes: usize,
    pub content: Content,
}

/// How the file of the tables is organised.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    Transformed(TransformedTables),
    Dense(DenseTables),
    /// No words: the owner of the records encrypts the cells when it uploads them.
    Encrypted,
}

impl Geometry {
    /// Computes the numbers of a layout, after checking it.
    pub fn new(
        parameters: &PirParameters,
        layout: Layout,
        kind: TableKind,
        masks: Option<MaskSeed>,
    ) -> Result<Self, DatabaseError> {
        Ok(Self::of(tables(parameters, layout, kind, masks)?))
    }

    /// The numbers of tables.
    pub fn of(tables: Tables) -> Self {
        let content = match tables.shape() {
            PlaneShape::Transformed(shape) => Content::Transformed(TransformedTables::new(&tables, shape)),
            PlaneShape::Dense(shape) => Content::Dense(DenseTables::new(&tables, DensePart::whole(shape))),
            PlaneShape::Encrypted(_) => Content::Encrypted,
        };
        Geometry { cell_bytes: tables.layout().cell_bytes(), tables, content }
    }

    /// The layout of records in cells.
    pub fn layout(&self) -> Layout {
        self.tables.layout()
    }

    /// Number of cells, and bytes of each.
    pub fn cells(&self) -> (u64, usize) {
        (self.layout().cells(), self.cell_bytes)
    }

    /// Bytes of the file of the tables.
    pub fn table_bytes(&self) -> u64 {
        match &self.content {
            Content::Transformed(tables) => HEADER_BYTES + self.tables.planes() as u64 * tables.plane_bytes(),
            Content::Dense(tables) => tables.file_bytes(),
            Content::Encrypted => HEADER_BYTES,
        }
    }

    /// Bytes of the file of the cells.
    pub fn cells_bytes(&self) -> u64 {
        HEADER_BYTES + self.layout().cells() * self.cell_bytes as u64
    }
}

/// The tables of a layout with the masks that a manifest names.
pub(crate) fn tables(
    parameters: &PirParameters,
    layout: Layout,
    kind: TableKind,
    masks: Option<MaskSeed>,
) -> Result<Tables, DatabaseError> {
    let tables = Tables::new(parameters, layout, kind)?;
    Ok(match masks {
        Some(masks) => tables.with_masks(masks)?,
        None => tables,
    })
}

/// Hash of everything that the content of tables of a kind depends on, beside the layout and the seed of their masks.
pub(crate) fn fingerprint(parameters: &PirParameters, kind: TableKind) -> String {
    let (ring, literal) = (parameters.ring(), parameters.literal());
    let depends = match kind {
        TableKind::Transformed => {
            let numbers = (ring.degree(), ring.chain(), parameters.pieces(), literal.plaintext_bits, literal.row_bits);
            format!("{ENTRY_FORMAT} {numbers:?}")
        }
        TableKind::Encrypted => format!("encrypted {ENCRYPTED_FORMAT} {:?}", parameters.fingerprint()),
        TableKind::Dense | TableKind::Wide => {
            format!("{kind} {TABLE_FORMAT} {:?} {:?}", ring.chain(), parameters.fingerprint())
        }
    };
    blake3::hash(depends.as_bytes()).to_hex()[..32].to_string()
}
