//! Segmentation of texts into tokens of a table.

mod pieces;
mod spellings;
mod units;

use crate::tokens::TokenList;
use pieces::Pieces;
use spellings::Spellings;

/// Version of the rules by which a [`Segmenter`] splits texts: heads are trained for one of them.
pub const SEGMENTATION_VERSION: u32 = 2;

/// Units of which one token can consist, such as the six of `U.S.A.`.
const MAX_JOINED: usize = 8;

/// Splits texts into the tokens of a list.
///
/// White space separates chunks. A chunk is split into words (letters and digits) and other characters, each with its
/// combining marks and joiners. The longest run of words and characters that is a token of the list becomes that token,
/// such as `don't` or `c++`. A word is looked up as written, composed and decomposed, then in lower case, then without
/// joiners, and without accents if the list has word pieces and no accent. A word that is not found is split into the
/// longest pieces of the list, from the left: pieces of WordPiece (`##`), byte-level BPE (`Ġ`) or SentencePiece (`▁`).
/// Their own tokenizers may choose other pieces. `docs/model-format.md` has all rules.
///
/// ```
/// use unspoken_embedding::{Segmenter, TokenList};
///
/// let tokens = ["play", "##ing", "chess", "!"].map(str::to_owned);
/// let tokens = TokenList::new(tokens.to_vec())?;
/// let words = Segmenter::new(&tokens).segment("Playing go!");
/// let expected = [("play", Some(0)), ("##ing", Some(1)), ("go", None), ("!", Some(3))];
/// assert_eq!(words, expected.map(|(word, token)| (word.to_owned(), token)));
/// # Ok::<(), unspoken_embedding::EmbeddingError>(())
/// ```
pub struct Segmenter<'a> {
    tokens: &'a TokenList,
    pieces: Pieces,
    spellings: Spellings,
}

impl<'a> Segmenter<'a> {
    /// A segmenter for this list.
    pub fn new(tokens: &'a TokenList) -> Self {
        let pieces = Pieces::of(tokens);
        Self { tokens, pieces, spellings: Spellings::of(tokens, pieces == Pieces::Continuing) }
    }

    /// The tokens of a text, in order, each with its id; a word that cannot be split into tokens has no id.
    pub fn segment(&self, text: &str) -> Vec<(String, Option<usize>)> {
        let mut found = Vec::new();
        for chunk in text.split_whitespace() {
            if matches!(self.pieces, Pieces::Beginning { .. })
                && let Some(ids) = self.split(chunk, true)
            {
                found.extend(ids.into_iter().map(|id| self.token(id)));
                continue;
            }
            self.segment_chunk(chunk, &mut found);
        }
        found
    }

    /// Adds the tokens of a text without white space.
    fn segment_chunk(&self, chunk: &str, found: &mut Vec<(String, Option<usize>)>) {
        let units = units::units(chunk);
        let (mut at, mut start) = (0, 0);
        while let Some(unit) = units.get(at) {
            let begins = start == 0;
            let (count, length) = match self.joined(&chunk[start..], &units[at..], begins) {
                Some((id, count, length)) => {
                    found.push(self.token(id));
                    (count, length)
                }
                None => {
                    match self.whole(unit, begins).map(|id| vec![id]).or_else(|| self.split(unit, begins)) {
                        Some(ids) => found.extend(ids.into_iter().map(|id| self.token(id))),
                        None => found.push((unit.to_lowercase(), None)),
                    }
                    (1, unit.len())
                }
            };
            at += count;
            start += length;
        }
    }

    /// The token that most units at the start of a text form together, at least two, with their number and bytes.
    fn joined(&self, text: &str, units: &[&str], begins: bool) -> Option<(usize, usize, usize)> {
        (2..=units.len().min(MAX_JOINED)).rev().find_map(|count| {
            let length = units[..count].iter().map(|unit| unit.len()).sum();
            let id = self.whole(&text[..length], begins)?;
            (!self.pieces.is_sign(&self.tokens.as_slice()[id])).then_some((id, count, length))
        })
    }

    /// The token of a word in one of its spellings.
    fn whole(&self, word: &str, begins: bool) -> Option<usize> {
        // Most words are found as written.
        if let Some(id) = self.pieces.whole(self.tokens, word, begins) {
            return Some(id);
        }
        let spellings = self.spellings.of_word(word);
        spellings.iter().find_map(|spelling| self.pieces.whole(self.tokens, spelling, begins))
    }

    /// The pieces of a word in one of its spellings.
    fn split(&self, word: &str, begins: bool) -> Option<Vec<usize>> {
        if self.pieces == Pieces::None {
            return None;
        }
        let spellings = self.spellings.of_word(word);
        spellings.iter().find_map(|spelling| self.pieces.split(self.tokens, spelling, begins))
    }

    fn token(&self, id: usize) -> (String, Option<usize>) {
        (self.tokens.as_slice()[id].clone(), Some(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(tokens: &[&str], text: &str) -> Vec<Option<usize>> {
        let tokens = TokenList::new(tokens.iter().map(|&t| t.to_owned()).collect()).expect("a list");
        Segmenter::new(&tokens).segment(text).into_iter().map(|(_, id)| id).collect()
    }

    #[test]
    fn whole_words_are_looked_up_as_they_stand_and_in_lower_case() {
        assert_eq!(ids(&["US", "us", "the"], "US Us THE zebra"), [Some(0), Some(1), Some(2), None]);
    }

    #[test]
    fn words_of_all_scripts_are_found_in_both_normal_forms() {
        let decomposed = "cafe\u{301}";
        let words = ["café", "नमस्ते", "สวัสดี", "שָׁלוֹם", "می\u{200c}خواهم", "don't", "e-mail", "c++", "#tag", "北京"];
        for (id, word) in words.iter().enumerate() {
            assert_eq!(ids(&words, word), [Some(id)], "{word}");
            assert_eq!(ids(&words, &format!("({word}),")), [None, Some(id), None, None], "{word}");
        }
        assert_eq!(ids(&words, decomposed), [Some(0)]);
        assert_eq!(ids(&[decomposed], "Café"), [Some(0)]);
        assert_eq!(ids(&words, "Don\u{2019}t"), [Some(5)]);
        assert_eq!(ids(&["ab"], "a\u{200c}b \u{200d}"), [Some(0), None]);
        assert_eq!(ids(&["\u{2764}", "!"], "\u{2764}\u{fe0f}!"), [Some(0), Some(1)]);
    }

    #[test]
    fn the_longest_run_of_units_that_is_a_token_is_one() {
        assert_eq!(ids(&["u", ".", "s", "u.s", "u.s."], "U.S. u.s"), [Some(4), Some(3)]);
        assert_eq!(ids(&["don", "'", "t"], "don't"), [Some(0), Some(1), Some(2)]);
        // What only a model writes is not found in texts.
        assert_eq!(ids(&["[UNK]", "##ing", "a"], "[UNK] ##ing"), [None, None, None, None, None, None]);
    }

    #[test]
    fn pieces_are_the_longest_from_the_left() {
        let list = ["un", "unaff", "##aff", "##able", "##a", "##ble", "é", "##é"];
        assert_eq!(ids(&list, "unaffable"), [Some(1), Some(3)]);
        assert_eq!(ids(&list, "éé"), [Some(6), Some(7)]);
        // A word that cannot be split completely is unknown as a whole.
        assert_eq!(ids(&list, "unaffirm un"), [None, Some(0)]);
        assert_eq!(ids(&list, &"a".repeat(pieces::LONGEST_WORD + 1)), [None]);
        // A table without accents, as of BERT's models without case, has words without them.
        assert_eq!(ids(&["resume", "##s"], "Résumés"), [Some(0), Some(1)]);
        // Pieces with capitals come first.
        assert_eq!(ids(&["Play", "play", "##ing"], "Playing"), [Some(0), Some(2)]);
    }

    #[test]
    fn tokens_that_begin_words_have_a_mark() {
        let bytes = ["\u{120}don", "'t", "\u{120}caf", "Ã©", "\u{120}", "x", "\u{120}the"];
        let expected = [Some(0), Some(1), Some(2), Some(3), Some(4), Some(5)];
        assert_eq!(ids(&bytes, "don't café x"), expected);
        let sentence = ["\u{2581}the", "\u{2581}caf", "é", "s", "\u{2581}", "x"];
        assert_eq!(ids(&sentence, "the cafés"), [Some(0), Some(1), Some(2), Some(3)]);
        // Lower case is found where the table has only lower case. A character that the table lacks is unknown by
        // itself.
        assert_eq!(ids(&sentence, "The the☃x"), [Some(0), Some(0), None, Some(5)]);
    }
}
