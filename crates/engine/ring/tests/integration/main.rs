//! The tests of the crate through its public interface, in one binary.

mod common;
#[cfg(not(target_family = "wasm"))]
mod device;
mod modulus_switch;
mod ring;
mod secret_marks;
mod terminal;
