#![doc = include_str!("../README.md")]

mod clusters;
mod directory;
mod error;
mod files;
mod index;
mod plan;
mod vectors;

pub use directory::{Directory, MAX_ASKED};
pub use error::IndexError;
pub use files::StoredIndex;
pub use index::Index;
pub use plan::{Plan, Wish};
pub use vectors::{Quantised, directions};
