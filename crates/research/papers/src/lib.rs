#![doc = include_str!("../README.md")]

mod encrypted_weights;
mod rows;
mod shapes;
mod skewed;

pub use encrypted_weights::{EncryptedNetwork, EncryptedWeightsCircuit, EncryptedWeightsLayout};
pub use rows::{EncryptedRows, RowsProduct};
pub use skewed::{SkewedMatrix, SkewedProduct};
