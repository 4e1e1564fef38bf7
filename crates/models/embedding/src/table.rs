//! Plaintext embedding tables.

use crate::LARGEST_VALUE;
use crate::error::EmbeddingError;
use crate::shape::MAX_WIDTH;
use crate::tokens::{TokenList, UNKNOWN_NAMES};

/// An embedding table: one row of `width` numbers for each token, all finite and of magnitude at most
/// [`LARGEST_VALUE`]. Read one with [`Source`](crate::Source).
#[derive(Clone, Debug, PartialEq)]
pub struct EmbeddingTable {
    tokens: TokenList,
    width: usize,
    /// tokens x width, row-major
    values: Vec<f32>,
}

impl EmbeddingTable {
    /// Checks and joins tokens and `values`, concatenated rows of `width` numbers.
    ///
    /// # Errors
    /// [`EmbeddingError::Shape`] unless `width` is 1 to 4096 and divides the number of values,
    /// [`EmbeddingError::Count`] if the numbers of rows and tokens differ, and [`EmbeddingError::Value`] for the first
    /// value that is not finite or too large.
    pub fn new(tokens: TokenList, width: usize, values: Vec<f32>) -> Result<Self, EmbeddingError> {
        if !(1..=MAX_WIDTH).contains(&width) || !values.len().is_multiple_of(width) {
            let found = format!("{} values in rows of {width}", values.len());
            return Err(EmbeddingError::Shape { found, needed: format!("whole rows of 1 to {MAX_WIDTH} values") });
        }
        let rows = values.len() / width;
        if rows != tokens.len() {
            return Err(EmbeddingError::Count { rows, tokens: tokens.len() });
        }
        // NaN and infinities are outside the range too.
        let allowed = -LARGEST_VALUE..=LARGEST_VALUE;
        if let Some(at) = values.iter().position(|value| !allowed.contains(value)) {
            let (row, column) = (at / width, at % width);
            let token = tokens.as_slice()[row].clone();
            return Err(EmbeddingError::Value { row, token, column, value: values[at] });
        }
        Ok(Self { tokens, width, values })
    }

    /// The same table with an additional last row `<unk>`, the mean of all rows, for unknown tokens. A table that
    /// already has a row for unknown tokens is not changed.
    ///
    /// # Errors
    /// [`EmbeddingError::Tokens`] when there is no room for one more token.
    pub fn with_unknown(self) -> Result<Self, EmbeddingError> {
        if self.tokens.unknown_row().is_some() {
            return Ok(self);
        }
        let mut mean = vec![0.0; self.width];
        for row in self.values.chunks_exact(self.width) {
            mean.iter_mut().zip(row).for_each(|(mean, &value)| *mean += f64::from(value));
        }
        let count = self.tokens.len() as f64;
        let mut values = self.values;
        values.extend(mean.iter().map(|sum| (sum / count) as f32));
        let mut tokens = self.tokens.as_slice().to_vec();
        tokens.push(UNKNOWN_NAMES[0].to_owned());
        Self::new(TokenList::new(tokens)?, self.width, values)
    }

    /// The tokens, in row order.
    pub fn tokens(&self) -> &TokenList {
        &self.tokens
    }

    /// Numbers of a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// All rows, concatenated.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// The embedding of the token in row `row`; `None` outside the table.
    pub fn row(&self, row: usize) -> Option<&[f32]> {
        (row < self.tokens.len()).then(|| &self.values[row * self.width..][..self.width])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(names: &[&str]) -> TokenList {
        TokenList::new(names.iter().map(|&t| t.to_owned()).collect()).expect("a list")
    }

    #[test]
    fn bad_values_are_named_by_row_token_and_column() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1.1e6, -1.1e6] {
            let error = EmbeddingTable::new(tokens(&["a", "b"]), 2, vec![1.0, -1e6, 1e6, bad]).expect_err("refused");
            assert!(matches!(error, EmbeddingError::Value { row: 1, column: 1, .. }), "{error}");
            assert!(error.to_string().contains("row 1 (token \"b\"), column 1"), "{error}");
        }
    }

    #[test]
    fn rows_tokens_and_width_must_agree() {
        let build = |width, count| EmbeddingTable::new(tokens(&["a", "b"]), width, vec![0.5; count]);
        assert!(build(2, 4).is_ok());
        assert!(matches!(build(2, 6), Err(EmbeddingError::Count { rows: 3, tokens: 2 })));
        for (width, count) in [(2, 5), (0, 4), (MAX_WIDTH + 1, 2 * (MAX_WIDTH + 1))] {
            assert!(matches!(build(width, count), Err(EmbeddingError::Shape { .. })));
        }
    }

    #[test]
    fn the_row_for_unknown_tokens_is_the_mean_and_is_added_once() {
        let table = EmbeddingTable::new(tokens(&["a", "b"]), 2, vec![1.0, 2.0, 3.0, 6.0]).expect("a table");
        let table = table.with_unknown().expect("room");
        assert_eq!(table.tokens().unknown_row(), Some(2));
        assert_eq!(table.row(2), Some(&[2.0, 4.0][..]));
        assert_eq!(table.row(3), None);
        assert_eq!(table.clone().with_unknown().expect("as it is"), table);
    }
}
