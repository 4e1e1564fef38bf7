//! Positions of pieces of records in a table.

use unspoken_ring::TableShape;

use crate::error::{SchemeError, range};
use crate::mode::Mode;
use crate::parameters::PirParameters;

/// Maximum bits of an index.
pub const MAX_INDEX_BITS: u32 = 25;

/// Shape of a database. The bits of an index are, from the highest to the lowest, the bits of a row, a column and a
/// place in an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatabaseShape {
    /// Number of pieces.
    pub pieces: u64,
    /// Bits that choose the row.
    pub row_bits: u32,
    /// Bits that choose the column.
    pub column_bits: u32,
    /// Bits that choose the place in an entry.
    pub piece_bits: u32,
    /// Number of rows that are stored: up to the row of the last piece.
    pub rows: usize,
}

impl DatabaseShape {
    /// The shape for a number of pieces.
    ///
    /// # Errors
    /// If there are no pieces, more than an index of 25 bits can address, or so many that packed queries would fail
    /// more than once in 2^40.
    pub fn new(parameters: &PirParameters, pieces: u64) -> Result<Self, SchemeError> {
        if !(1..=1 << MAX_INDEX_BITS).contains(&pieces) {
            return Err(range("lay out a database", pieces, format!("1 to {} pieces", 1u64 << MAX_INDEX_BITS)));
        }
        let piece_bits = parameters.pieces().trailing_zeros();
        let bits = (u64::BITS - (pieces - 1).leading_zeros()).max(piece_bits + 2);
        let row_bits = parameters.literal().row_bits.min(bits - piece_bits - 1);
        let column_bits = bits - piece_bits - row_bits;
        let rows = pieces.div_ceil(1 << (column_bits + piece_bits)) as usize;
        let shape = DatabaseShape { pieces, row_bits, column_bits, piece_bits, rows };
        parameters.check_failure(shape, Mode::Packed)?;
        Ok(shape)
    }

    /// Bits of an index.
    pub fn index_bits(&self) -> u32 {
        self.row_bits + self.column_bits + self.piece_bits
    }

    /// Checks that there is a piece with this index.
    ///
    /// # Errors
    /// If there is none.
    pub fn check_index(&self, index: u64) -> Result<(), SchemeError> {
        match index < self.pieces {
            true => Ok(()),
            false => Err(SchemeError::Index { pieces: self.pieces }),
        }
    }

    /// Row, column and place of a piece.
    pub fn position(&self, index: u64) -> (usize, usize, usize) {
        let place = index & ((1 << self.piece_bits) - 1);
        let column = (index >> self.piece_bits) & ((1 << self.column_bits) - 1);
        ((index >> (self.piece_bits + self.column_bits)) as usize, column as usize, place as usize)
    }

    /// The shape of the table of one plane.
    pub fn table(&self, parameters: &PirParameters) -> TableShape {
        TableShape { rows: self.rows, columns: 1 << self.column_bits, chain: parameters.ring().chain().len() }
    }
}
