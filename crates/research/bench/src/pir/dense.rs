//! Answers from dense tables: several waiting queries in one pass, each of a client with keys of its own, beside one
//! reading of the table.

use std::cell::RefCell;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use rayon::ThreadPool;
use serde_json::{Map, Value};
use unspoken_pir_scheme::dense::{
    DensePart, DenseQuery, DenseResponse, DenseSplit, DenseTable, answer_in_phases, log2_failure,
};
use unspoken_pir_scheme::{
    Layout, Length, Mode, Phase, PirParameters, PirSecret, PlaneShape, PreparedKeys, TableKind, Tables,
};
use unspoken_ring::SecretRng;

use super::table::record;
use super::{Case, Size};
use crate::clock::{PhaseClock, TimedOperation, alternate, median};
use crate::error::wrong;
use crate::harness::{Harness, pool};
use crate::machine::{MachineInfo, available_memory_bytes};
use crate::peer::{SilentReport, SilentRetrieval};
use crate::row::{Metric, params};

const PASS: Metric = Metric::less("dense_pass_time", "s");
const RATE: Metric = Metric::more("dense_rate", "GB/s");
const ANSWER: Metric = Metric::less("dense_answer_time", "s");
const BUILD_TIME: Metric = Metric::less("build_time", "s");
const QUERY_BYTES: Metric = Metric::less("query_bytes", "bytes");
const RESPONSE_BYTES: Metric = Metric::less("response_bytes", "bytes");
const READING: &str = "reading the table once, one thread";

const PHASES: [(Phase, Metric); 4] = [
    (Phase::Rows, Metric::less("dense_rows_time", "s")),
    (Phase::Packing, Metric::less("dense_packing_time", "s")),
    (Phase::Expansion, Metric::less("dense_expansion_time", "s")),
    (Phase::Selection, Metric::less("dense_selection_time", "s")),
];

/// Bytes of a record.
const RECORD: usize = 256;

/// Memory that is left free beside a table.
const SPARE_BYTES: u64 = 1 << 30;

/// The largest table beside which the programs of others run: they prepare for minutes.
const MAX_BESIDE_BYTES: u64 = 1 << 30;

/// One pass: its times.
struct Pass {
    seconds: f64,
    /// Seconds of each phase, in the order of [`PHASES`].
    phases: [f64; 4],
}

/// What is measured in turn.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Load {
    queries: usize,
    threads: usize,
}

impl Load {
    /// One query on one thread.
    const SINGLE: Load = Load { queries: 1, threads: 1 };

    fn case(self, of: &str) -> String {
        let queries = if self.queries == 1 { "1 query".into() } else { format!("{} queries", self.queries) };
        let cores = if self.threads == 1 { "" } else { ", all cores" };
        format!("{of}, {queries}{cores}")
    }
}

/// Clients with keys of their own.
struct Clients {
    all: Vec<(PirSecret, PreparedKeys)>,
    rng: SecretRng,
    asked: u64,
}

pub(super) fn run(
    harness: &mut Harness<'_>,
    case: &Case,
    (kind, size): (TableKind, Size),
    pir: &PirParameters,
) -> anyhow::Result<()> {
    let layout = Layout::Index { records: size.bytes / RECORD as u64, length: Length::Fixed(RECORD as u32) };
    let PlaneShape::Dense(shape) = Tables::new(pir, layout, kind)?.shape() else { return Ok(()) };
    // Rows of passes over dense tables, which are most, do not name the kind.
    let label = if kind == TableKind::Dense { size.name.to_owned() } else { format!("{}, {kind}", size.name) };
    let needed = DenseTable::needed_bytes(pir, &DensePart::whole(shape)) + SPARE_BYTES;
    if available_memory_bytes().is_some_and(|free| free < needed) {
        harness.progress(format!("{kind}, {}: not measured, it needs {needed} bytes of memory", size.name));
        return Ok(());
    }
    let peers = if kind == TableKind::Dense { peers(harness, case, size)? } else { Vec::new() };
    harness.progress(format!("{kind}, {}: table", size.name));
    let started = Instant::now();
    let table = DenseTable::build(pir, shape, |cell| record(cell, RECORD))?;
    facts(harness, (kind, size), &table, started.elapsed().as_secs_f64())?;
    let clients = RefCell::new(Clients::new(pir, case.passes.iter().copied().max().unwrap_or(1))?);
    let cores = MachineInfo::detect().cores;
    let several = pool(cores)?;
    let mut loads = Vec::new();
    for &queries in case.passes {
        loads.push(Load { queries, threads: 1 });
        loads.extend((cores > 1).then_some(Load { queries, threads: cores }));
    }
    harness.progress(format!("{kind}, {}: passes in turn", size.name));
    let single = &harness.single_thread;
    let mut operations: Vec<TimedOperation<'_, Pass>> = Vec::new();
    operations.push(Box::new(|| Ok(read(&table, single))));
    for &Load { queries, threads } in &loads {
        let (table, clients, pool) = (&table, &clients, if threads == 1 { single } else { &several });
        operations.push(Box::new(move || clients.borrow_mut().pass(table, queries, pool)));
    }
    let samples = alternate(case.repetitions, &mut operations)?;
    drop(operations);
    let Some((reading, passes)) = samples.split_first() else { return Ok(()) };
    let reading: Vec<f64> = reading.iter().map(|pass| pass.seconds).collect();
    for (&load, passes) in loads.iter().zip(passes) {
        let params = params! {
            "preset": pir.name(), "rows": shape.rows(), "groups": shape.groups(), "queries": load.queries,
            "threads": load.threads, "backend": pir.ring().backend().name(), "clock": "wall",
            "repetitions": passes.len(),
        };
        report(harness, (load.case(&label), size, load), passes, &reading, &params);
        if load == Load::SINGLE {
            peers.iter().for_each(|peer| beside(harness, size, &table, passes, peer));
        }
    }
    Ok(())
}

/// Measures the programs of others, before our table takes the memory.
fn peers(harness: &mut Harness<'_>, case: &Case, size: Size) -> anyhow::Result<Vec<(&'static str, SilentReport)>> {
    if harness.options.quick || size.bytes > MAX_BESIDE_BYTES {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for program in SilentRetrieval::ALL {
        let report = program.measure(harness, size.bytes, RECORD as u64, case.repetitions.min)?;
        found.extend(report.map(|report| (program.name(), report)));
    }
    Ok(found)
}

/// A single query beside the program of others: seconds and bytes.
fn beside(
    harness: &mut Harness<'_>,
    size: Size,
    table: &DenseTable,
    passes: &[Pass],
    (name, theirs): &(&'static str, SilentReport),
) {
    let (pir, shape, case) = (table.parameters(), table.shape(), format!("{}, beside {name}", size.name));
    let params = params! { "threads": 1, "clock": "wall", "order": "theirs before ours" };
    let seconds: Vec<f64> = passes.iter().map(|pass| pass.seconds).collect();
    harness.row(ANSWER, &case, &seconds, Some((name, &theirs.answers())), params.clone());
    let mut row = |metric, ours, theirs| harness.value(metric, &case, ours, Some((*name, theirs)), params.clone());
    row(QUERY_BYTES, DenseQuery::byte_len(pir, shape) as f64, theirs.query_bytes() as f64);
    row(RESPONSE_BYTES, DenseResponse::byte_len(pir, shape) as f64, theirs.response_bytes() as f64);
}

/// Bytes, time of building, probability of failure.
fn facts(
    harness: &mut Harness<'_>,
    (kind, size): (TableKind, Size),
    table: &DenseTable,
    seconds: f64,
) -> anyhow::Result<()> {
    let (pir, shape) = (table.parameters(), table.shape());
    let mut row = |metric, value| {
        harness.value(metric, format!("{}, {kind}", size.name), value, None, params! { "clock": "wall" });
    };
    row(BUILD_TIME, seconds);
    row(Metric::less("memory_per_byte", "bytes"), table.memory_bytes() as f64 / size.bytes as f64);
    row(QUERY_BYTES, DenseQuery::byte_len(pir, shape) as f64);
    row(RESPONSE_BYTES, DenseResponse::byte_len(pir, shape) as f64);
    row(Metric::less("log2_failure", "bits"), log2_failure(pir, DenseSplit::whole(shape))?);
    Ok(())
}

/// Reads all bytes of the table.
fn read(table: &DenseTable, pool: &ThreadPool) -> Pass {
    let started = Instant::now();
    let sum = pool.install(|| {
        let words = table.bytes().as_chunks::<8>().0.iter().map(|&word| u64::from_ne_bytes(word));
        words.fold(0u64, u64::wrapping_add)
    });
    std::hint::black_box(sum);
    Pass { seconds: started.elapsed().as_secs_f64(), phases: [0.0; 4] }
}

fn report(
    harness: &mut Harness<'_>,
    (case, size, load): (String, Size, Load),
    passes: &[Pass],
    reading: &[f64],
    params: &Map<String, Value>,
) {
    let seconds: Vec<f64> = passes.iter().map(|pass| pass.seconds).collect();
    harness.row(PASS, &case, &seconds, Some((READING, reading)), params.clone());
    let rate = |queries: usize, seconds: &[f64]| [size.bytes as f64 * queries as f64 / median(seconds) / 1e9];
    let (ours, once) = (rate(load.queries, &seconds), rate(1, reading));
    harness.row(RATE, &case, &ours, Some((READING, &once)), params.clone());
    for (i, (_, metric)) in PHASES.into_iter().enumerate() {
        let seconds: Vec<f64> = passes.iter().map(|pass| pass.phases[i]).collect();
        harness.row(metric, &case, &seconds, None, params.clone());
    }
}

impl Clients {
    fn new(pir: &PirParameters, count: usize) -> anyhow::Result<Self> {
        let mut rng = SecretRng::insecure_from_seed(64);
        let client = |_| {
            let secret = PirSecret::generate(pir, &mut rng)?;
            let keys = secret.keys(Mode::Packed, &mut rng)?.expand()?;
            Ok((secret, keys))
        };
        let all = (0..count).map(client).collect::<anyhow::Result<_>>()?;
        Ok(Clients { all, rng, asked: 0 })
    }

    /// A query of each of the first clients, each for another record, and their answers in one pass, which is timed
    /// alone. All records are compared.
    fn pass(&mut self, table: &DenseTable, count: usize, pool: &ThreadPool) -> anyhow::Result<Pass> {
        let (shape, clients) = (table.shape(), &self.all[..count]);
        let mut queries = Vec::with_capacity(count);
        for (secret, _) in clients {
            self.asked += 1;
            let cell = self.asked.wrapping_mul(0x9e37_79b1) % shape.cells();
            queries.push((cell, secret.dense_query(shape, cell, &mut self.rng)?));
        }
        let asked: Vec<_> = clients.iter().zip(&queries).map(|((_, keys), (_, query))| (keys, query)).collect();
        let started = Instant::now();
        let (pir, planes, never) = (table.parameters(), [table.groups()], AtomicBool::new(false));
        let mut clock = PhaseClock::start();
        let answered = || answer_in_phases(pir, shape, &planes, &asked, &never, |phase| clock.ended(phase));
        let responses = pool.install(answered)?;
        let seconds = started.elapsed().as_secs_f64();
        for (((secret, _), (cell, _)), response) in clients.iter().zip(&queries).zip(responses.iter().flatten()) {
            let found = secret.dense_extract(response, shape)?;
            let differ = found.iter().zip(record(*cell, RECORD)).filter(|(a, b)| **a != *b).count();
            if differ > 0 || found.len() != RECORD {
                let case = format!("dense query for record {cell}, bytes that differ");
                return Err(wrong(case, differ as f64, 0.0));
            }
        }
        Ok(Pass { seconds, phases: PHASES.map(|(phase, _)| clock.seconds(phase)) })
    }
}
