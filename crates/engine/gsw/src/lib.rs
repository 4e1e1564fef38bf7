#![doc = include_str!("../README.md")]

mod bootstrap;
mod codec;
mod error;
mod lwe;
mod lwe_switch;
mod noise;
mod parameters;
mod rgsw;
mod ring_secret;
mod rotation;
mod trace;

pub use bootstrap::{CircuitBootstrapKey, ConversionKey, RotatedBit, SeededConversionKey};
pub use error::GswError;
pub use lwe::{LweCiphertext, LweSecret, SwitchedLwe};
pub use lwe_switch::{LweSwitchKey, SeededLweSwitchKey, rounded_to_even};
pub use noise::{Noise, digit_square, log2_failure, log2_failure_of_shared};
pub use parameters::{BinaryRing, BinaryRingLiteral, BootstrapLiteral, BootstrapParameters, GadgetLiteral, LweLiteral};
pub use rgsw::{Choice, Rgsw, RlweCiphertext};
pub use ring_secret::{RingSecret, SeededRows};
pub use rotation::{BlindRotationKey, SeededBlindRotationKey};
pub use trace::{SeededTraceKey, TraceKey};
