#![doc = include_str!("../README.md")]
#![cfg_attr(
    not(feature = "full"),
    expect(dead_code, reason = "Parquet and SQLite need more of records and columns than the other kinds")
)]

mod ahead;
mod delimited;
mod error;
mod field;
mod folder;
mod json_array;
mod json_lines;
mod object;
mod open;
#[cfg(feature = "full")]
mod parquet;
#[cfg(feature = "full")]
mod parquet_cell;
mod record;
mod source;
mod spec;
#[cfg(feature = "full")]
mod sqlite;
#[cfg(feature = "full")]
mod sqlite_file;

pub use error::SourceError;
pub use record::{MAX_RECORD_BYTES, Record};
pub use source::{FolderFiles, Source};
pub use spec::{Kind, SourceSpec};
