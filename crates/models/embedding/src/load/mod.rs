//! Readers of embedding tables in published formats.

mod file;
mod npy;
mod rows;
mod tensor;
mod text_table;
mod token_file;

use std::path::{Path, PathBuf};

use ndarray::Array2;

use crate::error::EmbeddingError;
use crate::load::rows::Rows;
use crate::table::EmbeddingTable;

/// Reads vectors, one in each row, from a NumPy file (`.npy`) or a safetensors file, of floating-point numbers as in
/// [`Source`]. `tensor` names the tensor of a safetensors file, and may be left out if there is only one.
///
/// # Errors
/// If the file cannot be read, is another one, or its array has not two dimensions.
pub fn read_vectors(path: &Path, tensor: Option<&str>) -> Result<Array2<f32>, EmbeddingError> {
    let (width, values) = match path.extension().and_then(|extension| extension.to_str()) {
        Some("npy") => npy::read(path)?,
        Some("safetensors") => tensor::read(path, tensor)?,
        _ => return Err(EmbeddingError::array(path, "another ending", ".npy or .safetensors")),
    };
    let rows = values.len() / width.max(1);
    Array2::from_shape_vec((rows, width), values)
        .map_err(|error| EmbeddingError::array(path, error.to_string(), "rows of one width"))
}

/// The files of an embedding table.
///
/// The list of tokens is either text, one token a line (`tokens.txt`, `vocab.txt`), or a `tokenizer.json` whose model
/// has a vocabulary (WordPiece, BPE, Unigram). Tokens that were added to a vocabulary may have no row. Numbers are
/// `f16`, `bf16` (safetensors only), `f32` or `f64`, and become `f32`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A NumPy file of shape `[tokens, width]`, in C or Fortran order.
    Npy {
        /// The array.
        table: PathBuf,
        /// The list of tokens.
        tokens: PathBuf,
    },
    /// One tensor of shape `[tokens, width]` of a safetensors file.
    Safetensors {
        /// The file.
        table: PathBuf,
        /// The tensor's name.
        tensor: String,
        /// The list of tokens.
        tokens: PathBuf,
    },
    /// Lines of a token and its numbers, separated by spaces, as GloVe and word2vec write them: with a first line of
    /// the two dimensions, which must be right, or without.
    Text {
        /// The file.
        table: PathBuf,
    },
}

impl Source {
    /// Reads and checks the table.
    ///
    /// # Errors
    /// Any of [`EmbeddingError`].
    pub fn read(&self) -> Result<EmbeddingTable, EmbeddingError> {
        self.rows(usize::MAX)?.joined()
    }

    /// Reads and checks the first `count` rows of the table, or all if there are fewer. Later rows and tokens, such as
    /// rows that pad a table, are not looked at.
    ///
    /// # Errors
    /// Any of [`EmbeddingError`].
    pub fn read_first(&self, count: usize) -> Result<EmbeddingTable, EmbeddingError> {
        let mut rows = self.rows(count)?;
        rows.tokens.truncate(count);
        rows.values.truncate(count.saturating_mul(rows.width));
        rows.joined()
    }

    /// The rows. Of a table of text, no more than `most` are read.
    fn rows(&self, most: usize) -> Result<Rows, EmbeddingError> {
        let (tokens, (width, values)) = match self {
            Source::Npy { table, tokens } => (tokens, npy::read(table)?),
            Source::Safetensors { table, tensor, tokens } => (tokens, tensor::read(table, Some(tensor))?),
            Source::Text { table } => return text_table::read(table, most),
        };
        Ok(Rows { tokens: token_file::read(tokens)?, width, values })
    }
}
