//! The tokens of a table.

use std::collections::HashMap;

use crate::error::EmbeddingError;

/// Maximum number of tokens of a table.
pub(crate) const MAX_TOKENS: usize = 1 << 22;
/// Maximum length of a token in bytes.
pub(crate) const MAX_TOKEN_BYTES: usize = 1 << 12;

/// Names of the row for unknown tokens. If a list has several, the first of these names is used.
pub const UNKNOWN_NAMES: [&str; 3] = ["<unk>", "[UNK]", "<UNK>"];

/// Distinct tokens in row order: the id of a token is its row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenList {
    tokens: Vec<String>,
    rows: HashMap<String, u32>,
}

impl TokenList {
    /// Checks and indexes a list: 1 to 2^22 distinct tokens of 1 to 4096 bytes.
    ///
    /// # Errors
    /// [`EmbeddingError::Tokens`], which contains the row of a bad token.
    pub fn new(tokens: Vec<String>) -> Result<Self, EmbeddingError> {
        let refuse = |found: String, needed: String| Err(EmbeddingError::Tokens { found, needed });
        if tokens.is_empty() || tokens.len() > MAX_TOKENS {
            return refuse(format!("{} tokens", tokens.len()), format!("1 to {MAX_TOKENS}"));
        }
        let mut rows = HashMap::with_capacity(tokens.len());
        for (row, token) in (0..).zip(&tokens) {
            if token.is_empty() || token.len() > MAX_TOKEN_BYTES {
                let found = format!("a token of {} bytes in row {row}", token.len());
                return refuse(found, format!("1 to {MAX_TOKEN_BYTES} bytes"));
            }
            if let Some(first) = rows.insert(token.clone(), row) {
                return refuse(format!("{token:?} in rows {first} and {row}"), "each token once".into());
            }
        }
        Ok(Self { tokens, rows })
    }

    /// All tokens in row order.
    pub fn as_slice(&self) -> &[String] {
        &self.tokens
    }

    /// The number of tokens, at least one.
    #[expect(clippy::len_without_is_empty, reason = "there is at least one token")]
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// The row of a token; `None` if it has none.
    pub fn row(&self, token: &str) -> Option<usize> {
        self.rows.get(token).map(|&row| row as usize)
    }

    /// The row for unknown tokens, if there is one; see [`UNKNOWN_NAMES`].
    pub fn unknown_row(&self) -> Option<usize> {
        UNKNOWN_NAMES.iter().find_map(|name| self.row(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(tokens: &[&str]) -> Result<TokenList, EmbeddingError> {
        TokenList::new(tokens.iter().map(|&t| t.to_owned()).collect())
    }

    #[test]
    fn tokens_have_rows() {
        let tokens = list(&["the", "[UNK]", "of"]).expect("a list");
        assert_eq!((tokens.row("of"), tokens.row("zebra"), tokens.unknown_row()), (Some(2), None, Some(1)));
        assert_eq!(list(&["the"]).expect("a list").unknown_row(), None);
    }

    #[test]
    fn bad_lists_are_refused_with_the_row() {
        assert!(list(&[]).is_err());
        let error = list(&["a", "b", "a"]).expect_err("refused").to_string();
        assert!(error.contains("\"a\" in rows 0 and 2"), "{error}");
        assert!(list(&["a", ""]).expect_err("refused").to_string().contains("row 1"));
        assert!(list(&["a", &"x".repeat(MAX_TOKEN_BYTES + 1)]).is_err());
    }
}
