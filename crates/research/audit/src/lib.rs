#![doc = include_str!("../README.md")]

pub mod attack;
#[cfg(feature = "insecure_reproduction")]
pub mod cached_encryption;
mod error;
#[cfg(feature = "insecure_reproduction")]
pub mod insecure_reproduction;
mod space;

pub use error::AuditError;
pub use space::{MessageSpace, Scheme, Size};
