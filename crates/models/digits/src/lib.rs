#![doc = include_str!("../README.md")]

mod error;
mod format;
mod images;
mod network;
mod shape;
mod train;

pub use error::DigitsModelError;
pub use images::{Image, LabelledImages, Part};
pub use network::{Network, Ranges, TrainingRecord, digit};
pub use shape::{CLASSES, FEATURES_PER_CHANNEL, IMAGE_SIDE, KERNEL, OUTPUT_SIDE, PIXELS, STRIDE, Shape};
pub use train::{Progress, TrainOptions, fit};
