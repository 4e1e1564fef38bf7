#![doc = include_str!("../README.md")]

mod encrypted_weights;
mod error;
mod plain_weights;

pub use encrypted_weights::{EncryptedNetwork, EncryptedWeightsCircuit, EncryptedWeightsLayout};
pub use error::CnnError;
pub use plain_weights::{ImageLayout, PlainWeightsCircuit};
