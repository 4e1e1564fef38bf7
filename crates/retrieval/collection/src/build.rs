//! Building collections.

use std::collections::HashSet;
use std::convert::Infallible;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use ndarray::Array2;
use unspoken_database::{Lock, Phase, Progress, Record};
use unspoken_pir_scheme::dense::MaskSeed;
use unspoken_pir_scheme::{PirParameters, Preset, TableKind};
use unspoken_ring::SecretRng;
use unspoken_search_index::{
    About, Document, ID_BYTES, Index, IndexError, Plan, Wish, build_directory, directions, is_index,
};

use crate::DOCUMENTS;
use crate::error::CollectionError;

/// Documents whose neighbours are looked for to measure the recall.
const SAMPLED: usize = 256;

/// Bytes of room for a longer document, besides a quarter of the longest one.
const SLACK: usize = 16;

/// Bytes of memory for each coordinate of a vector that a table may take, if nothing else is said, and the least.
const USUAL_BYTES: u64 = 3;
const USUAL_MEMORY: u64 = 256 << 20;

/// Options for building a collection.
#[derive(Clone, Debug)]
pub struct Builder {
    /// Part of the [`Builder::NEIGHBOURS`] nearest documents that a question finds, of those that exact search finds.
    pub recall: f64,
    /// Speed of the clients' link, in bits per second, for the choice of the layout.
    pub link: f64,
    /// Bytes of memory of the table at the service, at most. By default three for each coordinate, or 256 MiB.
    pub memory: Option<u64>,
    /// Name of what made the vectors, for clients.
    pub embedder: Option<String>,
    /// Length of the longest document to make room for, in bytes, with its id and two more. There is room for a quarter
    /// more than the longest one has, at least.
    pub longest: usize,
    /// Whether an existing collection is replaced. It is served until the new one is complete.
    pub replace: bool,
}

impl Default for Builder {
    fn default() -> Self {
        Builder { recall: 0.95, link: 1e8, memory: None, embedder: None, longest: 0, replace: false }
    }
}

/// Steps of building and changing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Clustering vectors: rounds done, of all.
    Cluster {
        /// Rounds done.
        done: usize,
        /// All rounds.
        total: usize,
    },
    /// Measuring the recall.
    Measure,
    /// Finding positions for new documents.
    Place {
        /// Documents that have one.
        done: usize,
        /// All of them.
        total: usize,
    },
    /// Storing the documents.
    Store(Progress),
}

/// Summary of a new collection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Built {
    /// Number of documents.
    pub documents: usize,
    /// Coordinates of a vector.
    pub width: usize,
    /// The layout, and what a question costs.
    pub plan: Plan,
    /// Part of the nearest documents that a question finds. It is lower than wanted if no number of asked blocks is
    /// enough.
    pub recall: f64,
}

impl Builder {
    /// Neighbours of a document for which the recall is measured.
    pub const NEIGHBOURS: usize = 10;

    /// Documents for which the recall is measured, at most.
    pub const SAMPLED: usize = SAMPLED;

    /// The layouts for a number of documents with vectors of this width, the fastest first.
    ///
    /// # Errors
    /// If there are no documents, or no layout fits the memory.
    pub fn plans(&self, documents: usize, width: usize) -> Result<Vec<Plan>, CollectionError> {
        Ok(Plan::all(&parameters()?, &self.wish(documents, width))?)
    }

    /// What a layout is chosen for.
    pub fn wish(&self, documents: usize, width: usize) -> Wish {
        let usual = USUAL_MEMORY.max(USUAL_BYTES * documents as u64 * width as u64);
        let cores = std::thread::available_parallelism().map_or(1.0, |cores| cores.get() as f64);
        Wish { documents, width, link: self.link / 8.0, cores, memory: self.memory.unwrap_or(usual) }
    }

    /// Builds a collection of documents with a vector in each row. `report` is told each step.
    ///
    /// # Errors
    /// If there are none, a vector has no direction, two documents have one id, another writer is changing the
    /// collection, no layout fits the memory, a file cannot be written, or [`CollectionError::Cancelled`] soon after
    /// `cancel` is set. An existing collection then stays.
    pub fn build(
        &self,
        dir: &Path,
        documents: &[Document],
        vectors: Array2<f32>,
        report: &mut dyn FnMut(Step),
        cancel: &AtomicBool,
    ) -> Result<Built, CollectionError> {
        if !self.replace && is_index(dir) {
            return Err(CollectionError::Exists { dir: dir.to_owned() });
        }
        if documents.len() != vectors.nrows() {
            return Err(CollectionError::Counts { documents: documents.len(), vectors: vectors.nrows() });
        }
        check_ids(documents)?;
        std::fs::create_dir_all(dir).map_err(|source| IndexError::Io {
            what: "create",
            path: dir.to_owned(),
            source,
        })?;
        // From the beginning: changes that came meanwhile would be lost.
        let _lock = Lock::take(dir)?;
        let (parameters, wish) = (parameters()?, self.wish(documents.len(), vectors.ncols()));
        let directions = directions(vectors)?;
        let plan = Plan::all(&parameters, &wish)?.remove(0);
        let mut seeds = [0; ID_BYTES + 16];
        SecretRng::from_os()?.fill(&mut seeds);
        let (id, masks) = seeds.split_first_chunk::<ID_BYTES>().expect("longer");
        let masks = MaskSeed(masks.try_into().expect("16 bytes"));
        let index = Index::new(&parameters, directions.view(), &plan, masks, &mut |done, total| {
            report(Step::Cluster { done, total });
        })?;
        check(cancel)?;
        report(Step::Measure);
        let (index, recall) = self.asking(index, &directions);
        check(cancel)?;
        let build = build_directory(dir, *id);
        let stored = self.store(&build, &index, documents, report, cancel).and_then(|()| {
            index.store(&parameters, dir, *id, About { embedder: self.embedder.clone(), recall: Some(recall) })?;
            Ok(())
        });
        if stored.is_err() {
            // What was written belongs to no collection. The error that matters is the first.
            let _ = std::fs::remove_dir_all(&build);
        }
        stored?;
        let layout = [index.shape().blocks(), index.shape().groups(), index.directory().asked()];
        let (documents, width) = directions.dim();
        Ok(Built { documents, width, plan: Plan::new(&parameters, &wish, layout), recall })
    }

    /// The index with as many blocks asked as the wanted recall needs, and the recall that it has.
    fn asking(&self, index: Index, directions: &Array2<f32>) -> (Index, f64) {
        let step = (directions.nrows() / SAMPLED).max(1);
        let sample: Vec<usize> = (0..directions.nrows()).step_by(step).take(SAMPLED).collect();
        let recalls = index.recalls(directions.view(), &sample, Self::NEIGHBOURS);
        let most = recalls.len();
        let asked = recalls.iter().position(|&recall| recall >= self.recall).map_or(most, |place| place + 1);
        (index.asking(asked), recalls[asked - 1])
    }

    /// Stores the documents by position.
    fn store(
        &self,
        build: &Path,
        index: &Index,
        documents: &[Document],
        report: &mut dyn FnMut(Step),
        cancel: &AtomicBool,
    ) -> Result<(), CollectionError> {
        std::fs::create_dir_all(build).map_err(|source| IndexError::Io {
            what: "create",
            path: build.to_owned(),
            source,
        })?;
        let mut records = Vec::with_capacity(index.positions().len());
        for position in index.positions() {
            let record = position.map(|number| documents[number as usize].to_record()).transpose()?;
            records.push(Record { key: None, value: record.unwrap_or_default() });
        }
        let longest = records.iter().map(|record| record.value.len()).max().unwrap_or_default();
        // Longer than any, so that records never have one fixed length: positions can become empty.
        let longest = self.longest.max(longest + longest / 4 + SLACK);
        let builder = unspoken_database::Builder {
            tables: TableKind::Dense,
            longest,
            ..unspoken_database::Builder::new(Preset::N11)
        };
        let records = records.into_iter().map(Ok::<_, Infallible>);
        builder.build(build.join(DOCUMENTS), records, |progress| report(Step::Store(progress)), cancel)?;
        Ok(())
    }
}

/// The parameters of collections.
fn parameters() -> Result<PirParameters, CollectionError> {
    Ok(Preset::N11.build()?)
}

fn check(cancel: &AtomicBool) -> Result<(), CollectionError> {
    match cancel.load(Ordering::Relaxed) {
        true => Err(CollectionError::Cancelled),
        false => Ok(()),
    }
}

fn check_ids(documents: &[Document]) -> Result<(), CollectionError> {
    let mut ids = HashSet::new();
    let twice = documents.iter().filter_map(|document| document.id.as_deref()).find(|id| !ids.insert(*id));
    match twice {
        Some(id) => Err(CollectionError::Twice { id: String::from_utf8_lossy(id).into_owned() }),
        None => Ok(()),
    }
}

impl Step {
    /// What is done, for people.
    pub fn name(&self) -> &'static str {
        match self {
            Step::Cluster { .. } => "clustering",
            Step::Measure => "measuring the recall",
            Step::Place { .. } => "placing documents",
            Step::Store(Progress { phase: Phase::Encode, .. }) => "encoding documents",
            Step::Store(_) => "storing documents",
        }
    }

    /// Units done, and all of them, if they are known.
    pub fn counts(&self) -> (u64, Option<u64>) {
        match *self {
            Step::Cluster { done, total } | Step::Place { done, total } => (done as u64, Some(total as u64)),
            Step::Measure => (0, None),
            Step::Store(Progress { done, total, .. }) => (done, total),
        }
    }
}
