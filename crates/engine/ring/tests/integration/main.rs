//! The tests of the crate through its public interface, in one binary.

mod common;
mod device;
mod modulus_switch;
mod ring;
mod secret_marks;
mod terminal;
