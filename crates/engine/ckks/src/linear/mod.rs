//! Linear transformations of the slots, given by the diagonals of their matrices.
//!
//! `out[j] = sum_k diagonal_k[j] in[j + k]`. Writing `k = g + b` with a giant step `g` and a baby step `b` ([`Steps`]),
//! this is `sum_g rot_g(sum_b rot_-g(diagonal_(g+b)) rot_b(in))`: one rotation per baby step and per giant step instead
//! of one per diagonal. The outer sum uses Horner's rule, from the last `g` down, so giant steps rotate by the
//! differences of successive `g`. Where these are equal, one key serves all of them. On ciphertexts both kinds of steps
//! are hoisted (Bossuat, Mouchet, Troncoso-Pastoriza and Hubaux, "Efficient bootstrapping for approximate homomorphic
//! encryption with non-sparse keys", EUROCRYPT 2021, section 4): the baby steps share one digit decomposition and stay
//! over the extended basis, undivided; each giant step divides one component by `P`; the sum is divided once, by `P`
//! and the level's primes together.

mod apply;
mod costs;
mod plan;
mod raised;
mod steps;
mod sums;
mod transform;

pub(crate) use apply::apply_sums;
pub use costs::LinearCosts;
pub use plan::LinearPlan;
pub(crate) use raised::{RaisedPlan, RaisedTransform};
pub use steps::{StepCounts, Steps};
pub(crate) use sums::LinearSums;
pub use transform::LinearTransform;
