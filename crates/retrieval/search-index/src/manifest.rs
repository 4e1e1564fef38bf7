//! The files of an index.
//!
//! ```text
//! DIR/search.json                   parameters, shape, masks, scale, asked blocks, counts, hashes of the other files
//! DIR/BUILD/group-NUMBER-HASH.bin   the coordinates of a group of columns, in the order of the table
//! DIR/BUILD/centres.bin             the centres of the clusters
//! ```
//! A build has a directory of its own, which is named by its id; what else belongs to the build can be stored there.
//! `search.json` is written last, whole. Whoever reads it finds all files that it names, unless a later version or
//! build has removed them, and then `search.json` is another.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use ndarray::Array2;
use serde::{Deserialize, Serialize};
use unspoken_files::{Access, replace_file};
use unspoken_pir_scheme::dense::MaskSeed;
use unspoken_pir_scheme::dense::scores::ScoreShape;
use unspoken_pir_scheme::{PirParameters, Preset};

use crate::directory::Directory;
use crate::error::IndexError;

/// Version of the format of the files.
const FORMAT: u32 = 3;

const MANIFEST: &str = "search.json";
const CENTRES: &str = "centres.bin";

/// Longest manifest, in bytes: one for a million clusters.
const MAX_MANIFEST_BYTES: u64 = 16 << 20;

/// Version of the documents of a new build.
pub(crate) const FIRST_VERSION: u32 = 1;

/// Bytes that identify a build.
pub const ID_BYTES: usize = 16;

/// Digits of a hash in the name of a file.
const NAME_DIGITS: usize = 16;

/// What an owner says and knows of an index.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct About {
    /// Name of the embedder that made the vectors, if it is known.
    pub embedder: Option<String>,
    /// Part of the nearest documents that a question finds, measured when it was built.
    pub recall: Option<f64>,
}

/// The manifest.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Manifest {
    format: u32,
    /// Identifies the build, and its masks and positions. Changes keep it.
    pub id: [u8; ID_BYTES],
    preset: String,
    /// Hash of the numbers of the parameter set.
    parameters: [u8; 16],
    width: usize,
    blocks: usize,
    groups: usize,
    norm: u32,
    masks: MaskSeed,
    pub scale: f32,
    pub asked: usize,
    pub about: About,
    /// Columns of each cluster that have, or had, a document.
    pub counts: Vec<u32>,
    /// Positions of removed documents, in order. They stay empty.
    pub removed: Vec<u64>,
    /// The first and the last version of the documents that belong to this version of the index.
    pub document_versions: [u32; 2],
    /// BLAKE3 of the files.
    pub tables: Vec<String>,
    centres: String,
}

impl Manifest {
    /// The manifest of a build without files.
    pub fn new(
        parameters: &PirParameters,
        (shape, directory): (&ScoreShape, &Directory),
        counts: Vec<u32>,
        id: [u8; ID_BYTES],
        about: About,
    ) -> Self {
        Manifest {
            format: FORMAT,
            id,
            preset: parameters.name().to_owned(),
            parameters: parameters.fingerprint(),
            width: shape.width(),
            blocks: shape.blocks(),
            groups: shape.groups(),
            norm: shape.norm(),
            masks: shape.masks(),
            scale: directory.scale(),
            asked: directory.asked(),
            about,
            counts,
            removed: Vec::new(),
            document_versions: [FIRST_VERSION; 2],
            tables: vec![String::new(); shape.groups()],
            centres: String::new(),
        }
    }

    /// Reads the manifest of a directory.
    ///
    /// # Errors
    /// If it cannot be read, is of another release, or its parts do not fit each other.
    pub fn read(dir: &Path) -> Result<Self, IndexError> {
        let path = dir.join(MANIFEST);
        let json = read(&path, MAX_MANIFEST_BYTES)?;
        let manifest: Manifest = serde_json::from_slice(&json)
            .map_err(|error| IndexError::file(&path, error, "the manifest of an index of this release"))?;
        if manifest.format != FORMAT {
            let found = format!("format {}", manifest.format);
            return Err(IndexError::file(&path, found, format!("format {FORMAT}: update Unspoken, or build it again")));
        }
        let clusters = manifest.blocks.saturating_mul(manifest.groups);
        for (what, found, needed) in
            [("counts", manifest.counts.len(), clusters), ("tables", manifest.tables.len(), manifest.groups)]
        {
            if found != needed {
                return Err(IndexError::file(&path, format!("{found} {what}"), needed));
            }
        }
        if !(1..=manifest.blocks).contains(&manifest.asked) {
            let needed = format!("1 to {}, the number of blocks", manifest.blocks);
            return Err(IndexError::file(&path, format!("{} asked blocks", manifest.asked), needed));
        }
        if !(manifest.scale.is_finite() && manifest.scale > 0.0) {
            return Err(IndexError::file(&path, format!("scale {}", manifest.scale), "a positive number"));
        }
        Ok(manifest)
    }

    /// Whether it is the same version of the same build.
    pub fn is_same_version(&self, other: &Manifest) -> bool {
        let versions = |manifest: &Manifest| (manifest.id, manifest.document_versions);
        versions(self) == versions(other) && self.tables == other.tables && self.removed == other.removed
    }

    /// Writes the manifest, in the place of an earlier one.
    pub fn write(&self, dir: &Path) -> Result<(), IndexError> {
        let json = serde_json::to_vec_pretty(self).expect("a manifest has no maps");
        write(&dir.join(MANIFEST), &json)
    }

    /// The parameters.
    ///
    /// # Errors
    /// If this release has others under their name, or none, or a cluster has more documents than room for them.
    pub fn parameters(&self, dir: &Path) -> Result<PirParameters, IndexError> {
        let (path, parameters) = (dir.join(MANIFEST), Preset::find(&self.preset)?.build()?);
        if parameters.fingerprint() != self.parameters {
            let found = format!("other numbers under the name {}", self.preset);
            return Err(IndexError::file(&path, found, "the same release that built it, or a rebuild"));
        }
        let room = ScoreShape::cluster_documents(&parameters) as u32;
        match self.counts.iter().find(|&&count| count > room) {
            None => Ok(parameters),
            Some(count) => {
                Err(IndexError::file(&path, format!("{count} documents in a cluster"), format!("at most {room}")))
            }
        }
    }

    /// The shape of the table.
    pub fn shape(&self) -> Result<ScoreShape, IndexError> {
        Ok(ScoreShape::new([self.width, self.blocks, self.groups], self.norm, self.masks)?)
    }

    /// The centres that clients know, from their file.
    pub fn directory(&self, dir: &Path) -> Result<Directory, IndexError> {
        let path = build_directory(dir, self.id).join(CENTRES);
        let (rows, width) = (self.blocks * self.groups, self.width);
        let bytes = checked(&path, rows * width, &self.centres)?;
        let centres: Vec<i8> = bytes.iter().map(|byte| byte.cast_signed()).collect();
        let centres = Array2::from_shape_vec((rows, width), centres).expect("as many bytes as coordinates");
        Ok(Directory::described(centres, self.scale, self.groups, self.asked))
    }

    /// Writes the file of the centres.
    pub fn write_directory(&mut self, dir: &Path, directory: &Directory) -> Result<(), IndexError> {
        let bytes: Vec<u8> = directory.centres().iter().map(|coordinate| coordinate.cast_unsigned()).collect();
        self.centres = blake3::hash(&bytes).to_string();
        write(&build_directory(dir, self.id).join(CENTRES), &bytes)
    }

    /// The bytes of a group, from its file.
    pub fn group(&self, dir: &Path, parameters: &PirParameters, group: usize) -> Result<Vec<u8>, IndexError> {
        let part = self.shape()?.part(parameters, only(group))?;
        checked(&self.group_path(dir, group), part.table_bytes(parameters), &self.tables[group])
    }

    /// Writes the file of a group. The file of its earlier bytes stays until [`Manifest::remove_others`].
    pub fn write_group(&mut self, dir: &Path, group: usize, bytes: &[u8]) -> Result<(), IndexError> {
        self.tables[group] = blake3::hash(bytes).to_string();
        write(&self.group_path(dir, group), bytes)
    }

    fn group_path(&self, dir: &Path, group: usize) -> PathBuf {
        let hash = self.tables[group].get(..NAME_DIGITS).unwrap_or_default();
        build_directory(dir, self.id).join(format!("group-{group}-{hash}.bin"))
    }

    /// Removes the files of groups that this manifest does not name, and the directories of other builds.
    pub fn remove_others(&self, dir: &Path) -> Result<(), IndexError> {
        let build = build_directory(dir, self.id);
        let groups: Vec<PathBuf> = (0..self.groups).map(|group| self.group_path(dir, group)).collect();
        for path in entries(&build)? {
            if name_of(&path).starts_with("group-") && !groups.contains(&path) {
                fs::remove_file(&path).map_err(IndexError::io("remove", &path))?;
            }
        }
        for path in entries(dir)? {
            let name = name_of(&path);
            let is_build = name.len() == 2 * ID_BYTES && name.bytes().all(|byte| byte.is_ascii_hexdigit());
            if is_build && path != build {
                fs::remove_dir_all(&path).map_err(IndexError::io("remove", &path))?;
            }
        }
        Ok(())
    }
}

/// The directory of the files of a build.
pub fn build_directory(dir: &Path, id: [u8; ID_BYTES]) -> PathBuf {
    dir.join(id.map(|byte| format!("{byte:02x}")).concat())
}

/// The number of a build among the versions of its documents: the upper 32 bits of a version. It tells a client that
/// searched one build when a document is of another.
pub fn build_number(id: [u8; ID_BYTES]) -> u32 {
    let [a, b, c, d, ..] = id;
    // Versions stay below 2^63.
    u32::from_le_bytes([a, b, c, d]) >> 1
}

/// Whether a directory has an index.
pub fn is_index(dir: &Path) -> bool {
    dir.join(MANIFEST).exists()
}

/// The range of one group.
pub(crate) fn only(group: usize) -> Range<usize> {
    group..group + 1
}

fn entries(dir: &Path) -> Result<Vec<PathBuf>, IndexError> {
    let listed = fs::read_dir(dir).and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect());
    listed.map_err(IndexError::io("list", dir))
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), IndexError> {
    replace_file(path, bytes, Access::Umask).map_err(IndexError::io("write", path))
}

fn read(path: &Path, most: u64) -> Result<Vec<u8>, IndexError> {
    let found = path.metadata().map_err(IndexError::io("open", path))?.len();
    if found > most {
        return Err(IndexError::file(path, format!("{found} bytes"), format!("at most {most}")));
    }
    fs::read(path).map_err(IndexError::io("read", path))
}

/// The bytes of a file that has this length and hash.
fn checked(path: &Path, length: usize, hash: &str) -> Result<Vec<u8>, IndexError> {
    let bytes = read(path, length as u64)?;
    match bytes.len() == length && blake3::hash(&bytes).to_string() == hash {
        true => Ok(bytes),
        false => Err(IndexError::file(path, "other bytes than were written", "a copy of it, or a rebuild")),
    }
}
