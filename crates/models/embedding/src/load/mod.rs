//! Readers of embedding tables in published formats.

mod npy;
mod tensor;
mod text_table;
mod token_file;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::error::TableError;
use crate::table::EmbeddingTable;
use crate::tokens::TokenList;
use token_file::TokenNames;

/// Maximum bytes of a file: a table of 2^31 numbers and additional data.
const MAX_FILE_BYTES: u64 = 16 << 30;
/// Maximum bytes of a list of tokens.
const MAX_TOKEN_FILE_BYTES: u64 = 256 << 20;
/// Maximum numbers of a table.
const MAX_VALUES: usize = 1 << 31;

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

/// Rows as they were read, before tokens and rows are compared.
struct Rows {
    tokens: TokenNames,
    width: usize,
    /// Rows x width.
    values: Vec<f32>,
}

impl Source {
    /// Reads and checks the table.
    ///
    /// # Errors
    /// Any of [`TableError`].
    pub fn read(&self) -> Result<EmbeddingTable, TableError> {
        self.rows(usize::MAX)?.joined()
    }

    /// Reads and checks the first `count` rows of the table, or all if there are fewer. Later rows and tokens, such as
    /// rows that pad a table, are not looked at.
    ///
    /// # Errors
    /// Any of [`TableError`].
    pub fn read_first(&self, count: usize) -> Result<EmbeddingTable, TableError> {
        let mut rows = self.rows(count)?;
        rows.tokens.truncate(count);
        rows.values.truncate(count.saturating_mul(rows.width));
        rows.joined()
    }

    /// The rows. Of a table of text, no more than `most` are read.
    fn rows(&self, most: usize) -> Result<Rows, TableError> {
        let (tokens, (width, values)) = match self {
            Source::Npy { table, tokens } => (tokens, npy::read(table)?),
            Source::Safetensors { table, tensor, tokens } => (tokens, tensor::read(table, tensor)?),
            Source::Text { table } => return text_table::read(table, most),
        };
        Ok(Rows { tokens: token_file::read(tokens)?, width, values })
    }
}

impl Rows {
    /// The table. Added tokens without a row are left out.
    fn joined(mut self) -> Result<EmbeddingTable, TableError> {
        let rows = self.values.len() / self.width.max(1);
        self.tokens.drop_added_from(rows);
        EmbeddingTable::new(TokenList::new(self.tokens.names)?, self.width, self.values)
    }
}

/// The width of an array of this shape, after checking that its values, of `each` bytes each, need at most `bytes`
/// bytes.
fn width_of(path: &Path, shape: &[u64], each: u64, bytes: u64) -> Result<usize, TableError> {
    let refuse = |needed: &str| TableError::Array {
        path: path.to_owned(),
        found: format!("shape {shape:?}"),
        needed: needed.into(),
    };
    let [rows, width] = *shape else {
        return Err(refuse("two dimensions, tokens and width"));
    };
    let count = rows.checked_mul(width).filter(|&count| count <= MAX_VALUES as u64);
    match count.and_then(|count| count.checked_mul(each)) {
        None => Err(refuse("at most 2^31 values")),
        Some(needed) if needed > bytes => Err(refuse("no more values than the file has bytes for")),
        Some(_) => Ok(width as usize),
    }
}

/// Opens a file and returns its length.
fn open(path: &Path) -> Result<(File, u64), TableError> {
    let failed = |source| TableError::Io { path: path.to_owned(), source };
    let file = File::open(path).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    Ok((file, length))
}

/// Reads a file of at most `most` bytes.
fn read_all(path: &Path, most: u64) -> Result<Vec<u8>, TableError> {
    let failed = |source| TableError::Io { path: path.to_owned(), source };
    let (file, _) = open(path)?;
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > most {
        let found = format!("more than {most} bytes");
        return Err(TableError::Array { path: path.to_owned(), found, needed: format!("at most {most}") });
    }
    Ok(bytes)
}
