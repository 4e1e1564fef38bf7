//! An index on disk.
//!
//! ```text
//! DIR/search.json   parameters, shape, masks, scale, asked blocks, counts of clusters, hashes of the other files
//! DIR/table.bin     the coordinates, in the order of the table
//! DIR/centres.bin   the centres of the clusters
//! ```
//! `search.json` is written last, and removed first when another index takes the place of one, so a directory without
//! it is no index.

use std::path::Path;
use std::{fs, io};

use ndarray::Array2;
use serde::{Deserialize, Serialize};
use unspoken_files::{Access, replace_file};
use unspoken_pir_scheme::dense::scores::ScoreShape;
use unspoken_pir_scheme::dense::{DenseTable, MaskSeed};
use unspoken_pir_scheme::{PirParameters, Preset};

use crate::directory::Directory;
use crate::error::IndexError;
use crate::index::Index;

/// Version of the format of the files.
const FORMAT: u32 = 1;

/// Names of the files.
const MANIFEST: &str = "search.json";
const TABLE: &str = "table.bin";
const CENTRES: &str = "centres.bin";

/// Longest manifest, in bytes: one for a million clusters.
const MAX_MANIFEST_BYTES: u64 = 16 << 20;

/// The manifest.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    format: u32,
    preset: String,
    /// Hash of the numbers of the parameter set.
    parameters: [u8; 16],
    width: usize,
    blocks: usize,
    groups: usize,
    norm: u32,
    masks: MaskSeed,
    scale: f32,
    asked: usize,
    /// Name of the embedder that made the vectors, if it is known.
    embedder: Option<String>,
    counts: Vec<u32>,
    /// BLAKE3 of the files.
    table: String,
    centres: String,
}

/// An index that was read from disk, ready to answer.
#[derive(Debug)]
pub struct StoredIndex {
    table: DenseTable,
    shape: ScoreShape,
    directory: Directory,
    counts: Vec<u32>,
    id: [u8; 16],
    embedder: Option<String>,
}

impl Index {
    /// Writes the index to a directory, which is created if it is not there. `embedder` names what made the vectors.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn store(&self, parameters: &PirParameters, dir: &Path, embedder: Option<&str>) -> Result<(), IndexError> {
        fs::create_dir_all(dir).map_err(IndexError::io("create", dir))?;
        let write = |name: &str, bytes: &[u8]| -> Result<String, IndexError> {
            let path = dir.join(name);
            replace_file(&path, bytes, Access::Umask).map_err(IndexError::io("write", &path))?;
            Ok(blake3::hash(bytes).to_string())
        };
        let (shape, directory) = (self.shape(), self.directory());
        let centres: Vec<u8> = directory.centres().iter().map(|coordinate| coordinate.cast_unsigned()).collect();
        let manifest = Manifest {
            format: FORMAT,
            preset: parameters.name().to_owned(),
            parameters: parameters.fingerprint(),
            width: shape.width(),
            blocks: shape.blocks(),
            groups: shape.groups(),
            norm: shape.norm(),
            masks: shape.masks(),
            scale: directory.scale(),
            asked: directory.asked(),
            embedder: embedder.map(str::to_owned),
            counts: self.counts(),
            table: write(TABLE, &self.table_bytes(parameters)?)?,
            centres: write(CENTRES, &centres)?,
        };
        let json = serde_json::to_vec_pretty(&manifest).expect("a manifest has no maps");
        write(MANIFEST, &json).map(drop)
    }
}

impl StoredIndex {
    /// Ends the index of a directory before its files, or what belongs to them, are replaced: until another one is
    /// stored, none can be opened. A directory without an index stays as it is.
    ///
    /// # Errors
    /// If the manifest cannot be removed.
    pub fn end(dir: &Path) -> Result<(), IndexError> {
        let path = dir.join(MANIFEST);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(IndexError::io("remove", &path)(error)),
            _ => Ok(()),
        }
    }

    /// Reads an index and prepares its table, which takes half a second for each group of columns.
    ///
    /// # Errors
    /// If a file cannot be read, or is not as it was written.
    pub fn open(dir: &Path) -> Result<Self, IndexError> {
        let read = |name: &str, most: u64| -> Result<Vec<u8>, IndexError> {
            let path = dir.join(name);
            let found = path.metadata().map_err(IndexError::io("open", &path))?.len();
            if found > most {
                return Err(IndexError::file(&path, format!("{found} bytes"), format!("at most {most}")));
            }
            fs::read(&path).map_err(IndexError::io("read", &path))
        };
        let path = dir.join(MANIFEST);
        let json = read(MANIFEST, MAX_MANIFEST_BYTES)?;
        let manifest: Manifest = serde_json::from_slice(&json)
            .map_err(|error| IndexError::file(&path, error, "the manifest of an index of this release"))?;
        if manifest.format != FORMAT {
            let found = format!("format {}", manifest.format);
            return Err(IndexError::file(&path, found, format!("format {FORMAT}: update Unspoken")));
        }
        let parameters = Preset::find(&manifest.preset)?.build()?;
        if parameters.fingerprint() != manifest.parameters {
            let found = format!("other numbers under the name {}", manifest.preset);
            return Err(IndexError::file(&path, found, "the same release that built it, or a rebuild"));
        }
        let Manifest { width, blocks, groups, .. } = manifest;
        let shape = ScoreShape::new([width, blocks, groups], manifest.norm, manifest.masks)?;
        let part = shape.part(&parameters, 0..groups)?;
        let checked = |name: &str, length: usize, hash: &str| -> Result<Vec<u8>, IndexError> {
            let (path, bytes) = (dir.join(name), read(name, length as u64)?);
            match bytes.len() == length && blake3::hash(&bytes).to_string() == hash {
                true => Ok(bytes),
                false => Err(IndexError::file(&path, "other bytes than were written", "a copy of it, or a rebuild")),
            }
        };
        let table = checked(TABLE, part.table_bytes(&parameters), &manifest.table)?;
        let centres = checked(CENTRES, blocks * groups * width, &manifest.centres)?;
        let centres: Vec<i8> = centres.iter().map(|byte| byte.cast_signed()).collect();
        let centres = Array2::from_shape_vec((blocks * groups, width), centres).expect("as many bytes as coordinates");
        let directory = Directory::described(centres, manifest.scale, groups, manifest.asked);
        let table = DenseTable::from_bytes(&parameters, part, table)?;
        // The hash of the manifest depends on all other files.
        let mut id = [0; 16];
        blake3::Hasher::new_derive_key("unspoken 2026 id of a search index").update(&json).finalize_xof().fill(&mut id);
        Ok(StoredIndex { table, shape, directory, counts: manifest.counts, id, embedder: manifest.embedder })
    }

    /// The parameters.
    pub fn parameters(&self) -> &PirParameters {
        self.table.parameters()
    }

    /// The table.
    pub fn table(&self) -> &DenseTable {
        &self.table
    }

    /// The shape of the table.
    pub fn shape(&self) -> &ScoreShape {
        &self.shape
    }

    /// What clients know of the index.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// The same index for questions that ask another number of blocks.
    #[must_use]
    pub fn asking(self, asked: usize) -> Self {
        StoredIndex { directory: self.directory.asking(asked), ..self }
    }

    /// Number of positions: of documents and of places where there is none.
    pub fn positions(&self) -> u64 {
        (self.counts.len() * ScoreShape::cluster_documents(self.parameters())) as u64
    }

    /// Number of documents in each cluster, in the order of the blocks.
    pub fn counts(&self) -> &[u32] {
        &self.counts
    }

    /// Identifies the content.
    pub fn id(&self) -> [u8; 16] {
        self.id
    }

    /// Name of the embedder that made the vectors, if it is known.
    pub fn embedder(&self) -> Option<&str> {
        self.embedder.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Plan, Wish};
    use crate::vectors::directions;

    #[test]
    fn an_index_is_read_as_it_was_written_or_refused() {
        let parameters = Preset::InsecureN11.build().unwrap();
        let vectors = directions(Array2::from_shape_fn((50, 8), |(i, j)| ((i * 7 + j * 3) % 11) as f32 - 5.0)).unwrap();
        let wish = Wish { documents: 50, width: 8, link: 1e7, cores: 1.0, memory: 1 << 30 };
        let plan = Plan::new(&parameters, &wish, [1, 1, 1]);
        let index = Index::new(&parameters, vectors.view(), &plan, MaskSeed([5; 16])).unwrap();
        let dir = tempfile::tempdir().unwrap();
        index.store(&parameters, dir.path(), None).unwrap();
        let stored = StoredIndex::open(dir.path()).unwrap();
        assert_eq!((stored.shape(), stored.directory()), (index.shape(), index.directory()));
        assert_eq!((stored.counts(), stored.embedder()), (&[50][..], None));
        assert_eq!(stored.table().bytes(), index.table_bytes(&parameters).unwrap());
        let refused = || StoredIndex::open(dir.path()).unwrap_err().to_string();
        for (name, said) in [(TABLE, "other bytes"), (CENTRES, "other bytes"), (MANIFEST, "the manifest of an index")] {
            let path = dir.path().join(name);
            let bytes = fs::read(&path).unwrap();
            let mut damaged = bytes.clone();
            damaged[0] ^= 1;
            fs::write(&path, damaged).unwrap();
            assert!(refused().contains(said), "{name}: {}", refused());
            fs::write(&path, &bytes[1..]).unwrap();
            assert!(refused().contains(said), "{name}: {}", refused());
            fs::write(&path, bytes).unwrap();
        }
        let manifest = fs::read_to_string(dir.path().join(MANIFEST)).unwrap();
        fs::write(dir.path().join(MANIFEST), manifest.replace("\"format\": 1", "\"format\": 2")).unwrap();
        assert!(refused().contains("found format 2"), "{}", refused());
        StoredIndex::end(dir.path()).unwrap();
        assert!(refused().contains("search.json"), "{}", refused());
        StoredIndex::end(dir.path()).unwrap();
    }
}
