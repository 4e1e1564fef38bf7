#![doc = include_str!("../README.md")]

mod build;
mod collection;
mod error;
mod writer;

pub use build::{Builder, Built, Step};
pub use collection::{Collection, DocumentsVersion, Found};
pub use error::CollectionError;
pub use writer::Writer;

/// Directory of the documents within that of a build.
const DOCUMENTS: &str = "documents";
