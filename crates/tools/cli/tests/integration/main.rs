//! The tests of the crate through its public interface, in one binary.

mod chat;
mod command;
mod digits;
mod doctor;
mod errors;
mod examples;
mod keys;
mod kinds;
mod llama;
mod matrix;
mod model;
mod pir;
mod prepare;
mod reload;
mod retrieval;
mod sealed;
mod search;
mod serve;
mod shards;
mod sums;
mod support;
mod texts;
mod train;
