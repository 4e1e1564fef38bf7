//! Reader of tables as text: GloVe and word2vec.

use std::path::Path;

use unspoken_files::{TextError, TextLines};
use unspoken_store::StoreError;

use super::file::MAX_VALUES;
use super::rows::Rows;
use super::token_file::TokenNames;
use crate::error::EmbeddingError;
use crate::shape::MAX_WIDTH;

/// Maximum bytes of a line.
const MAX_LINE_BYTES: usize = 1 << 20;

/// Lines of a token and its numbers, at most `most` rows. The first line may have the number of rows and their width
/// instead.
pub(super) fn read(path: &Path, most: usize) -> Result<Rows, EmbeddingError> {
    let failed = StoreError::io("read", path);
    let needed = format!("a token and 1 to {MAX_WIDTH} numbers in UTF-8, as many in each line");
    let mut lines = TextLines::open(path, MAX_LINE_BYTES).map_err(failed)?;
    let (mut names, mut values) = (Vec::new(), Vec::new());
    let (mut width, mut stated) = (0, None);
    while names.len() < most {
        let number = lines.number() + 1;
        let refuse = |found: String| EmbeddingError::array(path, format!("{found} in line {number}"), &needed);
        let line = lines.next_line().map_err(|error| match error {
            TextError::NotUtf8 { .. } => refuse("other bytes than UTF-8".into()),
            TextError::TooLong { most, .. } => refuse(format!("more than {most} bytes")),
            other => failed(other.into()).into(),
        })?;
        let Some(line) = line else { break };
        let line = line.trim_end_matches(['\r', ' ']);
        if let Some((rows, columns)) = header(line).filter(|_| number == 1) {
            if !(1..=MAX_WIDTH).contains(&columns) {
                return Err(refuse(format!("rows of {columns} numbers")));
            }
            (stated, width) = (Some(rows), columns);
            continue;
        }
        if line.is_empty() {
            continue;
        }
        if width == 0 {
            width = line.split(' ').count() - 1;
        }
        let (token, numbers) = split(line, width).map_err(refuse)?;
        if values.len() + width > MAX_VALUES {
            return Err(refuse("more than 2^31 numbers".into()));
        }
        names.push(token.to_owned());
        values.extend(numbers);
    }
    if let Some(rows) = stated.filter(|rows| names.len() != most.min(*rows)) {
        let found = format!("{} rows", names.len());
        let needed = format!("{rows}, as the first line states: a part of the file may be missing");
        return Err(EmbeddingError::array(path, found, needed));
    }
    Ok(Rows { tokens: TokenNames::of_vocabulary(names), width, values })
}

/// The number of rows and their width, if a line has these instead of a row.
fn header(line: &str) -> Option<(usize, usize)> {
    let (rows, width) = line.split_once(' ')?;
    Some((rows.parse::<u32>().ok()? as usize, width.parse::<u32>().ok()? as usize))
}

/// The token and the numbers of a line: a token may contain spaces, so the last `width` fields are the numbers.
fn split(line: &str, width: usize) -> Result<(&str, Vec<f32>), String> {
    let mut fields = line.rsplitn(width + 1, ' ');
    let numbers: Option<Vec<f32>> = fields.by_ref().take(width).map(|field| field.parse().ok()).collect();
    match (fields.next(), numbers) {
        (Some(token), Some(mut numbers)) if width > 0 => {
            numbers.reverse();
            Ok((token, numbers))
        }
        (Some(_), None) => Err(format!("fields that are no numbers among the last {width}")),
        _ => Err(format!("fewer than {} fields", width.max(1) + 1)),
    }
}
