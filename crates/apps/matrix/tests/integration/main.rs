//! The tests of the crate through its public interface, in one binary.

mod arrays;
#[path = "../../../protocol/tests/damage/mod.rs"]
mod damage;
mod magnitudes;
mod served;
