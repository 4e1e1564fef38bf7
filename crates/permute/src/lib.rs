mod benes;
mod clear;
mod diagonals;
mod error;
pub mod factors;
mod network;
mod permutation;
mod plan;
mod search;

pub use benes::{collapsed, levels};
pub use diagonals::{Diagonals, Packing, Progression, Shifts};
pub use error::PermuteError;
pub use network::{Edge, Network, Node, Source};
pub use permutation::{MAX_LENGTH, Permutation};
pub use plan::{Plan, Program, Stage, Strategy};
pub use search::{Halving, ideal_factors, ideal_step};
