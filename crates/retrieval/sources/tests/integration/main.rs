//! The tests of the crate through its public interface, in one binary.

mod parquet_types;
mod tables;
mod text;
