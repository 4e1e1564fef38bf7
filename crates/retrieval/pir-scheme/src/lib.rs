#![doc = include_str!("../README.md")]

mod authentication;
mod client;
mod database;
pub mod dense;
pub mod encrypted;
mod entry;
mod error;
mod expansion;
mod keys;
pub mod layout;
mod mode;
#[cfg(test)]
mod noise_tests;
mod packing;
mod parameters;
mod preset;
mod query;
mod response;
mod secured;
mod server;
mod shape;
mod tables;
mod upload;
mod version;

pub use client::PirSecret;
pub use database::{Database, EntryChange, TableView};
pub use encrypted::EncryptedEntry;
pub use entry::{ENTRY_FORMAT, encode_entry};
pub use error::SchemeError;
pub use expansion::expand;
pub use keys::{KEY_FORMAT, KeyHeader, PreparedKeys, SeededKeys};
pub use layout::{Layout, LayoutError, Length};
pub use mode::Mode;
pub use parameters::{MAX_LOG2_FAILURE, PirLiteral, PirParameters, ResponseLiteral};
pub use preset::Preset;
pub use query::Query;
pub use response::Response;
pub use secured::SecuredObject;
pub use server::{Phase, answer, answer_in_phases, answer_memory_bytes};
pub use shape::{DatabaseShape, MAX_INDEX_BITS};
pub use tables::{PlaneShape, TableKind, Tables};
pub use unspoken_gsw::GswError;
pub use upload::{EMPTY_VERSION, Upload, UploadError, UploadState, UploadedDatabase, WRITE_KEY_BYTES};
pub use version::{DatabaseShard, DatabaseVersion, Planes, ShardId, Staleness, VersionedDatabase};
