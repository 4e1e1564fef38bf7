#![doc = include_str!("../README.md")]

mod bytes;
mod error;
mod graph_bytes;
mod keys;
mod messages;
mod planner;
mod preset;
mod program;
mod secret;
mod shape;
mod signature;

pub use error::ArraysError;
pub use keys::Keys;
pub use messages::{EncryptedInputs, EncryptedResult};
pub use planner::Options;
pub use program::{Precision, Program, ProgramSource};
pub use secret::Secret;
pub use shape::{ArrayShape, Axes};
pub use signature::{Input, Signature};
