#![doc = include_str!("../README.md")]

mod adam;
mod dataset;
mod error;
mod id;
mod pair;
mod random;

pub use adam::AdamW;
pub use dataset::{Dataset, Split};
pub use error::StoreError;
pub use id::{ModelHasher, ModelId};
pub use pair::{FilePair, ModelFiles, read_file, write_file};
pub use random::Random;
pub use safetensors::tensor::Dtype;
