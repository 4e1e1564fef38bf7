//! Changing collections.

use std::collections::HashMap;
use std::path::Path;

use unspoken_database::Lock;
use unspoken_search_index::{Document, IndexEdit, IndexError, build_directory};

use crate::DOCUMENTS;
use crate::collection::version_of;
use crate::error::CollectionError;

/// The writer of a collection: one at a time. Changes are discarded unless they are committed.
#[derive(Debug)]
pub struct Writer {
    index: IndexEdit,
    documents: unspoken_database::Writer,
    /// Of the collection: no build takes its place meanwhile.
    _lock: Lock,
    /// The position of the document with each id.
    positions: HashMap<Vec<u8>, u64>,
    removed: Vec<u64>,
    documents_now: usize,
}

impl Writer {
    /// Takes the lock of a collection and opens its newest version. Reads all documents, and clears those that a writer
    /// has left that stopped.
    ///
    /// # Errors
    /// If another writer has it, or a file cannot be read or written.
    pub fn open(dir: &Path) -> Result<Self, CollectionError> {
        // Once before the lock, whose file belongs into no other directory.
        IndexEdit::open(dir)?;
        let lock = Lock::take(dir)?;
        let mut index = IndexEdit::open(dir)?;
        let path = build_directory(dir, index.id()).join(DOCUMENTS);
        let mut documents = unspoken_database::Writer::open(&path)?;
        let stored = unspoken_database::Database::open(&path)?.snapshot();
        let (mut positions, mut documents_now, mut is_cleared) = (HashMap::new(), 0, false);
        for position in 0..stored.records() {
            let record = stored.record(position)?.unwrap_or_default();
            if !index.has_document(position) {
                // A writer stopped before it had changed the index, or after.
                if !record.is_empty() {
                    documents.set(position, &[])?;
                    is_cleared = true;
                }
                continue;
            }
            documents_now += 1;
            if let Some(id) = Document::from_record(&record)?.and_then(|document| document.id) {
                positions.insert(id, position);
            }
        }
        // What a writer that stopped has left belongs to the index with or without the records that are cleared. The
        // index says so before: the next change is again the version after those that belong to it.
        let [first, last] = index.document_versions();
        index.commit([first, last.max(version_of(documents.version()) + u32::from(is_cleared))])?;
        documents.commit()?;
        Ok(Writer { index, documents, _lock: lock, positions, removed: Vec::new(), documents_now })
    }

    /// Number of documents, with the changes.
    pub fn documents(&self) -> usize {
        self.documents_now
    }

    /// Coordinates of a vector.
    pub fn width(&self) -> usize {
        self.index.width()
    }

    /// Name of the embedder that made the vectors, if it is known.
    pub fn embedder(&self) -> Option<&str> {
        self.index.about().embedder.as_deref()
    }

    /// Adds a document with a vector of any length but zero. It takes the place of the document with its id, if there
    /// is one; returns whether there was.
    ///
    /// # Errors
    /// If the vector has another width or no direction, the document is too long, or there is no room near its vector:
    /// then the collection must be built again.
    pub fn put(&mut self, document: &Document, vector: &[f32]) -> Result<bool, CollectionError> {
        let record = document.to_record()?;
        let length = vector.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
        if !length.is_finite() || length == 0.0 {
            let found = if length == 0.0 { "zeros" } else { "a coordinate that is not finite" };
            return Err(IndexError::Direction { vector: 0, found }.into());
        }
        let direction: Vec<f32> = vector.iter().map(|&x| (f64::from(x) / length) as f32).collect();
        let position = self.index.add(&direction)?;
        if let Err(error) = self.documents.set(position, &record) {
            self.index.remove(position);
            return Err(error.into());
        }
        let was = match &document.id {
            Some(id) => self.delete(id)?,
            None => false,
        };
        if let Some(id) = &document.id {
            self.positions.insert(id.clone(), position);
        }
        self.documents_now += 1;
        Ok(was)
    }

    /// Removes the document with an id; returns whether there was one.
    ///
    /// # Errors
    /// None are known.
    pub fn delete(&mut self, id: &[u8]) -> Result<bool, CollectionError> {
        let Some(position) = self.positions.remove(id) else { return Ok(false) };
        self.index.remove(position);
        self.removed.push(position);
        self.documents_now -= 1;
        Ok(true)
    }

    /// Writes all changes. A service takes them up within seconds: of each group of columns with a change, the packing
    /// is prepared anew, in half a second. So commit many changes at once.
    ///
    /// # Errors
    /// If writing fails. Open the collection again then.
    pub fn commit(&mut self) -> Result<(), CollectionError> {
        let version = version_of(self.documents.commit()?);
        self.index.commit([version, version + u32::from(!self.removed.is_empty())])?;
        for position in std::mem::take(&mut self.removed) {
            self.documents.set(position, &[])?;
        }
        self.documents.commit()?;
        Ok(())
    }
}
