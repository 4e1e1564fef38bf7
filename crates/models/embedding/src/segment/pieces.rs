//! How the tokens of a table are pieces of words.

use crate::tokens::TokenList;

/// Marks a token that continues a word (WordPiece).
const CONTINUES: &str = "##";
/// Marks a token that begins a word, in byte-level BPE and in SentencePiece.
const BEGINS: [(&str, bool); 2] = [("\u{120}", true), ("\u{2581}", false)];
/// One in this number of tokens must begin a word for the mark to count: a table of words may have the character by
/// itself.
const MARKED_SHARE: usize = 10;
/// Maximum length of a word in characters that is split into pieces; longer words are unknown, as in BERT.
pub(super) const LONGEST_WORD: usize = 100;

/// How tokens are pieces of words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pieces {
    /// Tokens are whole words.
    None,
    /// Tokens that continue a word begin with `##`.
    Continuing,
    /// Tokens that begin a word have a mark in front, `Ġ` or `▁`. With `Ġ`, characters stand for bytes.
    Beginning {
        /// The mark.
        mark: &'static str,
        /// Whether each character of a token stands for a byte.
        bytes: bool,
    },
}

impl Pieces {
    /// The kind of a list, by the marks of its tokens.
    pub(super) fn of(tokens: &TokenList) -> Self {
        let tokens = tokens.as_slice();
        for (mark, bytes) in BEGINS {
            let marked = tokens.iter().filter(|token| token.len() > mark.len() && token.starts_with(mark)).count();
            if marked > 0 && marked * MARKED_SHARE >= tokens.len() {
                return Pieces::Beginning { mark, bytes };
            }
        }
        match tokens.iter().any(|token| token.len() > CONTINUES.len() && token.starts_with(CONTINUES)) {
            true => Pieces::Continuing,
            false => Pieces::None,
        }
    }

    /// The token of a whole word.
    pub(super) fn whole(self, tokens: &TokenList, word: &str, begins: bool) -> Option<usize> {
        match self {
            Pieces::Beginning { mark, bytes } => {
                let word = if bytes { byte_characters(word) } else { word.to_owned() };
                let marked = begins.then(|| tokens.row(&format!("{mark}{word}"))).flatten();
                marked.or_else(|| tokens.row(&word))
            }
            Pieces::None | Pieces::Continuing => tokens.row(word),
        }
    }

    /// The longest pieces of a word, from the left; `None` if they do not cover it.
    pub(super) fn split(self, tokens: &TokenList, word: &str, begins: bool) -> Option<Vec<usize>> {
        if word.chars().count() > LONGEST_WORD {
            return None;
        }
        match self {
            Pieces::None => None,
            Pieces::Continuing => longest(tokens, word, CONTINUES),
            Pieces::Beginning { mark, bytes } => {
                let word = if bytes { byte_characters(word) } else { word.to_owned() };
                let marked = begins.then(|| longest(tokens, &format!("{mark}{word}"), "")).flatten();
                marked.or_else(|| longest(tokens, &word, ""))
            }
        }
    }

    /// Whether a token is one of the model's own signs, which no text contains: the row for unknown tokens, the ends
    /// of a text, a piece that continues a word.
    pub(super) fn is_sign(self, token: &str) -> bool {
        let enclosed = |open, close| token.starts_with(open) && token.ends_with(close);
        enclosed('<', '>') || enclosed('[', ']') || self == Pieces::Continuing && token.starts_with(CONTINUES)
    }
}

/// The longest tokens from the left, with `next` in front of all but the first.
fn longest(tokens: &TokenList, word: &str, next: &str) -> Option<Vec<usize>> {
    let mut ids = Vec::new();
    let mut rest = word;
    while !rest.is_empty() {
        let prefix = if ids.is_empty() { "" } else { next };
        let ends = rest.char_indices().map(|(at, c)| at + c.len_utf8()).rev();
        let (end, id) = ends.filter_map(|end| Some((end, tokens.row(&format!("{prefix}{}", &rest[..end]))?))).next()?;
        ids.push(id);
        rest = &rest[end..];
    }
    Some(ids)
}

/// The bytes of a text as the characters with which GPT-2 writes them: visible characters of Latin-1 stand for
/// themselves, the other bytes, in order, for the characters from U+0100.
fn byte_characters(text: &str) -> String {
    let visible = |byte: u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let character = |byte: u8| match visible(byte) {
        true => char::from(byte),
        false => {
            let before = (0..byte).filter(|&other| !visible(other)).count() as u32;
            char::from_u32(0x100 + before).unwrap_or(char::REPLACEMENT_CHARACTER)
        }
    };
    text.bytes().map(character).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_written_as_gpt_2_writes_them() {
        assert_eq!(byte_characters(" é"), "\u{120}Ã©");
        assert_eq!(byte_characters("\n\u{7f}\u{a0}"), "\u{10a}\u{121}Âł");
        assert_eq!(byte_characters("\u{ad}"), "ÂŃ");
    }
}
