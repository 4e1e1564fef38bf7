//! The tests of the crate through its public interface, in one binary.

mod bounds;
mod common;
mod families;
mod formats;
mod halves;
mod rotation;
mod smollm2;
mod stories;
mod unread;
