//! The plaintext network, reference for the encrypted circuits.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use unspoken_store::{ModelHasher, ModelId};

use crate::error::DigitsModelError;
use crate::images::{Image, LabelledImages};
use crate::shape::{CLASSES, FEATURES_PER_CHANNEL, KERNEL, OUTPUT_SIDE, STRIDE, Shape};

/// Maximum magnitude of a parameter: far above any trained one.
const MAX_PARAMETER: f64 = 1e4;

/// A trained network.
#[derive(Clone, Debug)]
pub struct Network {
    id: ModelId,
    shape: Shape,
    parameters: Vec<f64>,
    training: TrainingRecord,
}

/// Record of how a network was trained.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainingRecord {
    /// The seed.
    pub seed: u64,
    /// Number of training images.
    pub examples: usize,
    /// Number of epochs.
    pub epochs: usize,
    /// Accuracy on the validation images; absent if there were none.
    pub validation_accuracy: Option<f64>,
}

/// Maximum magnitudes between the layers; scales and moduli are chosen by them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ranges {
    /// Before the first square.
    pub convolution: f64,
    /// Before the second square.
    pub hidden: f64,
    /// The scores.
    pub scores: f64,
}

impl Network {
    /// A network from all its parameters: kernels `[channel][row][column]` and their biases, the first dense layer
    /// `[hidden][feature]` and its biases, the second `[class][hidden]` and its biases. Feature `64 c + 8 y + x` is
    /// channel `c` at row `y` and column `x`. Pixels are 0 to 1.
    ///
    /// # Errors
    /// [`DigitsModelError::Field`] for an invalid shape, a wrong number of parameters, or a parameter that is too large
    /// or not finite.
    pub fn new(shape: Shape, parameters: Vec<f64>, training: TrainingRecord) -> Result<Self, DigitsModelError> {
        shape.check()?;
        if parameters.len() != shape.parameters() {
            return Err(DigitsModelError::field("number of parameters", parameters.len(), shape.parameters()));
        }
        if let Some(bad) = parameters.iter().find(|p| p.is_nan() || p.abs() > MAX_PARAMETER) {
            return Err(DigitsModelError::field("parameter", bad, format!("a number up to {MAX_PARAMETER}")));
        }
        let mut hasher = ModelHasher::new("unspoken 2026 digits network v1");
        hasher.bytes(&[shape.channels as u8, shape.hidden as u8]);
        parameters.iter().for_each(|p| {
            hasher.bytes(&p.to_le_bytes());
        });
        Ok(Self { id: hasher.finish(), shape, parameters, training })
    }

    /// Its id: a hash of shape and parameters.
    pub fn id(&self) -> ModelId {
        self.id
    }

    /// Its shape.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// All parameters, in the order of [`Network::new`].
    pub fn parameters(&self) -> &[f64] {
        &self.parameters
    }

    /// Record of its training.
    pub fn training(&self) -> &TrainingRecord {
        &self.training
    }

    /// Entry of a channel's kernel.
    pub fn kernel(&self, channel: usize, row: usize, column: usize) -> f64 {
        self.parameters[self.shape.parts().kernel][(channel * KERNEL + row) * KERNEL + column]
    }

    /// The bias of a channel.
    pub fn kernel_bias(&self, channel: usize) -> f64 {
        self.parameters[self.shape.parts().kernel_bias][channel]
    }

    /// The weight from a feature to a hidden neuron.
    pub fn dense(&self, hidden: usize, feature: usize) -> f64 {
        self.parameters[self.shape.parts().dense][hidden * self.shape.features() + feature]
    }

    /// The bias of a hidden neuron.
    pub fn dense_bias(&self, hidden: usize) -> f64 {
        self.parameters[self.shape.parts().dense_bias][hidden]
    }

    /// The last layer's weight; 0 for a class that does not exist.
    pub fn out(&self, class: usize, hidden: usize) -> f64 {
        if class < CLASSES { self.parameters[self.shape.parts().out][class * self.shape.hidden + hidden] } else { 0.0 }
    }

    /// The last layer's bias; 0 for a class that does not exist.
    pub fn out_bias(&self, class: usize) -> f64 {
        if class < CLASSES { self.parameters[self.shape.parts().out_bias][class] } else { 0.0 }
    }

    /// The ten scores of an image; the largest one's index is the digit.
    pub fn scores(&self, image: &Image) -> [f64; CLASSES] {
        self.run(image).2
    }

    /// The predicted digit of an image.
    pub fn digit(&self, image: &Image) -> u8 {
        digit(&self.scores(image))
    }

    /// Accuracy on these images; 1 if there are none.
    pub fn accuracy(&self, data: &LabelledImages) -> f64 {
        let pairs = data.images().par_iter().zip(data.labels());
        let right = pairs.filter(|&(image, &label)| self.digit(image) == label).count();
        if data.is_empty() { 1.0 } else { right as f64 / data.len() as f64 }
    }

    /// Maximum magnitudes between the layers over these images.
    pub fn ranges(&self, images: &[Image]) -> Ranges {
        let largest = |values: &[f64]| values.iter().fold(0.0, |max: f64, x| max.max(x.abs()));
        let one = |image: &Image| {
            let (convolution, hidden, scores) = self.run(image);
            Ranges { convolution: largest(&convolution), hidden: largest(&hidden), scores: largest(&scores) }
        };
        images.par_iter().map(one).reduce(Ranges::default, Ranges::max)
    }

    /// Bounds that hold for every image of pixels from 0 to 1.
    pub fn bounds(&self) -> Ranges {
        let positive = |x: f64| x.max(0.0);
        let convolution = |channel: usize| {
            let at = |i: usize| self.kernel(channel, i / KERNEL, i % KERNEL);
            let high: f64 = (0..KERNEL * KERNEL).map(|i| positive(at(i))).sum();
            let low: f64 = (0..KERNEL * KERNEL).map(|i| positive(-at(i))).sum();
            (high + self.kernel_bias(channel)).abs().max((self.kernel_bias(channel) - low).abs())
        };
        let channels: Vec<f64> = (0..self.shape.channels).map(convolution).collect();
        let hidden = |neuron: usize| {
            let feature = |f: usize| self.dense(neuron, f).abs() * channels[f / FEATURES_PER_CHANNEL].powi(2);
            self.dense_bias(neuron).abs() + (0..self.shape.features()).map(feature).sum::<f64>()
        };
        let neurons: Vec<f64> = (0..self.shape.hidden).map(hidden).collect();
        let score = |class: usize| {
            let neuron = |h: usize| self.out(class, h).abs() * neurons[h].powi(2);
            self.out_bias(class).abs() + (0..self.shape.hidden).map(neuron).sum::<f64>()
        };
        let largest = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
        let scores: Vec<f64> = (0..CLASSES).map(score).collect();
        Ranges { convolution: largest(&channels), hidden: largest(&neurons), scores: largest(&scores) }
    }

    /// An equivalent network, scaled so that the values before the squares reach `size` on these images. All layers
    /// then use the same share of a scale. Kernels are divided by a factor, and the next layer is multiplied by its
    /// square.
    pub(crate) fn balanced(&self, images: &[Image], size: f64) -> Result<Self, DigitsModelError> {
        let ranges = self.ranges(images);
        let factor = |range: f64| if range > 0.0 { size / range } else { 1.0 };
        let (first, second) = (factor(ranges.convolution), factor(ranges.hidden));
        let parts = self.shape.parts();
        let mut parameters = self.parameters.clone();
        let mut scale = |range: std::ops::Range<usize>, by: f64| parameters[range].iter_mut().for_each(|p| *p *= by);
        scale(parts.kernel.start..parts.kernel_bias.end, first);
        scale(parts.dense, second / first.powi(2));
        scale(parts.dense_bias, second);
        scale(parts.out, second.powi(-2));
        Self::new(self.shape, parameters, self.training.clone())
    }

    /// Values before both squares, and the scores.
    fn run(&self, image: &Image) -> (Vec<f64>, Vec<f64>, [f64; CLASSES]) {
        let value = |y: usize, x: usize| image.value(y as isize, x as isize);
        let convolution = |f: usize| {
            let (channel, position) = (f / FEATURES_PER_CHANNEL, f % FEATURES_PER_CHANNEL);
            let (y, x) = (position / OUTPUT_SIDE * STRIDE, position % OUTPUT_SIDE * STRIDE);
            let row = |r: usize| (0..KERNEL).map(|c| self.kernel(channel, r, c) * value(y + r, x + c)).sum::<f64>();
            self.kernel_bias(channel) + (0..KERNEL).map(row).sum::<f64>()
        };
        let first: Vec<f64> = (0..self.shape.features()).map(convolution).collect();
        let neuron = |h: usize| {
            let terms = first.iter().enumerate().map(|(f, x)| self.dense(h, f) * x * x);
            self.dense_bias(h) + terms.sum::<f64>()
        };
        let second: Vec<f64> = (0..self.shape.hidden).map(neuron).collect();
        let score = |class: usize| {
            let terms = second.iter().enumerate().map(|(h, x)| self.out(class, h) * x * x);
            self.out_bias(class) + terms.sum::<f64>()
        };
        let scores = std::array::from_fn(score);
        (first, second, scores)
    }
}

impl Ranges {
    fn max(self, other: Self) -> Self {
        Ranges {
            convolution: self.convolution.max(other.convolution),
            hidden: self.hidden.max(other.hidden),
            scores: self.scores.max(other.scores),
        }
    }
}

/// The index of the largest score.
pub fn digit(scores: &[f64; CLASSES]) -> u8 {
    let larger = |best: usize, class: usize| if scores[class] > scores[best] { class } else { best };
    (1..CLASSES).fold(0, larger) as u8
}
