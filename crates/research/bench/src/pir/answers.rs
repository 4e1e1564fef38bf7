//! Answers of every mode in turn, on one thread and on all cores; bytes, noise and failure probability; and a
//! projection.

use std::cell::RefCell;

use rayon::ThreadPool;
use serde_json::{Map, Value};
use unspoken_pir_scheme::{DatabaseShape, Mode, PirParameters, PreparedKeys, Query, SeededKeys};

use super::client::{MeasuredAnswer, MeasuredClient};
use super::table::Table;
use super::{GB_8, PHASES, Size};
use crate::clock::{Repetitions, TimedOperation, alternate, median};
use crate::harness::{Harness, pool};
use crate::machine::MachineInfo;
use crate::peer::Respire;
use crate::row::{Metric, params};

const ANSWER: Metric = Metric::less("answer_time", "s");
const RATE: Metric = Metric::more("answer_rate", "MB/s");
const NOISE: Metric = Metric::less("noise_over_prediction", "times");
const FAILURE: Metric = Metric::less("log2_failure", "bits");
const PROJECTED: Metric = Metric::less("projected_time", "s");

/// Modes that are timed. A session query is answered as a compact one is.
const TIMED: [Mode; 3] = [Mode::Compact, Mode::Bits, Mode::Packed];

/// Answers of one mode on a number of threads.
struct ModeMeasurement {
    mode: Mode,
    threads: usize,
    answers: Vec<MeasuredAnswer>,
}

impl ModeMeasurement {
    fn case(&self, size: Size) -> String {
        let cores = if self.threads == 1 { "" } else { ", all cores" };
        format!("{}, {}{cores}", size.name, self.mode)
    }

    /// Seconds of an answer, repetition by repetition.
    fn seconds(&self) -> Vec<f64> {
        self.answers.iter().map(|answer| answer.seconds).collect()
    }

    /// Seconds of a phase, repetition by repetition.
    fn phase(&self, phase: usize) -> Vec<f64> {
        self.answers.iter().map(|answer| answer.phases[phase]).collect()
    }
}

/// Measures answers. Drops the table before a peer runs: both would not fit into memory.
pub(super) fn run(
    harness: &mut Harness<'_>,
    repetitions: Repetitions,
    size: Size,
    table: Table,
    largest: bool,
) -> anyhow::Result<()> {
    preparation(harness, size, &table);
    let samples = sample(harness, repetitions, size, &table)?;
    let (parameters, shape) = (table.parameters.clone(), table.shape);
    let bytes = table.bytes();
    drop(table);
    let respire = match size.respire {
        Some(program) => Respire::measure(harness, program, bytes, repetitions.min)?,
        None => None,
    };
    let common = params! {
        "preset": parameters.name(), "pieces": shape.pieces, "row_bits": shape.row_bits,
        "column_bits": shape.column_bits, "backend": parameters.ring().backend().name(), "clock": "wall",
    };
    for (at, found) in samples.iter().enumerate() {
        let single = samples.get(at.wrapping_sub(1)).filter(|_| found.threads > 1);
        times(harness, size, bytes, found, single, respire.as_ref(), &common);
    }
    for found in samples.iter().filter(|found| found.threads == 1) {
        facts(harness, size, &parameters, shape, found, &common);
        if largest {
            projection(harness, size, &parameters, shape, found)?;
        }
    }
    let session_query = Query::byte_len(&parameters, Mode::Session, shape) as f64;
    let case = format!("{}, {}", size.name, Mode::Session);
    harness.value(Metric::less("query_bytes", "bytes"), case, session_query, None, common);
    if largest {
        keys(harness, &parameters);
    }
    Ok(())
}

fn preparation(harness: &mut Harness<'_>, size: Size, table: &Table) {
    let cores = MachineInfo::detect().cores;
    let time = Metric::less("encoding_time", "s");
    let params = params! { "threads": cores, "clock": "wall", "of": "all records, into memory" };
    harness.value(time, size.name, table.seconds, None, params);
    harness.value(Metric::less("memory_per_byte", "bytes"), size.name, table.memory_per_byte(), None, params! {});
}

/// Each mode on one thread, then on all cores if there are several; all of them in turn.
fn sample(
    harness: &mut Harness<'_>,
    repetitions: Repetitions,
    size: Size,
    table: &Table,
) -> anyhow::Result<Vec<ModeMeasurement>> {
    let cores = MachineInfo::detect().cores;
    let several = (cores > 1).then(|| pool(cores)).transpose()?;
    let mut pools: Vec<(usize, &ThreadPool)> = Vec::new();
    let mut clients = Vec::new();
    for mode in TIMED {
        harness.progress(format!("{}: {mode} keys", size.name));
        let client = MeasuredClient::new(table, mode)?;
        let [made, ready] = client.key_seconds;
        let params = params! { "threads": cores, "clock": "wall" };
        let case = format!("{}, {mode}", size.name);
        harness.value(Metric::less("key_making_time", "s"), &case, made, None, params.clone());
        harness.value(Metric::less("key_loading_time", "s"), &case, ready, None, params);
        clients.push(RefCell::new(client));
    }
    harness.progress(format!("{}: answers in turn", size.name));
    pools.push((1, &harness.single_thread));
    pools.extend(several.as_ref().map(|several| (cores, several)));
    let mut labels = Vec::new();
    let mut operations: Vec<TimedOperation<'_, MeasuredAnswer>> = Vec::new();
    for (client, mode) in clients.iter().zip(TIMED) {
        for &(threads, pool) in &pools {
            labels.push((mode, threads));
            operations.push(Box::new(move || client.borrow_mut().measure(table, pool)));
        }
    }
    let answers = alternate(repetitions, &mut operations)?;
    let measured = labels.into_iter().zip(answers);
    Ok(measured.map(|((mode, threads), answers)| ModeMeasurement { mode, threads, answers }).collect())
}

/// Total times and times of the phases: on all cores compared with one thread, packed on one thread compared with
/// Respire.
fn times(
    harness: &mut Harness<'_>,
    size: Size,
    bytes: u64,
    found: &ModeMeasurement,
    single: Option<&ModeMeasurement>,
    respire: Option<&Respire>,
    common: &Map<String, Value>,
) {
    let case = found.case(size);
    let mut params = common.clone();
    params.extend(params! { "threads": found.threads, "repetitions": found.answers.len() });
    let respire = respire.filter(|_| found.mode == Mode::Packed && found.threads == 1);
    let mut row = |metric: Metric, ours: Vec<f64>, one_thread: Option<Vec<f64>>, theirs: Option<&[f64]>| {
        let Some(theirs) = theirs else {
            let baseline = one_thread.as_ref().map(|seconds| ("one thread", seconds.as_slice()));
            return harness.row(metric, &case, &ours, baseline, params.clone());
        };
        let mut params = params.clone();
        params.insert("order".into(), "the baseline after all of ours: both tables would not fit".into());
        harness.row(metric, &case, &[median(&ours)], Some((Respire::NAME, &[median(theirs)])), params);
    };
    let rate = |seconds: &[f64]| seconds.iter().map(|s| bytes as f64 / f64::from(1 << 20) / s).collect::<Vec<f64>>();
    let theirs = respire.map(Respire::answers);
    row(ANSWER, found.seconds(), single.map(ModeMeasurement::seconds), theirs.as_deref());
    let rates = theirs.as_deref().map(rate);
    row(RATE, rate(&found.seconds()), single.map(|single| rate(&single.seconds())), rates.as_deref());
    for (i, (_, metric)) in PHASES.into_iter().enumerate() {
        let theirs = respire.and_then(|respire| respire.phase(i));
        row(metric, found.phase(i), single.map(|single| single.phase(i)), theirs.as_deref());
    }
}

/// Bytes, noise and failure probability of a mode.
fn facts(
    harness: &mut Harness<'_>,
    size: Size,
    parameters: &PirParameters,
    shape: DatabaseShape,
    found: &ModeMeasurement,
    common: &Map<String, Value>,
) {
    let case = found.case(size);
    let mut row = |metric, value| harness.value(metric, &case, value, None, common.clone());
    if let Some(answer) = found.answers.first() {
        row(Metric::less("query_bytes", "bytes"), answer.query_bytes as f64);
        row(Metric::less("response_bytes", "bytes"), answer.response_bytes as f64);
    }
    let noise: Vec<f64> = found.answers.iter().map(|answer| answer.noise_ratio).collect();
    row(NOISE, median(&noise));
    row(FAILURE, parameters.log2_failure(shape, found.mode));
}

/// Bytes of the keys on the wire and at the server; the same for every table.
fn keys(harness: &mut Harness<'_>, parameters: &PirParameters) {
    for mode in TIMED {
        let (wire, memory) = (SeededKeys::byte_len(parameters, mode), PreparedKeys::memory_bytes(parameters, mode));
        let params = params! { "preset": parameters.name() };
        harness.value(Metric::less("key_bytes", "bytes"), mode.to_string(), wire as f64, None, params.clone());
        harness.value(Metric::less("key_memory", "bytes"), mode.to_string(), memory as f64, None, params);
    }
}

/// Time of one thread at 8 GB, the largest size of the paper, from the phases of the largest measured table: expansion
/// grows with the rotations for the bits of the index, selectors and compression do not grow, sums over rows and
/// selection grow with the bytes.
fn projection(
    harness: &mut Harness<'_>,
    size: Size,
    parameters: &PirParameters,
    shape: DatabaseShape,
    found: &ModeMeasurement,
) -> anyhow::Result<()> {
    let Size { name, bytes, .. } = GB_8;
    let pieces = bytes / parameters.piece_bytes() as u64;
    let times = bytes as f64 / size.bytes as f64;
    let larger = DatabaseShape::new(parameters, pieces)?;
    let refreshed = matches!(found.mode, Mode::Compact | Mode::Session);
    let rotations = |shape: DatabaseShape| {
        f64::from(shape.index_bits() + if refreshed { parameters.refreshed_bits(shape) } else { 0 })
    };
    let growth = [rotations(larger) / rotations(shape), 1.0, times, times, 1.0];
    let seconds: f64 = growth.iter().enumerate().map(|(i, growth)| growth * median(&found.phase(i))).sum();
    let answered = parameters.check_failure(larger, found.mode).is_ok();
    let params = params! {
        "from": size.name, "threads": 1, "clock": "wall", "pieces": pieces,
        "growth_of_phases": growth, "answered": answered,
    };
    harness.value(PROJECTED, format!("{name}, {}", found.mode), seconds, None, params);
    Ok(())
}
