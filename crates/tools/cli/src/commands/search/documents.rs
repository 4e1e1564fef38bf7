//! Documents and their vectors, from files.

use std::path::{Path, PathBuf};

use anyhow::Context;
use ndarray::Array2;
use unspoken_search_index::Document;

use super::vectors::{self, Embedder, TextEmbedder};
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
    /// The vectors of the documents: a NumPy file with one in each row
    #[arg(long, value_name = "FILE", conflicts_with = "words", required_unless_present = "words")]
    vectors: Option<PathBuf>,
    /// Name of what made the vectors of --vectors, for clients
    #[arg(long, value_name = "NAME", requires = "vectors")]
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
        let (source, _) = self.records.open(&self.from)?;
        let document = |record| -> anyhow::Result<Document> {
            let unspoken_sources::Record { key, value } = record;
            Ok(Document { id: key, content: value })
        };
        let documents: Vec<Document> = source.map(|record| document(record?)).collect::<anyhow::Result<_>>()?;
        let embedder = self.words.open()?;
        let vectors = self.vectors_of(embedder.as_ref(), &documents)?;
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

    fn vectors_of(&self, embedder: Option<&TextEmbedder>, documents: &[Document]) -> anyhow::Result<Array2<f32>> {
        let Some(embedder) = embedder else {
            let path = self.vectors.as_ref().context("needed --vectors or --words")?;
            return vectors::read(path);
        };
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
