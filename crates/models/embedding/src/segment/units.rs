//! Words and other characters of a text.

use unicode_normalization::char::is_combining_mark;
use unicode_properties::{GeneralCategoryGroup, UnicodeGeneralCategory};

/// Joiners of letters and of emoji: zero-width non-joiner and joiner.
pub(super) const JOINERS: [char; 2] = ['\u{200c}', '\u{200d}'];

/// The units of a text without white space: words, ideographs, and other characters, each with the marks and joiners
/// after it.
pub(super) fn units(chunk: &str) -> Vec<&str> {
    let mut units = Vec::new();
    let mut rest = chunk;
    while let Some(first) = rest.chars().next() {
        let inside = |c: char| continues(c) || is_of_word(first) && is_of_word(c);
        let end = rest.char_indices().skip(1).find(|&(_, c)| !inside(c)).map_or(rest.len(), |(at, _)| at);
        let (unit, tail) = rest.split_at(end);
        units.push(unit);
        rest = tail;
    }
    units
}

/// Whether a character belongs to the character before it.
fn continues(c: char) -> bool {
    is_combining_mark(c) || JOINERS.contains(&c)
}

/// Whether a character is a letter or a digit that forms words with others: all but ideographs, of which each is a
/// word.
fn is_of_word(c: char) -> bool {
    let group = c.general_category_group();
    matches!(group, GeneralCategoryGroup::Letter | GeneralCategoryGroup::Number) && !is_ideograph(c)
}

/// Whether a character is an ideograph of Chinese, in the ranges that BERT separates.
fn is_ideograph(c: char) -> bool {
    matches!(c, '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{2fa1f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn punctuation_separates_words() {
        assert_eq!(units("It's"), ["It", "'", "s"]);
        assert_eq!(units("2nd-rate,"), ["2nd", "-", "rate", ","]);
        assert!(units("").is_empty());
    }

    #[test]
    fn marks_and_joiners_stay_with_what_they_follow() {
        for word in ["नमस्ते", "می\u{200c}خواهم", "cafe\u{301}", "สวัสดี", "שָׁלוֹם", "caf\u{e9}"]
        {
            assert_eq!(units(word), [word]);
        }
        assert_eq!(units("\u{2764}\u{fe0f}!"), ["\u{2764}\u{fe0f}", "!"]);
        assert_eq!(units("\u{301}a"), ["\u{301}", "a"]);
    }

    #[test]
    fn each_ideograph_is_a_unit() {
        assert_eq!(units("2024年北京カタカナ"), ["2024", "年", "北", "京", "カタカナ"]);
    }
}
