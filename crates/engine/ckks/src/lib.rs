#![doc = include_str!("../README.md")]

mod arithmetic;
mod bootstrap;
mod ciphertext;
mod cost;
mod encoding;
mod encrypted;
mod error;
mod evaluator;
mod group;
mod inner_sum;
mod linear;
mod magnitudes;
mod matrix;
mod memory;
mod noise;
mod parameters;
mod periodic;
mod polynomial;
mod prepared;
mod presets;
mod primes;
mod scale;
mod simulator;
mod worst_case;

pub use arithmetic::Arithmetic;
pub use bootstrap::{
    Bootstrap, BootstrapEstimate, BootstrapPhase, Bootstrapper, CoefficientMatrix, DimensionPlaces, RefreshArithmetic,
    SlotValues, SubringBootstrap, SubringBootstrapper,
};
pub use ciphertext::{Ciphertext, SeededCiphertext};
pub use cost::{Cost, CostModel};
pub use encoding::{Encoder, Plaintext, Slots};
pub use encrypted::Encrypted;
pub use error::CkksError;
pub use evaluator::Evaluator;
pub use inner_sum::InnerSum;
pub use linear::{LinearCosts, LinearPlan, LinearTransform, StepCounts, Steps};
pub use magnitudes::{Magnitudes, SlotBounds};
pub use matrix::PreparedMatrix;
pub use memory::{key_switch_bytes, vector_bytes, with_idle_buffers};
pub use noise::NoiseModel;
pub use num_complex::Complex64;
pub use parameters::{BootstrapLiteral, CkksLiteral, CkksParameters};
pub use periodic::PeriodicPacking;
pub use polynomial::evaluate::{
    WithPower, evaluate, evaluate_slots, evaluate_slots_with_power, evaluate_to_scale, evaluate_with_power,
};
pub use polynomial::slots::SlotPolynomials;
pub use polynomial::{Polynomial, PolynomialBasis};
pub use prepared::PreparedVector;
pub use presets::search::{BootstrapSearch, FoundBootstrap};
pub use presets::{PRESETS, Preset};
pub use scale::SCALE_TOLERANCE;
pub use simulator::{ErrorStatistics, Overflow, Simulated, Simulator};
pub use worst_case::WorstCase;
