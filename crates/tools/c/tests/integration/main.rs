//! The tests of the crate through its public interface, in one binary.

mod header;
mod model;
mod program;
mod search;
