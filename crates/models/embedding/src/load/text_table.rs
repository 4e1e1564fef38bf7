//! Reader of tables as text: GloVe and word2vec.

use std::io::{BufRead, BufReader};
use std::path::Path;

use super::token_file::TokenNames;
use super::{MAX_VALUES, Rows, open};
use crate::error::TableError;
use crate::shape::MAX_WIDTH;

/// Maximum bytes of a line.
const MAX_LINE_BYTES: usize = 1 << 20;

/// Lines of a token and its numbers. The first line may have the number of rows and their width instead.
pub(super) fn read(path: &Path) -> Result<Rows, TableError> {
    let (file, _) = open(path)?;
    let mut reader = BufReader::new(file);
    let (mut names, mut values, mut width) = (Vec::new(), Vec::new(), 0);
    let mut bytes = Vec::new();
    for number in 1.. {
        let refuse = |found: String| TableError::Array {
            path: path.to_owned(),
            found: format!("{found} in line {number}"),
            needed: format!("a token and 1 to {MAX_WIDTH} numbers in UTF-8, as many in each line"),
        };
        bytes.clear();
        let limited = &mut std::io::Read::take(&mut reader, MAX_LINE_BYTES as u64);
        limited.read_until(b'\n', &mut bytes).map_err(|source| TableError::Io { path: path.to_owned(), source })?;
        if bytes.is_empty() {
            break;
        }
        let line = std::str::from_utf8(&bytes).map_err(|_| refuse("other bytes than UTF-8".into()))?;
        let line = line.trim_end_matches(['\r', '\n', ' ']).trim_start_matches('\u{feff}');
        if number == 1 && is_header(line) || line.is_empty() {
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
    Ok(Rows { tokens: TokenNames::of_vocabulary(names), width, values })
}

/// Whether a line has the dimensions of a table instead of a row.
fn is_header(line: &str) -> bool {
    line.split(' ').count() == 2 && line.split(' ').all(|field| field.parse::<u32>().is_ok())
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
