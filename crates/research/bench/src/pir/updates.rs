//! A database on disk: building, opening, changing and compacting it.

use std::cell::RefCell;
use std::convert::Infallible;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use unspoken_database::{Builder, Built, Database, Record, Writer};
use unspoken_pir_scheme::Preset;

use super::Size;
use crate::clock::{TimedOperation, alternate};
use crate::error::{folder, wrong};
use crate::harness::Harness;
use crate::machine::MachineInfo;
use crate::row::{Metric, params};

const UPDATES: Metric = Metric::more("update_rate", "updates/s");

/// Bytes of a value.
const VALUE_BYTES: usize = 192;

/// Number of puts in one commit.
const BATCHES: [u64; 2] = [1, 100];

/// Records by key, one per 256 bytes of the size, in a temporary directory.
pub(super) fn run(harness: &mut Harness<'_>, size: Size, preset: Preset) -> anyhow::Result<()> {
    let folder = folder()?;
    let (dir, count) = (folder.path().join("database"), size.bytes / 256);
    let params = params! {
        "records": count, "value_bytes": VALUE_BYTES, "threads": MachineInfo::detect().cores, "clock": "wall",
    };
    let mut seconds = |metric, started: Instant| {
        harness.value(Metric::less(metric, "s"), size.name, started.elapsed().as_secs_f64(), None, params.clone());
    };
    let started = Instant::now();
    let records = (0..count).map(|i| Ok::<_, Infallible>(Record { key: Some(key(i)), value: value(i, 0) }));
    let builder = Builder { seed: Some([7; 16]), ..Builder::new(preset) };
    let built = builder.build(&dir, records, |_| (), &AtomicBool::new(false))?;
    seconds("build_time", started);
    let started = Instant::now();
    let database = Database::open(&dir)?;
    seconds("open_time", started);
    sizes(harness, size, &built);
    let mut writer = Writer::open(&dir)?;
    let changed = updates(harness, size, count, &mut writer)?;
    let started = Instant::now();
    database.refresh()?;
    let params = params! { "changed_entries": database.snapshot().changed_entries(), "clock": "wall" };
    let refresh = Metric::less("refresh_time", "s");
    harness.value(refresh, size.name, started.elapsed().as_secs_f64(), None, params.clone());
    check(&database, changed)?;
    let started = Instant::now();
    writer.compact(|_| (), &AtomicBool::new(false))?;
    let compact = Metric::less("compaction_time", "s");
    harness.value(compact, size.name, started.elapsed().as_secs_f64(), None, params);
    Ok(())
}

fn sizes(harness: &mut Harness<'_>, size: Size, built: &Built) {
    let of = built.value_bytes as f64;
    let params = params! { "records": built.records, "buckets": built.tables.layout().cells() };
    let per_byte = Metric::less("table_per_byte", "bytes");
    harness.value(per_byte, size.name, built.table_bytes as f64 / of, None, params);
}

/// Times puts and commits, one by one and many at once, in turn. Returns how often the first record was written.
fn updates(harness: &mut Harness<'_>, size: Size, count: u64, writer: &mut Writer) -> anyhow::Result<u64> {
    harness.progress(format!("{}: updates", size.name));
    let state = RefCell::new((writer, 0u64));
    let mut operations: Vec<TimedOperation<'_>> = Vec::new();
    for batch in BATCHES {
        let state = &state;
        operations.push(Box::new(move || {
            let (writer, turn) = &mut *state.borrow_mut();
            *turn += 1;
            let started = Instant::now();
            for i in 0..batch {
                // The first record, and others spread over the table.
                let number = i * (count / batch) + if i == 0 { 0 } else { *turn % (count / batch) };
                writer.put(&key(number), &value(number, *turn))?;
            }
            writer.commit()?;
            Ok(started.elapsed().as_secs_f64())
        }));
    }
    let samples = alternate(harness.repetitions(), &mut operations)?;
    drop(operations);
    for (batch, seconds) in BATCHES.into_iter().zip(&samples) {
        let rates: Vec<f64> = seconds.iter().map(|seconds| batch as f64 / seconds).collect();
        let params = params! { "clock": "wall", "repetitions": rates.len(), "records": count };
        harness.row(UPDATES, format!("{}, {batch} in a commit", size.name), &rates, None, params);
    }
    Ok(state.into_inner().1)
}

/// Checks that a reader sees the last value of the first record.
fn check(database: &Database, changed: u64) -> anyhow::Result<()> {
    let found = database.snapshot().get(&key(0))?;
    if found == Some(value(0, changed)) {
        return Ok(());
    }
    let case = "a record after updates, bytes found".to_owned();
    Err(wrong(case, found.map_or(0.0, |value| value.len() as f64), VALUE_BYTES as f64))
}

fn key(number: u64) -> Vec<u8> {
    format!("record {number}").into_bytes()
}

fn value(number: u64, version: u64) -> Vec<u8> {
    let text = format!("value {version} of record {number} ");
    text.bytes().cycle().take(VALUE_BYTES).collect()
}
