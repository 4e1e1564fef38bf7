//! The tests of the crate through its public interface, in one binary.

#[path = "../../../protocol/tests/damage/mod.rs"]
mod damage;
mod device;
mod independence;
mod retrieve;
mod shards;
mod upload;
