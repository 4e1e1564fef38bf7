mod diagonals;
mod error;
pub mod factors;
mod permutation;
mod search;

pub use diagonals::{Diagonals, Packing, Progression, Shifts};
pub use error::PermuteError;
pub use permutation::{MAX_LENGTH, Permutation};
pub use search::{Halving, ideal_factors, ideal_step};
