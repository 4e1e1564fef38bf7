//! Documents and their vectors, from files.

use std::path::{Path, PathBuf};

use anyhow::Context;
use ndarray::Array2;
use unspoken_embedding::read_vectors;
use unspoken_search_index::Document;

use super::vectors::{Column, Embedder, TextEmbedder};
use crate::commands::pir::RecordOptions;

/// Where documents and their vectors come from.
#[derive(clap::Args)]
pub struct Source {
    /// File of the documents: .csv, .tsv, .jsonl, .json, .sqlite or .parquet, or a folder. The key of a record is the
    /// id of the document, by which it can be replaced and removed
    #[arg(long)]
    from: PathBuf,
    #[command(flatten)]
    records: RecordOptions,
    /// The vectors of the documents: a NumPy file (.npy) or a safetensors file with one in each row
    #[arg(long, value_name = "FILE", group = "given", conflicts_with = "words", required_unless_present_any = ["words",
        "vector_column"])]
    vectors: Option<PathBuf>,
    /// Name of the tensor, if --vectors is a safetensors file with several
    #[arg(long, value_name = "NAME", requires = "vectors")]
    vectors_tensor: Option<String>,
    /// Column of the file that holds the vectors: a list of numbers. --value names the columns of the documents
    #[arg(long, value_name = "COLUMN", group = "given", conflicts_with = "words", requires = "value_columns")]
    vector_column: Option<String>,
    /// Name of what made the vectors that are given, for clients
    #[arg(long, value_name = "NAME", requires = "given")]
    embedder: Option<String>,
    #[command(flatten)]
    words: Embedder,
}

/// Documents with their vectors.
pub struct Documents {
    pub documents: Vec<Document>,
    /// A vector in each row.
    pub vectors: Array2<f32>,
    /// Name of what made the vectors, if it is known.
    pub embedder: Option<String>,
}

impl Source {
    /// Reads all of it.
    pub fn read(&self) -> anyhow::Result<Documents> {
        let (source, _) = self.records.open_with(&self.from, self.vector_column.as_deref())?;
        let (mut documents, mut column) = (Vec::new(), Column::default());
        for record in source {
            let unspoken_sources::Record { key, value, beside } = record?;
            if let Some(vector) = beside {
                column.push(&vector).with_context(|| place(&self.from, documents.len()))?;
            }
            documents.push(Document { id: key, content: value });
        }
        let embedder = self.words.open()?;
        let vectors = match &self.vectors {
            Some(path) => read_vectors(path, self.vectors_tensor.as_deref())?,
            None if self.vector_column.is_some() => column.into_rows()?,
            None => self.embedded(embedder.as_ref(), &documents)?,
        };
        anyhow::ensure!(
            vectors.nrows() == documents.len(),
            "found {} documents in {} and {} vectors, needed as many",
            documents.len(),
            self.from.display(),
            vectors.nrows()
        );
        let embedder = embedder.as_ref().map(TextEmbedder::name).or(self.embedder.as_deref());
        Ok(Documents { documents, vectors, embedder: embedder.map(str::to_owned) })
    }

    /// The vectors that an embedder makes of the documents.
    fn embedded(&self, embedder: Option<&TextEmbedder>, documents: &[Document]) -> anyhow::Result<Array2<f32>> {
        let embedder = embedder.context("needed --vectors, --vector-column or --words")?;
        let place = |number: usize| place(&self.from, number);
        let text = |(number, document): (usize, &Document)| {
            let text = String::from_utf8(document.content.clone());
            text.with_context(|| format!("{}: found no UTF-8 text", place(number)))
        };
        let texts: Vec<String> = documents.iter().enumerate().map(text).collect::<anyhow::Result<_>>()?;
        embedder.vectors(&texts, place)
    }
}

/// Names a document for errors.
fn place(from: &Path, number: usize) -> String {
    format!("record {number} of {}", from.display())
}
