//! The spellings under which a table may have a word.

use unicode_normalization::UnicodeNormalization;
use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};

use super::units::JOINERS;
use crate::tokens::TokenList;

/// Selectors of the text and of the emoji form of a character.
const FORM_SELECTORS: [char; 2] = ['\u{fe0e}', '\u{fe0f}'];

/// Which spellings of a word are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spellings {
    /// Whether accents are dropped in the end, as BERT's models without case do.
    without_accents: bool,
}

impl Spellings {
    /// Accents are dropped where a table of word pieces has no Latin letter with an accent.
    pub(super) fn of(tokens: &TokenList, has_pieces: bool) -> Self {
        Spellings { without_accents: has_pieces && !tokens.as_slice().iter().any(|token| has_accent(token)) }
    }

    /// The spellings of a word, in the order in which they are tried, each once: as written, composed (NFC),
    /// decomposed (NFD); the same in lower case; without joiners and form selectors and with a plain apostrophe; and
    /// without accents.
    pub(super) fn of_word(self, word: &str) -> Vec<String> {
        let lower = word.to_lowercase();
        if word.is_ascii() {
            return distinct([word.to_owned(), lower].into_iter());
        }
        let plain = lower.nfc().filter(|c| !JOINERS.contains(c) && !FORM_SELECTORS.contains(c));
        let plain: String = plain.map(|c| if c == '\u{2019}' { '\'' } else { c }).collect();
        let bare = self.without_accents.then(|| {
            plain.nfd().filter(|c| c.general_category() != GeneralCategory::NonspacingMark).collect::<String>()
        });
        let both = [word, &lower].map(|text| [text.to_owned(), text.nfc().collect(), text.nfd().collect()]);
        distinct(both.into_iter().flatten().chain([plain]).chain(bare))
    }
}

/// Whether a text has a Latin letter with an accent.
fn has_accent(text: &str) -> bool {
    if text.is_ascii() {
        return false;
    }
    let decomposed: Vec<char> = text.nfd().collect();
    let accented =
        |pair: &[char]| pair[0].is_ascii_alphabetic() && pair[1].general_category() == GeneralCategory::NonspacingMark;
    decomposed.windows(2).any(accented)
}

fn distinct(spellings: impl Iterator<Item = String>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    for spelling in spellings.filter(|spelling| !spelling.is_empty()) {
        if !kept.contains(&spelling) {
            kept.push(spelling);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_come_in_order_and_once() {
        let exact = Spellings { without_accents: false };
        assert_eq!(exact.of_word("The"), ["The", "the"]);
        assert_eq!(exact.of_word("don\u{2019}t"), ["don\u{2019}t", "don't"]);
        assert_eq!(exact.of_word("É"), ["É", "E\u{301}", "é", "e\u{301}"]);
        assert_eq!(exact.of_word("\u{2764}\u{fe0f}"), ["\u{2764}\u{fe0f}", "\u{2764}"]);
        assert!(exact.of_word("\u{200d}").contains(&"\u{200d}".to_owned()));
        let bare = Spellings { without_accents: true };
        assert_eq!(bare.of_word("Café").last().unwrap(), "cafe");
    }

    #[test]
    fn accents_are_dropped_only_for_word_pieces_without_any() {
        let list = |tokens: &[&str]| TokenList::new(tokens.iter().map(|&t| t.to_owned()).collect()).unwrap();
        assert!(Spellings::of(&list(&["cafe", "##s", "नमस्ते"]), true).without_accents);
        assert!(!Spellings::of(&list(&["cafe", "##s", "é"]), true).without_accents);
        assert!(!Spellings::of(&list(&["cafe"]), false).without_accents);
    }
}
