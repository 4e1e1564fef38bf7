//! Changes of an index on disk, which a service takes up while it answers.
//!
//! A new document goes to a free column of the nearest cluster that has one. A removed one leaves a column of zeros,
//! which stays empty, so that a position never has two documents, one after the other: a client that found the first
//! could fetch the second. When clusters are full, the index must be built again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use unspoken_pir_scheme::PirParameters;
use unspoken_pir_scheme::dense::scores::ScoreShape;

use crate::directory::Directory;
use crate::error::IndexError;
use crate::manifest::{About, ID_BYTES, Manifest, only};
use crate::vectors::Quantised;

/// Clusters that a new document may go to, the nearest ones.
const CHOICES: usize = 16;

/// The new coordinates of a position; `None` if its document is removed.
type Change = Option<Vec<i8>>;

/// Changes that are not written yet. One writer at a time: its caller holds a lock.
#[derive(Debug)]
pub struct IndexEdit {
    dir: PathBuf,
    manifest: Manifest,
    parameters: PirParameters,
    shape: ScoreShape,
    directory: Directory,
    changes: BTreeMap<u64, Change>,
}

impl IndexEdit {
    /// Begins to change the index of a directory.
    ///
    /// # Errors
    /// If a file cannot be read, or is not as it was written.
    pub fn open(dir: &Path) -> Result<Self, IndexError> {
        let manifest = Manifest::read(dir)?;
        let (parameters, shape) = (manifest.parameters(dir)?, manifest.shape()?);
        let directory = manifest.directory(dir)?;
        Ok(IndexEdit { dir: dir.to_owned(), manifest, parameters, shape, directory, changes: BTreeMap::new() })
    }

    /// Identifies the build.
    pub fn id(&self) -> [u8; ID_BYTES] {
        self.manifest.id
    }

    /// Coordinates of a vector.
    pub fn width(&self) -> usize {
        self.shape.width()
    }

    /// The versions of the documents that belong to the index, without the changes.
    pub fn document_versions(&self) -> [u32; 2] {
        self.manifest.document_versions
    }

    /// What its owner says and knows of it.
    pub fn about(&self) -> &About {
        &self.manifest.about
    }

    /// Whether there is a document at a position: one was put there, and was not removed.
    pub fn has_document(&self, position: u64) -> bool {
        let (cluster, column) = ((position / self.room()) as usize, position % self.room());
        let was_put = self.manifest.counts.get(cluster).is_some_and(|&count| column < u64::from(count));
        let is_removed = self.manifest.removed.binary_search(&position).is_ok();
        was_put && !is_removed && self.changes.get(&position) != Some(&None)
    }

    /// Adds a document with this vector of length 1; returns its position.
    ///
    /// # Errors
    /// If the vector has another width, or the nearest clusters are full.
    pub fn add(&mut self, direction: &[f32]) -> Result<u64, IndexError> {
        if direction.len() != self.width() {
            let (found, needed) = (direction.len(), self.width());
            return Err(IndexError::OtherWidth { found, needed });
        }
        let room = self.room();
        let near = self.directory.clusters(direction, CHOICES);
        let free = near.iter().find(|&&cluster| u64::from(self.manifest.counts[cluster]) < room);
        let &cluster = free.ok_or(IndexError::Full { clusters: near.len() })?;
        let position = cluster as u64 * room + u64::from(self.manifest.counts[cluster]);
        self.manifest.counts[cluster] += 1;
        let coordinates = Quantised::one(direction, self.manifest.scale, self.shape.norm());
        self.changes.insert(position, Some(coordinates));
        Ok(position)
    }

    /// Removes the document at a position. Its position stays empty.
    pub fn remove(&mut self, position: u64) {
        self.changes.insert(position, None);
    }

    /// Writes all changes: the files of the groups that have changed, and then the manifest. `document_versions` are
    /// those that belong to the index from now on; see [`StoredIndex::document_versions`].
    ///
    /// [`StoredIndex::document_versions`]: crate::StoredIndex::document_versions
    ///
    /// # Errors
    /// If a file cannot be read or written.
    pub fn commit(&mut self, document_versions: [u32; 2]) -> Result<(), IndexError> {
        if self.changes.is_empty() && document_versions == self.manifest.document_versions {
            return Ok(());
        }
        let (room, groups) = (self.room(), self.shape.groups());
        let mut by_group: BTreeMap<usize, Vec<(u64, &Change)>> = BTreeMap::new();
        for (&position, change) in &self.changes {
            by_group.entry((position / room) as usize % groups).or_default().push((position, change));
        }
        let mut manifest = self.manifest.clone();
        for (&group, changes) in &by_group {
            let part = self.shape.part(&self.parameters, only(group))?;
            let mut bytes = manifest.group(&self.dir, &self.parameters, group)?;
            for &(position, change) in changes {
                let (block, column) = ((position / room) as usize / groups, (position % room) as usize);
                for row in 0..self.width() {
                    let coordinate = change.as_ref().map_or(0, |coordinates| coordinates[row]);
                    bytes[part.byte_at(block * self.width() + row, column)] = coordinate.cast_unsigned();
                }
            }
            manifest.write_group(&self.dir, group, &bytes)?;
        }
        let removed = self.changes.iter().filter(|(_, change)| change.is_none()).map(|(&position, _)| position);
        let removed: BTreeSet<u64> = manifest.removed.iter().copied().chain(removed).collect();
        manifest.removed = removed.into_iter().collect();
        manifest.document_versions = document_versions;
        manifest.write(&self.dir)?;
        manifest.remove_others(&self.dir)?;
        self.manifest = manifest;
        self.changes.clear();
        Ok(())
    }

    /// Documents of a cluster, at most.
    fn room(&self) -> u64 {
        ScoreShape::cluster_documents(&self.parameters) as u64
    }
}
