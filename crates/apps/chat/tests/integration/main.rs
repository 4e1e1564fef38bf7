//! The tests of the crate through its public interface, in one binary.

mod chat;
mod common;
#[path = "../../../protocol/tests/damage/mod.rs"]
mod damage;
mod device;
mod parts;
mod passages;
mod sampling;
mod sessions;
