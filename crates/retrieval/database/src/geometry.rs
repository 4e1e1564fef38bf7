//! Offsets and sizes of the data in the files, derived from parameters and a layout.

use unspoken_pir::{DatabaseShape, ENTRY_FORMAT, Layout, PirParameters, encode_entry};
use unspoken_ring::{Poly, TableShape};

use crate::error::DatabaseError;

/// Bytes of the headers of the table file and the cells file: a page, so that the data after it is aligned in memory.
pub(crate) const HEADER_BYTES: u64 = 4096;

/// Offsets and sizes of the data in the files.
#[derive(Clone, Debug)]
pub(crate) struct Geometry {
    pub parameters: PirParameters,
    pub layout: Layout,
    pub shape: DatabaseShape,
    /// Shape of the table of each plane.
    pub table: TableShape,
    pub planes: usize,
    pub cell_bytes: usize,
    /// Number of words of each plane.
    pub plane_words: usize,
}

impl Geometry {
    /// Computes the numbers of a layout, after checking it.
    pub fn new(parameters: PirParameters, layout: Layout) -> Result<Self, DatabaseError> {
        layout.check(&parameters)?;
        let shape = layout.shape(&parameters)?;
        let table = shape.table(&parameters);
        let (planes, cell_bytes) = (layout.planes(&parameters), layout.cell_bytes());
        let plane_words = parameters.ring().table_words(table);
        Ok(Geometry { parameters, layout, shape, table, planes, cell_bytes, plane_words })
    }

    /// Bytes of the file of the tables.
    pub fn table_bytes(&self) -> u64 {
        HEADER_BYTES + (self.planes as u64) * (self.plane_words as u64) * size_of::<u32>() as u64
    }

    /// Bytes of the file of the cells.
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

    /// The cells whose pieces are in an entry, in order. The last entry may have fewer, entries after it have none.
    pub fn cells_of(&self, entry: usize) -> std::ops::Range<u64> {
        let (pieces, cells) = (self.parameters.pieces() as u64, self.layout.cells());
        (entry as u64 * pieces).min(cells)..((entry as u64 + 1) * pieces).min(cells)
    }

    /// The pieces of one plane of an entry, read from its cells and concatenated.
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

    /// Encodes one plane of an entry from its pieces.
    pub fn encode(&self, plane: usize, entry: usize, pieces: &[u8]) -> Result<Poly, DatabaseError> {
        Ok(encode_entry(&self.parameters, plane, entry as u64, pieces)?)
    }
}

/// Hash of everything that the words of a table depend on.
pub(crate) fn fingerprint(parameters: &PirParameters) -> String {
    let (ring, literal) = (parameters.ring(), parameters.literal());
    let numbers = (ring.degree(), ring.chain(), parameters.pieces(), literal.plaintext_bits, literal.row_bits);
    blake3::hash(format!("{ENTRY_FORMAT} {numbers:?}").as_bytes()).to_hex()[..32].to_string()
}
