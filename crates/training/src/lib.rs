#![doc = include_str!("../README.md")]

mod adam;
mod random;

pub use adam::AdamW;
pub use random::Random;
