//! The tests of the crate through its public interface, in one binary.

mod classify;
#[path = "../../../protocol/tests/damage/mod.rs"]
mod damage;
mod head;
mod magnitudes;
