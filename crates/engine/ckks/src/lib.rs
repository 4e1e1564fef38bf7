#![doc = include_str!("../README.md")]

mod arithmetic;
mod bootstrap;
mod cost;
mod encoding;
mod error;
mod evaluator;
mod failure;
mod linear;
mod matrix;
mod noise;
mod parameters;
mod polynomial;
mod prepared;
mod presets;
mod simulator;
mod vector;
mod zero;

pub use arithmetic::{Arithmetic, SCALE_TOLERANCE};
pub use bootstrap::{Bootstrap, Bootstrapper, SlotValues};
pub use cost::{Cost, CostModel};
pub use encoding::{Encoder, Plaintext, Slots};
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
pub use vector::{Ciphertext, SeededCiphertext};
pub use zero::Encrypted;
