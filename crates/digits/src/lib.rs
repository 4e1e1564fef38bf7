#![doc = include_str!("../README.md")]

mod error;
mod format;
mod images;
mod network;
mod oblivious;
mod owner;
mod service;
mod shape;
mod sums;
mod train;

pub use error::{DataError, DigitsError, ModelError, TrainError};
pub use images::{Image, LabelledImages, Part};
pub use network::{Network, Ranges, TrainingRecord};
pub use oblivious::{EncryptedNetwork, ObliviousCircuit, ObliviousLayout};
pub use owner::{ImageLayout, OwnerCircuit};
pub use service::{Description, ImageAsker, PROTOCOL_VERSION, Recognised, Recogniser};
pub use shape::{CLASSES, FEATURES_PER_CHANNEL, IMAGE_SIDE, KERNEL, OUTPUT_SIDE, PIXELS, STRIDE, Shape};
pub use train::{Progress, TrainOptions, fit};
pub use unspoken_modelfile::{FileError, ModelId};
