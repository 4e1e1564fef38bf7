//! A compressed table with both halves, for measurements and as reference.

use serde::{Deserialize, Serialize};
use unspoken_store::{ModelHasher, ModelId};

use crate::codes::TokenCodes;
use crate::error::EmbeddingError;
use crate::quality::Quality;
use crate::subtables::Subtables;
use crate::table::EmbeddingTable;
use crate::tokens::TokenList;

/// Record of how a table was compressed. Stored with the server's half.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum CompressionRecord {
    /// By additive quantisation, [`compress`](crate::compress).
    Additive(AdditiveRecord),
    /// By an encoder network, [`compress_by_gumbel`](crate::compress_by_gumbel).
    Gumbel(GumbelRecord),
}

/// Record of a compression by additive quantisation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdditiveRecord {
    /// The seed; with the same table and options it gives the same compressed table.
    pub seed: u64,
    /// Rounds of k-means for each subtable of the start.
    pub start_rounds: usize,
    /// Rounds of alternating minimisation.
    pub rounds: usize,
    /// Changes tried on each row's code in each round.
    pub trials: usize,
    /// Rows of the table.
    pub tokens: usize,
}

/// Record of a compression by an encoder network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GumbelRecord {
    /// The seed; with the same table and options it gives the same compressed table.
    pub seed: u64,
    /// Epochs of training.
    pub epochs: usize,
    /// Rows of a batch.
    pub batch: usize,
    /// Adam's rate.
    pub rate: f32,
    /// Temperature of the softmax.
    pub temperature: f32,
    /// Rows of the table.
    pub tokens: usize,
}

impl CompressionRecord {
    /// Rows of the table.
    fn tokens(&self) -> usize {
        match self {
            Self::Additive(record) => record.tokens,
            Self::Gumbel(record) => record.tokens,
        }
    }
}

/// Both halves of a compressed table.
#[derive(Clone, Debug, PartialEq)]
pub struct CompressedTable {
    codes: TokenCodes,
    subtables: Subtables,
    record: CompressionRecord,
}

impl CompressedTable {
    /// Joins two halves of one compression.
    ///
    /// # Errors
    /// [`EmbeddingError::Halves`] if they belong to different compressions.
    pub fn join(codes: TokenCodes, subtables: Subtables, record: CompressionRecord) -> Result<Self, EmbeddingError> {
        let differ = |what, client: String, server: String| Err(EmbeddingError::Halves { what, client, server });
        if codes.id() != subtables.id() {
            return differ("model id", codes.id().to_string(), subtables.id().to_string());
        }
        if codes.shape() != subtables.shape() {
            let show = |shape| format!("{shape:?}");
            return differ("shape", show(codes.shape()), show(subtables.shape()));
        }
        if codes.tokens().len() != record.tokens() {
            return differ("number of tokens", codes.tokens().len().to_string(), record.tokens().to_string());
        }
        Ok(Self { codes, subtables, record })
    }

    /// The client's half.
    pub fn codes(&self) -> &TokenCodes {
        &self.codes
    }

    /// The server's half.
    pub fn subtables(&self) -> &Subtables {
        &self.subtables
    }

    /// Record of its compression.
    pub fn record(&self) -> &CompressionRecord {
        &self.record
    }

    /// The reconstructed embedding of a token; for an unknown token, the embedding of the row for unknown tokens.
    ///
    /// # Errors
    /// [`EmbeddingError::UnknownToken`] for an unknown token if there is no such row.
    pub fn reconstruct(&self, token: &str) -> Result<Vec<f32>, EmbeddingError> {
        self.reconstruct_row(self.codes.token_id(token)?)
    }

    /// The reconstructed embedding of the token in row `id`.
    ///
    /// # Errors
    /// [`EmbeddingError::TokenId`] outside the vocabulary.
    pub fn reconstruct_row(&self, id: usize) -> Result<Vec<f32>, EmbeddingError> {
        self.subtables.reconstruct(self.codes.code(id)?)
    }

    /// Reconstructs the whole table.
    ///
    /// # Errors
    /// [`EmbeddingError::Value`] if a sum of entries leaves the range of a table's values.
    pub fn decompress(&self) -> Result<EmbeddingTable, EmbeddingError> {
        let width = self.subtables.shape().width;
        let mut values = Vec::with_capacity(self.codes.tokens().len() * width);
        for id in 0..self.codes.tokens().len() {
            values.extend(self.reconstruct_row(id)?);
        }
        EmbeddingTable::new(self.codes.tokens().clone(), width, values)
    }

    /// Measures the difference from the original table.
    ///
    /// # Errors
    /// [`EmbeddingError::Shape`] when `table` has other tokens or another width.
    pub fn quality(&self, table: &EmbeddingTable) -> Result<Quality, EmbeddingError> {
        let width = self.subtables.shape().width;
        if table.tokens() != self.codes.tokens() || table.width() != width {
            let found = format!("a table of {} tokens and width {}", table.tokens().len(), table.width());
            let needed = format!("the table that was compressed: {} tokens, width {width}", self.record.tokens());
            return Err(EmbeddingError::Shape { found, needed });
        }
        let pairs = table.values().chunks_exact(width).zip(0..).map(|(row, id)| Ok((row, self.reconstruct_row(id)?)));
        Quality::of(pairs)
    }
}

/// The id of a compressed table: a hash over tokens, codes and subtables.
pub(crate) fn model_id(tokens: &TokenList, codes: &[u16], values: &[f32]) -> ModelId {
    let mut hasher = ModelHasher::new("unspoken compressed embedding id v1");
    hasher.tokens(tokens.as_slice());
    for code in codes {
        hasher.bytes(&code.to_le_bytes());
    }
    for value in values {
        hasher.bytes(&value.to_le_bytes());
    }
    hasher.finish()
}
