//! x
mod choice;
mod dickson;
mod error;
mod minimum;
mod number;
mod roots;
mod split;
mod stability;
mod tree;
pub use error::SlimError;
pub use stability::LevelStability;
pub use tree::SquareTree;
mod evaluation;
mod program;
pub use evaluation::{AffineMap, SlimEvaluation};
