//! Progress of long work: bars on a terminal, or a callback.

use indicatif::{DecimalBytes, ProgressBar, ProgressStyle};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBool;
use unspoken_client::Progress as ClientProgress;
use unspoken_client::transport::{UploadProgress, Waiting};
use unspoken_collection as collection;
use unspoken_database as database;
use unspoken_digits_model as digits;
use unspoken_embedding as embedding;
use unspoken_fasttext as fasttext;
use unspoken_network as network;

/// Stage of the work.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    Training,
    Compressing,
    Waiting,
    KeysToSend,
    QueriesToSend,
    MakingKeys,
    HashingKeys,
    SendingKeys,
    CheckingKeys,
    Asking(&'static str),
    Answering,
    Computing,
    ReadingRecords,
    FindingBuckets,
    WritingCells,
    EncodingTables,
    Clustering,
    MeasuringRecall,
    PlacingDocuments,
    FittingLayers,
    PlanningPresets,
    Simulating,
}

impl Stage {
    fn name(self) -> &'static str {
        match self {
            Stage::Training => "training",
            Stage::Compressing => "compressing",
            Stage::Waiting => "waiting",
            Stage::KeysToSend => "keys to send",
            Stage::QueriesToSend => "queries to send",
            Stage::MakingKeys => "generating keys",
            Stage::HashingKeys => "hashing keys",
            Stage::SendingKeys => "sending keys",
            Stage::CheckingKeys => "checking keys",
            Stage::Asking(work) => work,
            Stage::Answering => "answering",
            Stage::Computing => "computing",
            Stage::ReadingRecords => "reading records",
            Stage::FindingBuckets => "finding buckets",
            Stage::WritingCells => "writing cells",
            Stage::EncodingTables => "encoding tables",
            Stage::Clustering => "clustering",
            Stage::MeasuringRecall => "measuring recall",
            Stage::PlacingDocuments => "placing documents",
            Stage::FittingLayers => "fitting layers",
            Stage::PlanningPresets => "planning presets",
            Stage::Simulating => "simulating",
        }
    }

    /// Template of the stage's bar, which counts epochs, steps, keys, bytes, messages, tokens, vectors, records, cells
    /// or entries. The number of records is often unknown while they are read.
    fn template(self) -> &'static str {
        match self {
            Stage::HashingKeys | Stage::SendingKeys => {
                "{prefix:>15} [{bar:30}] {bytes}/{total_bytes} {bytes_per_sec} {elapsed}"
            }
            Stage::CheckingKeys | Stage::MeasuringRecall => "{prefix:>15} {elapsed}",
            Stage::ReadingRecords => "{prefix:>15} {pos} {per_sec} {elapsed}",
            Stage::Waiting | Stage::KeysToSend | Stage::QueriesToSend => "{prefix:>15} {msg}",
            _ => "{prefix:>15} [{bar:30}] {pos}/{len} {elapsed} {msg}",
        }
    }
}

/// One progress report.
pub(crate) struct Event {
    stage: Stage,
    done: u64,
    total: u64,
    note: String,
    /// The first wait of a call.
    first: bool,
}

impl Event {
    fn new(stage: Stage, done: u64, total: u64) -> Self {
        Event { stage, done, total, note: String::new(), first: false }
    }

    /// The report with this note.
    pub(crate) fn with_note(self, note: &str) -> Self {
        Event { note: note.into(), ..self }
    }

    /// Number of generated keys, and the total.
    pub(crate) fn keys(done: usize, total: usize) -> Self {
        Event::new(Stage::MakingKeys, done as u64, total as u64)
    }

    /// Number of computed vectors of a batch, and the total.
    pub(crate) fn vectors(done: usize, total: usize) -> Self {
        Event::new(Stage::Computing, done as u64, total as u64)
    }
}

/// Seconds since the first try, and seconds after which the call gives up.
impl From<&Waiting> for Event {
    fn from(waiting: &Waiting) -> Self {
        let (spent, limit) = (waiting.spent.as_secs(), waiting.limit.as_secs());
        let note = if waiting.tries == 1 { format!("{waiting} (timeout= changes this)") } else { waiting.to_string() };
        Event { note, first: waiting.tries == 1, ..Event::new(Stage::Waiting, spent, limit) }
    }
}

impl From<ClientProgress> for Event {
    fn from(step: ClientProgress) -> Self {
        match step {
            ClientProgress::KeysToSend { bytes } => {
                let note = format!("{}, once", DecimalBytes(bytes));
                Event { note, ..Event::new(Stage::KeysToSend, 0, bytes) }
            }
            ClientProgress::QueriesToSend(cost) => {
                let (up, down) = (DecimalBytes(cost.query_bytes), DecimalBytes(cost.answer_bytes));
                let note = format!("{} of {up} in all; receiving about {down}", cost.queries);
                Event { note, ..Event::new(Stage::QueriesToSend, 0, cost.query_bytes) }
            }
            ClientProgress::MakingKeys { done, total } => Event::new(Stage::MakingKeys, done as u64, total as u64),
            ClientProgress::Asking { verb, done, total } => Event::new(Stage::Asking(verb), done as u64, total as u64),
            ClientProgress::Answering { done, total } => Event::new(Stage::Answering, done.into(), total.into()),
            ClientProgress::Uploading(UploadProgress::Hashing { done, total }) => {
                Event::new(Stage::HashingKeys, done, total)
            }
            ClientProgress::Uploading(UploadProgress::Sending { done, total }) => {
                Event::new(Stage::SendingKeys, done, total)
            }
            ClientProgress::Uploading(UploadProgress::Checking) => Event::new(Stage::CheckingKeys, 0, 1),
        }
    }
}

/// An epoch of training.
fn epoch(epoch: usize, epochs: usize, loss: f64, validation: Option<f64>) -> Event {
    let validation = validation.map(|share| format!(", validation accuracy {share:.4}"));
    let note = format!("loss {loss:.4}{}", validation.unwrap_or_default());
    Event { note, ..Event::new(Stage::Training, epoch as u64, epochs as u64) }
}

impl From<&fasttext::Progress> for Event {
    fn from(progress: &fasttext::Progress) -> Self {
        epoch(progress.epoch, progress.epochs, progress.loss, progress.validation_accuracy)
    }
}

impl From<&digits::Progress> for Event {
    fn from(progress: &digits::Progress) -> Self {
        epoch(progress.epoch, progress.epochs, progress.loss, progress.validation_accuracy)
    }
}

impl From<&embedding::Progress> for Event {
    fn from(progress: &embedding::Progress) -> Self {
        let note = progress.relative_error.map(|error| format!("relative error {error:.4}")).unwrap_or_default();
        Event { note, ..Event::new(Stage::Compressing, progress.step as u64, progress.steps as u64) }
    }
}

/// The total is 0 while it is unknown.
impl From<database::Progress> for Event {
    fn from(progress: database::Progress) -> Self {
        let stage = match progress.phase {
            database::Phase::Read => Stage::ReadingRecords,
            database::Phase::Place => Stage::FindingBuckets,
            database::Phase::Write => Stage::WritingCells,
            database::Phase::Encode => Stage::EncodingTables,
        };
        Event::new(stage, progress.done, progress.total.unwrap_or_default())
    }
}

impl From<collection::Step> for Event {
    fn from(step: collection::Step) -> Self {
        match step {
            collection::Step::Cluster { done, total } => Event::new(Stage::Clustering, done as u64, total as u64),
            collection::Step::Measure => Event::new(Stage::MeasuringRecall, 0, 1),
            collection::Step::Place { done, total } => Event::new(Stage::PlacingDocuments, done as u64, total as u64),
            collection::Step::Store(progress) => progress.into(),
        }
    }
}

impl From<network::Progress> for Event {
    fn from(progress: network::Progress) -> Self {
        match progress {
            network::Progress::Fitting { done, total } => Event::new(Stage::FittingLayers, done as u64, total as u64),
            network::Progress::Planning { done, total } => {
                Event::new(Stage::PlanningPresets, done as u64, total as u64)
            }
            network::Progress::Simulating { done, total } => Event::new(Stage::Simulating, done as u64, total as u64),
        }
    }
}

/// Progress as a callback receives it.
#[pyclass(frozen, get_all, module = "unspoken")]
pub(crate) struct Progress {
    stage: &'static str,
    done: u64,
    total: u64,
    note: String,
}

#[pymethods]
impl Progress {
    fn __repr__(&self) -> String {
        let Progress { stage, done, total, note } = self;
        format!("Progress(stage={stage:?}, done={done}, total={total}, note={note:?})")
    }
}

/// Destination of progress reports.
pub(crate) enum Reporter {
    Silent,
    /// Bars on standard error, one per stage; none if standard error is not a terminal.
    Bars(Option<(Stage, ProgressBar)>),
    Callback(Py<PyAny>),
}

impl Reporter {
    /// The reporter for a caller's `progress=` argument: `True`, `False`, `None` or a callable.
    pub(crate) fn from_argument(progress: &Bound<'_, PyAny>) -> PyResult<Self> {
        if progress.is_callable() {
            return Ok(Reporter::Callback(progress.clone().unbind()));
        }
        match progress.cast::<PyBool>() {
            Ok(wanted) if wanted.is_true() => Ok(Reporter::Bars(None)),
            Ok(_) => Ok(Reporter::Silent),
            Err(_) if progress.is_none() => Ok(Reporter::Silent),
            Err(_) => {
                let found = progress.get_type().name()?;
                Err(PyTypeError::new_err(format!("read progress=: found {found}, needed True, False or a callable")))
            }
        }
    }

    /// Shows a report. The first wait of a call is logged as a warning as well, since it may last.
    pub(crate) fn show(&mut self, py: Python<'_>, event: Event) -> PyResult<()> {
        if event.first {
            let logger = py.import("logging")?.call_method1("getLogger", ("unspoken",))?;
            logger.call_method1("warning", ("%s", event.note.as_str()))?;
        }
        match self {
            Reporter::Silent => Ok(()),
            Reporter::Bars(_) if event.stage == Stage::Waiting => Ok(()),
            Reporter::Bars(current) => {
                draw(current, event);
                Ok(())
            }
            Reporter::Callback(callback) => {
                let Event { stage, done, total, note, .. } = event;
                callback.call1(py, (Progress { stage: stage.name(), done, total, note },)).map(drop)
            }
        }
    }
}

/// Progress of work that Python counts.
#[pyclass(module = "unspoken._unspoken")]
pub(crate) struct Counter {
    reporter: Reporter,
    stage: Stage,
}

#[pymethods]
impl Counter {
    #[new]
    fn new(progress: &Bound<'_, PyAny>, stage: &str) -> PyResult<Self> {
        let stage = match stage {
            "encrypting" => Stage::Asking("encrypting"),
            "decrypting" => Stage::Asking("decrypting"),
            "answering files" => Stage::Asking("answering files"),
            "embedding" => Stage::Asking("embedding"),
            _ => return Err(PyValueError::new_err(format!("count {stage:?}: found an unknown stage"))),
        };
        Ok(Counter { reporter: Reporter::from_argument(progress)?, stage })
    }

    /// Shows how much is done. The total is 0 while it is unknown.
    fn show(&mut self, py: Python<'_>, done: u64, total: u64) -> PyResult<()> {
        self.reporter.show(py, Event::new(self.stage, done, total))
    }
}

fn draw(current: &mut Option<(Stage, ProgressBar)>, event: Event) {
    let Event { stage, done, total, note, .. } = event;
    if current.as_ref().is_none_or(|&(shown, _)| shown != stage) {
        *current = Some((stage, new_bar(stage, total)));
    }
    if let Some((_, bar)) = current {
        bar.set_message(note);
        bar.set_position(done);
    }
}

fn new_bar(stage: Stage, total: u64) -> ProgressBar {
    let style = ProgressStyle::with_template(stage.template()).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(total)
        .with_style(style.progress_chars("=> "))
        .with_prefix(stage.name())
        .with_finish(indicatif::ProgressFinish::Abandon)
}
