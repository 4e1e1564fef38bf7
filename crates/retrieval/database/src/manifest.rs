//! The manifest: the file that names the current files of the database. It is the only file that is replaced.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use unspoken_files::is_temporary_of;
use unspoken_pir_scheme::dense::MaskSeed;
use unspoken_pir_scheme::{Layout, PirParameters, Preset, TableKind, Tables};

use crate::disk::Disk;
use crate::error::{DatabaseError, io_error};
use crate::format;
use crate::geometry::{Geometry, fingerprint};
use crate::hashed::{other_format, publish_sealed, read_sealed};

/// Version of the format of all files. Earlier releases know the first one, and neither other kinds of tables nor
/// sealings, shards or masks of a database's own.
fn format_of(manifest: &Manifest) -> u32 {
    match (manifest.tables, manifest.sealing, &manifest.shard) {
        (TableKind::Wide, ..) => WIDE_FORMAT,
        _ if manifest.masks.is_some() => MASKS_FORMAT,
        (_, _, Some(_)) => SHARD_FORMAT,
        (TableKind::Encrypted, _, None) => ENCRYPTED_FORMAT,
        (TableKind::Transformed, None, None) => 1,
        _ => 2,
    }
}

/// Version of the format of the files of a shard without masks of its own.
const SHARD_FORMAT: u32 = 3;

/// Id of the secret with which the records of a database are sealed.
pub type SealingId = [u8; 16];

/// The newest of these versions.
const NEWEST_FORMAT: u32 = WIDE_FORMAT;

/// The version of databases of encrypted entries.
const ENCRYPTED_FORMAT: u32 = 4;

/// The version of databases with dense tables that have masks of their own, and of their shards.
const MASKS_FORMAT: u32 = 5;

/// The version of databases with wide tables, and of their shards.
const WIDE_FORMAT: u32 = 6;

/// Content of the manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Manifest {
    format: u32,
    preset: String,
    /// Fingerprint of everything that the words of the tables depend on.
    parameters: String,
    pub layout: Layout,
    /// Databases of earlier releases have transformed tables, and no such field.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tables: TableKind,
    /// The seed of the public masks of dense tables. Databases of earlier releases share their masks, and have no such
    /// field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub masks: Option<MaskSeed>,
    /// The sealing of the records, if they are sealed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealing: Option<SealingId>,
    /// Current generation: the number in the names of the current files.
    pub generation: u64,
    /// Version of the cells and the tables; the journal contains later ones.
    pub version: u64,
    /// Number of records in that version.
    pub records: u64,
    /// BLAKE3 of the file with the hashes of the other files' chunks.
    pub sums: String,
    /// Which shard of the database the directory has, if it is not the whole database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<ShardEntry>,
}

/// A shard, as a manifest names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShardEntry {
    /// From 1.
    pub number: u32,
    pub shards: u32,
    /// Id of the split, in hexadecimal digits.
    pub split: String,
}

fn is_default(kind: &TableKind) -> bool {
    *kind == TableKind::default()
}

/// Paths of the files of a generation.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    pub table: PathBuf,
    pub cells: PathBuf,
    pub sums: PathBuf,
    pub journal: PathBuf,
    /// The number of the newest version; missing as long as the journal is empty.
    pub newest: PathBuf,
}

impl Files {
    pub fn new(dir: &Path, generation: u64) -> Self {
        let name = |kind: &str, extension: &str| dir.join(format!("{kind}-{generation}.{extension}"));
        Files {
            table: name("table", "bin"),
            cells: name("cells", "bin"),
            sums: name("sums", "bin"),
            journal: name("journal", "log"),
            newest: name("newest", "txt"),
        }
    }

    pub fn all(&self) -> [&Path; 5] {
        [&self.table, &self.cells, &self.sums, &self.journal, &self.newest]
    }
}

impl Manifest {
    pub fn new(
        geometry: &Geometry,
        sealing: Option<SealingId>,
        generation: u64,
        versions: (u64, u64),
        sums: &[u8],
    ) -> Self {
        Manifest::of((&geometry.tables, sealing), generation, versions, sums, None)
    }

    /// The manifest of a shard, whose directory has one generation. The sealing is the sealing of the whole database.
    pub fn of_shard(
        contents: (&Tables, Option<SealingId>),
        versions: (u64, u64),
        shard: ShardEntry,
        sums: &[u8],
    ) -> Self {
        Manifest::of(contents, 1, versions, sums, Some(shard))
    }

    fn of(
        (tables, sealing): (&Tables, Option<SealingId>),
        generation: u64,
        (version, records): (u64, u64),
        sums: &[u8],
        shard: Option<ShardEntry>,
    ) -> Self {
        let mut manifest = Manifest {
            format: 0,
            preset: tables.parameters().ring().name().into(),
            parameters: fingerprint(tables.parameters(), tables.kind()),
            layout: tables.layout(),
            tables: tables.kind(),
            masks: tables.masks(),
            sealing,
            generation,
            version,
            records,
            sums: blake3::hash(sums).to_string(),
            shard,
        };
        manifest.format = format_of(&manifest);
        manifest
    }

    /// Reads the manifest of a whole database.
    pub fn read(dir: &Path) -> Result<Self, DatabaseError> {
        let manifest = Manifest::read_any(dir)?;
        match &manifest.shard {
            None => Ok(manifest),
            Some(ShardEntry { number, shards, .. }) => Err(DatabaseError::OtherPart {
                dir: dir.into(),
                found: format!("shard {number} of {shards} of a database"),
                needed: "a whole database; serve shards with `unspoken serve --pir-shard`, and change the whole \
                         database",
            }),
        }
    }

    /// Reads the manifest of a shard.
    pub fn read_shard(dir: &Path) -> Result<(Self, ShardEntry), DatabaseError> {
        let manifest = Manifest::read_any(dir)?;
        match manifest.shard.clone() {
            Some(shard) => Ok((manifest, shard)),
            None => Err(DatabaseError::OtherPart {
                dir: dir.into(),
                found: "a whole database".into(),
                needed: "a shard; make shards of it with `unspoken pir shard`",
            }),
        }
    }

    /// Reads a manifest and checks its hash and its format.
    fn read_any(dir: &Path) -> Result<Self, DatabaseError> {
        let manifest: Manifest = read_sealed(dir, format::MANIFEST, NEWEST_FORMAT)?;
        if manifest.format != format_of(&manifest) {
            return Err(other_format(manifest.format.into(), NEWEST_FORMAT));
        }
        Ok(manifest)
    }

    /// Replaces the manifest by this one, atomically and durably.
    pub fn publish(&self, disk: &Disk, dir: &Path) -> Result<(), DatabaseError> {
        publish_sealed(self, disk, dir, format::MANIFEST)
    }

    /// Whether both databases have the same parameters, so that clients of one can use their keys with the other. Their
    /// tables may be of different kinds.
    pub fn has_parameters_of(&self, other: &Manifest) -> bool {
        self.preset == other.preset && (self.tables != other.tables || self.parameters == other.parameters)
    }

    /// The parameters that the manifest names. They must equal this program's parameters of that name.
    pub fn parameters(&self) -> Result<PirParameters, DatabaseError> {
        let parameters = Preset::find(&self.preset)?.build()?;
        let needed = fingerprint(&parameters, self.tables);
        if self.parameters != needed {
            let (what, found) = ("parameters with the fingerprint", self.parameters.clone());
            return Err(DatabaseError::Format { what, found, needed });
        }
        Ok(parameters)
    }
}

/// Removes files of other generations, which a crash may have left.
pub(crate) fn sweep(disk: &Disk, dir: &Path, generation: u64) -> Result<(), DatabaseError> {
    let kept = Files::new(dir, generation);
    for entry in fs::read_dir(dir).map_err(io_error("list", dir))? {
        let path = entry.map_err(io_error("list", dir))?.path();
        let file_name = path.file_name().unwrap_or_default();
        let name = file_name.to_string_lossy();
        let numbered = |kind: &str, extension: &str| {
            let number = name.strip_prefix(kind).and_then(|name| name.strip_suffix(extension));
            number.is_some_and(|number| number.parse::<u64>().is_ok())
        };
        let ours = ["table-", "cells-", "sums-"].iter().any(|kind| numbered(kind, ".bin"))
            || numbered("journal-", ".log")
            || numbered("newest-", ".txt");
        let replaced = [format::MANIFEST, format::ENCRYPTED_MANIFEST, format::UPLOAD].map(|name| dir.join(name));
        let replaced = replaced.iter().chain([&kept.newest]);
        let temporary = replaced.into_iter().any(|path| is_temporary_of(path, file_name));
        if (ours && !kept.all().contains(&path.as_path())) || temporary {
            disk.remove(&path)?;
        }
    }
    Ok(())
}
