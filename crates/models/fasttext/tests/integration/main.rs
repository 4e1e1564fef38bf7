//! The tests of the crate through its public interface, in one binary.

mod common;
mod files;
mod sms;
mod training;
