//! A whole model: both halves together, for training and for reference scores.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::encoder::{Encoder, argmax};
use crate::error::ModelError;
use crate::tables::ScoreTables;
use crate::vocabulary::Vocabulary;

/// Names one training run: the first 16 bytes of a BLAKE3 hash over the
/// vocabulary, the codes and the score tables. Both halves of a model carry it, so
/// halves of different models are not used together by mistake.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ModelId([u8; 16]);

impl ModelId {
    /// The 16 bytes, to send.
    pub fn to_bytes(self) -> [u8; 16] {
        self.0
    }

    pub(crate) fn of(vocabulary: &Vocabulary, codes: &[u16], scores: &[f64]) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("unspoken fasttext model id v1");
        hasher.update(&(vocabulary.len() as u64).to_le_bytes());
        for token in vocabulary.tokens() {
            hasher.update(&(token.len() as u64).to_le_bytes());
            hasher.update(token.as_bytes());
        }
        for code in codes {
            hasher.update(&code.to_le_bytes());
        }
        for score in scores {
            hasher.update(&score.to_le_bytes());
        }
        let mut id = [0; 16];
        hasher.finalize_xof().fill(&mut id);
        Self(id)
    }

    /// The 16 bytes.
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for ModelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ModelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ModelId({self})")
    }
}

impl From<ModelId> for String {
    fn from(id: ModelId) -> Self {
        id.to_string()
    }
}

impl TryFrom<String> for ModelId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let refuse = || format!("model id {text:?} is not 32 lower-case hexadecimal digits");
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let mut id = [0; 16];
        if text.len() != 2 * id.len() {
            return Err(refuse());
        }
        for (byte, pair) in id.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            *byte = digit(pair[0]).zip(digit(pair[1])).map(|(high, low)| high << 4 | low).ok_or_else(refuse)?;
        }
        Ok(Self(id))
    }
}

/// How a model came to be. Kept with the server's half.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainingRecord {
    /// The seed; with the same data and options it gives the same model.
    pub seed: u64,
    /// BLAKE3 of the training data, see [`Dataset::checksum`](crate::Dataset::checksum).
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

/// Both halves of a model.
///
/// ```
/// use std::sync::atomic::AtomicBool;
/// use unspoken_fasttext::{TrainOptions, fit};
///
/// let texts: Vec<String> = (0..40)
///     .map(|i| if i % 2 == 0 { "win a free prize" } else { "see you at home" }.to_owned())
///     .collect();
/// let labels: Vec<String> = (0..40)
///     .map(|i| if i % 2 == 0 { "spam" } else { "ham" }.to_owned())
///     .collect();
/// let options = TrainOptions { columns: 16, dimension: 8, ..TrainOptions::default() };
/// let model = fit(&texts, &labels, &options, &mut |_| {}, &AtomicBool::new(false))?;
///
/// // The client's half gives codes, the server's half scores, the client a label.
/// let codes = model.encoder().encode("claim your free prize");
/// let scores = model.tables().scores(&codes)?;
/// assert_eq!(model.encoder().label(&scores)?, "spam");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
    /// [`ModelError::Halves`] when their ids or shapes differ.
    pub fn join(encoder: Encoder, tables: ScoreTables, training: TrainingRecord) -> Result<Self, ModelError> {
        let differ = |what, client: String, server: String| Err(ModelError::Halves { what, client, server });
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

    /// How the model came to be.
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

    /// The label of a message: that of its largest score, the first of equals.
    pub fn predict(&self, text: &str) -> &str {
        &self.encoder.labels()[argmax(&self.scores(text))]
    }

    /// The share of texts whose predicted label is the one given; 0 for no texts.
    pub fn accuracy(&self, data: &crate::Dataset) -> f64 {
        let pairs = data.texts().iter().zip(data.labels());
        let right = pairs.filter(|(text, label)| self.predict(text) == *label);
        right.count() as f64 / data.len().max(1) as f64
    }
}
