#![doc = include_str!("../README.md")]

mod benes;
mod blocked;
mod clear;
mod copies;
mod copies_choice;
mod copies_route;
mod diagonals;
mod error;
mod estimate;
mod explain;
pub mod factors;
mod groups;
mod network;
mod permutation;
mod plan;
mod planner;
mod prepared;
mod run;
mod search;
mod windows;

pub use benes::{collapsed, levels};
pub use blocked::{BlockedPlan, BlockedRoute, PreparedBlocks};
pub use copies::{Copies, Layer};
pub use diagonals::{Diagonals, Packing, Progression, Shifts};
pub use error::PermuteError;
pub use estimate::{Estimate, estimate};
pub use explain::{Explanation, Row, Verdict};
pub use network::{Edge, Network, Node, Source};
pub use permutation::{MAX_LENGTH, Permutation};
pub use plan::{Plan, Program, Stage, Strategy};
pub use planner::{Candidate, Task};
pub use prepared::PreparedPermutation;
pub use search::{Halving, ideal_factors, ideal_step};
pub use windows::windowed;
