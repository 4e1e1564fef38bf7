//! The tests of the crate through its public interface, in one binary.

mod common;
mod questions;
mod shared_keys;
