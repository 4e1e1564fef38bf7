#![doc = include_str!("../README.md")]

mod bytes;
mod error;
mod form;
mod graph;
mod graph_bytes;
mod keys;
mod layouts;
mod preset;
mod program;
mod sealed;
mod secret;
mod terms;

pub use error::ArraysError;
pub use form::Form;
pub use graph::{Graph, Node};
pub use keys::Keys;
pub use layouts::Options;
pub use program::{Precision, Program};
pub use sealed::{Answer, Inputs};
pub use secret::Secret;
pub use terms::{Input, Terms};
