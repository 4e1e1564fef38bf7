//! Tokenisation of texts (paper, Appendix D.2).

use serde::{Deserialize, Serialize};

/// Maximum `max_tokens` of a tokeniser.
pub(crate) const MAX_MAX_TOKENS: usize = 1 << 16;

/// Splits a text into lower-case words (Appendix D.2).
///
/// A word is a maximal run of ASCII letters, lower-cased. Digits, punctuation
/// and every other character separate words and are dropped, so `T&C's` gives
/// `t`, `c`, `s`. With [`bigrams`](Self::bigrams) each adjacent pair of words is
/// a token too, placed right after its second word, so that truncation cuts the
/// end of the text and not one kind of token.
///
/// ```
/// use unspoken_fasttext::Tokeniser;
///
/// let tokeniser = Tokeniser { bigrams: true, ..Tokeniser::default() };
/// let tokens = tokeniser.tokens("This is 1 good text!");
/// assert_eq!(tokens[..4], ["this", "is", "this is", "good"]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tokeniser {
    /// Whether adjacent pairs of words are tokens as well.
    pub bigrams: bool,
    /// Maximum number of tokens of a text; the rest of the text is ignored.
    pub max_tokens: usize,
}

impl Default for Tokeniser {
    /// Unigrams, 128 tokens: the paper's setting for e-mail.
    fn default() -> Self {
        Self { bigrams: false, max_tokens: 128 }
    }
}

impl Tokeniser {
    /// The first [`max_tokens`](Self::max_tokens) tokens of `text`, in order.
    pub fn tokens(&self, text: &str) -> Vec<String> {
        let words =
            text.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| !word.is_empty()).map(str::to_ascii_lowercase);
        let mut tokens = Vec::new();
        let mut previous: Option<String> = None;
        for word in words {
            let pair = match previous {
                Some(previous) if self.bigrams => Some(format!("{previous} {word}")),
                _ => None,
            };
            tokens.push(word.clone());
            tokens.extend(pair);
            if tokens.len() >= self.max_tokens {
                break;
            }
            previous = Some(word);
        }
        tokens.truncate(self.max_tokens);
        tokens
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unigrams(text: &str) -> Vec<String> {
        Tokeniser::default().tokens(text)
    }

    #[test]
    fn splits_at_everything_but_ascii_letters() {
        assert_eq!(unigrams("T&C's apply 08452"), ["t", "c", "s", "apply"]);
        assert_eq!(unigrams("over18's"), ["over", "s"]);
        assert_eq!(unigrams("café au-lait"), ["caf", "au", "lait"]);
        assert_eq!(unigrams("ÄRGER £100 STOP"), ["rger", "stop"]);
    }

    #[test]
    fn text_without_letters_has_no_tokens() {
        assert!(unigrams("").is_empty());
        assert!(unigrams(" 12:34 \u{1F600}\t\n").is_empty());
    }

    #[test]
    fn truncates_to_max_tokens() {
        let long = "a ".repeat(1000);
        assert_eq!(unigrams(&long).len(), 128);
        let tokeniser = Tokeniser { bigrams: true, max_tokens: 4 };
        assert_eq!(tokeniser.tokens("a b c d"), ["a", "b", "a b", "c"]);
    }

    #[test]
    fn bigrams_follow_their_second_word() {
        let tokeniser = Tokeniser { bigrams: true, max_tokens: 128 };
        assert_eq!(tokeniser.tokens("this is good"), ["this", "is", "this is", "good", "is good"]);
        assert_eq!(tokeniser.tokens("one"), ["one"]);
    }
}
