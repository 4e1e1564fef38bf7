//! Versions of a database, which answers are computed from, wherever the database lies.

use std::sync::Arc;

use crate::database::TableView;
use crate::layout::Layout;
use crate::parameters::PirParameters;

/// One version of a database: it stays as it is while it is held.
pub trait DatabaseVersion: Send + Sync {
    /// Its number; later versions have larger ones.
    fn version(&self) -> u64;

    /// How records lie in its cells.
    fn layout(&self) -> Layout;

    /// One table for each piece of a cell.
    fn planes(&self) -> Vec<TableView<'_>>;
}

/// A database that changes.
pub trait VersionedDatabase: Send + Sync + 'static {
    /// One version.
    type Version: DatabaseVersion;

    /// The parameters of all versions.
    fn parameters(&self) -> &PirParameters;

    /// The version to answer from now.
    fn current(&self) -> Arc<Self::Version>;

    /// Bytes of memory that are not given back while it is served; mapped files do not count.
    fn resident_bytes(&self) -> u64;
}

impl<V: VersionedDatabase> VersionedDatabase for Arc<V> {
    type Version = V::Version;

    fn parameters(&self) -> &PirParameters {
        V::parameters(self)
    }

    fn current(&self) -> Arc<V::Version> {
        V::current(self)
    }

    fn resident_bytes(&self) -> u64 {
        V::resident_bytes(self)
    }
}
