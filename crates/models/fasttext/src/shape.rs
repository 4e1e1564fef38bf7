//! Shape of a model: the numbers that both halves have in common.

use serde::{Deserialize, Serialize};

use crate::error::FastTextError;
use crate::tokenise::MAX_MAX_TOKENS;

const MAX_SUBTABLES: usize = 16;
const MAX_COLUMNS: usize = 1 << 12;
const MIN_CLASSES: usize = 2;
const MAX_CLASSES: usize = 1 << 10;

/// The numbers both halves of a model agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// Compressed subtables, `l` in the paper: 1 to 16.
    pub subtables: usize,
    /// Columns of each subtable, `p` in the paper: even, 2 to 4096.
    pub columns: usize,
    /// Classes: 2 to 1024.
    pub classes: usize,
    /// Tokens (slots) of each message: 1 to 65536.
    pub max_tokens: usize,
}

impl Shape {
    /// Minimum number of classes of a model.
    pub(crate) const MIN_CLASSES: usize = MIN_CLASSES;
    /// Maximum number of classes of a model.
    pub(crate) const MAX_CLASSES: usize = MAX_CLASSES;

    /// # Errors
    /// [`FastTextError::Field`] for the first number outside its range.
    pub(crate) fn check(&self) -> Result<(), FastTextError> {
        let ranges = [
            ("subtables", self.subtables, 1, MAX_SUBTABLES),
            ("columns", self.columns, 2, MAX_COLUMNS),
            ("classes", self.classes, MIN_CLASSES, MAX_CLASSES),
            ("max_tokens", self.max_tokens, 1, MAX_MAX_TOKENS),
        ];
        for (name, found, least, most) in ranges {
            if !(least..=most).contains(&found) {
                return Err(FastTextError::field(name, found, format!("{least} to {most}")));
            }
        }
        if !self.columns.is_multiple_of(2) {
            return Err(FastTextError::field("columns", self.columns, "an even number"));
        }
        Ok(())
    }

    /// Number of entries of all score tables together. After [`Shape::check`] it does not overflow.
    pub(crate) fn score_entries(&self) -> usize {
        self.subtables * self.classes * self.columns
    }
}
