//! Answers that are added from the shards of a dense table. The shards are built one after the other, each answers the
//! same query, and is dropped: so a table is measured whose shards do not fit into memory together.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use serde_json::{Map, Value};
use unspoken_pir_scheme::dense::{
    DensePart, DenseQuery, DenseResponse, DenseShape, DenseSplit, DenseTable, PartialResponse, answer, log2_failure,
    partial_answer,
};
use unspoken_pir_scheme::{Mode, PirParameters, PirSecret, PreparedKeys};
use unspoken_ring::SecretRng;

use super::Size;
use super::table::record;
use crate::clock::median;
use crate::error::wrong;
use crate::harness::Harness;
use crate::machine::available_memory_bytes;
use crate::row::{Metric, params};

/// Bytes of a record.
const RECORD: usize = 256;

/// Memory that is left free beside a shard.
const SPARE_BYTES: u64 = 1 << 30;

/// Tables up to this size are measured as a whole too.
const MAX_WHOLE_BYTES: u64 = 256 << 20;

/// Answers of each table to the query; the first one also brings the table into the caches, and is not counted.
const ANSWERS: usize = 4;

/// A size of the table, and into how many shards it is cut.
#[derive(Clone, Copy)]
pub(super) struct Cut {
    pub(super) size: Size,
    pub(super) shards: usize,
}

/// A query and what it needs.
struct Asked {
    secret: PirSecret,
    keys: PreparedKeys,
    cell: u64,
    query: DenseQuery,
}

pub(super) fn run(harness: &mut Harness<'_>, cut: Cut, pir: &PirParameters) -> anyhow::Result<()> {
    let Cut { size, shards } = cut;
    let case = format!("{}, {shards} shards", size.name);
    let shape = DenseShape::new(pir, size.bytes / RECORD as u64, RECORD)?;
    let split = DenseSplit::new(pir, shape, shards)?;
    let whole = (size.bytes <= MAX_WHOLE_BYTES).then(|| DensePart::whole(shape));
    let largest = whole.clone().map_or_else(|| split.part(pir, 0), Ok)?;
    let needed = DenseTable::needed_bytes(pir, &largest) + SPARE_BYTES;
    if available_memory_bytes().is_some_and(|free| free < needed) {
        harness.progress(format!("{case}: not measured, a table needs {needed} bytes of memory"));
        return Ok(());
    }
    let asked = Asked::new(pir, shape)?;
    let mut params = params! {
        "preset": pir.name(), "rows": shape.rows(), "groups": shape.groups(), "shards": shards, "clock": "wall",
        "threads": rayon::current_num_threads(), "backend": pir.ring().backend().name(),
    };
    let of_whole = whole.map(|part| asked.whole(harness, &case, pir, part)).transpose()?;
    let (mut partials, mut answers, mut builds, mut bytes) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for number in 0..shards {
        harness.progress(format!("{case}: shard {} of {shards}", number + 1));
        let started = Instant::now();
        let table = DenseTable::build_part(pir, split.part(pir, number)?, |cell| record(cell, RECORD))?;
        builds.push(started.elapsed().as_secs_f64());
        bytes += table.memory_bytes();
        let (partial, seconds) = asked.partial(pir, &table)?;
        answers.push(seconds);
        // As a router reads it.
        partials.push(PartialResponse::from_bytes(pir, &partial.to_bytes(pir))?);
    }
    let started = Instant::now();
    let response = DenseResponse::merged(pir, shape, &partials)?;
    let merging = started.elapsed().as_secs_f64();
    asked.check(&response, shape)?;
    params.insert("seconds_of_each_shard".into(), answers.clone().into());
    report(harness, &case, (&answers, of_whole), &params);
    let mut row = |metric, value| harness.value(metric, &case, value, None, params! { "clock": "wall" });
    row(Metric::less("shard_build_time", "s"), median(&builds));
    row(Metric::less("shards_memory_per_byte", "bytes"), bytes as f64 / size.bytes as f64);
    row(Metric::less("merge_time", "s"), merging);
    row(Metric::less("partial_response_bytes", "bytes"), PartialResponse::byte_len(pir) as f64);
    row(Metric::less("query_bytes", "bytes"), DenseQuery::byte_len(pir, shape) as f64);
    row(Metric::less("response_bytes", "bytes"), DenseResponse::byte_len(pir, shape) as f64);
    row(Metric::less("log2_failure", "bits"), log2_failure(pir, split)?);
    Ok(())
}

/// Reports two times beside the time of the whole table: the sum over all shards, for one machine that answers for all
/// shards; and the slowest shard, for one machine per shard.
fn report(harness: &mut Harness<'_>, case: &str, (answers, whole): (&[f64], Option<f64>), params: &Map<String, Value>) {
    let baseline = whole.map(|seconds| ("the whole table", seconds));
    let slowest = answers.iter().copied().fold(0.0, f64::max);
    let all: f64 = answers.iter().sum();
    harness.value(Metric::less("all_shards_time", "s"), case, all, baseline, params.clone());
    harness.value(Metric::less("slowest_shard_time", "s"), case, slowest, baseline, params.clone());
}

impl Asked {
    fn new(pir: &PirParameters, shape: DenseShape) -> anyhow::Result<Self> {
        let mut rng = SecretRng::insecure_from_seed(65);
        let secret = PirSecret::generate(pir, &mut rng)?;
        let keys = secret.keys(Mode::Packed, &mut rng)?.expand()?;
        let cell = shape.cells() * 2 / 3;
        let query = secret.dense_query(shape, cell, &mut rng)?;
        Ok(Asked { secret, keys, cell, query })
    }

    /// The partial response of a shard, and the median of the seconds that it takes.
    fn partial(&self, pir: &PirParameters, table: &DenseTable) -> anyhow::Result<(PartialResponse, f64)> {
        let (planes, queries, never) = ([table.groups()], [(&self.keys, &self.query)], AtomicBool::new(false));
        let (mut seconds, mut last) = (Vec::new(), None);
        for _ in 0..ANSWERS {
            let started = Instant::now();
            let mut responses = partial_answer(pir, table.part(), &planes, &queries, &never)?;
            seconds.push(started.elapsed().as_secs_f64());
            last = responses.pop().and_then(|mut planes| planes.pop());
        }
        let none = || wrong("partial responses of a shard", 0.0, 1.0);
        Ok((last.ok_or_else(none)?, median(&seconds[1..])))
    }

    /// The median of the seconds that the whole table takes.
    fn whole(
        &self,
        harness: &mut Harness<'_>,
        case: &str,
        pir: &PirParameters,
        part: DensePart,
    ) -> anyhow::Result<f64> {
        harness.progress(format!("{case}: the whole table"));
        let shape = part.shape();
        let table = DenseTable::build_part(pir, part, |cell| record(cell, RECORD))?;
        let (planes, queries, never) = ([table.groups()], [(&self.keys, &self.query)], AtomicBool::new(false));
        let mut seconds = Vec::new();
        for _ in 0..ANSWERS {
            let started = Instant::now();
            let responses = answer(pir, shape, &planes, &queries, &never)?;
            seconds.push(started.elapsed().as_secs_f64());
            responses.iter().flatten().try_for_each(|response| self.check(response, shape))?;
        }
        Ok(median(&seconds[1..]))
    }

    /// Opens a response and compares the record.
    fn check(&self, response: &DenseResponse, shape: DenseShape) -> anyhow::Result<()> {
        let found = self.secret.dense_extract(response, shape)?;
        let differ = found.iter().zip(record(self.cell, RECORD)).filter(|(a, b)| **a != *b).count();
        match differ == 0 && found.len() == RECORD {
            true => Ok(()),
            false => {
                let case = format!("record {} from shards, bytes that differ", self.cell);
                Err(wrong(case, differ as f64, 0.0))
            }
        }
    }
}
