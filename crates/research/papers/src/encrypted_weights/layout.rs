//! The layout of images, weights and scores in the slots if both images and weights are encrypted.

use unspoken_ckks::Complex64;
use unspoken_cnn::CnnError;
use unspoken_digits_model::{
    CLASSES, FEATURES_PER_CHANNEL, IMAGE_SIDE, Image, KERNEL, Network, OUTPUT_SIDE, STRIDE, Shape,
};

use super::mismatch;

/// Number of pixels under the kernel.
const OFFSETS: usize = KERNEL * KERNEL;

/// The layout of a batch of images in the slots of vectors, in the expanded form that the client encrypts. Slot `(r, k,
/// j)` is `(r * width + k) * batch + j`, where `r` is below the number `hidden` of hidden neurons, and `width = slots /
/// (hidden * batch)`.
///
/// A vector of images belongs to a tile of `width` features and to a group of `hidden` pixels under the kernel. Slot
/// `(r, k, j)` is pixel `r` of feature `k` of image `j`. So `r` is a pixel first and a hidden neuron later: the sum
/// over the pixels is cyclic over the whole vector and leaves each feature in every `r`, as the weights of the next
/// layer require.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncryptedWeightsLayout {
    shape: Shape,
    slots: usize,
    batch: usize,
}

impl EncryptedWeightsLayout {
    /// The layout of batches of `batch` images for a network of this shape.
    ///
    /// # Errors
    /// [`CnnError::Mismatch`] if the batch is not a power of two up to [`EncryptedWeightsLayout::largest_batch`], or
    /// the shape or the number of slots is invalid.
    pub fn new(shape: Shape, slots: usize, batch: usize) -> Result<Self, CnnError> {
        const OPERATION: &str = "lay out images";
        if shape.check().is_err() || !slots.is_power_of_two() {
            let found = format!("{shape:?} in {slots} slots");
            return Err(mismatch(OPERATION, found, "a valid network shape, and a power of two of slots"));
        }
        let largest = Self::largest_batch(shape, slots);
        if !batch.is_power_of_two() || batch > largest {
            let needed = format!("a power of two up to {largest}; larger batches need several queries");
            return Err(mismatch(OPERATION, format!("a batch of {batch}"), needed));
        }
        Ok(Self { shape, slots, batch })
    }

    /// Maximum number of images of a batch: slots divided by hidden neurons. 0 if the slots are too few for one image.
    pub fn largest_batch(shape: Shape, slots: usize) -> usize {
        slots / shape.hidden
    }

    /// Number of images of a batch.
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// The shape of the network.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Number of vectors of images of a batch: tiles times groups.
    pub fn vectors(&self) -> usize {
        self.tiles() * self.groups()
    }

    /// Number of vectors of scores of a batch.
    pub fn outputs(&self) -> usize {
        CLASSES.div_ceil(self.width())
    }

    /// The slots of each vector for up to [`EncryptedWeightsLayout::batch`] images, tile by tile; slots without an
    /// image are 0.
    ///
    /// # Errors
    /// [`CnnError::Mismatch`] if there are no images, or more than a batch.
    pub fn arrange(&self, images: &[Image]) -> Result<Vec<Vec<Complex64>>, CnnError> {
        if images.is_empty() || images.len() > self.batch {
            let needed = format!("1 to {}; larger batches need several queries", self.batch);
            return Err(mismatch("arrange images", format!("{} images", images.len()), needed));
        }
        let vector = |tile: usize, group: usize| {
            self.fill(|r, k, j| {
                let (offset, feature) = (group * self.shape.hidden + r, tile * self.width() + k);
                if offset >= OFFSETS || feature >= self.shape.features() {
                    return 0.0;
                }
                let position = feature % FEATURES_PER_CHANNEL;
                let row = position / OUTPUT_SIDE * STRIDE + offset / KERNEL;
                let column = position % OUTPUT_SIDE * STRIDE + offset % KERNEL;
                images.get(j).map_or(0.0, |image| f64::from(image.pixels()[row * IMAGE_SIDE + column]) / 255.0)
            })
        };
        let tiles = 0..self.tiles();
        Ok(tiles
            .flat_map(|tile| (0..self.groups()).map(move |group| (tile, group)))
            .map(|(t, g)| vector(t, g))
            .collect())
    }

    /// The scores of the first `count` images, read from the slots of the vectors of an answer.
    ///
    /// # Errors
    /// [`CnnError::Mismatch`] if the number of vectors or slots is wrong, or `count` is above the batch size.
    pub fn scores(&self, vectors: &[Vec<Complex64>], count: usize) -> Result<Vec<[f64; CLASSES]>, CnnError> {
        let whole = vectors.len() == self.outputs() && vectors.iter().all(|slots| slots.len() == self.slots);
        if !whole || count > self.batch {
            let found = format!("{} vectors for {count} images", vectors.len());
            let needed = format!("{} of {} slots for at most {} images", self.outputs(), self.slots, self.batch);
            return Err(mismatch("read scores", found, needed));
        }
        let score = |class: usize, j: usize| vectors[class / self.width()][class % self.width() * self.batch + j].re;
        Ok((0..count).map(|j| std::array::from_fn(|class| score(class, j))).collect())
    }

    /// Number of features of a tile, which is the number of positions `k`.
    pub(super) fn width(&self) -> usize {
        self.slots / self.shape.hidden / self.batch
    }

    /// Number of tiles that contain all features.
    pub(super) fn tiles(&self) -> usize {
        self.shape.features().div_ceil(self.width())
    }

    /// Number of groups that contain all pixels under the kernel.
    pub(super) fn groups(&self) -> usize {
        OFFSETS.div_ceil(self.shape.hidden)
    }

    /// The kernels for the images of a tile and a group.
    pub(super) fn kernel(&self, network: &Network, tile: usize, group: usize) -> Vec<Complex64> {
        self.fill(|r, k, _| {
            let (offset, feature) = (group * self.shape.hidden + r, tile * self.width() + k);
            if offset >= OFFSETS || feature >= self.shape.features() {
                return 0.0;
            }
            network.kernel(feature / FEATURES_PER_CHANNEL, offset / KERNEL, offset % KERNEL)
        })
    }

    /// The biases of the kernels for a tile.
    pub(super) fn kernel_bias(&self, network: &Network, tile: usize) -> Vec<Complex64> {
        let bias = |feature: usize| network.kernel_bias(feature / FEATURES_PER_CHANNEL);
        self.fill(|_, k, _| self.feature(tile, k).map_or(0.0, bias))
    }

    /// The weights of the first dense layer for a tile.
    pub(super) fn dense(&self, network: &Network, tile: usize) -> Vec<Complex64> {
        self.fill(|r, k, _| self.feature(tile, k).map_or(0.0, |feature| network.dense(r, feature)))
    }

    /// The biases of the first dense layer.
    pub(super) fn dense_bias(&self, network: &Network) -> Vec<Complex64> {
        self.fill(|r, _, _| network.dense_bias(r))
    }

    /// The weights of the second dense layer for a class, at the position of the scores of the class, and 0 elsewhere.
    pub(super) fn out(&self, network: &Network, class: usize) -> Vec<Complex64> {
        self.fill(|r, k, _| if k == class % self.width() { network.out(class, r) } else { 0.0 })
    }

    /// The biases of the second dense layer for an output vector.
    pub(super) fn out_bias(&self, network: &Network, output: usize) -> Vec<Complex64> {
        self.fill(|_, k, _| network.out_bias(output * self.width() + k))
    }

    fn feature(&self, tile: usize, k: usize) -> Option<usize> {
        Some(tile * self.width() + k).filter(|&feature| feature < self.shape.features())
    }

    fn fill(&self, value: impl Fn(usize, usize, usize) -> f64) -> Vec<Complex64> {
        let at = |slot: usize| {
            let cell = slot / self.batch;
            value(cell / self.width(), cell % self.width(), slot % self.batch).into()
        };
        (0..self.slots).map(at).collect()
    }
}
