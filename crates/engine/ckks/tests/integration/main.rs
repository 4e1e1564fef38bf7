//! The tests of the crate through its public interface, in one binary.

mod bootstrap;
#[path = "../common/mod.rs"]
mod common;
#[cfg(not(target_family = "wasm"))]
mod device;
mod encrypted;
mod evaluator;
mod group;
mod linear;
mod periodic;
mod polynomial;
mod product;
mod rotations;
mod simulator;
mod subring;
