//! Reader of lists of tokens.

use std::collections::HashMap;
use std::path::Path;

use serde::Deserialize;

use super::{MAX_TOKEN_FILE_BYTES, read_all};
use crate::error::TableError;
use crate::tokens::TokenList;

/// The part of a `tokenizer.json` that contains the tokens; the rest is ignored.
#[derive(Deserialize)]
struct TokeniserFile {
    model: TokeniserModel,
}

#[derive(Deserialize)]
struct TokeniserModel {
    vocab: HashMap<String, usize>,
}

/// Reads a list of tokens: JSON if the file's name ends in `.json`, otherwise one token per line.
pub(super) fn read(path: &Path) -> Result<TokenList, TableError> {
    let bytes = read_all(path, MAX_TOKEN_FILE_BYTES)?;
    let json = path.extension().is_some_and(|extension| extension == "json");
    TokenList::new(if json { from_json(path, &bytes)? } else { from_lines(path, bytes)? })
}

fn from_lines(path: &Path, bytes: Vec<u8>) -> Result<Vec<String>, TableError> {
    let text = String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
        let found = format!("bytes that are not UTF-8 in line {line}");
        TableError::TokenFile { path: path.to_owned(), found, needed: "one token a line, in UTF-8".into() }
    })?;
    // Only a line feed ends a line: tokens may contain other white space.
    let text = text.strip_suffix('\n').unwrap_or(&text);
    Ok(text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line).to_owned()).collect())
}

fn from_json(path: &Path, bytes: &[u8]) -> Result<Vec<String>, TableError> {
    let refuse = |found: String| TableError::TokenFile {
        path: path.to_owned(),
        found,
        needed: "a tokenizer.json whose model.vocab gives the ids 0, 1, 2, .. one token each".into(),
    };
    let file: TokeniserFile = serde_json::from_slice(bytes).map_err(|error| refuse(error.to_string()))?;
    let mut by_id: Vec<(usize, String)> = file.model.vocab.into_iter().map(|(token, id)| (id, token)).collect();
    by_id.sort_unstable();
    if let Some((row, (id, _))) = by_id.iter().enumerate().find(|(row, (id, _))| row != id) {
        return Err(refuse(format!("id {id} where {row} should follow")));
    }
    Ok(by_id.into_iter().map(|(_, token)| token).collect())
}
