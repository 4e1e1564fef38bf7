//! Shape of a compressed table: the numbers that both halves have in common.

use serde::{Deserialize, Serialize};

use crate::error::EmbeddingError;

/// Maximum number of subtables.
pub(crate) const MAX_SUBTABLES: usize = 16;
/// Maximum number of columns of a subtable.
pub(crate) const MAX_COLUMNS: usize = 1 << 12;
/// Maximum number of columns of all subtables together. Their inner products are in memory during compression, 1 GiB at
/// most.
pub(crate) const MAX_ALL_COLUMNS: usize = 1 << 14;
/// Maximum length of a row.
pub(crate) const MAX_WIDTH: usize = 1 << 12;

/// The numbers both halves of a compressed table agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// Subtables, `l` in the paper: 1 to 16.
    pub subtables: usize,
    /// Columns of each subtable, `p` in the paper: even, 2 to 4096, and at most 16384 in all subtables together.
    pub columns: usize,
    /// Numbers of an embedding, `d` in the paper: 1 to 4096.
    pub width: usize,
}

impl Shape {
    /// # Errors
    /// [`EmbeddingError::Field`] for the first number outside its range.
    pub(crate) fn check(&self) -> Result<(), EmbeddingError> {
        let ranges = [
            ("subtables", self.subtables, 1, MAX_SUBTABLES),
            ("columns", self.columns, 2, MAX_COLUMNS),
            ("width", self.width, 1, MAX_WIDTH),
        ];
        for (name, found, least, most) in ranges {
            if !(least..=most).contains(&found) {
                return Err(EmbeddingError::field(name, found, format!("{least} to {most}")));
            }
        }
        if !self.columns.is_multiple_of(2) {
            return Err(EmbeddingError::field("columns", self.columns, "an even number"));
        }
        if self.all_columns() > MAX_ALL_COLUMNS {
            let needed = format!("at most {MAX_ALL_COLUMNS} columns in all subtables together");
            return Err(EmbeddingError::field("columns of all subtables", self.all_columns(), needed));
        }
        Ok(())
    }

    /// Columns of all subtables together, `l p`.
    pub(crate) fn all_columns(&self) -> usize {
        self.subtables * self.columns
    }
}
