#![doc = include_str!("../README.md")]

mod circuit;
mod convolution;
mod error;
mod layout;
mod placement;

pub use circuit::PlainWeightsCircuit;
pub use error::CnnError;
pub use layout::ImageLayout;
