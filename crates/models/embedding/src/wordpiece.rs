//! Segmentation of texts into tokens of a table.

use crate::tokens::TokenList;

/// Marks a token that continues a word (WordPiece).
const CONTINUES: &str = "##";
/// Maximum length of a word in characters; longer words are unknown, as in BERT.
const LONGEST_WORD: usize = 100;

/// Splits texts into the tokens of a list.
///
/// Words are separated by white space; every character that is neither a letter nor a digit is a word of its own. A
/// word is looked up unchanged, then in lower case. If the list has tokens that begin with `##`, a word is split into
/// the longest pieces that the list has, from the left (WordPiece, as in BERT). This replaces a tokenizer library by a
/// few lines, without its Unicode normalisation, so accented words may be split differently.
///
/// ```
/// use unspoken_embedding::{Segmenter, TokenList};
///
/// let tokens = ["play", "##ing", "chess", "!"].map(str::to_owned);
/// let tokens = TokenList::new(tokens.to_vec())?;
/// let words = Segmenter::new(&tokens).segment("Playing go!");
/// let expected = [("play", Some(0)), ("##ing", Some(1)), ("go", None), ("!", Some(3))];
/// assert_eq!(words, expected.map(|(word, token)| (word.to_owned(), token)));
/// # Ok::<(), unspoken_embedding::TableError>(())
/// ```
pub struct Segmenter<'a> {
    tokens: &'a TokenList,
    pieces: bool,
}

impl<'a> Segmenter<'a> {
    /// A segmenter for this list.
    pub fn new(tokens: &'a TokenList) -> Self {
        let pieces =
            tokens.as_slice().iter().any(|token| token.len() > CONTINUES.len() && token.starts_with(CONTINUES));
        Self { tokens, pieces }
    }

    /// The tokens of a text, in order, each with its id; a word that cannot be split into tokens has no id.
    pub fn segment(&self, text: &str) -> Vec<(String, Option<usize>)> {
        let mut found = Vec::new();
        for word in words(text) {
            if let Some(id) = self.tokens.row(word) {
                found.push((word.to_owned(), Some(id)));
                continue;
            }
            let word = word.to_lowercase();
            match self.pieces_of(&word) {
                Some(ids) => found.extend(ids.into_iter().map(|id| (self.tokens.as_slice()[id].clone(), Some(id)))),
                None => found.push((word, None)),
            }
        }
        found
    }

    fn pieces_of(&self, word: &str) -> Option<Vec<usize>> {
        if let Some(id) = self.tokens.row(word) {
            return Some(vec![id]);
        }
        if !self.pieces || word.chars().count() > LONGEST_WORD {
            return None;
        }
        let mut ids = Vec::new();
        let mut rest = word;
        while !rest.is_empty() {
            let prefix = if ids.is_empty() { "" } else { CONTINUES };
            let ends = rest.char_indices().map(|(at, c)| at + c.len_utf8()).rev();
            let (end, id) =
                ends.filter_map(|end| Some((end, self.tokens.row(&format!("{prefix}{}", &rest[..end]))?))).next()?;
            ids.push(id);
            rest = &rest[end..];
        }
        Some(ids)
    }
}

/// Runs of letters and digits, and every other character that is not white space.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace().flat_map(|chunk| {
        let mut rest = chunk;
        std::iter::from_fn(move || {
            let first = rest.chars().next()?;
            let end = match first.is_alphanumeric() {
                true => rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len()),
                false => first.len_utf8(),
            };
            let (word, tail) = rest.split_at(end);
            rest = tail;
            Some(word)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(tokens: &[&str], text: &str) -> Vec<Option<usize>> {
        let tokens = TokenList::new(tokens.iter().map(|&t| t.to_owned()).collect()).expect("a list");
        Segmenter::new(&tokens).segment(text).into_iter().map(|(_, id)| id).collect()
    }

    #[test]
    fn words_split_at_space_and_punctuation() {
        assert_eq!(
            words(" It's\t2nd-rate,\u{a0}caf\u{e9}! ").collect::<Vec<_>>(),
            ["It", "'", "s", "2nd", "-", "rate", ",", "café", "!"]
        );
    }

    #[test]
    fn whole_words_are_looked_up_as_they_stand_and_in_lower_case() {
        assert_eq!(ids(&["US", "us", "the"], "US Us THE zebra"), [Some(0), Some(1), Some(2), None]);
    }

    #[test]
    fn pieces_are_the_longest_from_the_left() {
        let list = ["un", "unaff", "##aff", "##able", "##a", "##ble", "é", "##é"];
        assert_eq!(ids(&list, "unaffable"), [Some(1), Some(3)]);
        assert_eq!(ids(&list, "éé"), [Some(6), Some(7)]);
        // A word that cannot be split completely is unknown as a whole.
        assert_eq!(ids(&list, "unaffirm un"), [None, Some(0)]);
        assert_eq!(ids(&list, &"a".repeat(LONGEST_WORD + 1)), [None]);
    }
}
