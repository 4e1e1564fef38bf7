//! Options of the recurrent classifier.

use crate::error::{EmbeddingError, check_option};

/// Options of the recurrent classifier. The lookup paper has 150 hidden numbers, batches of 128, a rate of 0.0001, 400
/// tokens and 300 epochs on 25,000 reviews, which takes days without a GPU; the defaults take minutes.
#[derive(Clone, Debug, PartialEq)]
pub struct RecurrentOptions {
    /// Seed of the initial weights, of the choice of reviews and of their order. The same seed, reviews, table and
    /// options give the same classifier, bit for bit, on any number of threads of one kind of processor.
    pub seed: u64,
    /// Hidden numbers of the cell: 1 to 1024.
    pub hidden: usize,
    /// Known tokens of a review that are read, from its beginning: 1 to 10000.
    pub max_tokens: usize,
    /// Maximum number of reviews of the training part that are used, chosen at random; 2 or more. A tenth of these only
    /// chooses the best epoch.
    pub reviews: usize,
    /// Epochs: 1 to 10000.
    pub epochs: usize,
    /// Reviews of a batch: 1 to 65536.
    pub batch: usize,
    /// Adam's rate: above 0, at most 1.
    pub rate: f32,
}

impl Default for RecurrentOptions {
    fn default() -> Self {
        Self { seed: 0, hidden: 64, max_tokens: 100, reviews: 4000, epochs: 10, batch: 64, rate: 0.002 }
    }
}

impl RecurrentOptions {
    /// # Errors
    /// [`EmbeddingError::Option`] for the first option outside its range.
    pub(super) fn check(&self) -> Result<(), EmbeddingError> {
        check_option("hidden", self.hidden, (1..=1024).contains(&self.hidden), "1 to 1024")?;
        check_option("max_tokens", self.max_tokens, (1..=10000).contains(&self.max_tokens), "1 to 10000")?;
        check_option("reviews", self.reviews, self.reviews >= 2, "2 or more")?;
        check_option("epochs", self.epochs, (1..=10000).contains(&self.epochs), "1 to 10000")?;
        check_option("batch", self.batch, (1..=65536).contains(&self.batch), "1 to 65536")?;
        check_option("rate", self.rate, self.rate > 0.0 && self.rate <= 1.0, "above 0, at most 1")
    }
}
