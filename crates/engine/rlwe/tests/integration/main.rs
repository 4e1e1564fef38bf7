//! The tests of the crate through its public interface, in one binary.

mod encapsulation;
mod rlwe;
mod small_ring;
mod subring;
