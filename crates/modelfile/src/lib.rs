#![doc = include_str!("../README.md")]

mod error;
mod id;
mod pair;

pub use error::FileError;
pub use id::{ModelHasher, ModelId};
pub use pair::FilePair;
pub use safetensors::tensor::Dtype;
