//! Indices that are read from disk, ready to answer.

use std::fs;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use unspoken_pir_scheme::PirParameters;
use unspoken_pir_scheme::dense::scores::ScoreShape;
use unspoken_pir_scheme::dense::{DenseTable, GroupView};

use crate::directory::Directory;
use crate::error::IndexError;
use crate::index::Index;
use crate::manifest::{About, ID_BYTES, Manifest, build_directory, only};

/// Number of attempts to read files that a writer may replace meanwhile.
const ATTEMPTS: usize = 4;

/// An index whose versions a service follows.
pub trait IndexVersions: Send + Sync + 'static {
    /// The newest version that was read.
    fn current(&self) -> Arc<StoredIndex>;

    /// Whether a newer version is there, and cannot be read.
    fn is_stale(&self) -> bool {
        false
    }
}

impl<V: IndexVersions> IndexVersions for Arc<V> {
    fn is_stale(&self) -> bool {
        V::is_stale(self)
    }

    fn current(&self) -> Arc<StoredIndex> {
        V::current(self)
    }
}

/// A version of an index that was read from disk, ready to answer, with all groups of its table or those of a shard.
#[derive(Debug)]
pub struct StoredIndex {
    manifest: Manifest,
    parameters: PirParameters,
    shape: ScoreShape,
    directory: Directory,
    part: IndexPart,
    /// The groups that `groups` has.
    range: Range<usize>,
    groups: Vec<Arc<Group>>,
}

/// Which groups of an index are prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexPart {
    /// All.
    Whole,
    /// Those of one of several shards, as evenly as they can be shared.
    Shard {
        /// Number of the shard, from 1.
        number: u32,
        /// Number of shards.
        shards: u32,
    },
    /// None: positions and documents are all that is asked for.
    Nothing,
}

impl IndexPart {
    /// The part of these groups.
    fn range(self, groups: usize) -> Result<Range<usize>, IndexError> {
        match self {
            IndexPart::Whole => Ok(0..groups),
            IndexPart::Nothing => Ok(0..0),
            IndexPart::Shard { number, shards } => {
                let (number, shards) = (number as usize, shards as usize);
                if !(1..=shards).contains(&number) || shards > groups {
                    return Err(IndexError::Shard { number, shards, groups });
                }
                Ok(groups * (number - 1) / shards..groups * number / shards)
            }
        }
    }
}

/// A group of columns, with the hash of its bytes.
#[derive(Debug)]
struct Group {
    hash: String,
    table: DenseTable,
}

impl Index {
    /// Writes the index to a directory, as the build `id`, in the place of an earlier one. Other files of this build
    /// must be in [`build_directory`] before.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn store(
        &self,
        parameters: &PirParameters,
        dir: &Path,
        id: [u8; ID_BYTES],
        about: About,
    ) -> Result<(), IndexError> {
        let build = build_directory(dir, id);
        fs::create_dir_all(&build).map_err(IndexError::io("create", &build))?;
        let mut manifest = Manifest::new(parameters, (self.shape(), self.directory()), self.counts(), id, about);
        for group in 0..self.shape().groups() {
            manifest.write_group(dir, group, &self.group_bytes(parameters, group)?)?;
        }
        manifest.write_directory(dir, self.directory())?;
        manifest.write(dir)?;
        manifest.remove_others(dir)
    }
}

impl StoredIndex {
    /// Reads an index and prepares its table, which takes half a second for each group of columns.
    ///
    /// # Errors
    /// If a file cannot be read, or is not as it was written.
    pub fn open(dir: &Path) -> Result<Self, IndexError> {
        Self::open_part(dir, IndexPart::Whole)
    }

    /// As [`StoredIndex::open`], and prepares a part of the table.
    ///
    /// # Errors
    /// As for [`StoredIndex::open`], or if there is no such part.
    pub fn open_part(dir: &Path, part: IndexPart) -> Result<Self, IndexError> {
        Self::newest(dir, part, None, &mut || ())
    }

    /// The version on disk, if it is not this one. Only the groups that have changed are prepared. `begun` is called
    /// when it is known which version that is, before its groups are prepared, which takes time.
    ///
    /// # Errors
    /// As for [`StoredIndex::open`].
    pub fn newer(&self, dir: &Path, begun: &mut dyn FnMut()) -> Result<Option<Self>, IndexError> {
        let manifest = Manifest::read(dir)?;
        match manifest.is_same_version(&self.manifest) {
            true => Ok(None),
            false => Self::newest(dir, self.part, Some(self), begun).map(Some),
        }
    }

    /// Reads the files, again if a writer has replaced them meanwhile.
    fn newest(
        dir: &Path,
        part: IndexPart,
        earlier: Option<&StoredIndex>,
        begun: &mut dyn FnMut(),
    ) -> Result<Self, IndexError> {
        for _ in 1..ATTEMPTS {
            match Self::read(dir, part, earlier, begun) {
                Err(IndexError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => (),
                read => return read,
            }
        }
        Self::read(dir, part, earlier, begun)
    }

    fn read(
        dir: &Path,
        part: IndexPart,
        earlier: Option<&StoredIndex>,
        begun: &mut dyn FnMut(),
    ) -> Result<Self, IndexError> {
        let manifest = Manifest::read(dir)?;
        begun();
        let (parameters, shape) = (manifest.parameters(dir)?, manifest.shape()?);
        let directory = manifest.directory(dir)?;
        let earlier = earlier.filter(|earlier| earlier.manifest.id == manifest.id);
        let range = part.range(shape.groups())?;
        let group = |number: usize| -> Result<Arc<Group>, IndexError> {
            let hash = &manifest.tables[number];
            let before = earlier.and_then(|earlier| earlier.groups.get(number - range.start));
            if let Some(same) = before.filter(|group| group.hash == *hash) {
                return Ok(Arc::clone(same));
            }
            let part = shape.part(&parameters, only(number))?;
            let table = DenseTable::from_bytes(&parameters, part, manifest.group(dir, &parameters, number)?)?;
            Ok(Arc::new(Group { hash: hash.clone(), table }))
        };
        let groups = range.clone().map(group).collect::<Result<_, _>>()?;
        Ok(StoredIndex { manifest, parameters, shape, directory, part, range, groups })
    }

    /// The same index for questions that ask another number of blocks.
    #[must_use]
    pub fn asking(self, asked: usize) -> Self {
        StoredIndex { directory: self.directory.asking(asked), ..self }
    }

    /// The parameters.
    pub fn parameters(&self) -> &PirParameters {
        &self.parameters
    }

    /// Whether it is a shard of an index.
    pub fn is_shard(&self) -> bool {
        matches!(self.part, IndexPart::Shard { .. })
    }

    /// The groups of the table that are prepared.
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// Views of the groups that are prepared.
    pub fn groups(&self) -> Vec<GroupView<'_>> {
        self.groups.iter().flat_map(|group| group.table.groups()).collect()
    }

    /// Bytes of memory of the table.
    pub fn memory_bytes(&self) -> usize {
        self.groups.iter().map(|group| group.table.memory_bytes()).sum()
    }

    /// The shape of the table.
    pub fn shape(&self) -> &ScoreShape {
        &self.shape
    }

    /// What clients know of the index.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Number of positions: of documents and of places where there is none.
    pub fn positions(&self) -> u64 {
        (self.counts().len() * ScoreShape::cluster_documents(&self.parameters)) as u64
    }

    /// Columns of each cluster that have, or had, a document, in the order of the blocks: the first ones.
    pub fn counts(&self) -> &[u32] {
        &self.manifest.counts
    }

    /// Number of documents.
    pub fn documents(&self) -> u64 {
        let counted: u64 = self.counts().iter().map(|&count| u64::from(count)).sum();
        counted.saturating_sub(self.manifest.removed.len() as u64)
    }

    /// Identifies the build: its masks and the positions of its documents. Changes keep it.
    pub fn id(&self) -> [u8; ID_BYTES] {
        self.manifest.id
    }

    /// What its owner says and knows of it.
    pub fn about(&self) -> &About {
        &self.manifest.about
    }

    /// The first and the last version of the documents that belong to this version of the index: they have all of its
    /// documents. The first one may still have documents that were removed from it.
    pub fn document_versions(&self) -> [u32; 2] {
        self.manifest.document_versions
    }

    /// The positions of removed documents, in order.
    pub fn removed(&self) -> &[u64] {
        &self.manifest.removed
    }

    /// The `most` nearest positions for a vector of length 1 among the `asked` nearest blocks, the nearest first, with
    /// their cosines: what a client without errors of encryption finds. Reads the prepared table in the clear.
    ///
    /// # Errors
    /// If the table has no such shape, which does not happen.
    pub fn search(&self, direction: &[f32], asked: usize, most: usize) -> Result<Vec<(u64, f32)>, IndexError> {
        let (room, count) = (ScoreShape::cluster_documents(&self.parameters), self.shape.groups());
        let mut found = Vec::new();
        for &block in self.directory.blocks(direction, asked).iter() {
            for (number, group) in self.range().zip(&self.groups) {
                let cluster = block * count + number;
                let (part, bytes) = (self.shape.part(&self.parameters, only(number))?, group.table.bytes());
                let rows = block * self.shape.width()..;
                let cosine = |column: usize| {
                    let row = |(row, x): (usize, &f32)| f32::from(bytes[part.byte_at(row, column)].cast_signed()) * x;
                    rows.clone().zip(direction).map(row).sum::<f32>() / self.directory.scale()
                };
                let columns = 0..self.counts()[cluster] as usize;
                found.extend(columns.map(|column| ((cluster * room + column) as u64, cosine(column))));
            }
        }
        found.retain(|(position, _)| self.removed().binary_search(position).is_err());
        found.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        found.truncate(most);
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use ndarray::Array2;
    use unspoken_pir_scheme::Preset;
    use unspoken_pir_scheme::dense::MaskSeed;

    use super::*;
    use crate::edit::IndexEdit;
    use crate::manifest::FIRST_VERSION;
    use crate::plan::{Plan, Wish};
    use crate::vectors::directions;

    const ID: [u8; ID_BYTES] = [9; ID_BYTES];

    /// 50 vectors of 8 coordinates, in two clusters of one block each.
    fn stored(dir: &Path) -> (Index, Array2<f32>) {
        let parameters = Preset::InsecureN11.build().unwrap();
        let vectors = directions(Array2::from_shape_fn((50, 8), |(i, j)| ((i * 7 + j * 3) % 11) as f32 - 5.2)).unwrap();
        let wish = Wish { documents: 50, width: 8, link: 1e7, cores: 1.0, memory: 1 << 30 };
        let plan = Plan::new(&parameters, &wish, [2, 1, 1]);
        let index = Index::new(&parameters, vectors.view(), &plan, MaskSeed([5; 16]), &mut |_, _| ()).unwrap();
        let about = About { embedder: Some("made up".into()), recall: Some(0.5) };
        index.store(&parameters, dir, ID, about).unwrap();
        (index, vectors)
    }

    #[test]
    fn an_index_is_read_as_it_was_written_or_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (index, vectors) = stored(dir.path());
        let stored = StoredIndex::open(dir.path()).unwrap();
        assert_eq!((stored.shape(), stored.directory()), (index.shape(), index.directory()));
        assert_eq!(stored.counts(), index.counts());
        assert_eq!(stored.about(), &About { embedder: Some("made up".into()), recall: Some(0.5) });
        assert_eq!((stored.documents(), stored.id()), (50, ID));
        for number in [0, 17, 49] {
            let direction = vectors.row(number).to_vec();
            let near = |found: Vec<(u64, f32)>| found.into_iter().map(|(place, _)| place as usize).collect::<Vec<_>>();
            let exact = index.search(&direction, 2, 50).into_iter().map(|(place, _)| place).collect::<Vec<_>>();
            assert_eq!(near(stored.search(&direction, 2, 50).unwrap()).first(), exact.first());
        }
        let build = build_directory(dir.path(), ID);
        let mut paths: Vec<_> = fs::read_dir(&build).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(paths.len(), 2, "{paths:?}");
        paths.push(dir.path().join("search.json"));
        let refused = || StoredIndex::open(dir.path()).unwrap_err().to_string();
        for path in paths {
            let said =
                if path.extension() == Some("json".as_ref()) { "the manifest of an index" } else { "other bytes" };
            let bytes = fs::read(&path).unwrap();
            let mut damaged = bytes.clone();
            damaged[0] ^= 1;
            fs::write(&path, damaged).unwrap();
            assert!(refused().contains(said), "{}: {}", path.display(), refused());
            fs::write(&path, &bytes[1..]).unwrap();
            assert!(refused().contains(said), "{}: {}", path.display(), refused());
            fs::write(&path, bytes).unwrap();
        }
        let path = dir.path().join("search.json");
        let manifest = fs::read_to_string(&path).unwrap();
        for (from, to, said) in [
            ("\"format\": 3", "\"format\": 4", "found format 4"),
            ("\"blocks\": 2", "\"blocks\": 3", "found 2 counts"),
            ("\"groups\": 1", "\"groups\": 9999999", "found 2 counts"),
            ("\"asked\": 1", "\"asked\": 0", "found 0 asked blocks"),
            ("\"asked\": 1", "\"asked\": 3", "needed 1 to 2"),
            ("\"scale\": ", "\"scale\": -", "needed a positive number"),
            ("\"width\": 8", "\"width\": 0", "coordinates of a vector"),
        ] {
            fs::write(&path, manifest.replace(from, to)).unwrap();
            assert!(refused().contains(said), "{to}: {}", refused());
        }
    }

    #[test]
    fn changes_are_found_and_the_same_groups_stay() {
        let dir = tempfile::tempdir().unwrap();
        let (_, vectors) = stored(dir.path());
        let before = StoredIndex::open(dir.path()).unwrap();
        assert!(before.newer(dir.path(), &mut || ()).unwrap().is_none());
        let direction = vectors.row(3).to_vec();
        let opposite: Vec<f32> = direction.iter().map(|x| -x).collect();
        let nearest = |index: &StoredIndex| index.search(&opposite, 2, 1).unwrap()[0];
        assert!(nearest(&before).1 < 0.95);
        let mut edit = IndexEdit::open(dir.path()).unwrap();
        let position = edit.add(&opposite).unwrap();
        assert!(before.newer(dir.path(), &mut || ()).unwrap().is_none(), "nothing is written yet");
        edit.commit([2, 2]).unwrap();
        edit.commit([2, 2]).unwrap();
        let added = before.newer(dir.path(), &mut || ()).unwrap().unwrap();
        assert_eq!((before.document_versions(), added.document_versions()), ([FIRST_VERSION; 2], [2, 2]));
        assert_eq!((added.documents(), added.id(), nearest(&added).0), (51, ID, position));
        assert!(nearest(&added).1 > 0.99);
        let mut edit = IndexEdit::open(dir.path()).unwrap();
        let documents = |edit: &IndexEdit| (0..before.positions()).filter(|&place| edit.has_document(place)).count();
        assert_eq!(documents(&edit), 51);
        edit.remove(position);
        assert!(!edit.has_document(position));
        edit.commit([3, 4]).unwrap();
        let removed = added.newer(dir.path(), &mut || ()).unwrap().unwrap();
        assert_eq!((removed.documents(), removed.removed()), (50, &[position][..]));
        assert_ne!(nearest(&removed).0, position);
        let again = IndexEdit::open(dir.path()).unwrap();
        assert!(!again.has_document(position) && documents(&again) == 50);
        let mut again = again;
        again.commit([3, 5]).unwrap();
        assert_eq!(removed.newer(dir.path(), &mut || ()).unwrap().unwrap().document_versions(), [3, 5]);
        assert_ne!(again.add(&opposite).unwrap(), position, "a position has one document ever");
        assert!(again.add(&[1.0]).unwrap_err().to_string().contains("needed 8"));
        let build = build_directory(dir.path(), ID);
        assert_eq!(fs::read_dir(&build).unwrap().count(), 2, "files of earlier versions are gone");
        while let Ok(position) = again.add(&direction) {
            assert!(position < removed.positions());
        }
        assert!(again.add(&direction).unwrap_err().to_string().contains("build the index again"));
    }

    #[test]
    fn another_build_takes_the_place_of_one() {
        let dir = tempfile::tempdir().unwrap();
        let (index, _) = stored(dir.path());
        let before = StoredIndex::open(dir.path()).unwrap();
        index.store(before.parameters(), dir.path(), [3; ID_BYTES], About::default()).unwrap();
        let after = before.newer(dir.path(), &mut || ()).unwrap().unwrap();
        assert_eq!((after.id(), after.about()), ([3; ID_BYTES], &About::default()));
        assert!(!build_directory(dir.path(), ID).exists());
        assert!(crate::is_index(dir.path()));
    }
}
