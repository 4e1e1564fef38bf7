#![doc = include_str!("../README.md")]

mod arithmetic;
mod bootstrap;
mod ciphertext;
mod cost;
mod encoding;
mod encrypted;
mod error;
mod evaluator;
mod linear;
mod matrix;
mod noise;
mod parameters;
mod polynomial;
mod prepared;
mod presets;
mod simulator;

pub use arithmetic::{Arithmetic, SCALE_TOLERANCE};
pub use bootstrap::{Bootstrap, Bootstrapper, SlotValues};
pub use ciphertext::{Ciphertext, SeededCiphertext};
pub use cost::{Cost, CostModel};
pub use encoding::{Encoder, Plaintext, Slots};
pub use encrypted::Encrypted;
pub use error::CkksError;
pub use evaluator::Evaluator;
pub use linear::{LinearPlan, LinearTransform, Steps};
pub use matrix::PreparedMatrix;
pub use noise::NoiseModel;
pub use num_complex::Complex64;
pub use parameters::{BootstrapLiteral, CkksLiteral, CkksParameters};
pub use polynomial::{Polynomial, PolynomialBasis, evaluate, evaluate_to_scale};
pub use prepared::PreparedVector;
pub use presets::{PRESETS, Preset};
pub use simulator::{ErrorStatistics, Overflow, Simulated, Simulator};
