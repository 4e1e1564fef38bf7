//! Vocabularies: the known tokens of a model and their rows.

use std::collections::HashMap;

use crate::error::FastTextError;

/// Row 0 of every vocabulary: the token for all unknown ones.
pub const UNKNOWN: &str = "<unk>";
/// Maximum number of tokens of a vocabulary.
pub(crate) const MAX_VOCABULARY: usize = 1 << 22;
/// Maximum length of a token in bytes.
pub(crate) const MAX_TOKEN_BYTES: usize = 1 << 12;

/// The known tokens of a model, in row order. Row 0 is [`UNKNOWN`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vocabulary {
    tokens: Vec<String>,
    rows: HashMap<String, u32>,
}

impl Vocabulary {
    /// Counts the tokens of the training texts and keeps those seen at least
    /// `min_count` times, at most `max_size` of them (the most frequent; ties in
    /// alphabetical order), besides [`UNKNOWN`].
    pub(crate) fn build<'a>(
        token_lists: impl Iterator<Item = &'a [String]>,
        min_count: usize,
        max_size: usize,
    ) -> Self {
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for token in token_lists.flatten() {
            if token.len() <= MAX_TOKEN_BYTES {
                *counts.entry(token).or_default() += 1;
            }
        }
        let mut kept: Vec<(&str, usize)> = counts.into_iter().filter(|&(_, count)| count >= min_count).collect();
        kept.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
        kept.truncate(max_size.min(MAX_VOCABULARY - 1));
        let tokens =
            std::iter::once(UNKNOWN.to_owned()).chain(kept.into_iter().map(|(token, _)| token.to_owned())).collect();
        Self::index(tokens)
    }

    /// A vocabulary from a list in row order, as stored in a file.
    ///
    /// # Errors
    /// [`FastTextError::Field`] when the list is empty or too long, does not begin
    /// with [`UNKNOWN`], or repeats a token.
    pub(crate) fn from_tokens(tokens: Vec<String>) -> Result<Self, FastTextError> {
        let refuse = |found: String, needed: &str| Err(FastTextError::field("vocabulary", found, needed.to_owned()));
        if tokens.len() > MAX_VOCABULARY {
            return refuse(format!("{} tokens", tokens.len()), &format!("at most {MAX_VOCABULARY}"));
        }
        if tokens.first().map(String::as_str) != Some(UNKNOWN) {
            return refuse(format!("first token {:?}", tokens.first()), &format!("{UNKNOWN:?} first"));
        }
        if let Some(long) = tokens.iter().find(|token| token.len() > MAX_TOKEN_BYTES) {
            return refuse(format!("a token of {} bytes", long.len()), &format!("at most {MAX_TOKEN_BYTES} bytes"));
        }
        let count = tokens.len();
        let vocabulary = Self::index(tokens);
        if vocabulary.rows.len() != count {
            return refuse("a token twice".to_owned(), "each token once");
        }
        Ok(vocabulary)
    }

    fn index(tokens: Vec<String>) -> Self {
        let rows = (0..).zip(&tokens).map(|(row, t)| (t.clone(), row)).collect();
        Self { tokens, rows }
    }

    /// The row of `token`, or 0 if it is unknown.
    pub fn row(&self, token: &str) -> u32 {
        self.rows.get(token).copied().unwrap_or(0)
    }

    /// All tokens in row order.
    pub fn tokens(&self) -> &[String] {
        &self.tokens
    }

    /// The number of rows, [`UNKNOWN`] included.
    #[expect(clippy::len_without_is_empty, reason = "row 0 is always there")]
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// The rows of a tokenised text. A text without tokens is one unknown token,
    /// so that every message has a score.
    pub(crate) fn rows_of(&self, tokens: &[String]) -> Vec<u32> {
        if tokens.is_empty() {
            return vec![0];
        }
        tokens.iter().map(|token| self.row(token)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn keeps_frequent_tokens_in_a_fixed_order() {
        let lists = [words("b a b c"), words("a b d")];
        let build = |min, max| Vocabulary::build(lists.iter().map(Vec::as_slice), min, max);
        assert_eq!(build(1, 10).tokens(), [UNKNOWN, "b", "a", "c", "d"]);
        assert_eq!(build(2, 10).tokens(), [UNKNOWN, "b", "a"]);
        assert_eq!(build(1, 1).tokens(), [UNKNOWN, "b"]);
    }

    #[test]
    fn unknown_tokens_and_empty_texts_take_row_zero() {
        let vocabulary = Vocabulary::build([words("a b")].iter().map(Vec::as_slice), 1, 10);
        assert_eq!(vocabulary.rows_of(&words("a zebra b")), [1, 0, 2]);
        assert_eq!(vocabulary.rows_of(&[]), [0]);
    }

    #[test]
    fn refuses_lists_that_no_trainer_writes() {
        let list = |tokens: &[&str]| Vocabulary::from_tokens(tokens.iter().map(|&t| t.to_owned()).collect());
        assert!(list(&[UNKNOWN, "a", "b"]).is_ok());
        assert!(list(&[]).is_err());
        assert!(list(&["a", UNKNOWN]).is_err());
        assert!(list(&[UNKNOWN, "a", "a"]).is_err());
        let long = "x".repeat(MAX_TOKEN_BYTES + 1);
        assert!(list(&[UNKNOWN, &long]).is_err());
    }
}
