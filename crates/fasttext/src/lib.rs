#![doc = include_str!("../README.md")]

mod dataset;
mod encoder;
mod error;
mod format;
mod model;
mod shape;
mod stream;
mod tables;
mod tokenise;
mod train;
mod vocabulary;

pub use dataset::{Dataset, Split};
pub use encoder::{Codes, Encoder};
pub use error::{DataError, ModelError, TrainError};
pub use model::{Model, TrainingRecord};
pub use shape::Shape;
pub use tables::ScoreTables;
pub use tokenise::Tokeniser;
pub use train::{Phase, Progress, TrainOptions, fit, fit_with_validation};
pub use unspoken_modelfile::{FileError, ModelId};
pub use vocabulary::{UNKNOWN, Vocabulary};
