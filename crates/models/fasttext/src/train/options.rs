//! Options of training.

use std::collections::BTreeMap;

use crate::error::FastTextError;
use crate::shape::Shape;
use crate::tokenise::Tokeniser;

/// Options of training. The defaults are the paper's shape (`l = 4`, `p = 256`, `d = 50`, 128 tokens) and settings for
/// a few thousand short messages. More epochs or higher rates overfit such data.
///
/// ```
/// use unspoken_fasttext::TrainOptions;
///
/// let options = TrainOptions { seed: 7, min_count: 3, ..TrainOptions::default() };
/// assert_eq!(options.subtables, 4);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct TrainOptions {
    /// Seed of the initial parameters, the order of the examples and the validation part. The same seed, data and
    /// options give the same model, bit for bit, on any number of threads.
    pub seed: u64,
    /// The tokeniser.
    pub tokeniser: Tokeniser,
    /// Minimum count of a token in the training part, 1 or more; rarer tokens are unknown.
    pub min_count: usize,
    /// Maximum number of tokens in the vocabulary, 1 or more; the most frequent are kept. Training needs `8 l p` bytes
    /// for each: 8 KiB by default.
    pub max_vocabulary: usize,
    /// Fraction of training tokens that are hidden as unknown, drawn in each epoch, which trains the unknown token for
    /// new words: 0 to 0.5.
    pub unknown_share: f32,
    /// Subtables `l`: 1 to 16.
    pub subtables: usize,
    /// Columns of each subtable `p`: even, 2 to 4096.
    pub columns: usize,
    /// Embedding dimension `d`: 1 to 4096.
    pub dimension: usize,
    /// Fraction of the data that [`fit`](crate::fit) sets aside to choose the best checkpoint: 0 (keep the last epoch)
    /// to 0.5.
    pub validation_share: f64,
    /// Examples of a batch: 1 to 65536.
    pub batch: usize,
    /// Epochs with relaxed codes: 1 to 10000.
    pub relaxed_epochs: usize,
    /// Epochs with hard codes: 1 to 10000.
    pub hard_epochs: usize,
    /// AdamW's rate for subtables and classifier: above 0, at most 1.
    pub rate: f32,
    /// Adam's rate for the logits of the codes: above 0, at most 10.
    pub code_rate: f32,
    /// AdamW's weight decay for subtables and classifier: 0 to 1.
    pub weight_decay: f32,
    /// Temperature of the softmax over columns in the last relaxed epoch: 0.001 to 1. It falls geometrically from 1.
    pub final_temperature: f32,
    /// Weight in the loss of the entropy (nats) of the distributions over columns, a mean over words and subtables: 0
    /// to 10. The paper has 0.002 for one of its two data sets.
    pub entropy_weight: f32,
    /// Weight in the loss of 1 minus the largest probability of a column, a mean over words and subtables: 0 to 10. The
    /// paper has 0.01 for one of its two data sets.
    pub confidence_weight: f32,
    /// How much the examples of a class count in the loss.
    pub class_weights: ClassWeights,
}

/// How much the examples of a class count in the loss.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ClassWeights {
    /// Each example counts the same, whatever its class.
    #[default]
    Equal,
    /// All examples of a class together count as much as all examples of another class: with `n` of `N` examples in `c`
    /// classes, each counts `N / (c n)`.
    Balanced,
    /// A weight for each named label, above 0 and at most 10,000; 1 for other labels.
    Given(BTreeMap<String, f32>),
}

impl ClassWeights {
    /// The weight of each class, given the labels and the number of examples of each.
    ///
    /// # Errors
    /// [`FastTextError::Weights`] for a label without examples, or a weight outside its range.
    pub(super) fn of(&self, labels: &[String], counts: &[usize]) -> Result<Vec<f32>, FastTextError> {
        match self {
            ClassWeights::Equal => Ok(vec![1.0; labels.len()]),
            ClassWeights::Balanced => {
                let even = counts.iter().sum::<usize>() as f32 / labels.len() as f32;
                Ok(counts.iter().map(|&count| even / count as f32).collect())
            }
            ClassWeights::Given(weights) => {
                if let Some((label, weight)) = weights.iter().find(|(label, weight)| {
                    labels.binary_search(label).is_err() || !(**weight > 0.0 && **weight <= MAX_WEIGHT)
                }) {
                    return Err(FastTextError::Weights { label: label.clone(), weight: *weight });
                }
                Ok(labels.iter().map(|label| weights.get(label).copied().unwrap_or(1.0)).collect())
            }
        }
    }
}

/// Largest weight of a class.
const MAX_WEIGHT: f32 = 1e4;

impl Default for TrainOptions {
    fn default() -> Self {
        Self {
            seed: 0,
            tokeniser: Tokeniser::default(),
            min_count: 1,
            max_vocabulary: 1 << 18,
            unknown_share: 0.05,
            subtables: 4,
            columns: 256,
            dimension: 50,
            validation_share: 0.1,
            batch: 128,
            relaxed_epochs: 8,
            hard_epochs: 5,
            rate: 0.003,
            code_rate: 0.03,
            weight_decay: 0.01,
            final_temperature: 0.1,
            entropy_weight: 0.0,
            confidence_weight: 0.0,
            class_weights: ClassWeights::default(),
        }
    }
}

impl TrainOptions {
    /// The shape of a model with this many classes.
    pub(super) fn shape(&self, classes: usize) -> Shape {
        Shape { subtables: self.subtables, columns: self.columns, classes, max_tokens: self.tokeniser.max_tokens }
    }

    /// # Errors
    /// [`FastTextError::Option`] for the first option outside its range.
    pub(super) fn check(&self) -> Result<(), FastTextError> {
        let positive = "1 or more";
        option("min_count", self.min_count, self.min_count >= 1, positive)?;
        let most = self.max_vocabulary;
        option("max_vocabulary", most, most >= 1, positive)?;
        let share = self.unknown_share;
        option("unknown_share", share, (0.0..=0.5).contains(&share), "0 to 0.5")?;
        let d = self.dimension;
        option("dimension", d, (1..=4096).contains(&d), "1 to 4096")?;
        let share = self.validation_share;
        option("validation_share", share, (0.0..=0.5).contains(&share), "0 to 0.5")?;
        option("batch", self.batch, (1..=65536).contains(&self.batch), "1 to 65536")?;
        for (name, epochs) in [("relaxed_epochs", self.relaxed_epochs), ("hard_epochs", self.hard_epochs)] {
            option(name, epochs, (1..=10000).contains(&epochs), "1 to 10000")?;
        }
        let rate = self.rate;
        option("rate", rate, rate > 0.0 && rate <= 1.0, "above 0, at most 1")?;
        let rate = self.code_rate;
        option("code_rate", rate, rate > 0.0 && rate <= 10.0, "above 0, at most 10")?;
        let decay = self.weight_decay;
        option("weight_decay", decay, (0.0..=1.0).contains(&decay), "0 to 1")?;
        let last = self.final_temperature;
        option("final_temperature", last, (0.001..=1.0).contains(&last), "0.001 to 1")?;
        for (name, weight) in [("entropy_weight", self.entropy_weight), ("confidence_weight", self.confidence_weight)] {
            option(name, weight, (0.0..=10.0).contains(&weight), "0 to 10")?;
        }
        self.shape(Shape::MIN_CLASSES).check().map_err(|error| match error {
            FastTextError::Field { field, found, needed } => FastTextError::Option { name: field, found, needed },
            error => error,
        })
    }
}

fn option(name: &'static str, found: impl ToString, allowed: bool, needed: &str) -> Result<(), FastTextError> {
    if allowed {
        return Ok(());
    }
    Err(FastTextError::Option { name, found: found.to_string(), needed: needed.to_owned() })
}
