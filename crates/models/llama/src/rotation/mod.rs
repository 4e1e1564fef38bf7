//! Rotation: the same function with smaller values on the way.
//!
//! *Private Llama inference*, Section 3.1: tokens in front of every text take the outliers of attention sinks, and
//! orthogonal rotations spread what single coordinates hold.

mod fold;
mod prefix;
mod rotate;
mod round;

pub use fold::fold_norms;
pub use prefix::{Prefix, PrefixSearch, find_prefix};
pub use rotate::rotate;
pub use round::round_weights;
