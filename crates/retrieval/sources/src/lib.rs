#![doc = include_str!("../README.md")]

mod ahead;
mod delimited;
mod error;
mod field;
mod folder;
mod json_array;
mod json_lines;
mod object;
mod open;
mod parquet;
mod parquet_cell;
mod record;
mod source;
mod spec;
mod sqlite;
mod sqlite_file;

pub use error::SourceError;
pub use record::{MAX_RECORD_BYTES, Record};
pub use source::{FolderFiles, Source};
pub use spec::{Kind, SourceSpec};
