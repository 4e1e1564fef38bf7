//! Vectors of documents and queries: read from files, or made of texts.

use std::path::{Path, PathBuf};

use anyhow::Context;
use ndarray::{Array2, Axis, Ix2};
use unspoken_embedding::MeanEmbedder;

use crate::commands::embed::TableArguments;
use crate::npy;

/// The embedding table whose rows make the vector of a text.
#[derive(clap::Args)]
pub struct Embedder {
    /// Embedding table that makes the vectors of texts: a NumPy array (.npy), a safetensors file, or the lines of GloVe
    /// and word2vec (.txt or .vec)
    #[arg(long, value_name = "FILE")]
    words: Option<PathBuf>,
    /// The tokens of --words: a text file with one per line, or a tokenizer.json; none for .txt and .vec
    #[arg(long, value_name = "FILE", requires = "words")]
    tokens: Option<PathBuf>,
    /// Name of the tensor, if --words is a safetensors file
    #[arg(long, value_name = "NAME", requires = "words")]
    tensor: Option<String>,
}

/// Makes vectors of texts, and refuses texts without a known word.
pub struct TextEmbedder(MeanEmbedder);

impl Embedder {
    /// A table, its tokens, and the name of its tensor.
    pub fn new(words: PathBuf, tokens: Option<PathBuf>, tensor: Option<String>) -> Self {
        Embedder { words: Some(words), tokens, tensor }
    }

    /// The embedder, if a table is given.
    pub fn open(&self) -> anyhow::Result<Option<TextEmbedder>> {
        let Some(words) = &self.words else { return Ok(None) };
        let table = TableArguments::new(words.clone(), self.tokens.clone(), self.tensor.clone()).read()?;
        Ok(Some(TextEmbedder(MeanEmbedder::new(table))))
    }
}

impl TextEmbedder {
    /// Identifies the table: clients must use it, too.
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// The vector of a text; `None` if none of its words is in the table.
    pub fn vector(&self, text: &str) -> Option<Vec<f32>> {
        let vector = self.0.vectors(&[text.to_owned()]).into_raw_vec_and_offset().0;
        vector.iter().any(|&value| value != 0.0).then_some(vector)
    }

    /// The vectors of texts, one in each row. `place` names a text for errors.
    pub fn vectors(&self, texts: &[String], place: impl Fn(usize) -> String) -> anyhow::Result<Array2<f32>> {
        let vectors = self.0.vectors(texts);
        for (number, vector) in vectors.outer_iter().enumerate() {
            anyhow::ensure!(
                vector.iter().any(|&value| value != 0.0),
                "{}: none of its words is in the table; leave it out, or use a table of its language",
                place(number)
            );
        }
        Ok(vectors)
    }
}

/// The vectors of queries in a NumPy file: one, or one in each row.
pub fn of_queries(path: &Path) -> anyhow::Result<Vec<Vec<f32>>> {
    let array = npy::read_f32(path)?;
    let shape = array.shape().to_vec();
    let rows = match array.ndim() {
        1 => array.insert_axis(Axis(0)),
        _ => array,
    };
    let rows = rows.into_dimensionality::<Ix2>().ok().with_context(|| {
        format!("{}: found an array of shape {shape:?}, needed a vector, or one in each row", path.display())
    })?;
    Ok(rows.outer_iter().map(|row| row.to_vec()).collect())
}

/// The vectors in a column of a file: lists of numbers.
#[derive(Default)]
pub struct Column {
    values: Vec<f32>,
    /// Coordinates of the first vector.
    width: Option<usize>,
}

impl Column {
    /// Adds the vector of the next record, in JSON.
    pub fn push(&mut self, vector: &[u8]) -> anyhow::Result<()> {
        anyhow::ensure!(!vector.is_empty(), "found no vector; leave the record out");
        let row: Vec<f32> =
            serde_json::from_slice(vector).context("vector: needed a list of numbers, as [0.1, -2.5]")?;
        let (found, needed) = (row.len(), *self.width.get_or_insert(row.len()));
        anyhow::ensure!(found == needed, "found a vector of {found} coordinates, needed {needed} as in record 0");
        self.values.extend(row);
        Ok(())
    }

    /// A vector in each row.
    pub fn into_rows(self) -> anyhow::Result<Array2<f32>> {
        let width = self.width.unwrap_or(0);
        Ok(Array2::from_shape_vec((self.values.len() / width.max(1), width), self.values)?)
    }
}
