#![doc = include_str!("../README.md")]

mod automorphism;
mod coefficients;
mod digits;
mod division;
mod error;
mod fork;
mod fresh;
mod gadget;
mod hoisted;
mod kernels;
mod matrix;
mod memory;
pub mod modular;
mod ntt;
mod passage;
mod poly;
mod ring;
mod sampling;
mod sums;
mod table;

pub use digits::{DigitGadget, DigitKey, Digits};
pub use error::RingError;
pub use fork::process_generation;
pub use gadget::{Decomposed, GadgetKey, GadgetKeyBuilder};
pub use kernels::Backend;
pub use matrix::RingMatrix;
pub use ntt::RingKind;
pub use poly::{Basis, Domain, Poly};
pub use ring::{Ring, RingLiteral};
pub use sampling::{ERROR_SIGMA, SecretRng, Seed};
pub use table::TableShape;
