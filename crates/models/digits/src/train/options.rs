//! Options of training.

use crate::error::DigitsModelError;
use crate::shape::Shape;

/// Options of training. The defaults suit 60,000 images and the lite network.
///
/// ```
/// use unspoken_digits_model::{Shape, TrainOptions};
///
/// let options = TrainOptions { seed: 7, epochs: 3, ..TrainOptions::default() };
/// assert_eq!(options.shape, Shape::LITE);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct TrainOptions {
    /// The network's shape.
    pub shape: Shape,
    /// Seed of the initial parameters, the order of the images and their shifts. The same seed, data and options give
    /// the same network, bit for bit, on any number of threads.
    pub seed: u64,
    /// Number of epochs: 1 to 1000.
    pub epochs: usize,
    /// Images of a batch: 1 to 65536.
    pub batch: usize,
    /// Adam's initial rate, in `(0, 1]`; it falls to 0 as half a cosine.
    pub rate: f32,
    /// Weight decay, 0 to 1, times the rate at each step.
    pub weight_decay: f32,
    /// Maximum random shift of images in each direction, in pixels, drawn in each epoch: 0 to 4.
    pub shift: usize,
    /// Number of images at the end of the data that are set aside for validation after each epoch.
    pub validation: usize,
    /// Maximum magnitude before each square, over the training images: above 0, at most 64. The trained network is
    /// scaled to it, which does not change scores.
    pub activation: f64,
}

impl Default for TrainOptions {
    fn default() -> Self {
        Self {
            shape: Shape::LITE,
            seed: 0,
            epochs: 24,
            batch: 64,
            rate: 0.004,
            weight_decay: 0.002,
            shift: 1,
            validation: 2000,
            activation: 8.0,
        }
    }
}

impl TrainOptions {
    /// # Errors
    /// [`DigitsModelError::Option`] for the first option outside its range.
    pub(super) fn check(&self, examples: usize) -> Result<(), DigitsModelError> {
        self.shape.check().map_err(|error| match error {
            DigitsModelError::Field { field, found, needed } => DigitsModelError::Option { name: field, found, needed },
            error => error,
        })?;
        option("epochs", self.epochs, (1..=1000).contains(&self.epochs), "1 to 1000")?;
        option("batch", self.batch, (1..=65536).contains(&self.batch), "1 to 65536")?;
        option("rate", self.rate, self.rate > 0.0 && self.rate <= 1.0, "above 0, at most 1")?;
        option("weight_decay", self.weight_decay, (0.0..=1.0).contains(&self.weight_decay), "0 to 1")?;
        option("shift", self.shift, self.shift <= 4, "0 to 4")?;
        option("activation", self.activation, self.activation > 0.0 && self.activation <= 64.0, "above 0, at most 64")?;
        let needed = format!("fewer than the {examples} images");
        option("validation", self.validation, self.validation < examples, &needed)
    }
}

fn option(name: &'static str, found: impl ToString, allowed: bool, needed: &str) -> Result<(), DigitsModelError> {
    if allowed {
        return Ok(());
    }
    Err(DigitsModelError::Option { name, found: found.to_string(), needed: needed.to_owned() })
}
