//! Collections for private search: built, read and changed on disk.

use std::path::PathBuf;

use numpy::{PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use unspoken_collection::{Builder, Built, Collection as Reader, CollectionError, Found, Step, Writer};
use unspoken_search_index::{Document, Plan};

use crate::failure::Failure;
use crate::interruptible;
use crate::progress::Reporter;

/// Documents of a bulk change between two checks for Control-C.
const STEP: usize = 256;

/// A document that was found: cosine, position, id and content.
pub(crate) type Hit<'py> = (f32, u64, Option<Bound<'py, PyBytes>>, Bound<'py, PyBytes>);

/// A found document in the values of Python.
pub(crate) fn hit<'py>(py: Python<'py>, cosine: f32, position: u64, document: &Document) -> Hit<'py> {
    let id = document.id.as_ref().map(|id| PyBytes::new(py, id));
    (cosine, position, id, PyBytes::new(py, &document.content))
}

/// Documents as Python passes them: an id or `None`, and the content.
type Pairs = Vec<(Option<Vec<u8>>, Vec<u8>)>;

fn documents(pairs: Pairs) -> Vec<Document> {
    pairs.into_iter().map(|(id, content)| Document { id, content }).collect()
}

/// The rows of an array.
fn rows(vectors: &PyReadonlyArray2<'_, f32>) -> Vec<Vec<f32>> {
    vectors.as_array().outer_iter().map(|row| row.to_vec()).collect()
}

/// Options of a build, from a dictionary with these keys.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct CollectionOptions {
    recall: f64,
    link: f64,
    memory: Option<u64>,
    embedder: Option<String>,
    longest: usize,
    replace: bool,
}

/// A reader of a collection.
#[pyclass(frozen, module = "unspoken._unspoken")]
pub(crate) struct Collection(Reader);

#[pymethods]
impl Collection {
    /// Builds a collection of documents with a vector in each row. Returns its summary by name.
    #[staticmethod]
    fn build<'py>(
        py: Python<'py>,
        directory: PathBuf,
        documents: Pairs,
        vectors: &Bound<'py, PyAny>,
        options: CollectionOptions,
        progress: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let documents = self::documents(documents);
        let vectors = vectors.extract::<PyReadonlyArray2<'_, f32>>()?.as_array().to_owned();
        let CollectionOptions { recall, link, memory, embedder, longest, replace } = options;
        let builder = Builder { recall, link: link * 1e6, memory, embedder, longest, replace };
        let built = interruptible::run(py, Reporter::from_argument(progress)?, |report, cancel| {
            let mut show = |step: Step| report(step.into());
            Ok(builder.build(&directory, &documents, vectors, &mut show, cancel.flag())?)
        })?;
        let Built { documents, width, plan, recall } = built;
        let summary = costs(py, &plan)?;
        summary.set_item("documents", documents)?;
        summary.set_item("width", width)?;
        summary.set_item("recall", recall)?;
        Ok(summary)
    }

    /// Opens the newest version and prepares its table.
    #[staticmethod]
    fn open(py: Python<'_>, directory: PathBuf) -> PyResult<Self> {
        interruptible::run(py, Reporter::Silent, |_, _| Ok(Collection(Reader::open(directory, None)?)))
    }

    /// Reads changes and rebuilds since the last call; returns whether there were any.
    fn refresh(&self, py: Python<'_>) -> PyResult<bool> {
        interruptible::run(py, Reporter::Silent, |_, _| Ok(self.0.refresh()?))
    }

    /// The documents nearest to each vector, in the clear.
    fn search<'py>(
        &self,
        py: Python<'py>,
        vectors: PyReadonlyArray2<'py, f32>,
        k: usize,
    ) -> PyResult<Vec<Vec<Hit<'py>>>> {
        let (found, needed) = (vectors.shape()[1], self.0.index().shape().width());
        if found != needed {
            return Err(Failure::from(CollectionError::Index(unspoken_search_index::IndexError::OtherWidth {
                found,
                needed,
            }))
            .into());
        }
        let vectors = rows(&vectors);
        let found: Vec<Vec<Found>> = interruptible::run(py, Reporter::Silent, |_, _| {
            Ok(vectors.iter().map(|vector| self.0.search(vector, k)).collect::<Result<_, _>>()?)
        })?;
        let hits = |found: Vec<Found>| {
            found.iter().map(|found| hit(py, found.cosine, found.position, &found.document)).collect()
        };
        Ok(found.into_iter().map(hits).collect())
    }

    /// Sizes by name, and what a question takes.
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let index = self.0.index();
        let (parameters, shape) = (index.parameters(), index.shape());
        let layout = [shape.blocks(), shape.groups(), index.directory().asked()];
        let wish = Builder::default().wish(index.documents() as usize, shape.width());
        let info = costs(py, &Plan::new(parameters, &wish, layout))?;
        info.set_item("documents", index.documents())?;
        info.set_item("removed", index.removed().len())?;
        info.set_item("positions", index.positions())?;
        info.set_item("width", shape.width())?;
        info.set_item("embedder", index.about().embedder.as_deref())?;
        info.set_item("recall", index.about().recall)?;
        info.set_item("preset", parameters.name())?;
        Ok(info)
    }

    fn __len__(&self) -> usize {
        self.0.index().documents() as usize
    }
}

/// A layout and its costs by name.
fn costs<'py>(py: Python<'py>, plan: &Plan) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("blocks", plan.blocks)?;
    dict.set_item("groups", plan.groups)?;
    dict.set_item("asked", plan.asked)?;
    dict.set_item("memory_bytes", plan.memory_bytes)?;
    dict.set_item("query_bytes", plan.query_bytes)?;
    dict.set_item("answer_bytes", plan.answer_bytes)?;
    dict.set_item("core_seconds", plan.core_seconds)?;
    Ok(dict)
}

/// The writer of a collection. Changes are discarded unless they are committed.
#[pyclass(module = "unspoken._unspoken")]
pub(crate) struct CollectionWriter(Writer);

#[pymethods]
impl CollectionWriter {
    /// Takes the lock of the collection and opens its newest version.
    #[staticmethod]
    fn open(py: Python<'_>, directory: PathBuf) -> PyResult<Self> {
        let writer = interruptible::run(py, Reporter::Silent, |_, _| Ok(Writer::open(&directory)?))?;
        Ok(CollectionWriter(writer))
    }

    #[getter]
    fn width(&self) -> usize {
        self.0.width()
    }

    #[getter]
    fn embedder(&self) -> Option<&str> {
        self.0.embedder()
    }

    fn __len__(&self) -> usize {
        self.0.documents()
    }

    /// Adds documents with a vector in each row; those with ids that are there are replaced. Returns how many were.
    fn put(
        &mut self,
        py: Python<'_>,
        documents: Pairs,
        vectors: PyReadonlyArray2<'_, f32>,
        progress: &Bound<'_, PyAny>,
    ) -> PyResult<usize> {
        let (documents, vectors) = (self::documents(documents), rows(&vectors));
        if documents.len() != vectors.len() {
            let (documents, vectors) = (documents.len(), vectors.len());
            return Err(Failure::from(CollectionError::Counts { documents, vectors }).into());
        }
        interruptible::run(py, Reporter::from_argument(progress)?, |report, cancel| {
            let mut replaced = 0;
            for (number, (document, vector)) in documents.iter().zip(&vectors).enumerate() {
                replaced += usize::from(self.0.put(document, vector)?);
                if number.is_multiple_of(STEP) {
                    report(Step::Place { done: number, total: documents.len() }.into());
                    if cancel.is_cancelled() {
                        return Err(CollectionError::Cancelled.into());
                    }
                }
            }
            Ok(replaced)
        })
    }

    /// Removes documents by their ids; returns how many there were.
    fn delete(&mut self, py: Python<'_>, ids: Vec<Vec<u8>>) -> PyResult<usize> {
        let mut removed = 0;
        py.detach(|| ids.iter().try_for_each(|id| self.0.delete(id).map(|found| removed += usize::from(found))))
            .map_err(Failure::from)?;
        Ok(removed)
    }

    /// Writes all changes.
    fn commit(&mut self, py: Python<'_>) -> PyResult<()> {
        Ok(py.detach(|| self.0.commit()).map_err(Failure::from)?)
    }
}
