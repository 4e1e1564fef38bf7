//! Tokenisation of texts.

use serde::{Deserialize, Serialize};
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;
use unicode_properties::UnicodeEmoji;
use unicode_segmentation::UnicodeSegmentation;

/// Maximum `max_tokens` of a tokeniser.
pub(crate) const MAX_MAX_TOKENS: usize = 1 << 16;

/// Joiners of letters and of emoji: zero-width non-joiner and joiner.
const JOINERS: [char; 2] = ['\u{200c}', '\u{200d}'];
/// Selectors of the text and of the emoji form of a character. Both forms are the same word.
const FORM_SELECTORS: [char; 2] = ['\u{fe0e}', '\u{fe0f}'];

/// What a word is. It is stored with a model: clients must split texts as the training did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WordRule {
    /// A maximal run of ASCII letters, lower-cased (paper, Appendix D.2). All other characters separate words. Models
    /// that were trained before there was a choice have this rule.
    AsciiLetters,
    /// The words of Unicode (UAX 29), lower-cased and normalised (NFC). Digits and punctuation separate words and are
    /// dropped, also within a word of UAX 29: `T&C's` gives `t`, `c`, `s`. So a text of ASCII characters has the same
    /// words as with [`AsciiLetters`](Self::AsciiLetters). An emoji is a word. Each character of Chinese, and of
    /// scripts without spaces such as Hiragana and Thai, is a word of its own.
    #[default]
    Unicode,
}

impl WordRule {
    /// Whether files without a word rule mean this one.
    pub(crate) fn is_ascii(&self) -> bool {
        *self == Self::AsciiLetters
    }

    /// The rule of files without one.
    fn of_earlier_files() -> Self {
        Self::AsciiLetters
    }
}

/// Splits a text into lower-case words.
///
/// With [`bigrams`](Self::bigrams) each adjacent pair of words is a token too, placed right after its second word, so
/// that truncation cuts the end of the text and not one kind of token.
///
/// ```
/// use unspoken_fasttext::Tokeniser;
///
/// let tokeniser = Tokeniser { bigrams: true, ..Tokeniser::default() };
/// let tokens = tokeniser.tokens("This is 1 good text!");
/// assert_eq!(tokens[..4], ["this", "is", "this is", "good"]);
/// assert_eq!(Tokeniser::default().tokens("Привет, МИР"), ["привет", "мир"]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tokeniser {
    /// Whether adjacent pairs of words are tokens as well.
    pub bigrams: bool,
    /// Maximum number of tokens of a text; the rest of the text is ignored.
    pub max_tokens: usize,
    /// What a word is.
    #[serde(default = "WordRule::of_earlier_files", skip_serializing_if = "WordRule::is_ascii")]
    pub words: WordRule,
}

impl Default for Tokeniser {
    /// Unicode words without pairs, 128 tokens: the paper's length for e-mail.
    fn default() -> Self {
        Self { bigrams: false, max_tokens: 128, words: WordRule::default() }
    }
}

/// The tokens of a text, in order, and whether it has more than were asked for.
pub(crate) struct Tokens {
    pub(crate) tokens: Vec<String>,
    pub(crate) is_cut: bool,
}

impl Tokeniser {
    /// The first [`max_tokens`](Self::max_tokens) tokens of `text`, in order.
    pub fn tokens(&self, text: &str) -> Vec<String> {
        self.split(text).tokens
    }

    /// As [`Tokeniser::tokens`], and whether the text has more tokens.
    pub(crate) fn split(&self, text: &str) -> Tokens {
        match self.words {
            WordRule::AsciiLetters => self.join(ascii_words(text)),
            WordRule::Unicode => self.join(unicode_words(&normalised(text))),
        }
    }

    /// Adds the pairs of words, and stops after the first token that is too many.
    fn join(&self, words: impl Iterator<Item = String>) -> Tokens {
        let mut tokens = Vec::new();
        let mut previous: Option<String> = None;
        for word in words {
            let pair = match previous {
                Some(previous) if self.bigrams => Some(format!("{previous} {word}")),
                _ => None,
            };
            tokens.push(word.clone());
            tokens.extend(pair);
            if tokens.len() > self.max_tokens {
                break;
            }
            previous = Some(word);
        }
        let is_cut = tokens.len() > self.max_tokens;
        tokens.truncate(self.max_tokens);
        Tokens { tokens, is_cut }
    }
}

fn ascii_words(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| !word.is_empty()).map(str::to_ascii_lowercase)
}

/// The text in lower case and NFC, without selectors of the form of an emoji.
fn normalised(text: &str) -> String {
    text.to_lowercase().nfc().filter(|c| !FORM_SELECTORS.contains(c)).collect()
}

/// The parts of the words of UAX 29 between digits and punctuation, if they have a letter or an emoji.
fn unicode_words(text: &str) -> impl Iterator<Item = String> {
    let parts = text.split_word_bounds().flat_map(|word| word.split(separates));
    parts.filter(|part| part.chars().any(|c| c.is_alphabetic() || is_emoji(c))).map(str::to_owned)
}

fn separates(c: char) -> bool {
    !(c.is_alphabetic() || is_emoji(c) || is_combining_mark(c) || JOINERS.contains(&c))
}

/// Whether a character is an emoji. Unicode counts ASCII digits, `#` and `*` as well, which begin keycaps.
fn is_emoji(c: char) -> bool {
    !c.is_ascii() && c.is_emoji_char()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unigrams(text: &str) -> Vec<String> {
        Tokeniser::default().tokens(text)
    }

    fn ascii(text: &str) -> Vec<String> {
        Tokeniser { words: WordRule::AsciiLetters, ..Tokeniser::default() }.tokens(text)
    }

    #[test]
    fn earlier_models_split_at_everything_but_ascii_letters() {
        assert_eq!(ascii("T&C's apply 08452"), ["t", "c", "s", "apply"]);
        assert_eq!(ascii("over18's"), ["over", "s"]);
        assert_eq!(ascii("café au-lait"), ["caf", "au", "lait"]);
        assert_eq!(ascii("ÄRGER £100 STOP"), ["rger", "stop"]);
        assert!(ascii("Привет, мир").is_empty());
    }

    #[test]
    fn ascii_texts_have_the_same_words_by_both_rules() {
        for text in [
            "T&C's apply 08452 over18's a_b c.d e:f 3.5g",
            "Free entry in 2 a wkly comp, text FA to 87121!! www.x.co.uk?q=1&r=2 <#> don't ... 4u2c",
            "",
        ] {
            assert_eq!(unigrams(text), ascii(text), "{text}");
        }
    }

    #[test]
    fn words_of_other_alphabets_are_words() {
        assert_eq!(unigrams("Привет, МИР! Ёлка-2"), ["привет", "мир", "ёлка"]);
        assert_eq!(unigrams("Καλημέρα ΚΟΣΜΟΣ"), ["καλημέρα", "κοσμος"]);
        assert_eq!(unigrams("ÄRGER £100 STOP"), ["ärger", "stop"]);
        assert_eq!(unigrams("l\u{2019}été 5pm"), ["l", "été", "pm"]);
        assert_eq!(unigrams("नमस्ते दुनिया"), ["नमस्ते", "दुनिया"]);
        assert_eq!(unigrams("می\u{200c}خواهم"), ["می\u{200c}خواهم"]);
    }

    #[test]
    fn chinese_and_japanese_are_split_into_characters() {
        assert_eq!(unigrams("我爱北京。"), ["我", "爱", "北", "京"]);
        assert_eq!(unigrams("カタカナ と ひら"), ["カタカナ", "と", "ひ", "ら"]);
        let pairs = Tokeniser { bigrams: true, ..Tokeniser::default() };
        assert_eq!(pairs.tokens("北京"), ["北", "京", "北 京"]);
    }

    #[test]
    fn composed_and_decomposed_accents_are_the_same_word() {
        assert_eq!(unigrams("Cafe\u{301} NAI\u{308}VE"), unigrams("café naïve"));
        assert_eq!(unigrams("cafe\u{301}"), ["caf\u{e9}"]);
    }

    #[test]
    fn emoji_are_words() {
        assert_eq!(unigrams("great \u{1F600}\u{1F600}!"), ["great", "\u{1F600}", "\u{1F600}"]);
        // A family is one word; a heart is the same word in both forms; a keycap is a digit.
        assert_eq!(unigrams("\u{1F468}\u{200D}\u{1F469}\u{200D}\u{1F467}").len(), 1);
        assert_eq!(unigrams("\u{2764}\u{FE0F} \u{2764}"), ["\u{2764}", "\u{2764}"]);
        assert!(unigrams("1\u{FE0F}\u{20E3}").is_empty());
    }

    #[test]
    fn text_without_letters_has_no_tokens() {
        for tokens in [unigrams, ascii] {
            assert!(tokens("").is_empty());
            assert!(tokens(" 12:34 \u{0663}\u{0664} £ \t\n").is_empty());
        }
    }

    #[test]
    fn truncates_to_max_tokens() {
        let long = "a ".repeat(1000);
        assert_eq!(unigrams(&long).len(), 128);
        let tokeniser = Tokeniser { bigrams: true, max_tokens: 4, ..Tokeniser::default() };
        assert_eq!(tokeniser.tokens("a b c d"), ["a", "b", "a b", "c"]);
    }

    #[test]
    fn only_texts_with_more_tokens_are_cut() {
        for words in [WordRule::AsciiLetters, WordRule::Unicode] {
            let tokeniser = Tokeniser { max_tokens: 3, words, ..Tokeniser::default() };
            assert_eq!(["a b", "a b c 4 !", "a b c d"].map(|text| tokeniser.split(text).is_cut), [false, false, true]);
            let tokeniser = Tokeniser { bigrams: true, ..tokeniser };
            assert_eq!(["a", "a b", "a b c"].map(|text| tokeniser.split(text).is_cut), [false, false, true]);
        }
    }

    #[test]
    fn bigrams_follow_their_second_word() {
        let tokeniser = Tokeniser { bigrams: true, ..Tokeniser::default() };
        assert_eq!(tokeniser.tokens("this is good"), ["this", "is", "this is", "good", "is good"]);
        assert_eq!(tokeniser.tokens("one"), ["one"]);
    }
}
