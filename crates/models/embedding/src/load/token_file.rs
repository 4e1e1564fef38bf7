//! Reader of lists of tokens.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use serde::Deserialize;
use unspoken_files::{BYTE_ORDER_MARK, TextError, TextLines};
use unspoken_store::read_file;

use super::file::MAX_TOKEN_FILE_BYTES;
use crate::error::EmbeddingError;

/// The part of a `tokenizer.json` that contains the tokens; the rest is ignored.
#[derive(Deserialize)]
struct TokeniserFile {
    model: TokeniserModel,
    #[serde(default)]
    added_tokens: Vec<AddedToken>,
}

#[derive(Deserialize)]
struct TokeniserModel {
    vocab: Vocabulary,
}

/// Tokens with their ids; or tokens in the order of their ids, with scores (Unigram).
#[derive(Deserialize)]
#[serde(untagged)]
enum Vocabulary {
    ById(HashMap<String, usize>),
    InOrder(Vec<(String, f64)>),
}

#[derive(Deserialize)]
struct AddedToken {
    id: usize,
    content: String,
}

/// The tokens of a list, and how many of them a table must have.
pub(super) struct TokenNames {
    pub(super) names: Vec<String>,
    /// Number of tokens of the vocabulary. Later tokens were added: a table may lack their rows.
    vocabulary: usize,
}

impl TokenNames {
    /// Tokens that all have a row.
    pub(super) fn of_vocabulary(names: Vec<String>) -> Self {
        TokenNames { vocabulary: names.len(), names }
    }

    /// Keeps the first `count`.
    pub(super) fn truncate(&mut self, count: usize) {
        self.names.truncate(count);
        self.vocabulary = self.vocabulary.min(count);
    }

    /// Leaves out added tokens that are not among the first `rows`.
    pub(super) fn drop_added_from(&mut self, rows: usize) {
        self.names.truncate(rows.max(self.vocabulary));
    }
}

/// Reads a list of tokens: JSON if the file's name ends in `.json`, otherwise one token per line.
pub(super) fn read(path: &Path) -> Result<TokenNames, EmbeddingError> {
    let bytes = read_file(path, "a list of tokens", MAX_TOKEN_FILE_BYTES)?;
    match path.extension().is_some_and(|extension| extension == "json") {
        true => from_json(path, &bytes),
        false => Ok(TokenNames::of_vocabulary(from_lines(path, &bytes)?)),
    }
}

fn from_lines(path: &Path, bytes: &[u8]) -> Result<Vec<String>, EmbeddingError> {
    TextLines::new(bytes, bytes.len()).collect().map_err(|error| {
        let found = match error {
            TextError::NotUtf8 { line } => format!("bytes that are not UTF-8 in line {line}"),
            other => other.to_string(),
        };
        EmbeddingError::token_file(path, found, "one token a line, in UTF-8")
    })
}

fn from_json(path: &Path, bytes: &[u8]) -> Result<TokenNames, EmbeddingError> {
    let needed = "a tokenizer.json whose model.vocab and added_tokens give the ids 0, 1, 2, .. one token each";
    let refuse = |found: String| EmbeddingError::token_file(path, found, needed);
    let bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
    let file: TokeniserFile = serde_json::from_slice(bytes).map_err(|error| refuse(error.to_string()))?;
    let mut by_id: Vec<(usize, String)> = match file.model.vocab {
        Vocabulary::ById(vocabulary) => vocabulary.into_iter().map(|(token, id)| (id, token)).collect(),
        Vocabulary::InOrder(vocabulary) => vocabulary.into_iter().map(|(token, _)| token).enumerate().collect(),
    };
    let vocabulary = by_id.iter().map(|(id, _)| id + 1).max().unwrap_or(0);
    // Most added tokens are in the vocabulary already.
    let known: HashSet<usize> = by_id.iter().map(|(id, _)| *id).collect();
    let added = file.added_tokens.into_iter().filter(|added| !known.contains(&added.id));
    by_id.extend(added.map(|added| (added.id, added.content)));
    by_id.sort_unstable();
    if let Some((row, (id, _))) = by_id.iter().enumerate().find(|(row, (id, _))| row != id) {
        return Err(refuse(format!("id {id} where {row} should follow")));
    }
    Ok(TokenNames { names: by_id.into_iter().map(|(_, token)| token).collect(), vocabulary })
}
