//! The opening of sources of all kinds.

use crate::error::SourceError;
use crate::source::Source;
use crate::spec::{Kind, SourceSpec};
use crate::{delimited, folder, json_array, json_lines, parquet, sqlite};

impl Source {
    /// Opens a source and finds its columns. No record is read yet.
    ///
    /// # Errors
    /// Any [`SourceError`] but [`SourceError::Kind`].
    pub fn open(spec: &SourceSpec) -> Result<Self, SourceError> {
        spec.check()?;
        match spec.kind {
            Kind::Csv => delimited::open(spec, b','),
            Kind::Tsv => delimited::open(spec, b'\t'),
            Kind::JsonLines => json_lines::open(spec),
            Kind::JsonArray => json_array::open(spec),
            Kind::Sqlite => sqlite::open(spec),
            Kind::Parquet => parquet::open(spec),
            Kind::Folder => folder::open(spec),
        }
    }
}
