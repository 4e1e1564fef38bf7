//! Traits for versions of a database that answers are computed from, in memory or on disk.

use std::sync::Arc;

use crate::database::TableView;
use crate::dense::{DensePart, GroupView};
use crate::encrypted::EncryptedView;
use crate::parameters::PirParameters;
use crate::tables::Tables;

/// The content of the tables of a version, by plane.
#[derive(Debug)]
pub enum Planes<'a> {
    /// Transformed ring elements.
    Transformed(Vec<TableView<'a>>),
    /// Bytes: the groups of each plane.
    Dense(Vec<Vec<GroupView<'a>>>),
    /// Encrypted entries: all planes of an entry together.
    Encrypted(EncryptedView<'a>),
}

/// One version of a database. It does not change while it is held.
pub trait DatabaseVersion: Send + Sync {
    /// Version number; it grows with every version.
    fn version(&self) -> u64;

    /// Layout of records in cells, and of cells in tables.
    fn tables(&self) -> &Tables;

    /// Id of the sealing of the records; `None` if they are not sealed. Clients that cannot open them are told so.
    fn sealing(&self) -> Option<[u8; 16]> {
        None
    }

    /// The tables, of the kind and in the number that [`DatabaseVersion::tables`] says.
    fn planes(&self) -> Planes<'_>;
}

/// Which shard of a database it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ShardId {
    /// Identifies the version that was cut and the number of its shards, by their content. Answers can be added from
    /// shards of one split alone.
    pub split: [u8; 16],
    /// Number of the shard, from 1.
    pub number: u32,
    /// Number of shards.
    pub shards: u32,
}

impl std::fmt::Display for ShardId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "shard {} of {}", self.number, self.shards)
    }
}

/// A shard of one version of a database with dense tables. It does not change.
pub trait DatabaseShard: Send + Sync + 'static {
    /// Which shard it is.
    fn id(&self) -> ShardId;

    /// Version number of the database.
    fn version(&self) -> u64;

    /// Layout of records in cells, and of cells in tables, of the whole database.
    fn tables(&self) -> &Tables;

    /// As [`DatabaseVersion::sealing`], of the whole database.
    fn sealing(&self) -> Option<[u8; 16]> {
        None
    }

    /// The part of each plane that the shard has.
    fn part(&self) -> &DensePart;

    /// The groups of its part of each plane.
    fn planes(&self) -> Vec<Vec<GroupView<'_>>>;

    /// Bytes of memory in use while the shard is served; mapped files do not count.
    fn resident_bytes(&self) -> u64;
}

/// A database that is updated while it is served.
pub trait VersionedDatabase: Send + Sync + 'static {
    /// A version of the database.
    type Version: DatabaseVersion;

    /// The parameters of all versions.
    fn parameters(&self) -> &PirParameters;

    /// The current version.
    fn current(&self) -> Arc<Self::Version>;

    /// Bytes of memory in use while the database is served; mapped files do not count.
    fn resident_bytes(&self) -> u64;

    /// Why [`VersionedDatabase::current`] is not the newest version. `None` if it is, as far as known.
    fn staleness(&self) -> Option<Staleness> {
        None
    }
}

/// Why the current version of a database is not the newest one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Staleness {
    /// The newest version cannot be read. The one before is correct and may be served until it can.
    Unreadable,
    /// The database was replaced by one that cannot be served in its place. The current version belongs to a database
    /// that is no longer there.
    Replaced,
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

    fn staleness(&self) -> Option<Staleness> {
        V::staleness(self)
    }
}
