//! The tests of the crate through its public interface, in one binary.

mod common;
mod compression;
mod files;
mod gumbel;
mod head;
mod reviews;
mod segments;
