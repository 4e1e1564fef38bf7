#![doc = include_str!("../README.md")]

mod automorphism;
mod coefficients;
mod declassify;
mod digits;
mod division;
mod error;
mod fork;
mod fused;
mod gadget;
mod gadget_key;
mod hoisted;
mod integer;
mod kernels;
mod matrix;
mod memory;
pub mod modular;
mod module_rows;
mod modulus_switch;
mod ntt;
mod poly;
mod product_sums;
mod ring;
mod sampling;
#[cfg(all(test, target_os = "linux"))]
mod stack_tests;
mod subring;
mod table;

pub use declassify::declassify;
pub use digits::{DigitGadget, DigitKey, Digits};
pub use error::RingError;
pub use fork::process_generation;
pub use gadget::Decomposed;
pub use gadget_key::{GadgetKey, GadgetKeyBuilder, SHORT_MARGIN, SeededKeyBuilder};
pub use integer::{nearest_integer, round_ties_even};
pub use kernels::Backend;
pub use matrix::RingMatrix;
pub use module_rows::ModuleRows;
pub use ntt::RingKind;
pub use poly::{Basis, Domain, Poly, Special};
pub use ring::{MAX_DROPPED, Ring, RingLiteral};
pub use sampling::{ERROR_SIGMA, RandomSource, SecretRng, Seed, derive_bytes};
pub use subring::SubringPoly;
pub use table::TableShape;
