#![doc = include_str!("../README.md")]

mod choice;
mod dickson;
mod error;
mod evaluation;
mod minimum;
mod number;
mod program;
mod roots;
mod split;
mod stability;
mod tree;

pub use error::SlimError;
pub use evaluation::{AffineMap, SlimEvaluation};
pub use stability::LevelStability;
pub use tree::SquareTree;
