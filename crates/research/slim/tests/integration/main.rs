//! The tests of the crate through its public interface, in one binary.

mod evaluation;
mod report;
mod tree;
