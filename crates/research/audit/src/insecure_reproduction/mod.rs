//! **Not for use.** Cached encryption as published, for benchmarks and for the attacks of this crate, which break it.
//!
//! From "At Least Factor-of-Two Optimization for RWLE-Based Homomorphic Encryption" (Zinc), which also describes its
//! predecessor Rache. Reproduced step by step, except where the printed text does not decrypt:
//!
//! - Equations (8), (12) and (13) print `pk_1` in both components. Here the second one uses `pk_2`; with `pk_1`
//!   nothing cancels (a test shows it).
//! - Equations (7) and (13) together give BGV a public key whose error is not a multiple of `t`, so that `e u`
//!   destroys the message. Here the error of the key is multiplied by `t`.
//! - Rache's randomisation "adds `Enc(r^i)` and subtracts `Enc(r^i)` `r` times". Here it subtracts the next lower
//!   pivot, `Enc(r^(i-1))`; otherwise the result is not an encryption of zero.
//!
//! The paper's closing idea, to draw errors in the transform domain, is not reproduced, because it is wrong: small
//! values at the roots of unity do not form a small polynomial, and the result does not decrypt (a test shows it).
//!
//! Theorem 2 of the paper claims that Zinc is as secure as the scheme it is built on. The proof fails: its reduction
//! makes a fresh encryption for each challenge, where Zinc reuses one encryption for all messages.

mod rache;
mod vanilla;
mod zinc;

pub use rache::{Rache, RacheShape};
pub use vanilla::Vanilla;
pub use zinc::Zinc;
