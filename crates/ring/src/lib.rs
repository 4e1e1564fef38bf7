//! Residue rings: primes, number-theoretic transforms, RNS bases, sampling. Knows nothing of encryption.
#![allow(dead_code)]
mod automorphism;
mod kernels;
mod memory;
/// Modular
pub mod modular;
mod ntt;
pub use kernels::{Backend, KEY_BLOCK};
pub use ntt::RingKind;
