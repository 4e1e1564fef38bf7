//! The opening of sources of all kinds.

use crate::error::SourceError;
use crate::source::Source;
use crate::spec::{Kind, SourceSpec};
use crate::{delimited, folder, json_array, json_lines};
#[cfg(feature = "full")]
use crate::{parquet, sqlite};

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
            #[cfg(feature = "full")]
            Kind::Sqlite => sqlite::open(spec),
            #[cfg(feature = "full")]
            Kind::Parquet => parquet::open(spec),
            Kind::Folder => folder::open(spec),
            #[cfg(not(feature = "full"))]
            Kind::Sqlite | Kind::Parquet => Err(SourceError::File {
                path: spec.path.clone(),
                found: spec.kind.to_string(),
                needed: "a build of the feature `full`: `make build`".into(),
            }),
        }
    }
}
