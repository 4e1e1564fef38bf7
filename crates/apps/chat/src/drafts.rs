//! Drafts: guesses of the tokens that follow.
//!
//! A chunk with free places costs as much as a full one. So the client fills the free places with drafts, which are
//! guesses of the next tokens. In the answer, the most likely token after the last known token is new. If it equals the
//! draft that was sent, the most likely token after this draft is new too, and so on. Then the chunk runs again with
//! the new tokens, or the next chunk begins.

use unspoken_llama_model::DraftTexts;
use zeroize::Zeroizing;

/// Longest run of last tokens that is looked up in the text.
const LONGEST: usize = 16;

/// Shortest run that is looked up; single tokens are looked up in the table of pairs.
const SHORTEST: usize = 2;

/// Guesses the next tokens of a text from the text itself, and from other texts of the model. It looks for the longest
/// run of tokens at the end of the text that also occurs earlier, and takes what followed the most recent occurrence.
/// If the other texts have a longer run, it takes what follows most often there. If there is no such run at all, it
/// takes the token that has followed the last token most often; if none has, the last token again.
///
/// A wrong guess costs nothing: the chunk is sent full in any case.
#[derive(Clone, Debug, Default)]
pub struct Drafts;

impl Drafts {
    /// `count` guesses after a text.
    pub fn guess(text: &[u32], count: usize, others: Option<&DraftTexts>) -> Zeroizing<Vec<u32>> {
        // Grows within its capacity, so that no copy stays in memory.
        let mut all = Zeroizing::new(Vec::with_capacity(text.len() + count));
        all.extend_from_slice(text);
        for _ in 0..count {
            let next = next(&all, others);
            all.push(next);
        }
        Zeroizing::new(all[text.len()..].to_vec())
    }
}

fn next(text: &[u32], others: Option<&DraftTexts>) -> u32 {
    let Some(&last) = text.last() else { return 0 };
    let own = after_longest_run(text);
    let other = others.and_then(|texts| texts.next(text));
    match (own, other) {
        (Some((own, token)), Some((_, other))) if own >= other => token,
        (_, Some((token, _))) | (Some((_, token)), None) => token,
        (None, None) => most_frequent(text, last).unwrap_or(last),
    }
}

/// The longest run of tokens at the end of the text that also occurs before: its length, and the token after its most
/// recent occurrence.
fn after_longest_run(text: &[u32]) -> Option<(usize, u32)> {
    let mut best: Option<(usize, u32)> = None;
    // Occurrences end before the last token; later ones replace earlier ones of the same length.
    for end in SHORTEST..text.len() {
        let same = text[..end].iter().rev().zip(text.iter().rev()).take(LONGEST).take_while(|(a, b)| a == b).count();
        if same >= SHORTEST && best.is_none_or(|(longest, _)| same >= longest) {
            best = Some((same, text[end]));
        }
    }
    best
}

/// The token that followed `token` most often. Of equally frequent tokens, the one that followed it last.
fn most_frequent(text: &[u32], token: u32) -> Option<u32> {
    let followers = || text.windows(2).filter(|pair| pair[0] == token).map(|pair| pair[1]);
    let count = |follower: u32| followers().filter(|other| *other == follower).count();
    // Counted anew for each, so that the text has no copies in tables. The last of equal ones is the maximum.
    followers().max_by_key(|follower| count(*follower))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guess(text: &[u32], count: usize) -> Vec<u32> {
        Drafts::guess(text, count, None).to_vec()
    }

    #[test]
    fn the_longest_run_decides() {
        // 2 3 was followed by 4 and, with 1 in front of it, by 5.
        assert_eq!(guess(&[1, 2, 3, 5, 9, 2, 3, 4, 1, 2, 3], 3), [5, 9, 2]);
        // Of equal runs the most recent.
        assert_eq!(guess(&[2, 3, 5, 9, 2, 3, 4, 8, 2, 3], 2), [4, 8]);
        // A run may overlap itself.
        assert_eq!(guess(&[7, 7, 7, 7], 3), [7, 7, 7]);
        assert_eq!(guess(&[1, 2, 1, 2, 1], 4), [2, 1, 2, 1]);
    }

    #[test]
    fn pairs_are_counted_where_no_run_occurs() {
        assert_eq!(guess(&[4, 5, 4, 6, 4, 5, 9, 4], 1), [5]);
        assert_eq!(guess(&[4, 5, 4, 6, 9, 4], 1), [6], "the last of equally frequent ones");
        assert_eq!(guess(&[1, 2, 3], 4), [3; 4]);
        assert_eq!(guess(&[], 2), [0, 0]);
        assert!(guess(&[1, 2], 0).is_empty());
    }

    #[test]
    fn other_texts_decide_with_longer_runs() {
        let texts = DraftTexts::new(&[vec![1, 2, 3, 4, 5], vec![8, 9, 7]], 10).unwrap();
        let guess = |text: &[u32], count| Drafts::guess(text, count, Some(&texts)).to_vec();
        // The text itself has 2 3 once more, and the other text 1 2 3.
        assert_eq!(guess(&[2, 3, 6, 1, 2, 3], 2), [4, 5]);
        assert_eq!(guess(&[1, 2, 3, 6, 1, 2, 3], 1), [6], "of equal runs that of the text itself");
        assert_eq!(guess(&[0, 8], 2), [9, 7]);
        // What no text has is repeated.
        assert_eq!(guess(&[0, 6], 2), [6, 6]);
    }
}
