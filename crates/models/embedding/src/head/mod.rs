//! A linear head over pooled embeddings.

mod file;
mod fit;

pub use fit::{HeadOptions, TrainedHead};
use unspoken_store::{ModelHasher, ModelId};

use crate::compressed::CompressedTable;
use crate::error::EmbeddingError;
use crate::shape::{MAX_WIDTH, Shape};
use crate::subtables::Subtables;

/// Number of classes.
const CLASSES: std::ops::RangeInclusive<usize> = 2..=1024;
/// Maximum length of the name of a class in bytes.
const MAX_NAME_BYTES: usize = 128;
/// Maximum number of tokens of a text.
const MAX_TOKENS: usize = 1 << 16;
/// Maximum magnitude of a weight or of a number of the bias.
const LARGEST_WEIGHT: f64 = 1e6;

/// A linear head: the scores of a text are `z = W m + b`, where `m` is the mean of the embeddings of its tokens, or
/// zero for a text without tokens. The class of a text is the class with the largest score.
#[derive(Clone, Debug, PartialEq)]
pub struct LinearHead {
    classes: Vec<String>,
    max_tokens: usize,
    width: usize,
    /// classes x width
    weights: Vec<f64>,
    bias: Vec<f64>,
}

/// A head folded into the subtables of a table, for a service that looks up scores in place of embeddings.
///
/// The lookup, the mean and the head are linear, so `W sum_i E[w_i]` is a sum of entries of the tables `S_t = W M_t` of
/// classes x columns. The rows of the tables are centred, and [`FoldedHead::token_mean`] has what that takes away from
/// each token: `z = (sum of entries) / n + token_mean + b` for a text of `n > 0` tokens.
#[derive(Clone, Debug)]
pub struct FoldedHead {
    id: ModelId,
    values: Vec<f64>,
    token_mean: Vec<f64>,
}

impl LinearHead {
    /// Checks and joins the parts: one name and one number of the bias per class, and weights of classes x width,
    /// row-major. `max_tokens` is the number of tokens of a text that are read.
    ///
    /// # Errors
    /// [`EmbeddingError::Field`] unless there are 2 to 1024 distinct names ([`LinearHead::is_class_name`]),
    /// `max_tokens` is a power of two up to 65536, the width is 1 to 4096, and all numbers are of magnitude at most
    /// 10^6.
    pub fn new(
        classes: Vec<String>,
        max_tokens: usize,
        width: usize,
        weights: Vec<f64>,
        bias: Vec<f64>,
    ) -> Result<Self, EmbeddingError> {
        check_texts(&classes, max_tokens)?;
        if !(1..=MAX_WIDTH).contains(&width) {
            return Err(EmbeddingError::head("numbers of an embedding", width, format!("1 to {MAX_WIDTH}")));
        }
        for (field, values, needed) in
            [("weights", &weights, classes.len() * width), ("numbers of the bias", &bias, classes.len())]
        {
            if values.len() != needed {
                return Err(EmbeddingError::head(
                    field,
                    values.len(),
                    format!("{needed}, for {} classes", classes.len()),
                ));
            }
        }
        // NaN and infinities are outside the range too.
        let allowed = -LARGEST_WEIGHT..=LARGEST_WEIGHT;
        if let Some(at) = weights.iter().position(|value| !allowed.contains(value)) {
            let found = format!("{} in row {}, column {}", weights[at], at / width, at % width);
            return Err(EmbeddingError::head(
                "weight",
                found,
                format!("a number of magnitude at most {LARGEST_WEIGHT:e}"),
            ));
        }
        if let Some(at) = bias.iter().position(|value| !allowed.contains(value)) {
            let found = format!("{} in row {at}", bias[at]);
            return Err(EmbeddingError::head(
                "bias",
                found,
                format!("a number of magnitude at most {LARGEST_WEIGHT:e}"),
            ));
        }
        Ok(Self { classes, max_tokens, width, weights, bias })
    }

    /// Whether a class can have this name: 1 to 128 bytes without control characters, which a terminal would obey.
    pub fn is_class_name(name: &str) -> bool {
        (1..=MAX_NAME_BYTES).contains(&name.len()) && !name.chars().any(char::is_control)
    }

    /// The names of the classes, in the order of the scores.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// Maximum number of tokens of a text.
    pub fn max_tokens(&self) -> usize {
        self.max_tokens
    }

    /// Numbers of an embedding.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The weights, classes x width, row-major.
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// One number per class.
    pub fn bias(&self) -> &[f64] {
        &self.bias
    }

    /// The scores of a text in the clear: the reference for the encrypted ones. Only the first
    /// [`LinearHead::max_tokens`] ids are read.
    ///
    /// # Errors
    /// [`EmbeddingError::Width`] if the table has another width, [`EmbeddingError::TokenId`] for an id outside the
    /// table.
    pub fn scores(&self, table: &CompressedTable, ids: &[u32]) -> Result<Vec<f64>, EmbeddingError> {
        self.check_width(table.subtables().shape())?;
        let ids = &ids[..ids.len().min(self.max_tokens)];
        let mut mean = vec![0.0; self.width];
        for &id in ids {
            let row = table.reconstruct_row(id as usize)?;
            mean.iter_mut().zip(row).for_each(|(mean, value)| *mean += f64::from(value));
        }
        mean.iter_mut().for_each(|sum| *sum /= ids.len().max(1) as f64);
        let score = |(row, bias): (&[f64], &f64)| row.iter().zip(&mean).map(|(w, m)| w * m).sum::<f64>() + bias;
        Ok(self.weights.chunks_exact(self.width).zip(&self.bias).map(score).collect())
    }

    /// The class of the largest score; of equal ones, the first.
    pub fn class_of(&self, scores: &[f64]) -> &str {
        let best = |best: usize, c: usize| if scores.get(c) > scores.get(best) { c } else { best };
        &self.classes[(1..self.classes.len()).fold(0, best)]
    }

    /// Folds the head into the subtables of a table.
    ///
    /// # Errors
    /// [`EmbeddingError::Width`] if the table has another width.
    pub fn fold(&self, subtables: &Subtables) -> Result<FoldedHead, EmbeddingError> {
        let Shape { columns, width, .. } = self.check_width(subtables.shape())?;
        let tables = subtables.values().chunks_exact(width * columns);
        let mut values = Vec::with_capacity(subtables.shape().subtables * self.classes.len() * columns);
        let mut token_mean = vec![0.0; self.classes.len()];
        for table in tables {
            for (weights, token_mean) in self.weights.chunks_exact(width).zip(&mut token_mean) {
                let mut row = vec![0.0; columns];
                for (weight, entries) in weights.iter().zip(table.chunks_exact(columns)) {
                    row.iter_mut().zip(entries).for_each(|(sum, &entry)| *sum += weight * f64::from(entry));
                }
                // Twice: the second mean corrects the rounding of the first.
                for _ in 0..2 {
                    let mean = row.iter().sum::<f64>() / columns as f64;
                    row.iter_mut().for_each(|value| *value -= mean);
                    *token_mean += mean;
                }
                values.extend(row);
            }
        }
        Ok(FoldedHead { id: self.id_with(subtables.id()), values, token_mean })
    }

    /// The id of this head over the table with an id.
    fn id_with(&self, table: ModelId) -> ModelId {
        let mut hasher = ModelHasher::new("unspoken linear head over a compressed embedding id v1");
        hasher.bytes(&table.to_bytes()).bytes(&(self.max_tokens as u64).to_le_bytes()).tokens(&self.classes);
        self.weights.iter().chain(&self.bias).for_each(|value| {
            hasher.bytes(&value.to_le_bytes());
        });
        hasher.finish()
    }

    fn check_width(&self, shape: Shape) -> Result<Shape, EmbeddingError> {
        if self.width != shape.width {
            return Err(EmbeddingError::Width { found: self.width, needed: shape.width });
        }
        Ok(shape)
    }
}

/// Checks the names of the classes and the number of tokens of a text.
fn check_texts(classes: &[String], max_tokens: usize) -> Result<(), EmbeddingError> {
    if !CLASSES.contains(&classes.len()) {
        let needed = format!("{} to {} names", CLASSES.start(), CLASSES.end());
        return Err(EmbeddingError::head("classes", format!("{} names", classes.len()), needed));
    }
    let mut sorted: Vec<&String> = classes.iter().collect();
    sorted.sort_unstable();
    if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(EmbeddingError::head("class name", format!("{:?} twice", pair[0]), "each name once"));
    }
    if let Some(name) = classes.iter().find(|name| !LinearHead::is_class_name(name)) {
        let needed = format!("1 to {MAX_NAME_BYTES} bytes without control characters");
        return Err(EmbeddingError::head("class name", format!("{name:?} of {} bytes", name.len()), needed));
    }
    if !max_tokens.is_power_of_two() || max_tokens > MAX_TOKENS {
        return Err(EmbeddingError::head("max_tokens", max_tokens, format!("a power of two up to {MAX_TOKENS}")));
    }
    Ok(())
}

impl FoldedHead {
    /// Id of the head and its table.
    pub fn id(&self) -> ModelId {
        self.id
    }

    /// The centred tables: subtables x classes x columns, row-major.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// What centring took away from the scores of each token, one number per class.
    pub fn token_mean(&self) -> &[f64] {
        &self.token_mean
    }
}
