//! Databases for private retrieval: built, read and changed on disk.

use std::convert::Infallible;
use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use unspoken_client::transport::Cancel;
use unspoken_database::{Builder, Database as Reader, DatabaseError, Duplicates, Phase, Progress, Record, Writer};
use unspoken_pir::{Description, REQUEST_OVERHEAD_BYTES};
use unspoken_pir_scheme::{DatabaseVersion, Layout, Preset, SchemeError, SeededKeys};

use crate::failure::{ConfigurationError, Failure};
use crate::interruptible;
use crate::progress::{Event, Reporter};
use crate::records::{RecordSource, collect, convert};

/// Records of a bulk change between two checks for Control-C.
const STEP: u64 = 256;

/// Ways to handle two records with the same key, by name.
const DUPLICATES: [(&str, Duplicates); 3] =
    [("error", Duplicates::Refuse), ("first", Duplicates::First), ("last", Duplicates::Last)];

/// Options of a build, from a dictionary with these keys.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct BuildOptions {
    tables: String,
    candidates: u32,
    duplicates: String,
    capacity: u64,
    longest: usize,
    replace: bool,
}

impl BuildOptions {
    fn builder(&self) -> PyResult<Builder> {
        let found = DUPLICATES.iter().find(|(name, _)| *name == self.duplicates);
        let Some(&(_, duplicates)) = found else {
            let needed = DUPLICATES.map(|(name, _)| name).join(", ");
            let message = format!("build: found duplicates={:?}; needed one of {needed}", self.duplicates);
            return Err(ConfigurationError::new_err(message));
        };
        let tables =
            self.tables.parse().map_err(|error: SchemeError| ConfigurationError::new_err(error.to_string()))?;
        Ok(Builder {
            tables,
            candidates: self.candidates,
            duplicates,
            capacity: self.capacity,
            longest: self.longest,
            replace: self.replace,
            ..Builder::new(Preset::N11)
        })
    }
}

/// A reader of a database.
#[pyclass(frozen, module = "unspoken._unspoken")]
pub(crate) struct Database(Reader);

#[pymethods]
impl Database {
    /// Opens the newest version and checks every byte of its files.
    #[staticmethod]
    fn open(py: Python<'_>, directory: PathBuf) -> PyResult<Self> {
        interruptible::run(py, Reporter::Silent, |_, _| Ok(Database(Reader::open(directory)?)))
    }

    /// Builds a database of pairs of key or `None`, and value.
    #[staticmethod]
    fn build(
        py: Python<'_>,
        directory: PathBuf,
        records: &Bound<'_, PyAny>,
        options: BuildOptions,
        progress: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let builder = options.builder()?;
        let mut reporter = Reporter::from_argument(progress)?;
        let records = collect(records, &mut reporter)?;
        let total = Some(records.len() as u64);
        let records = records.into_iter().map(Ok::<_, Infallible>);
        build(py, &builder, directory, (records, total), &mut reporter)
    }

    /// Builds a database of the records of a file or a folder.
    #[staticmethod]
    fn build_from(
        py: Python<'_>,
        directory: PathBuf,
        source: &RecordSource,
        options: BuildOptions,
        progress: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let builder = options.builder()?;
        let mut reporter = Reporter::from_argument(progress)?;
        let source = py.detach(|| source.open()).map_err(Failure::from)?;
        let total = source.len_hint();
        build(py, &builder, directory, (source.map(convert), total), &mut reporter)
    }

    /// Reads commits since the last call; returns whether there were any.
    fn refresh(&self, py: Python<'_>) -> PyResult<bool> {
        interruptible::run(py, Reporter::Silent, |_, _| Ok(self.0.refresh()?))
    }

    /// The record of a key.
    fn get<'py>(&self, py: Python<'py>, key: &[u8]) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let found = py.detach(|| self.0.snapshot().get(key)).map_err(Failure::from)?;
        Ok(found.map(|record| PyBytes::new(py, &record)))
    }

    /// The record at an index.
    fn get_index<'py>(&self, py: Python<'py>, index: u64) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let found = py.detach(|| self.0.snapshot().record(index)).map_err(Failure::from)?;
        Ok(found.map(|record| PyBytes::new(py, &record)))
    }

    /// Reads all files and all records again.
    fn verify(&self, py: Python<'_>) -> PyResult<()> {
        interruptible::run(py, Reporter::Silent, |_, _| check_records(&Reader::open(self.0.dir())?))
    }

    #[getter]
    fn keyed(&self) -> bool {
        matches!(self.0.snapshot().layout(), Layout::Keys { .. })
    }

    #[getter]
    fn version(&self) -> u64 {
        self.0.snapshot().version()
    }

    fn __len__(&self) -> usize {
        self.0.snapshot().records() as usize
    }

    /// Sizes by name, and for each kind of queries what one question takes. Reads all cells.
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let snapshot = self.0.snapshot();
        let load = interruptible::run(py, Reporter::Silent, |_, _| Ok(snapshot.load()?))?;
        let (tables, layout) = (snapshot.tables(), snapshot.layout());
        let (parameters, candidates) = (tables.parameters(), tables.queries());
        let description = Description::new(tables).map_err(Failure::from)?;
        let room = match layout {
            Layout::Index { records, .. } => Some(records),
            Layout::Keys { .. } => None,
        };
        let costs = PyDict::new(py);
        for &mode in tables.kind().modes() {
            let cost = PyDict::new(py);
            cost.set_item("questions", 1)?;
            cost.set_item("batch", description.most_questions())?;
            cost.set_item("queries", 1)?;
            cost.set_item("key_bytes", SeededKeys::byte_len(parameters, mode))?;
            cost.set_item("query_bytes", candidates * description.query_bytes(mode) + REQUEST_OVERHEAD_BYTES)?;
            cost.set_item("answer_bytes", description.answer_bytes(candidates))?;
            costs.set_item(mode.to_string(), cost)?;
        }
        let info = PyDict::new(py);
        info.set_item("read_by", if room.is_some() { "index" } else { "key" })?;
        info.set_item("records", snapshot.records())?;
        info.set_item("room", room)?;
        info.set_item("cells", layout.cells())?;
        info.set_item("cell_bytes", layout.cell_bytes())?;
        info.set_item("candidates", candidates)?;
        info.set_item("planes", tables.planes())?;
        info.set_item("tables", tables.kind().to_string())?;
        info.set_item("load", load)?;
        info.set_item("table_bytes", snapshot.table_bytes())?;
        info.set_item("changed_entries", snapshot.changed_entries())?;
        info.set_item("version", snapshot.version())?;
        info.set_item("generation", snapshot.generation())?;
        info.set_item("preset", parameters.name())?;
        info.set_item("costs", costs)?;
        Ok(info)
    }
}

/// Reads all records of the newest version.
fn check_records(database: &Reader) -> Result<(), Failure> {
    let snapshot = database.snapshot();
    let Layout::Index { records, .. } = snapshot.layout() else {
        // Computing the load reads every bucket.
        snapshot.load()?;
        return Ok(());
    };
    for number in 0..records {
        let name = || database.dir().display().to_string();
        snapshot.record(number).map_err(|error| Failure::Record { name: name(), number, error })?;
    }
    Ok(())
}

/// Builds a database of the records. The second part is the number of records, if it is known.
fn build<E>(
    py: Python<'_>,
    builder: &Builder,
    directory: PathBuf,
    (records, expected): (impl Iterator<Item = Result<Record, E>> + Send, Option<u64>),
    reporter: &mut Reporter,
) -> PyResult<()>
where
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    interruptible::run(py, reporter, |report, cancel| {
        let show = |progress: Progress| {
            let total = progress.total.or(expected.filter(|_| progress.phase == Phase::Read));
            report(Progress { total, ..progress }.into());
        };
        builder.build(directory, records, show, cancel.flag())?;
        Ok(())
    })
}

/// The writer of a database. Changes are discarded unless they are committed.
#[pyclass(module = "unspoken._unspoken")]
pub(crate) struct DatabaseWriter(Writer);

#[pymethods]
impl DatabaseWriter {
    /// Takes the lock of the database and opens its newest version.
    #[staticmethod]
    fn open(py: Python<'_>, directory: PathBuf) -> PyResult<Self> {
        let writer = interruptible::run(py, Reporter::Silent, |_, _| Ok(Writer::open(directory)?))?;
        if writer.sealing().is_some() {
            let message = "the records of the database are sealed; change them with `unspoken pir put --oprf-key`";
            return Err(ConfigurationError::new_err(message));
        }
        Ok(DatabaseWriter(writer))
    }

    #[getter]
    fn keyed(&self) -> bool {
        matches!(self.0.layout(), Layout::Keys { .. })
    }

    fn __len__(&self) -> usize {
        self.0.records() as usize
    }

    /// Adds or overwrites the record of a key.
    fn put(&mut self, py: Python<'_>, key: &[u8], value: &[u8]) -> PyResult<bool> {
        Ok(py.detach(|| self.0.put(key, value)).map_err(Failure::from)?)
    }

    /// Removes the record of a key; returns whether there was one.
    fn delete(&mut self, py: Python<'_>, key: &[u8]) -> PyResult<bool> {
        Ok(py.detach(|| self.0.delete(key)).map_err(Failure::from)?)
    }

    /// Overwrites the record at an index.
    fn set(&mut self, py: Python<'_>, index: u64, value: &[u8]) -> PyResult<()> {
        Ok(py.detach(|| self.0.set(index, value)).map_err(Failure::from)?)
    }

    /// Removes the record at an index.
    fn clear(&mut self, py: Python<'_>, index: u64) -> PyResult<()> {
        Ok(py.detach(|| self.0.clear(index)).map_err(Failure::from)?)
    }

    /// Adds a record after the last one; returns its index.
    fn push(&mut self, py: Python<'_>, value: &[u8]) -> PyResult<u64> {
        Ok(py.detach(|| self.0.push(value)).map_err(Failure::from)?)
    }

    /// Adds or overwrites the records of pairs of key or `None`, and value.
    fn put_all(&mut self, py: Python<'_>, records: &Bound<'_, PyAny>, progress: &Bound<'_, PyAny>) -> PyResult<()> {
        let mut reporter = Reporter::from_argument(progress)?;
        let records = collect(records, &mut reporter)?;
        let total = Some(records.len() as u64);
        let records = records.into_iter().map(Ok::<_, Infallible>);
        interruptible::run(py, &mut reporter, |report, cancel| {
            put_all(&mut self.0, (records, total), "the records", report, cancel)
        })
    }

    /// Adds or overwrites the records of a file or a folder.
    fn put_from(&mut self, py: Python<'_>, source: &RecordSource, progress: &Bound<'_, PyAny>) -> PyResult<()> {
        let reporter = Reporter::from_argument(progress)?;
        let name = source.path().display().to_string();
        interruptible::run(py, reporter, |report, cancel| {
            let source = source.open()?;
            let total = source.len_hint();
            put_all(&mut self.0, (source.map(convert), total), &name, report, cancel)
        })
    }

    /// Makes one version of all changes; returns its number.
    fn commit(&mut self, py: Python<'_>) -> PyResult<u64> {
        Ok(py.detach(|| self.0.commit()).map_err(Failure::from)?)
    }

    /// Writes the tables again with all changes included.
    fn compact(&mut self, py: Python<'_>, progress: &Bound<'_, PyAny>) -> PyResult<()> {
        interruptible::run(py, Reporter::from_argument(progress)?, |report, cancel| {
            Ok(self.0.compact(|progress: Progress| report(progress.into()), cancel.flag())?)
        })
    }
}

/// Puts records with keys, and appends those without. The first error ends it; the records before it stay in the
/// change.
fn put_all<E>(
    writer: &mut Writer,
    (records, total): (impl Iterator<Item = Result<Record, E>>, Option<u64>),
    name: &str,
    report: &mut dyn FnMut(Event),
    cancel: &Cancel,
) -> Result<(), Failure>
where
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    for (number, record) in (0..).zip(records) {
        let record = record.map_err(|error| DatabaseError::Source(error.into()))?;
        let put = match &record.key {
            Some(key) => writer.put(key, &record.value).map(drop),
            None => writer.push(&record.value).map(drop),
        };
        put.map_err(|error| Failure::Record { name: name.into(), number, error })?;
        if number.is_multiple_of(STEP) {
            report(Progress { phase: Phase::Read, done: number, total }.into());
            if cancel.is_cancelled() {
                return Err(DatabaseError::Cancelled.into());
            }
        }
    }
    Ok(())
}
