//! Reading collections, and following their changes.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use unspoken_database::{Database, Snapshot};
use unspoken_pir_scheme::{DatabaseVersion, PirParameters, Planes, Staleness, Tables, VersionedDatabase};
use unspoken_search_index::{Document, IndexPart, IndexVersions, StoredIndex, build_directory, build_number};

use crate::DOCUMENTS;
use crate::error::CollectionError;

/// A reader of a collection. Another process may write to it, and replace it, meanwhile.
#[derive(Debug)]
pub struct Collection {
    dir: PathBuf,
    /// Blocks that a question asks, in the place of the number of the index.
    asked: Option<usize>,
    parameters: PirParameters,
    current: RwLock<Build>,
    /// Held while newer versions are read.
    refreshing: Mutex<()>,
    staleness: RwLock<Option<Staleness>>,
}

/// The newest versions of a build.
#[derive(Clone, Debug)]
struct Build {
    index: Arc<StoredIndex>,
    documents: Arc<Database>,
    version: Arc<DocumentsVersion>,
}

/// A version of the documents of a build, with the number of the build in the upper half of its number.
#[derive(Debug)]
pub struct DocumentsVersion {
    build: u32,
    snapshot: Arc<Snapshot>,
}

/// A document that was found in the clear.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The cosine of its vector and the query's, with the error of coordinates of 8 bits.
    pub cosine: f32,
    /// Its position.
    pub position: u64,
    /// The document.
    pub document: Document,
}

impl Build {
    fn open(dir: &Path, index: StoredIndex) -> Result<Self, CollectionError> {
        let path = build_directory(dir, index.id()).join(DOCUMENTS);
        let documents = Database::open(&path)?;
        let (found, needed) = (documents.snapshot().records(), index.positions());
        if found != needed {
            return Err(CollectionError::Positions { dir: path, found, needed });
        }
        let (found, [needed, _]) = (version_of(documents.snapshot().version()), index.document_versions());
        if found < needed {
            return Err(CollectionError::Versions { dir: path, found, needed });
        }
        Ok(Build::new(Arc::new(index), Arc::new(documents)))
    }

    fn new(index: Arc<StoredIndex>, documents: Arc<Database>) -> Self {
        let version = DocumentsVersion { build: build_number(index.id()), snapshot: documents.snapshot() };
        Build { index, documents, version: Arc::new(version) }
    }
}

impl Collection {
    /// Opens a collection and prepares its table, which takes half a second for each group of columns. With `asked`,
    /// questions ask this number of blocks, and not that of the index.
    ///
    /// # Errors
    /// If a file cannot be read, or is not as it was written.
    pub fn open(dir: impl AsRef<Path>, asked: Option<usize>) -> Result<Self, CollectionError> {
        Self::open_part(dir.as_ref(), asked, IndexPart::Whole)
    }

    /// Opens a collection for its documents alone, if another service searches it. No table is prepared.
    ///
    /// # Errors
    /// As for [`Collection::open`].
    pub fn open_documents(dir: impl AsRef<Path>) -> Result<Self, CollectionError> {
        Self::open_part(dir.as_ref(), None, IndexPart::Nothing)
    }

    fn open_part(dir: &Path, asked: Option<usize>, part: IndexPart) -> Result<Self, CollectionError> {
        let dir = dir.to_path_buf();
        let index = asking(StoredIndex::open_part(&dir, part)?, asked);
        let parameters = index.parameters().clone();
        let current = RwLock::new(Build::open(&dir, index)?);
        Ok(Collection { dir, asked, parameters, current, refreshing: Mutex::new(()), staleness: RwLock::new(None) })
    }

    /// Reads what has changed since the last call, and returns whether anything has. A rebuild is taken up as a whole:
    /// index and documents at the same time.
    ///
    /// # Errors
    /// As for [`Collection::open`], or if another collection with other parameters took its place. Then the versions
    /// that were read before stay.
    pub fn refresh(&self) -> Result<bool, CollectionError> {
        let _held = self.refreshing.lock().unwrap_or_else(PoisonError::into_inner);
        let refreshed = self.load_newer();
        let staleness = refreshed.as_ref().err().map(|error| match error {
            CollectionError::Parameters { .. } => Staleness::Replaced,
            _ => Staleness::Unreadable,
        });
        *self.staleness.write().unwrap_or_else(PoisonError::into_inner) = staleness;
        refreshed
    }

    fn load_newer(&self) -> Result<bool, CollectionError> {
        let current = self.build();
        // The documents are those of the time when the manifest is read. A writer may go on while groups are prepared.
        let mut refreshed = None;
        let mut begun = || refreshed = Some(current.documents.refresh());
        let newer = current.index.newer(&self.dir, &mut begun)?.map(|index| asking(index, self.asked));
        let build = match newer {
            Some(index) if index.id() != current.index.id() => {
                let (found, needed) = (index.parameters(), &self.parameters);
                if found.fingerprint() != needed.fingerprint() {
                    let (found, needed) = (found.name().to_owned(), needed.name().to_owned());
                    return Err(CollectionError::Parameters { found, needed });
                }
                Build::open(&self.dir, index)?
            }
            index => {
                // The documents of all positions of an index are stored before it.
                let is_changed = index.is_some();
                if !refreshed.unwrap_or_else(|| current.documents.refresh())? && !is_changed {
                    return Ok(false);
                }
                Build::new(index.map_or(current.index, Arc::new), current.documents)
            }
        };
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = build;
        Ok(true)
    }

    fn build(&self) -> Build {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The newest version of the index that was read.
    pub fn index(&self) -> Arc<StoredIndex> {
        self.build().index
    }

    /// The `most` nearest documents, as a client without errors of encryption finds them. Nothing is encrypted.
    ///
    /// # Errors
    /// If a document cannot be read.
    pub fn search(&self, vector: &[f32], most: usize) -> Result<Vec<Found>, CollectionError> {
        let Build { index, version, .. } = self.build();
        let length = vector.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
        let direction: Vec<f32> = vector.iter().map(|&x| (f64::from(x) / length) as f32).collect();
        let mut found = Vec::new();
        for (position, cosine) in index.search(&direction, index.directory().asked(), most)? {
            let record = version.snapshot.record(position)?.unwrap_or_default();
            if let Some(document) = Document::from_record(&record)? {
                found.push(Found { cosine, position, document });
            }
        }
        Ok(found)
    }
}

/// The number of a version of the documents, within a build.
pub(crate) fn version_of(version: u64) -> u32 {
    u32::try_from(version).unwrap_or(u32::MAX)
}

fn asking(index: StoredIndex, asked: Option<usize>) -> StoredIndex {
    match asked {
        Some(asked) => index.asking(asked),
        None => index,
    }
}

impl IndexVersions for Collection {
    fn current(&self) -> Arc<StoredIndex> {
        self.index()
    }

    fn is_stale(&self) -> bool {
        self.staleness().is_some()
    }
}

impl DatabaseVersion for DocumentsVersion {
    fn version(&self) -> u64 {
        u64::from(self.build) << u32::BITS | u64::from(version_of(self.snapshot.version()))
    }

    fn tables(&self) -> &Tables {
        self.snapshot.tables()
    }

    fn planes(&self) -> Planes<'_> {
        self.snapshot.planes()
    }
}

/// The documents, which are fetched by position.
impl VersionedDatabase for Collection {
    type Version = DocumentsVersion;

    fn parameters(&self) -> &PirParameters {
        &self.parameters
    }

    fn current(&self) -> Arc<DocumentsVersion> {
        self.build().version
    }

    fn resident_bytes(&self) -> u64 {
        self.build().version.snapshot.resident_bytes()
    }

    fn staleness(&self) -> Option<Staleness> {
        *self.staleness.read().unwrap_or_else(PoisonError::into_inner)
    }
}
