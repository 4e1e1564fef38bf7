//! **Not for use.** Cached encryption as published, for benchmarks and for the attacks of this crate, which read it.
//!
//! From "At Least Factor-of-Two Optimization for RWLE-Based Homomorphic Encryption" (Zinc), which describes its
//! predecessor Rache, too. Reproduced step by step, except where the printed text does not decrypt:
//!
//! - Equations (8), (12) and (13) print `pk_1` in both components. The second one takes `pk_2`; with `pk_1` nothing
//!   cancels (a test shows it).
//! - Equations (7) and (13) together give BGV a public key whose error is not a multiple of `t`, so that `e u` spoils
//!   the message. The error of the key is multiplied by `t` here.
//! - Rache's randomisation "adds `Enc(r^i)` and subtracts `Enc(r^i)` `r` times". What it subtracts is the pivot below,
//!   `Enc(r^(i-1))`; otherwise the result is no encryption of zero.
//!
//! The closing idea of drawing errors in the transform domain is left out, because it is wrong: small values at the
//! roots of unity are not a small polynomial, and what it gives does not decrypt (a test shows that, too).
//!
//! Theorem 2 of the paper, that Zinc is as secure as what it is built on, fails where its reduction encrypts afresh for
//! each challenge what Zinc encrypts once for all messages.

mod rache;
mod vanilla;
mod zinc;

pub use rache::Rache;
pub use vanilla::Vanilla;
pub use zinc::Zinc;
