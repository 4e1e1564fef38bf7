//! Texts of a model, from which clients guess how other texts go on.

use std::cmp::Ordering;
use std::path::Path;

use serde::{Deserialize, Serialize};
use unspoken_store::{ModelFiles, ModelId, StoreError};

use super::read_optional;

/// Name of the file, and its largest size.
const FILE: &str = "drafts.json";
const MAX_BYTES: u64 = 16 << 20;

/// Most tokens of all texts.
const MAX_TOKENS: usize = 1 << 20;

/// Longest run of tokens that is looked up.
const LONGEST: usize = 8;

/// Most places of a run that are counted.
const MOST_FOLLOWERS: usize = 1 << 12;

/// Follows each text. It is no token.
const END: u32 = u32::MAX;

/// Texts that a model told, with an index: how they go on after the last tokens of another text. A client fills chunks
/// with what it guesses; right guesses save passes.
///
/// The lookup is the n-gram model with back-off to shorter runs that speculative decoding uses as its smallest draft
/// model (Saxena, "Prompt Lookup Decoding", 2023, looks up in the prompt alone).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DraftTexts {
    /// All texts, each with [`END`] after it.
    tokens: Vec<u32>,
    /// The places of tokens that follow another one, in the order of the tokens before them, the last one first.
    order: Vec<u32>,
}

/// The content of the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    /// The id of both halves of the model.
    id: ModelId,
    texts: Vec<Vec<u32>>,
}

impl DraftTexts {
    /// Texts as tokens.
    ///
    /// # Errors
    /// What was found and what is needed, if a token is outside the vocabulary or the texts are too long.
    pub fn new(texts: &[Vec<u32>], vocabulary: usize) -> Result<Self, (String, String)> {
        let count = texts.iter().map(|text| text.len() + 1).sum::<usize>();
        if count > MAX_TOKENS {
            return Err((format!("{count} tokens of texts"), format!("at most {MAX_TOKENS}")));
        }
        if let Some(token) = texts.iter().flatten().find(|token| **token as usize >= vocabulary) {
            return Err((format!("token {token} in a text"), format!("tokens below {vocabulary}")));
        }
        let tokens: Vec<u32> = texts.iter().flat_map(|text| text.iter().copied().chain([END])).collect();
        let follows = |place: &u32| tokens[*place as usize] != END && tokens[*place as usize - 1] != END;
        let mut order: Vec<u32> = (1..tokens.len() as u32).filter(follows).collect();
        order.sort_by(|a, b| before(&tokens, *a).cmp(before(&tokens, *b)));
        Ok(DraftTexts { tokens, order })
    }

    /// The token that most often follows the longest run of tokens at the end of a text that these texts have, and the
    /// length of the run, at most 8. Of equally frequent tokens the smallest.
    pub fn next(&self, text: &[u32]) -> Option<(u32, usize)> {
        let mut run = &self.order[..];
        let mut length = 0;
        for token in text.iter().rev().take(LONGEST) {
            let at = |place: &u32| before(&self.tokens, *place).nth(length);
            let first = run.partition_point(|place| at(place).cmp(&Some(*token)) == Ordering::Less);
            let end = run.partition_point(|place| at(place).cmp(&Some(*token)) != Ordering::Greater);
            if first == end {
                break;
            }
            run = &run[first..end];
            length += 1;
        }
        if length == 0 {
            return None;
        }
        // Enough to see which one is frequent.
        let run = &run[..run.len().min(MOST_FOLLOWERS)];
        let mut next: Vec<u32> = run.iter().map(|place| self.tokens[*place as usize]).collect();
        next.sort_unstable();
        let most = next.chunk_by(|a, b| a == b).rev().max_by_key(|same| same.len())?;
        Some((most[0], length))
    }

    /// Writes `drafts.json` into the directory of a client's half.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(super) fn save(&self, directory: &Path, id: ModelId) -> Result<(), StoreError> {
        let path = directory.join(FILE);
        let texts = self.tokens.split_inclusive(|token| *token == END);
        let texts = texts.map(|text| text[..text.len() - 1].to_vec()).collect();
        let bytes = serde_json::to_vec(&Record { id, texts }).map_err(StoreError::json(&path))?;
        unspoken_store::write_file(&path, &bytes)
    }

    /// Reads what [`DraftTexts::save`] wrote; `None` if there is no such file, as in halves of earlier versions.
    ///
    /// # Errors
    /// If the file is damaged or belongs to another model.
    pub(super) fn read(
        files: ModelFiles<'_>,
        id: ModelId,
        vocabulary: usize,
    ) -> Result<Option<DraftTexts>, StoreError> {
        let Some(Record { id: found, texts }) = read_optional(files, FILE, MAX_BYTES)? else { return Ok(None) };
        let path = files.path(FILE);
        if found != id {
            let needed = format!("those of model {id}; prepare the model again");
            return Err(StoreError::tensor(&path, format!("the texts of model {found}"), needed));
        }
        let texts = DraftTexts::new(&texts, vocabulary);
        texts.map(Some).map_err(|(found, needed)| StoreError::tensor(&path, found, needed))
    }
}

/// The tokens before a place, the last one first, within its text. They are compared up to the longest run.
fn before(tokens: &[u32], place: u32) -> impl Iterator<Item = u32> + '_ {
    tokens[..place as usize].iter().rev().copied().take_while(|token| *token != END).take(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_run_decides_and_then_the_most_frequent_token() {
        let texts = [vec![1, 2, 3, 4], vec![5, 2, 3, 6], vec![7, 2, 3, 6], vec![9]];
        let texts = DraftTexts::new(&texts, 10).unwrap();
        assert_eq!(texts.next(&[1, 2, 3]), Some((4, 3)));
        assert_eq!(texts.next(&[8, 2, 3]), Some((6, 2)));
        assert_eq!(texts.next(&[3, 3]), Some((6, 1)));
        // The first text ends after 4; nothing follows 9, and nothing has 0.
        for end in [4, 9, 0] {
            assert_eq!(texts.next(&[2, end]), None);
        }
        assert_eq!(texts.next(&[]), None);
        let none = DraftTexts::new(&[], 10).unwrap();
        assert_eq!(none.next(&[1]), None);
        assert!(DraftTexts::new(&[vec![10]], 10).is_err());
        // Runs longer than the longest one are alike.
        let long: Vec<u32> = (0..9).collect();
        let texts = DraftTexts::new(&[[&[1], &long[..8], &[3]].concat(), [&[2], &long[..8], &[3]].concat()], 10);
        assert_eq!(texts.unwrap().next(&[&[9], &long[..8]].concat()), Some((3, 8)));
    }
}
