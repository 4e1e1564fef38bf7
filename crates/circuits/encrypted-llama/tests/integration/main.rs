//! The tests of the crate through its public interface, in one binary.

mod check;
#[path = "../common/mod.rs"]
mod common;
mod count;
mod families;
mod lookup;
mod spread;
mod stories;
