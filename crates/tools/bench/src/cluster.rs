//! Services on Ray: what they cost beside a plain service, and a database in several shards.

use std::cell::RefCell;

use serde_json::json;

use crate::clock::{TimedOperation, alternate};
use crate::error::BenchError;
use crate::harness::Harness;
use crate::peer::RayCluster;
use crate::row::{Metric, params};

pub(crate) const PARTS: [&str; 2] = ["overhead", "shards"];

const LATENCY: Metric = Metric::less("latency", "s");

/// Numbers of shards.
const COUNTS: [usize; 3] = [1, 2, 4];

/// Bytes of a record of the database.
const RECORD_BYTES: u64 = 2048;

pub(crate) fn run(harness: &mut Harness<'_>) -> Result<(), BenchError> {
    if !RayCluster::is_set_up(&harness.options.root) {
        return Err(BenchError::Cluster);
    }
    if harness.includes("overhead") {
        overhead(harness)?;
    }
    if harness.includes("shards") {
        shards(harness)?;
    }
    Ok(())
}

/// A question to a recogniser of digits with one replica on Ray, beside one without Ray.
fn overhead(harness: &mut Harness<'_>) -> Result<(), BenchError> {
    harness.progress("a recogniser of digits with and without Ray");
    let cluster = RayCluster::start(&harness.options.root, json!({ "part": "overhead" }))?;
    let case = ("digits, one replica".to_owned(), "digits ray".to_owned());
    measure(harness, &RefCell::new(cluster), &[case], "digits plain", 0)
}

/// A question to a database in shards on Ray, beside the whole one without Ray; and the questions of several clients at
/// once, which passes over the tables answer together.
fn shards(harness: &mut Harness<'_>) -> Result<(), BenchError> {
    // Four shards need four blocks of 2,048 rows.
    let records: u64 = if harness.options.quick { 1 << 13 } else { 1 << 17 };
    harness.progress(format!("a database of {records} records in shards"));
    let counts: Vec<usize> = std::iter::once(0).chain(COUNTS).collect();
    let part = json!({ "part": "shards", "records": records, "counts": counts });
    let cluster = RefCell::new(RayCluster::start(&harness.options.root, part)?);
    let named = |count: usize| if count == 1 { "whole".to_owned() } else { format!("{count} shards") };
    let cases = COUNTS.map(|count| (named(count), format!("shards {count}")));
    measure(harness, &cluster, &cases, "shards 0", records * RECORD_BYTES)?;
    let cases = COUNTS.map(|count| (format!("{}, 8 clients", named(count)), format!("shards {count} at once")));
    measure(harness, &cluster, &cases, "shards 0 at once", records * RECORD_BYTES)
}

/// Asks services on Ray and one without it in turn.
fn measure(
    harness: &mut Harness<'_>,
    cluster: &RefCell<RayCluster>,
    cases: &[(String, String)],
    plain: &str,
    bytes: u64,
) -> Result<(), BenchError> {
    let setup = cluster.borrow().setup.clone();
    let names = cases.iter().map(|(_, name)| name.as_str()).chain([plain]);
    let mut asking: Vec<TimedOperation<'_>> =
        names.map(|name| Box::new(|| cluster.borrow_mut().seconds(name)) as TimedOperation<'_>).collect();
    let samples = alternate(harness.repetitions(), &mut asking)?;
    let Some((plain, on_ray)) = samples.split_last() else { return Ok(()) };
    for ((case, _), times) in cases.iter().zip(on_ray) {
        let params = params! {
            "clock": "wall", "threads": setup.cores, "repetitions": times.len(), "ray": setup.ray,
            "record_bytes": bytes, "machines": 1,
        };
        harness.row(LATENCY, case.as_str(), times, Some(("a service without Ray", plain)), params);
    }
    Ok(())
}
