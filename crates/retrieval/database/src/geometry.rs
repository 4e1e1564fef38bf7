//! The numbers that follow from parameters and a layout: what lies where in the files.

use unspoken_pir::{DatabaseShape, ENTRY_FORMAT, Layout, PirParameters, encode_entry};
use unspoken_ring::{Poly, TableShape};

use crate::error::DatabaseError;

/// Bytes before the words of a table and before cells: a page, so that what follows is aligned wherever it is mapped.
pub(crate) const HEADER_BYTES: u64 = 4096;

/// Where everything lies.
#[derive(Clone, Debug)]
pub(crate) struct Geometry {
    pub parameters: PirParameters,
    pub layout: Layout,
    pub shape: DatabaseShape,
    /// Of each plane.
    pub table: TableShape,
    pub planes: usize,
    pub cell_bytes: usize,
    /// Words of each plane.
    pub plane_words: usize,
}

impl Geometry {
    /// Checks the layout.
    pub fn new(parameters: PirParameters, layout: Layout) -> Result<Self, DatabaseError> {
        layout.check(&parameters)?;
        let shape = layout.shape(&parameters)?;
        let table = shape.table(&parameters);
        let (planes, cell_bytes) = (layout.planes(&parameters), layout.cell_bytes());
        let plane_words = parameters.ring().table_words(table);
        Ok(Geometry { parameters, layout, shape, table, planes, cell_bytes, plane_words })
    }

    /// Bytes of the file with the words.
    pub fn table_bytes(&self) -> u64 {
        HEADER_BYTES + (self.planes as u64) * (self.plane_words as u64) * size_of::<u32>() as u64
    }

    /// Bytes of the file with the cells.
    pub fn cells_bytes(&self) -> u64 {
        HEADER_BYTES + self.layout.cells() * self.cell_bytes as u64
    }

    /// The entry that a cell's pieces are in.
    pub fn entry_of(&self, cell: u64) -> usize {
        cell as usize / self.parameters.pieces()
    }

    /// Row and column of an entry.
    pub fn place_of(&self, entry: usize) -> (usize, usize) {
        (entry / self.table.columns, entry % self.table.columns)
    }

    /// The cells whose pieces are in an entry, in order. Fewer at the end, and none behind it.
    pub fn cells_of(&self, entry: usize) -> std::ops::Range<u64> {
        let (pieces, cells) = (self.parameters.pieces() as u64, self.layout.cells());
        (entry as u64 * pieces).min(cells)..((entry as u64 + 1) * pieces).min(cells)
    }

    /// The pieces of one plane of an entry, one after the other, from its cells.
    pub fn pieces<'a>(&self, plane: usize, entry: usize, cell: impl Fn(u64) -> &'a [u8]) -> Vec<u8> {
        let length = self.parameters.piece_bytes();
        let mut pieces = Vec::with_capacity(length * self.parameters.pieces());
        for (i, cell) in self.cells_of(entry).map(cell).enumerate() {
            let piece = cell.chunks(length).nth(plane).unwrap_or_default();
            pieces.extend_from_slice(piece);
            pieces.resize((i + 1) * length, 0);
        }
        pieces
    }

    /// One plane of an entry, from its pieces.
    pub fn encode(&self, plane: usize, entry: usize, pieces: &[u8]) -> Result<Poly, DatabaseError> {
        Ok(encode_entry(&self.parameters, plane, entry as u64, pieces)?)
    }
}

/// A hash of everything that the words of a table depend on.
pub(crate) fn fingerprint(parameters: &PirParameters) -> String {
    let (ring, literal) = (parameters.ring(), parameters.literal());
    let numbers = (ring.degree(), ring.chain(), parameters.pieces(), literal.plaintext_bits, literal.row_bits);
    blake3::hash(format!("{ENTRY_FORMAT} {numbers:?}").as_bytes()).to_hex()[..32].to_string()
}
