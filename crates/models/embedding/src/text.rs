//! Texts as token ids.

use crate::segment::Segmenter;
use crate::tokens::TokenList;

/// A warning counts unknown words if at least one word in this number is unknown.
const UNKNOWN_SHARE: usize = 10;

/// Reads texts as token ids of one table, as a [`LinearHead`](crate::LinearHead) pools them: a word that cannot be
/// split into tokens has the row for unknown tokens if the table has one (see [`UNKNOWN_NAMES`](crate::UNKNOWN_NAMES)),
/// and is left out otherwise.
pub struct TextReader<'a> {
    segmenter: Segmenter<'a>,
    unknown_row: Option<usize>,
}

/// The token ids of one text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextIds {
    /// The ids, in order; below the number of tokens of the table.
    pub ids: Vec<u32>,
    /// Number of tokens and of words that the table does not have.
    pub tokens: usize,
    /// Number of words that the table does not have.
    pub unknown: usize,
}

/// What of a set of texts a head reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextCoverage {
    /// Number of texts.
    pub texts: usize,
    /// Texts with more than `max_tokens` tokens.
    pub cut: usize,
    /// Maximum number of tokens of a text that the head reads.
    pub max_tokens: usize,
    /// Tokens of all texts, and words that the table does not have.
    pub tokens: usize,
    /// Words that the table does not have.
    pub unknown: usize,
}

impl<'a> TextReader<'a> {
    /// A reader for this list.
    pub fn new(tokens: &'a TokenList) -> Self {
        Self { segmenter: Segmenter::new(tokens), unknown_row: tokens.unknown_row() }
    }

    /// The tokens of a text.
    pub fn read(&self, text: &str) -> TextIds {
        let words = self.segmenter.segment(text);
        let tokens = words.len();
        let unknown = words.iter().filter(|(_, id)| id.is_none()).count();
        let ids = words.into_iter().filter_map(|(_, id)| Some(id.or(self.unknown_row)? as u32)).collect();
        TextIds { ids, tokens, unknown }
    }

    /// Counts what of these texts a head that reads `max_tokens` tokens reads. The time depends on the texts: clients
    /// of a service count before the first request or after the last.
    pub fn coverage<S: AsRef<str>>(&self, texts: &[S], max_tokens: usize) -> TextCoverage {
        let mut coverage = TextCoverage { max_tokens, ..TextCoverage::default() };
        texts.iter().for_each(|text| coverage.add(&self.read(text.as_ref())));
        coverage
    }
}

impl TextCoverage {
    /// Counts one more text.
    pub(crate) fn add(&mut self, text: &TextIds) {
        self.texts += 1;
        self.cut += usize::from(text.ids.len() > self.max_tokens);
        self.tokens += text.tokens;
        self.unknown += text.unknown;
    }

    /// Warnings: texts are cut, or a tenth of their words or more are not in the table.
    pub fn warnings(&self) -> Vec<String> {
        let TextCoverage { texts, cut, max_tokens, tokens, unknown } = *self;
        let mut warnings = Vec::new();
        if cut > 0 {
            warnings.push(format!(
                "{cut} of {texts} texts have more than {max_tokens} tokens, and the rest of them is ignored; train a \
                 head with a larger max_tokens to read more"
            ));
        }
        if UNKNOWN_SHARE * unknown >= tokens && unknown > 0 {
            let effect = match 2 * unknown > tokens {
                true => ", so that the head cannot tell these texts apart; use a table of their language",
                false => ": the head does not read them; use a table of their language and subject",
            };
            warnings.push(format!("{unknown} of {tokens} tokens are not in the table{effect}"));
        }
        warnings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(tokens: &[&str]) -> TokenList {
        TokenList::new(tokens.iter().map(|&t| t.to_owned()).collect()).expect("a list")
    }

    #[test]
    fn unknown_words_take_their_row_or_are_left_out() {
        let with = list(&["a", "film", "[UNK]"]);
        assert_eq!(TextReader::new(&with).read("A zebra film"), TextIds { ids: vec![0, 2, 1], tokens: 3, unknown: 1 });
        let without = list(&["a", "film"]);
        assert_eq!(TextReader::new(&without).read("A zebra film"), TextIds { ids: vec![0, 1], tokens: 3, unknown: 1 });
    }

    #[test]
    fn coverage_warns_of_cut_and_of_unknown_texts() {
        let tokens = list(&["a", "film"]);
        let reader = TextReader::new(&tokens);
        let mostly = "a film ".repeat(5);
        assert!(reader.coverage(&[mostly.as_str(), "zebra"], 10).warnings().is_empty());
        let some = reader.coverage(&["a film", "zebra a film"], 3).warnings();
        assert!(some.len() == 1 && some[0].starts_with("1 of 5 tokens are not in the table: the head"), "{some:?}");
        let coverage = reader.coverage(&["a film a", "zebra", "okapi", "emu", "gnu"], 2);
        assert_eq!((coverage.texts, coverage.cut, coverage.tokens, coverage.unknown), (5, 1, 7, 4));
        let warnings = coverage.warnings();
        assert!(warnings[0].starts_with("1 of 5 texts") && warnings[1].starts_with("4 of 7 tokens"), "{warnings:?}");
    }
}
