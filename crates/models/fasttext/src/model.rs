//! A model with both halves, for training and as reference.

use serde::{Deserialize, Serialize};
use unspoken_store::{ModelHasher, ModelId};

use crate::encoder::{Encoder, argmax};
use crate::error::FastTextError;
use crate::tables::ScoreTables;
use crate::vocabulary::Vocabulary;

/// The id of a model: a hash over the vocabulary, the codes and the score tables.
pub(crate) fn model_id(vocabulary: &Vocabulary, codes: &[u16], scores: &[f64]) -> ModelId {
    let mut hasher = ModelHasher::new("unspoken fasttext model id v1");
    hasher.tokens(vocabulary.tokens());
    for code in codes {
        hasher.bytes(&code.to_le_bytes());
    }
    for score in scores {
        hasher.bytes(&score.to_le_bytes());
    }
    hasher.finish()
}

/// Record of how a model was trained. Stored with the server's half.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainingRecord {
    /// The seed; with the same data and options it gives the same model.
    pub seed: u64,
    /// BLAKE3 of the training data, see [`Dataset::checksum`](unspoken_store::Dataset::checksum).
    pub data_blake3: String,
    /// Training examples.
    pub examples: usize,
    /// Embedding dimension `d` in training. Folding removes it.
    pub dimension: usize,
    /// Epochs with relaxed codes.
    pub relaxed_epochs: usize,
    /// Epochs with hard codes.
    pub hard_epochs: usize,
    /// Accuracy on the validation part, of the hard codes that the model keeps.
    /// Absent when there was no validation part.
    pub validation_accuracy: Option<f64>,
}

/// Both halves of a model. The documentation of the crate has an example.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    encoder: Encoder,
    tables: ScoreTables,
    training: TrainingRecord,
}

impl Model {
    /// Joins two halves of one training run.
    ///
    /// # Errors
    /// [`FastTextError::Halves`] when their ids or shapes differ.
    pub fn join(encoder: Encoder, tables: ScoreTables, training: TrainingRecord) -> Result<Self, FastTextError> {
        let differ = |what, client: String, server: String| Err(FastTextError::Halves { what, client, server });
        if encoder.id() != tables.id() {
            return differ("model id", encoder.id().to_string(), tables.id().to_string());
        }
        if encoder.shape() != tables.shape() {
            let show = |shape| format!("{shape:?}");
            return differ("shape", show(encoder.shape()), show(tables.shape()));
        }
        Ok(Self { encoder, tables, training })
    }

    /// The client's half.
    pub fn encoder(&self) -> &Encoder {
        &self.encoder
    }

    /// The server's half.
    pub fn tables(&self) -> &ScoreTables {
        &self.tables
    }

    /// Record of its training.
    pub fn training(&self) -> &TrainingRecord {
        &self.training
    }

    /// The class scores of a message: `z = sum over tokens and subtables of
    /// S_t[:, j_t]`, one for each class.
    pub fn scores(&self, text: &str) -> Vec<f64> {
        let mut scores = vec![0.0; self.tables.shape().classes];
        for token in self.encoder.encode(text).tokens() {
            self.tables.add_token(token, &mut scores);
        }
        scores
    }

    /// The probability of each class for a message: the softmax of the mean of its tokens' scores, which training made
    /// likely. [`Model::scores`] are the sums; the number of tokens is at least one.
    pub fn probabilities(&self, text: &str) -> Vec<f64> {
        let tokens = self.encoder.encode(text).len() as f64;
        let means: Vec<f64> = self.scores(text).iter().map(|score| score / tokens).collect();
        let largest = means.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let shares: Vec<f64> = means.iter().map(|mean| (mean - largest).exp()).collect();
        let sum: f64 = shares.iter().sum();
        shares.into_iter().map(|share| share / sum).collect()
    }

    /// The predicted label of a message: the label with the largest score; of equal scores, the first.
    pub fn predict(&self, text: &str) -> &str {
        &self.encoder.labels()[argmax(&self.scores(text))]
    }

    /// The fraction of texts whose predicted label is the given one; 0 for no texts.
    pub fn accuracy(&self, data: &unspoken_store::Dataset) -> f64 {
        let pairs = data.texts().iter().zip(data.labels());
        let right = pairs.filter(|(text, label)| self.predict(text) == *label);
        right.count() as f64 / data.len().max(1) as f64
    }
}
