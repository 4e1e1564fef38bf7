//! The rows of a table as they are read.

use crate::error::EmbeddingError;
use crate::load::token_file::TokenNames;
use crate::table::EmbeddingTable;
use crate::tokens::TokenList;

/// Rows as they were read, before tokens and rows are compared.
pub(super) struct Rows {
    pub(super) tokens: TokenNames,
    pub(super) width: usize,
    /// Rows x width.
    pub(super) values: Vec<f32>,
}

impl Rows {
    /// The table. Added tokens without a row are left out.
    pub(super) fn joined(mut self) -> Result<EmbeddingTable, EmbeddingError> {
        let rows = self.values.len() / self.width.max(1);
        self.tokens.drop_added_from(rows);
        EmbeddingTable::new(TokenList::new(self.tokens.names)?, self.width, self.values)
    }
}
