//! Bootstrapping: refreshes vectors from the lowest levels to higher ones.
//!
//! The steps are: slots to coefficients, raise of the modulus, coefficients to slots, modular reduction. The first map
//! runs at the lowest levels, where it is cheap, and the sine must resolve each slot of its input. The raise happens
//! under a sparse secret (see `unspoken_rlwe`), which bounds the integer that the raise adds.
//!
//! ModRaise also applies the first factor of CoeffsToSlots, or sums the copies of sparse slots, at no level: the raised
//! ciphertext is small beside the modulus, so it is multiplied by the diagonals while it goes from the sparse secret to
//! the main one (`linear/raised.rs`; `unspoken_rlwe::Raised` has the keys). It rotates by the multiples of one stride,
//! so bootstraps of all numbers of slots share these keys. In alternating runs on one core (AMD EPYC, AVX-512) this and
//! the sums of hoisted rotations by limbs made bootstraps of all slots 1.04 to 1.5 times as fast, with up to one
//! product more (`CHANGELOG.md`). With more rotations in ModRaise (2^5 or 2^6) and two other factors instead of three,
//! another level is saved; measured at a scale of 2^50, that took 1.09 to 1.15 times as long, and 2^6 rotations a
//! quarter more memory for keys. With twice the baby steps in both maps a bootstrap took 0.89 times as long and 1.7
//! times the memory for keys.
//!
//! Values of at most 1 in each part are precise. The error of larger values grows with their cube, and a simulator
//! lists them in `overflows()`.
//!
//! A vector whose slots repeat (sparse packing) is cheaper: the linear maps have fewer factors, so ModRaise goes to a
//! lower level, keys cover fewer primes, and the real and the imaginary parts share one EvalMod in unused slots.
//!
//! Most of the noise of EvalMod comes from its first levels. Near zero the cosine, as a polynomial in `2 u^2 - 1`, has
//! a slope of about 1,800. So a rounding error of that variable costs 11 bits, and a rounding error of each power
//! `T_2`, `T_4`, ... costs two bits less than of the power before. This does not depend on the number of levels that
//! double the argument: reductions of seven or eight levels with no to three doublings have the same precision where
//! the polynomial is exact enough. Fewer doublings save a level at most and take more products. The search (`unspoken
//! plan --bootstrap --bits 16 --search`) tries them.
//!
//! The sparse secret has weight 32, and its keys have a small modulus of their own. Each factor of the two maps needs
//! the keys of its baby steps and of one giant step, because giant steps use Horner's rule. Keys from the sparse secret
//! have one row.

mod bootstrapper;
mod dft;
mod estimate;
mod eval_mod;
pub(crate) mod failure;
pub(crate) mod plan;
mod product;
mod repeat;
mod run;
mod subring;
mod works;

pub use self::bootstrapper::Bootstrapper;
pub use self::estimate::BootstrapEstimate;
pub use self::plan::{Bootstrap, SlotValues};
pub use self::product::{CoefficientMatrix, DimensionPlaces};
pub use self::run::{BootstrapPhase, RefreshArithmetic};
pub use self::subring::{SubringBootstrap, SubringBootstrapper};
