//! Records as input of a database: from files, or from Python objects.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use unspoken_database::{Phase, Progress, Record};
use unspoken_sources::{Kind, Source, SourceError, SourceSpec};

use crate::failure::{ConfigurationError, Failure};
use crate::progress::Reporter;

/// Records between two reports of progress.
const REPORT: usize = 1 << 12;

/// Kinds of sources by name, as the command line names them.
const KINDS: [(&str, Kind); 7] = [
    ("csv", Kind::Csv),
    ("tsv", Kind::Tsv),
    ("jsonl", Kind::JsonLines),
    ("json", Kind::JsonArray),
    ("sqlite", Kind::Sqlite),
    ("parquet", Kind::Parquet),
    ("folder", Kind::Folder),
];

/// A file or a folder, and which of its records are meant. Nothing is read before [`RecordSource::read`].
#[pyclass(frozen, module = "unspoken._unspoken")]
pub(crate) struct RecordSource(SourceSpec);

#[pymethods]
impl RecordSource {
    /// Selects records; the kind is guessed from the name if `kind` is `None`.
    #[new]
    fn new(
        path: PathBuf,
        kind: Option<&str>,
        table: Option<String>,
        key: Option<String>,
        values: Vec<String>,
        encoding: Option<String>,
        hidden: bool,
    ) -> PyResult<Self> {
        let kind = match kind {
            Some(name) => find_kind(name)?,
            None => SourceSpec::guess(&path).map_err(Failure::from)?.kind,
        };
        let (key_column, value_columns, beside) = (key, values, None);
        Ok(RecordSource(SourceSpec { path, kind, table, key_column, value_columns, beside, encoding, hidden }))
    }

    /// Opens the file; its columns are found, and no record is read yet.
    fn read(&self, py: Python<'_>) -> PyResult<RecordReader> {
        Ok(RecordReader(Mutex::new(py.detach(|| self.open()).map_err(Failure::from)?)))
    }

    #[getter]
    fn keyed(&self) -> bool {
        self.0.has_keys()
    }

    /// The hidden files and folders of a folder that are left out.
    fn left_out(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        if self.0.kind != Kind::Folder {
            return Ok(Vec::new());
        }
        let source = py.detach(|| self.open()).map_err(Failure::from)?;
        Ok(source.files().map(|files| files.left_out.clone()).unwrap_or_default())
    }
}

impl RecordSource {
    /// The records, in the order of the file.
    pub(crate) fn open(&self) -> Result<Source, SourceError> {
        Source::open(&self.0)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0.path
    }
}

fn find_kind(name: &str) -> PyResult<Kind> {
    let found = KINDS.iter().find(|(known, _)| *known == name);
    found.map(|&(_, kind)| kind).ok_or_else(|| {
        let needed = KINDS.map(|(known, _)| known).join(", ");
        ConfigurationError::new_err(format!("read records: found kind={name:?}; needed one of {needed}"))
    })
}

/// An iterator over the records of a source: pairs of key and value, or values if there are no keys.
#[pyclass(frozen, module = "unspoken._unspoken")]
pub(crate) struct RecordReader(Mutex<Source>);

#[pymethods]
impl RecordReader {
    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        // A thread that waits for the lock does not hold the interpreter lock.
        let next = py.detach(|| self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).next());
        let Some(record) = next.transpose().map_err(Failure::from)? else { return Ok(None) };
        let value = PyBytes::new(py, &record.value);
        match record.key {
            Some(key) => (PyBytes::new(py, &key), value).into_py_any(py).map(Some),
            None => value.into_py_any(py).map(Some),
        }
    }
}

/// Collects the pairs of key or `None`, and value, of a Python iterator. It runs on the calling thread, since objects
/// of Python may belong to it.
pub(crate) fn collect(records: &Bound<'_, PyAny>, reporter: &mut Reporter) -> PyResult<Vec<Record>> {
    let mut collected = Vec::new();
    for record in records.try_iter()? {
        let (key, value): (Option<Bound<'_, PyBytes>>, Bound<'_, PyBytes>) = record?.extract()?;
        collected.push(Record { key: key.map(|key| key.as_bytes().to_vec()), value: value.as_bytes().to_vec() });
        if collected.len().is_multiple_of(REPORT) {
            let progress = Progress { phase: Phase::Read, done: collected.len() as u64, total: None };
            reporter.show(records.py(), progress.into())?;
        }
    }
    Ok(collected)
}

/// Converts a record of a source to a record of a database.
pub(crate) fn convert(record: Result<unspoken_sources::Record, SourceError>) -> Result<Record, SourceError> {
    record.map(|unspoken_sources::Record { key, value, .. }| Record { key, value })
}
