//! Training of a head.

use std::sync::atomic::{AtomicBool, Ordering};

use ndarray::{Array1, Axis};
use rayon::prelude::*;

use super::{CLASSES, LinearHead, check_texts};
use crate::compressed::CompressedTable;
use crate::downstream::{features, logistic};
use crate::error::EmbeddingError;
use crate::text::{TextCoverage, TextReader};

/// Options of the training of a head.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeadOptions {
    /// Tokens of a text that are read, a power of two; later tokens are ignored. A text takes this number of slots at a
    /// service.
    pub max_tokens: usize,
    /// Half this times the squared weights, of standardised features, is added to the loss of all texts.
    pub ridge: f64,
}

impl Default for HeadOptions {
    fn default() -> Self {
        HeadOptions { max_tokens: 128, ridge: logistic::RIDGE }
    }
}

/// A head and what it was trained on.
#[derive(Clone, Debug)]
pub struct TrainedHead {
    /// The head. Its classes are the labels, sorted.
    pub head: LinearHead,
    /// What of the texts it reads.
    pub coverage: TextCoverage,
    /// The fraction of the training texts whose label it predicts.
    pub training_accuracy: f64,
}

impl LinearHead {
    /// Trains a head on labelled texts: logistic regressions on the means of the compressed embeddings, to their
    /// optimum. With two classes, the scores are minus and plus half of the logarithm of the odds; with more, the score
    /// of a class comes from a regression of this class against the others. Nothing is random.
    ///
    /// # Errors
    /// [`EmbeddingError::Training`] if the numbers of texts and labels differ, or there are fewer than two labels or
    /// too many; [`EmbeddingError::Option`] or [`EmbeddingError::Field`] if an option is out of range;
    /// [`EmbeddingError::Cancelled`].
    pub fn fit(
        table: &CompressedTable,
        texts: &[String],
        labels: &[String],
        options: &HeadOptions,
        cancel: &AtomicBool,
    ) -> Result<TrainedHead, EmbeddingError> {
        let refuse = |found: String, needed: String| Err(EmbeddingError::Training { found, needed });
        if texts.len() != labels.len() {
            return refuse(format!("{} texts and {} labels", texts.len(), labels.len()), "as many of each".into());
        }
        if !(options.ridge > 0.0 && options.ridge.is_finite()) {
            return Err(EmbeddingError::option("ridge", options.ridge, "a positive number"));
        }
        let mut classes = labels.to_vec();
        classes.sort_unstable();
        classes.dedup();
        if !CLASSES.contains(&classes.len()) {
            let needed = format!("{} to {}", CLASSES.start(), CLASSES.end());
            return refuse(format!("{} distinct labels", classes.len()), needed);
        }
        check_texts(&classes, options.max_tokens)?;
        let reader = TextReader::new(table.codes().tokens());
        let read: Vec<_> = texts.par_iter().map(|text| reader.read(text)).collect();
        let mut coverage = TextCoverage { max_tokens: options.max_tokens, ..TextCoverage::default() };
        read.iter().for_each(|text| coverage.add(text));
        let shorten = |mut ids: Vec<u32>| {
            ids.truncate(options.max_tokens);
            ids
        };
        let ids: Vec<_> = read.into_iter().map(|text| shorten(text.ids)).collect();
        let features = features(&ids, &table.decompress()?);
        let regression = |class: &String| {
            let targets: Vec<bool> = labels.iter().map(|label| label == class).collect();
            logistic::fit(&features, &targets, options.ridge, cancel).linear()
        };
        let rows: Vec<(Array1<f64>, f64)> = match &classes[..] {
            [_, second] => {
                let (weights, constant) = regression(second);
                vec![(&weights * -0.5, -0.5 * constant), (weights * 0.5, 0.5 * constant)]
            }
            classes => classes.iter().map(regression).collect(),
        };
        if cancel.load(Ordering::Relaxed) {
            return Err(EmbeddingError::Cancelled { step: 1 });
        }
        let (weights, bias): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
        let width = table.subtables().shape().width;
        let flat = weights.iter().flatten().copied().collect();
        let head = LinearHead::new(classes, options.max_tokens, width, flat, bias)?;
        let predicted = |text| {
            let score = |(weights, bias): (&Array1<f64>, &f64)| weights.dot(&text) + bias;
            head.class_of(&weights.iter().zip(head.bias()).map(score).collect::<Vec<_>>()).to_owned()
        };
        let right = features.axis_iter(Axis(0)).zip(labels).filter(|(text, label)| predicted(*text) == **label).count();
        let training_accuracy = right as f64 / labels.len() as f64;
        Ok(TrainedHead { head, coverage, training_accuracy })
    }
}
