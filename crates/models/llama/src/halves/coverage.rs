//! The tokens that a preparation has run.

use std::ops::RangeInclusive;
use std::path::Path;

use serde::{Deserialize, Serialize};
use unspoken_store::{ModelFiles, ModelId, StoreError};

use super::read_optional;

/// Name of the file, and its largest size: one range for each other token of a vocabulary of some millions.
const FILE: &str = "coverage.json";
const MAX_BYTES: u64 = 64 << 20;

/// The tokens that calibration has run through the model. Polynomials may be wrong for others: a value that calibration
/// has not seen may leave its interval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Ranges of ids, in rising order, with others between them.
    ranges: Vec<RangeInclusive<u32>>,
}

/// The content of the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    /// The id of both halves of the model.
    id: ModelId,
    /// The first and the last token of each range.
    tokens: Vec<[u32; 2]>,
}

impl Coverage {
    /// The coverage of these tokens.
    pub fn new(tokens: impl IntoIterator<Item = u32>) -> Self {
        let mut tokens: Vec<u32> = tokens.into_iter().collect();
        tokens.sort_unstable();
        let mut ranges: Vec<RangeInclusive<u32>> = Vec::new();
        for token in tokens {
            match ranges.last_mut() {
                Some(range) if token <= range.end().saturating_add(1) => *range = *range.start()..=token,
                _ => ranges.push(token..=token),
            }
        }
        Coverage { ranges }
    }

    /// Whether a token was run.
    pub fn covers(&self, token: u32) -> bool {
        let behind = self.ranges.partition_point(|range| *range.start() <= token);
        behind > 0 && self.ranges[behind - 1].contains(&token)
    }

    /// Number of tokens.
    pub fn len(&self) -> usize {
        self.ranges.iter().map(|range| (range.end() - range.start()) as usize + 1).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Writes `coverage.json` into the directory of a client's half.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(super) fn save(&self, directory: &Path, id: ModelId) -> Result<(), StoreError> {
        let path = directory.join(FILE);
        let bytes = self.to_bytes(id).map_err(StoreError::json(&path))?;
        unspoken_store::write_file(&path, &bytes)
    }

    fn to_bytes(&self, id: ModelId) -> serde_json::Result<Vec<u8>> {
        let tokens = self.ranges.iter().map(|range| [*range.start(), *range.end()]).collect();
        serde_json::to_vec(&Record { id, tokens })
    }

    /// Reads what [`Coverage::save`] wrote; `None` if there is no such file, as in halves of earlier versions.
    ///
    /// # Errors
    /// If the file is damaged, or belongs to another model.
    pub(super) fn read(files: ModelFiles<'_>, id: ModelId) -> Result<Option<Self>, StoreError> {
        let Some(Record { id: found, tokens }) = read_optional(files, FILE, MAX_BYTES)? else { return Ok(None) };
        let path = files.path(FILE);
        let rising = tokens.windows(2).all(|pair| pair[0][1] < pair[1][0]);
        if found != id || !rising || tokens.iter().any(|[first, last]| first > last) {
            let needed = "rising ranges of tokens of this model; prepare the model again";
            return Err(StoreError::tensor(&path, format!("the tokens of model {found}"), needed));
        }
        Ok(Some(Coverage { ranges: tokens.into_iter().map(|[first, last]| first..=last).collect() }))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn tokens_are_covered_that_were_given() {
        let coverage = Coverage::new([9, 3, 4, 4, 5, 7, u32::MAX]);
        assert_eq!(coverage.ranges, [3..=5, 7..=7, 9..=9, u32::MAX..=u32::MAX]);
        assert_eq!(coverage.len(), 6);
        for (token, covered) in [(0, false), (2, false), (3, true), (5, true), (6, false), (7, true), (8, false)] {
            assert_eq!(coverage.covers(token), covered, "{token}");
        }
        assert!(coverage.covers(u32::MAX) && !coverage.covers(u32::MAX - 1));
        assert!(Coverage::new([]).is_empty() && !Coverage::default().covers(0));
    }

    #[test]
    fn a_file_of_another_model_or_with_other_ranges_is_refused() {
        let [id, other] = ["1", "2"].map(|digit| ModelId::try_from(digit.repeat(32)).unwrap());
        let read = |id, bytes: &[u8]| {
            let files = BTreeMap::from([(FILE.to_owned(), bytes.to_vec())]);
            Coverage::read(ModelFiles::Memory(&files), id)
        };
        assert_eq!(Coverage::read(ModelFiles::Memory(&BTreeMap::new()), id).unwrap(), None);
        let coverage = Coverage::new([1, 2, 5]);
        let bytes = coverage.to_bytes(id).unwrap();
        assert_eq!(read(id, &bytes).unwrap(), Some(coverage));
        assert!(read(other, &bytes).unwrap_err().to_string().contains("prepare the model again"));
        for tokens in ["[[3,1]]", "[[1,3],[2,5]]", "[[1,3],[3,5]]", "[[1]]"] {
            let text = format!("{{\"id\":{},\"tokens\":{tokens}}}", serde_json::to_string(&id).unwrap());
            let error = read(id, text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(FILE), "{tokens}: {error}");
        }
    }
}
