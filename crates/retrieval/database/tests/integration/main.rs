//! The tests of the crate through its public interface, in one binary.

mod answer;
mod build;
mod change;
mod common;
mod encrypted;
mod shards;
