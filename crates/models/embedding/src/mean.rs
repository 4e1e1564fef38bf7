//! Vectors of texts: the mean of the rows of their tokens.

use ndarray::Array2;
use serde::{Deserialize, Serialize};
use unspoken_store::{Dtype, FilePair, ModelFiles};

use crate::error::EmbeddingError;
use crate::table::EmbeddingTable;
use crate::text::TextReader;
use crate::tokens::TokenList;

const PAIR: FilePair = FilePair::new("words", "unspoken-words", 1);
const TENSOR: &str = "rows";

/// Characters of the hash in a name.
const NAME_DIGITS: usize = 16;

/// Contents of `words.json`; the rows are in `words.safetensors`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    width: usize,
    weights_blake3: String,
    tokens: Vec<String>,
}

/// Makes vectors of texts, for search: the mean of the rows of their tokens in one table.
pub struct MeanEmbedder {
    table: EmbeddingTable,
    name: String,
}

impl MeanEmbedder {
    /// The embedder of a table.
    pub fn new(table: EmbeddingTable) -> Self {
        let mut hasher = blake3::Hasher::new();
        table.tokens().as_slice().iter().for_each(|token| {
            hasher.update(&(token.len() as u64).to_le_bytes()).update(token.as_bytes());
        });
        for row in table.values().chunks(table.width()) {
            hasher.update(&bytes_of(row));
        }
        let name = format!("mean of the rows of the table {}", &hasher.finalize().to_hex()[..NAME_DIGITS]);
        MeanEmbedder { table, name }
    }

    /// Identifies the table: vectors of documents and of queries must be of the same one.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Coordinates of a vector.
    pub fn width(&self) -> usize {
        self.table.width()
    }

    /// Vectors with the directions of the means for texts, one in each row: of zeros, if the table has no word of a
    /// text.
    pub fn vectors<S: AsRef<str>>(&self, texts: &[S]) -> Array2<f32> {
        let reader = TextReader::new(self.table.tokens());
        // The mean and the sum have one direction.
        let mut sums = Array2::<f32>::zeros((texts.len(), self.width()));
        for (text, mut sum) in texts.iter().zip(sums.outer_iter_mut()) {
            for row in reader.read(text.as_ref()).ids.iter().filter_map(|&id| self.table.row(id as usize)) {
                sum.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
            }
        }
        sums
    }

    /// The names and the bytes of files with the table, to publish it.
    ///
    /// # Errors
    /// [`EmbeddingError::Store`].
    pub fn to_files(&self) -> Result<Vec<(String, Vec<u8>)>, EmbeddingError> {
        let (tokens, width) = (self.table.tokens().as_slice().to_vec(), self.width());
        let dimensions = vec![tokens.len(), width];
        let weights = PAIR.weights_file(TENSOR, Dtype::F32, dimensions, &bytes_of(self.table.values()))?;
        let weights_blake3 = blake3::hash(&weights.1).to_hex().to_string();
        Ok(vec![PAIR.json_file(&Content { width, weights_blake3, tokens })?, weights])
    }

    /// Whether files have the table of an embedder, of any version of the format.
    pub fn is_in(files: ModelFiles<'_>) -> bool {
        PAIR.is_in(files)
    }

    /// Reads and checks the files of [`Self::to_files`].
    ///
    /// # Errors
    /// Any of [`EmbeddingError`].
    pub fn read(files: ModelFiles<'_>) -> Result<Self, EmbeddingError> {
        let content: Content = PAIR.read_json(files)?;
        let tokens = TokenList::new(content.tokens)?;
        let dimensions = [tokens.len(), content.width];
        let bytes = PAIR.read_weights(files, &content.weights_blake3, TENSOR, Dtype::F32, &dimensions)?;
        let (values, _) = bytes.as_chunks();
        let values = values.iter().map(|&value| f32::from_le_bytes(value)).collect();
        Ok(MeanEmbedder::new(EmbeddingTable::new(tokens, content.width, values)?))
    }
}

fn bytes_of(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn embedder(values: &[f32]) -> MeanEmbedder {
        let tokens = TokenList::new(vec!["sea".into(), "ship".into()]).unwrap();
        MeanEmbedder::new(EmbeddingTable::new(tokens, 2, values.to_vec()).unwrap())
    }

    #[test]
    fn vectors_are_sums_of_rows_and_zero_for_unknown_words() {
        let found = embedder(&[1.0, 0.5, 0.25, -1.0]).vectors(&["sea ship Sea", "mountain"]);
        assert_eq!(found, ndarray::array![[2.25, 0.0], [0.0, 0.0]]);
    }

    #[test]
    fn an_embedder_is_read_from_its_files_with_its_name() {
        let made = embedder(&[1.0, 0.1, 0.25, -1.0]);
        // As `unspoken search build` of earlier versions named it.
        assert_eq!(made.name(), "mean of the rows of the table 3108716e0417e358");
        let mut files: BTreeMap<String, Vec<u8>> = made.to_files().unwrap().into_iter().collect();
        let read = MeanEmbedder::read(ModelFiles::Memory(&files)).unwrap();
        assert_eq!((read.name(), &read.table), (made.name(), &made.table));
        assert_ne!(embedder(&[1.0, 0.1, 0.25, 1.0]).name(), read.name);
        *files.get_mut("words.safetensors").unwrap().last_mut().unwrap() ^= 1;
        let error = MeanEmbedder::read(ModelFiles::Memory(&files)).err().unwrap().to_string();
        assert!(error.contains("words.safetensors"), "{error}");
    }
}
