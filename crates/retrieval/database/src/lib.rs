#![doc = include_str!("../README.md")]

mod build;
mod cells;
mod commits;
#[cfg(test)]
mod crash;
mod database;
mod dense;
mod disk;
mod edited;
mod encrypted;
mod error;
mod format;
mod generation;
mod geometry;
mod hashed;
mod journal;
mod lock;
mod manifest;
#[cfg(test)]
mod masks_tests;
mod newest;
mod place;
mod progress;
mod records;
mod shard;
mod snapshot;
mod split;
mod store;
mod sums;
mod transformed;
mod writer;

pub use build::{Builder, Built};
pub use database::Database;
pub use encrypted::{Declaration, EncryptedSnapshot, EncryptedStore};
pub use error::DatabaseError;
pub use lock::Lock;
pub use manifest::SealingId;
pub use progress::{Phase, Progress};
pub use records::{Duplicates, Record};
pub use shard::Shard;
pub use snapshot::Snapshot;
pub use split::Split;
pub use writer::Writer;
