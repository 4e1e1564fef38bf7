//! The layout of images in the slots: the part of the circuit that client and server share.

use unspoken_ckks::Complex64;
use unspoken_digits_model::{CLASSES, FEATURES_PER_CHANNEL, Image, PIXELS, Shape};

use crate::error::CnnError;
use crate::placement::{PixelPlacement, place_pixels};

/// The layout of a batch of images in the slots of one or more vectors.
///
/// The slots are divided into cells of `batch` slots, one slot per image. A block has one cell for each feature of the
/// network, and contains one plane of pixels for each channel. With the largest `batch` a vector is one block, and
/// eight vectors (lite) contain the pixels of all images. With a smaller batch a vector contains several blocks, so
/// that fewer vectors are sent. Scores are returned in one vector: class `c` of image `i` is in slot `c * batch + i`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageLayout {
    shape: Shape,
    slots: usize,
    batch: usize,
    placements: Vec<PixelPlacement>,
    blocks: usize,
}

impl ImageLayout {
    /// The layout of batches of `batch` images for a network of this shape.
    ///
    /// # Errors
    /// [`CnnError::Mismatch`] if the batch is not a power of two up to [`ImageLayout::largest_batch`], or the shape or
    /// the number of slots is invalid.
    pub fn new(shape: Shape, slots: usize, batch: usize) -> Result<Self, CnnError> {
        const OPERATION: &str = "lay out images";
        if shape.check().is_err() || !slots.is_power_of_two() {
            let found = format!("{shape:?} in {slots} slots");
            return Err(CnnError::mismatch(OPERATION, found, "a valid network shape, and a power of two of slots"));
        }
        let largest = Self::largest_batch(shape, slots);
        if !batch.is_power_of_two() || batch > largest {
            let needed = format!("a power of two up to {largest}; larger batches need several queries");
            return Err(CnnError::mismatch(OPERATION, format!("a batch of {batch}"), needed));
        }
        let (placements, planes) = place_pixels();
        Ok(Self { shape, slots, batch, placements, blocks: planes.div_ceil(shape.channels) })
    }

    /// Maximum number of images of a batch: slots divided by features. 0 if the slots are too few for one image.
    pub fn largest_batch(shape: Shape, slots: usize) -> usize {
        slots / shape.features()
    }

    /// Number of images of a batch.
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// The shape of the network.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Number of vectors of a batch.
    pub fn vectors(&self) -> usize {
        self.blocks.div_ceil(self.blocks_per_vector())
    }

    /// The slots of each vector for up to [`ImageLayout::batch`] images; slots without an image are 0.
    ///
    /// # Errors
    /// [`CnnError::Mismatch`] if there are no images, or more than a batch.
    pub fn arrange(&self, images: &[Image]) -> Result<Vec<Vec<Complex64>>, CnnError> {
        if images.is_empty() || images.len() > self.batch {
            let needed = format!("1 to {}; larger batches need several queries", self.batch);
            return Err(CnnError::mismatch("arrange images", format!("{} images", images.len()), needed));
        }
        let mut vectors = vec![vec![Complex64::default(); self.slots]; self.vectors()];
        for pixel in 0..PIXELS {
            let (vector, cell) = self.cell(pixel);
            let slots = &mut vectors[vector][cell * self.batch..];
            let value = |image: &Image| f64::from(image.pixels()[pixel]) / 255.0;
            slots.iter_mut().zip(images).for_each(|(slot, image)| *slot = value(image).into());
        }
        Ok(vectors)
    }

    /// The scores of the first `count` images, read from the slots of an answer.
    ///
    /// # Errors
    /// [`CnnError::Mismatch`] if the number of slots is wrong, or `count` is above the batch size.
    pub fn scores(&self, slots: &[Complex64], count: usize) -> Result<Vec<[f64; CLASSES]>, CnnError> {
        if slots.len() != self.slots || count > self.batch {
            let found = format!("{} slots for {count} images", slots.len());
            let needed = format!("{} slots for at most {} images", self.slots, self.batch);
            return Err(CnnError::mismatch("read scores", found, needed));
        }
        Ok((0..count).map(|i| std::array::from_fn(|class| slots[class * self.batch + i].re)).collect())
    }

    /// The vector of a pixel, and its cell in this vector.
    pub(crate) fn cell(&self, pixel: usize) -> (usize, usize) {
        let PixelPlacement { plane, position } = self.placements[pixel];
        let (block, plane) = (plane / self.shape.channels, plane % self.shape.channels);
        let (vector, block) = (block / self.blocks_per_vector(), block % self.blocks_per_vector());
        (vector, block * self.shape.features() + plane * FEATURES_PER_CHANNEL + position)
    }

    /// Number of blocks of each vector.
    pub(crate) fn blocks_per_vector(&self) -> usize {
        self.slots / self.shape.features() / self.batch
    }

    pub(crate) fn slots(&self) -> usize {
        self.slots
    }
}
