//! Images of digits, and readers of IDX files.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::error::DigitsModelError;
use crate::shape::{CLASSES, IMAGE_SIDE, PIXELS};

/// Maximum number of images in one file. MNIST has 60,000 images, 47 MB of pixels.
const MAX_IMAGES: u32 = 1 << 20;
const IMAGES_MAGIC: u32 = 0x803;
const LABELS_MAGIC: u32 = 0x801;

/// A grey-scale image of 28 x 28 pixels, row by row; 0 is the background, 255 the ink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image(Box<[u8; PIXELS]>);

/// Images with labels, the digits they show.
#[derive(Clone, Debug, Default)]
pub struct LabelledImages {
    images: Vec<Image>,
    labels: Vec<u8>,
}

/// Part of the MNIST data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// 60,000 images.
    Train,
    /// 10,000 images, for testing.
    Test,
}

impl Image {
    /// An image from its pixels.
    ///
    /// # Errors
    /// [`DigitsModelError::Image`] unless there are 784 pixels.
    pub fn new(pixels: &[u8]) -> Result<Self, DigitsModelError> {
        let needed = format!("{IMAGE_SIDE} rows of {IMAGE_SIDE} pixels");
        let refuse = |_| DigitsModelError::Image { found: pixels.len(), needed };
        Ok(Self(Box::new(pixels.try_into().map_err(refuse)?)))
    }

    /// Reads the images of an IDX file.
    ///
    /// # Errors
    /// As for [`LabelledImages::read`].
    pub fn read_file(path: impl AsRef<Path>) -> Result<Vec<Self>, DigitsModelError> {
        let side = IMAGE_SIDE as u32;
        let pixels = read_idx(path.as_ref().to_owned(), IMAGES_MAGIC, &[side, side])?;
        if pixels.iter().max() == Some(&1) {
            let needed = "pixels of 0 (ground) to 255 (ink): multiply them by 255".into();
            let (path, found) = (path.as_ref().to_owned(), "no pixel above 1".into());
            return Err(DigitsModelError::Content { path, found, needed });
        }
        pixels.chunks_exact(PIXELS).map(Image::new).collect()
    }

    /// Its pixels, row by row.
    pub fn pixels(&self) -> &[u8; PIXELS] {
        &self.0
    }

    /// The pixel as input of the network, 0 to 1; 0 outside of the image.
    pub(crate) fn value(&self, row: isize, column: isize) -> f64 {
        let inside = |x: isize| (0..IMAGE_SIDE as isize).contains(&x);
        if inside(row) && inside(column) {
            f64::from(self.0[row as usize * IMAGE_SIDE + column as usize]) / 255.0
        } else {
            0.0
        }
    }
}

impl LabelledImages {
    /// Pairs images with labels.
    ///
    /// # Errors
    /// [`DigitsModelError::Labels`] if the numbers of images and labels differ, or a label is not a digit.
    pub fn new(images: Vec<Image>, labels: Vec<u8>) -> Result<Self, DigitsModelError> {
        if images.len() != labels.len() {
            let found = format!("{} images and {} labels", images.len(), labels.len());
            return Err(DigitsModelError::Labels { found, needed: "one label for each image" });
        }
        match labels.iter().find(|&&label| usize::from(label) >= CLASSES) {
            Some(label) => Err(DigitsModelError::Labels { found: format!("label {label}"), needed: "a digit, 0 to 9" }),
            None => Ok(Self { images, labels }),
        }
    }

    /// Reads one part of MNIST from the uncompressed IDX files in `directory`, under their published names
    /// (`t10k-images-idx3-ubyte` and so on). Headers are checked before memory is allocated.
    ///
    /// # Errors
    /// [`DigitsModelError::Io`] or [`DigitsModelError::Content`].
    pub fn read(directory: impl AsRef<Path>, part: Part) -> Result<Self, DigitsModelError> {
        let name = match part {
            Part::Train => "train",
            Part::Test => "t10k",
        };
        let path = |kind: &str| directory.as_ref().join(format!("{name}-{kind}-ubyte"));
        Self::read_files(path("images-idx3"), path("labels-idx1"))
    }

    /// Reads an IDX file of images and one of labels.
    ///
    /// # Errors
    /// As for [`LabelledImages::read`].
    pub fn read_files(images: impl AsRef<Path>, labels: impl AsRef<Path>) -> Result<Self, DigitsModelError> {
        Self::new(Image::read_file(images)?, read_idx(labels.as_ref().to_owned(), LABELS_MAGIC, &[])?)
    }

    /// Number of images.
    pub fn len(&self) -> usize {
        self.images.len()
    }

    /// Whether there are no images.
    pub fn is_empty(&self) -> bool {
        self.images.is_empty()
    }

    /// The images.
    pub fn images(&self) -> &[Image] {
        &self.images
    }

    /// The labels, in the order of the images.
    pub fn labels(&self) -> &[u8] {
        &self.labels
    }

    /// Splits off the last `count` images (all, if there are fewer).
    pub fn split_last(mut self, count: usize) -> (Self, Self) {
        let at = self.len().saturating_sub(count);
        let last = Self { images: self.images.split_off(at), labels: self.labels.split_off(at) };
        (self, last)
    }
}

/// The bytes after the header of an IDX file. The header is a magic number, the number of items and the dimensions of
/// an item, all big-endian `u32`.
fn read_idx(path: PathBuf, magic: u32, item: &[u32]) -> Result<Vec<u8>, DigitsModelError> {
    let failed = |source| DigitsModelError::Io { path: path.clone(), source };
    let mut file = File::open(&path).map_err(failed)?;
    let mut word = || {
        let mut bytes = [0; 4];
        file.read_exact(&mut bytes).map(|()| u32::from_be_bytes(bytes)).map_err(failed)
    };
    let refuse = |found: String, needed: String| DigitsModelError::Content { path: path.clone(), found, needed };
    let found = word()?;
    if found != magic {
        return Err(refuse(format!("magic number {found:#x}"), format!("{magic:#x}; a file that is not compressed")));
    }
    let count = word()?;
    if count > MAX_IMAGES {
        return Err(refuse(format!("{count} items"), format!("at most {MAX_IMAGES}")));
    }
    for &needed in item {
        let found = word()?;
        if found != needed {
            return Err(refuse(format!("items of side {found}"), format!("side {needed}")));
        }
    }
    let bytes = u64::from(count) * item.iter().map(|&side| u64::from(side)).product::<u64>();
    let mut content = Vec::new();
    file.take(bytes + 1).read_to_end(&mut content).map_err(failed)?;
    if content.len() as u64 != bytes {
        return Err(refuse(format!("{} bytes after the header or more", content.len()), format!("{bytes}")));
    }
    Ok(content)
}
