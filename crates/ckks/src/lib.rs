#![doc = include_str!("../README.md")]

mod arithmetic;
mod encoding;
mod error;
mod evaluator;
mod matrix;
mod parameters;
mod presets;
mod vector;

pub use arithmetic::{Arithmetic, SCALE_TOLERANCE};
pub use encoding::{Encoder, Plaintext};
pub use error::CkksError;
pub use evaluator::Evaluator;
pub use matrix::PreparedMatrix;
pub use num_complex::Complex64;
pub use parameters::{CkksLiteral, CkksParameters};
pub use presets::{PRESETS, Preset};
pub use vector::{Ciphertext, SeededCiphertext};
