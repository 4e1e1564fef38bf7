//! Answers of every mode in turn, on one thread and on all cores; bytes, noise and failures; and a projection.

use std::cell::RefCell;

use rayon::ThreadPool;
use serde_json::{Map, Value};
use unspoken_pir::{DatabaseShape, Mode, PirParameters, PreparedKeys, Query, SeededKeys};

use super::asker::{Answered, Asker};
use super::table::Table;
use super::{PHASES, Size};
use crate::clock::{Contender, Effort, alternate, median};
use crate::error::BenchError;
use crate::machine::Machine;
use crate::peer::Respire;
use crate::row::{Metric, params};
use crate::session::{Session, pool};

const ANSWER: Metric = Metric::less("answer_time", "s");
const RATE: Metric = Metric::more("answer_rate", "MB/s");
const NOISE: Metric = Metric::less("noise_over_prediction", "times");
const FAILURE: Metric = Metric::less("log2_failure", "bits");
const PROJECTED: Metric = Metric::less("projected_time", "s");

/// Modes that are timed. A session query is answered as a compact one is.
const TIMED: [Mode; 3] = [Mode::Compact, Mode::Bits, Mode::Packed];

/// What is projected: the paper's largest table.
const PROJECTED_SIZE: (&str, u64) = ("8 GB", 8 << 30);

/// All answers of a mode on so many threads.
struct Samples {
    mode: Mode,
    threads: usize,
    seconds: Vec<f64>,
    answers: Vec<Answered>,
}

impl Samples {
    fn case(&self, size: Size) -> String {
        let cores = if self.threads == 1 { "" } else { ", all cores" };
        format!("{}, {}{cores}", size.name, self.mode)
    }

    /// Seconds of a phase, repetition by repetition.
    fn phase(&self, phase: usize) -> Vec<f64> {
        self.answers.iter().map(|answered| answered.phase_seconds()[phase]).collect()
    }
}

/// The table is given back before a peer runs: both together would not fit.
pub(super) fn run(
    session: &mut Session<'_>,
    effort: Effort,
    size: Size,
    table: Table,
    largest: bool,
) -> Result<(), BenchError> {
    preparation(session, size, &table);
    let samples = sample(session, effort, size, &table)?;
    let (parameters, shape) = (table.parameters.clone(), table.shape);
    let bytes = table.bytes();
    drop(table);
    let respire = Respire::measure(session, size.respire, bytes, effort.least)?;
    let common = params! {
        "preset": parameters.name(), "pieces": shape.pieces, "row_bits": shape.row_bits,
        "column_bits": shape.column_bits, "backend": parameters.ring().backend().name(), "clock": "wall",
    };
    for (at, found) in samples.iter().enumerate() {
        let single = samples.get(at.wrapping_sub(1)).filter(|_| found.threads > 1);
        times(session, size, bytes, found, single, respire.as_ref(), &common);
    }
    for found in samples.iter().filter(|found| found.threads == 1) {
        facts(session, size, &parameters, shape, found, &common);
        if largest {
            projection(session, size, &parameters, shape, found);
        }
    }
    let session_query = Query::byte_len(&parameters, Mode::Session, shape) as f64;
    let case = format!("{}, {}", size.name, Mode::Session);
    session.fact(Metric::less("query_bytes", "bytes"), case, session_query, None, common);
    if largest {
        keys(session, &parameters);
    }
    Ok(())
}

fn preparation(session: &mut Session<'_>, size: Size, table: &Table) {
    let cores = Machine::detect().cores;
    let time = Metric::less("encoding_time", "s");
    let params = params! { "threads": cores, "clock": "wall", "of": "all records, into memory" };
    session.fact(time, size.name, table.seconds, None, params);
    session.fact(Metric::less("memory_per_byte", "bytes"), size.name, table.memory_per_byte(), None, params! {});
}

/// Each mode on one thread, then on all cores where there are several; all of them in turn.
fn sample(session: &mut Session<'_>, effort: Effort, size: Size, table: &Table) -> Result<Vec<Samples>, BenchError> {
    let cores = Machine::detect().cores;
    let several = (cores > 1).then(|| pool(cores)).transpose()?;
    let mut pools: Vec<(usize, &ThreadPool)> = Vec::new();
    let mut askers = Vec::new();
    for mode in TIMED {
        session.note(format!("{}: {mode} keys", size.name));
        let asker = Asker::new(table, mode)?;
        let [made, ready] = asker.key_seconds;
        let params = params! { "threads": cores, "clock": "wall" };
        let case = format!("{}, {mode}", size.name);
        session.fact(Metric::less("key_making_time", "s"), &case, made, None, params.clone());
        session.fact(Metric::less("key_loading_time", "s"), &case, ready, None, params);
        askers.push(RefCell::new(asker));
    }
    session.note(format!("{}: answers in turn", size.name));
    pools.push((1, &session.single));
    pools.extend(several.as_ref().map(|several| (cores, several)));
    let runs: Vec<_> = askers.iter().flat_map(|asker| pools.iter().map(move |&run| (asker, run))).collect();
    let answers: Vec<RefCell<Vec<Answered>>> = runs.iter().map(|_| RefCell::default()).collect();
    let mut contenders: Vec<Contender<'_>> = Vec::new();
    for (&(asker, (_, pool)), answers) in runs.iter().zip(&answers) {
        contenders.push(Box::new(move || {
            let answered = asker.borrow_mut().ask(table, pool)?;
            let seconds = answered.seconds;
            answers.borrow_mut().push(answered);
            Ok(seconds)
        }));
    }
    let seconds = alternate(effort, &mut contenders)?;
    drop(contenders);
    let samples = runs.iter().zip(seconds).zip(answers).map(|((&(asker, (threads, _)), seconds), answers)| {
        // The first round is not timed.
        let answers = answers.into_inner().into_iter().skip(1).collect();
        Samples { mode: asker.borrow().mode, threads, seconds, answers }
    });
    Ok(samples.collect())
}

/// All of it, and its phases; on all cores beside one thread, packed on one thread beside Respire.
fn times(
    session: &mut Session<'_>,
    size: Size,
    bytes: u64,
    found: &Samples,
    single: Option<&Samples>,
    respire: Option<&Respire>,
    common: &Map<String, Value>,
) {
    let case = found.case(size);
    let mut params = common.clone();
    params.extend(params! { "threads": found.threads, "repetitions": found.seconds.len() });
    let respire = respire.filter(|_| found.mode == Mode::Packed && found.threads == 1);
    let mut row = |metric: Metric, ours: Vec<f64>, one_thread: Option<Vec<f64>>, theirs: Option<&[f64]>| {
        let Some(theirs) = theirs else {
            let baseline = one_thread.as_ref().map(|seconds| ("one thread", seconds.as_slice()));
            return session.row(metric, &case, &ours, baseline, params.clone());
        };
        let mut params = params.clone();
        params.insert("order".into(), "the baseline after all of ours: both tables would not fit".into());
        session.row(metric, &case, &[median(&ours)], Some((Respire::NAME, &[median(theirs)])), params);
    };
    let rate = |seconds: &[f64]| seconds.iter().map(|s| bytes as f64 / f64::from(1 << 20) / s).collect::<Vec<f64>>();
    let theirs = respire.map(Respire::answers);
    row(ANSWER, found.seconds.clone(), single.map(|single| single.seconds.clone()), theirs.as_deref());
    let rates = theirs.as_deref().map(rate);
    row(RATE, rate(&found.seconds), single.map(|single| rate(&single.seconds)), rates.as_deref());
    for (i, metric) in PHASES.into_iter().enumerate() {
        let theirs = respire.and_then(|respire| respire.phase(i));
        row(metric, found.phase(i), single.map(|single| single.phase(i)), theirs.as_deref());
    }
}

/// Bytes, noise and failures of a mode.
fn facts(
    session: &mut Session<'_>,
    size: Size,
    parameters: &PirParameters,
    shape: DatabaseShape,
    found: &Samples,
    common: &Map<String, Value>,
) {
    let case = found.case(size);
    let mut fact = |metric, value| session.fact(metric, &case, value, None, common.clone());
    if let Some(answered) = found.answers.first() {
        fact(Metric::less("query_bytes", "bytes"), answered.query_bytes as f64);
        fact(Metric::less("response_bytes", "bytes"), answered.response_bytes as f64);
    }
    let noise: Vec<f64> = found.answers.iter().map(|answered| answered.noise_ratio).collect();
    fact(NOISE, median(&noise));
    fact(FAILURE, parameters.log2_failure(shape, found.mode));
}

/// What keys take on the wire and at the server; the same for every table.
fn keys(session: &mut Session<'_>, parameters: &PirParameters) {
    for mode in TIMED {
        let (wire, memory) = (SeededKeys::byte_len(parameters, mode), PreparedKeys::memory_bytes(parameters, mode));
        let params = params! { "preset": parameters.name() };
        session.fact(Metric::less("key_bytes", "bytes"), mode.to_string(), wire as f64, None, params.clone());
        session.fact(Metric::less("key_memory", "bytes"), mode.to_string(), memory as f64, None, params);
    }
}

/// One thread at 8 GB from the phases of the largest table measured: expansion grows with the bits of the index, selectors
/// and compression do not grow, sums over rows and selection grow with the bytes.
fn projection(
    session: &mut Session<'_>,
    size: Size,
    parameters: &PirParameters,
    shape: DatabaseShape,
    found: &Samples,
) {
    let (name, bytes) = PROJECTED_SIZE;
    let pieces = bytes / parameters.piece_bytes() as u64;
    let (bits, times) = (pieces.ilog2(), bytes as f64 / size.bytes as f64);
    let growth = [f64::from(bits) / f64::from(shape.index_bits()), 1.0, times, times, 1.0];
    let seconds: f64 = growth.iter().enumerate().map(|(i, growth)| growth * median(&found.phase(i))).sum();
    let larger = DatabaseShape::new(parameters, pieces);
    let answered = larger.is_ok_and(|larger| parameters.check_failure(larger, found.mode).is_ok());
    let params = params! {
        "from": size.name, "threads": 1, "clock": "wall", "pieces": pieces,
        "growth_of_phases": growth, "answered": answered,
    };
    session.fact(PROJECTED, format!("{name}, {}", found.mode), seconds, None, params);
}
