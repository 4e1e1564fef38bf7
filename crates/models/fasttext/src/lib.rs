#![doc = include_str!("../README.md")]

mod coverage;
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

pub use coverage::TextCoverage;
pub use encoder::{Codes, Encoder};
pub use error::FastTextError;
pub use model::{Model, TrainingRecord};
pub use shape::Shape;
pub use tables::ScoreTables;
pub use tokenise::{Tokeniser, WordRule};
pub use train::{ClassWeights, Phase, Progress, TrainOptions, fit, fit_with_validation};
pub use vocabulary::{UNKNOWN, Vocabulary};
