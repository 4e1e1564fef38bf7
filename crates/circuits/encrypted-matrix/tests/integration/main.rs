//! The tests of the crate through its public interface, in one binary.

mod common;
mod graph;
mod operations;
mod permuted;
mod product;
