//! Services on Ray: what they cost beside a plain service, and a database in several shards.

use std::cell::RefCell;

use serde_json::json;

use crate::clock::{TimedOperation, alternate};
use crate::harness::Harness;
use crate::machine::available_memory_bytes;
use crate::peer::RayCluster;
use crate::row::{Metric, params};

pub(crate) const PARTS: [&str; 3] = ["overhead", "shards", "llama"];

const LATENCY: Metric = Metric::less("latency", "s");
const PASS: Metric = Metric::less("pass_time", "s");
const PREDICTED: Metric = Metric::less("predicted_pass_time", "s");
const SENT: Metric = Metric::less("sent_to_helpers", "bytes");

/// Numbers of shards.
const COUNTS: [usize; 3] = [1, 2, 4];

/// Bytes of a record of the database.
const RECORD_BYTES: u64 = 2048;

pub(crate) fn run(harness: &mut Harness<'_>) -> anyhow::Result<()> {
    if !RayCluster::is_set_up(&harness.options.root) {
        anyhow::bail!(
            "there are no services on Ray; needed 'make python-env' and 'cargo build --release -p unspoken-cli'"
        );
    }
    if harness.includes("overhead") {
        overhead(harness)?;
    }
    if harness.includes("shards") {
        shards(harness)?;
    }
    if harness.includes("llama") {
        llama(harness)?;
    }
    Ok(())
}

/// A pass of a language model.
struct PassCase {
    name: &'static str,
    preset: &'static str,
    /// Whether the model has random weights instead of the weights of stories260K.
    random: bool,
    /// Layers of the model, tokens of a chunk, and public tokens.
    layers: usize,
    chunk: usize,
    public: usize,
    repetitions: usize,
    /// Bytes of memory for two processes, a client and Ray.
    memory: u64,
}

const SMALL: PassCase = PassCase {
    name: "stories260K, 8 tokens, small insecure ring",
    preset: "insecure_n11_boot_depth15_scale40",
    random: false,
    layers: 5,
    chunk: 8,
    public: 80,
    repetitions: 5,
    memory: 4_000_000_000,
};

/// Heads need two vectors, and activations do, too.
const BLOCKS: PassCase = PassCase {
    name: "random model of 256 dimensions, 8 tokens, small insecure ring",
    random: true,
    layers: 2,
    ..SMALL
};

const SECURE: PassCase = PassCase {
    name: "a layer of stories260K, 32 tokens",
    preset: "n16_boot_depth15_scale40",
    random: false,
    layers: 1,
    chunk: 32,
    public: 384,
    repetitions: 3,
    memory: 21_000_000_000,
};

/// Passes of language models in one process of one core and in two of them, beside what is predicted.
fn llama(harness: &mut Harness<'_>) -> anyhow::Result<()> {
    let cases = if harness.options.quick { &[SMALL, BLOCKS][..] } else { &[SMALL, BLOCKS, SECURE] };
    for case in cases {
        let found = available_memory_bytes().unwrap_or(u64::MAX);
        if found < case.memory {
            let gigabytes = |bytes: u64| bytes as f64 * 1e-9;
            let (found, needed) = (gigabytes(found), gigabytes(case.memory));
            harness.progress(format!("{}: skipped; found {found:.1} GB of memory, needed {needed:.1} GB", case.name));
            continue;
        }
        passes(harness, case)?;
    }
    Ok(())
}

fn passes(harness: &mut Harness<'_>, case: &PassCase) -> anyhow::Result<()> {
    let mut alone: Option<Vec<f64>> = None;
    for processes in [1, 2] {
        harness.progress(format!("{}: {processes} of 2 processes", case.name));
        let part = json!({
            "part": "llama", "preset": case.preset, "random": case.random, "layers": case.layers, "chunk": case.chunk,
            "public": case.public, "processes": processes,
        });
        let mut cluster = RayCluster::start(&harness.options.root, part)?;
        let (times, sent) = cluster.passes(if harness.options.quick { 1 } else { case.repetitions })?;
        let setup = cluster.setup.clone();
        cluster.end()?;
        let params = params! {
            "clock": "wall", "threads": processes, "processes": processes, "repetitions": times.len(),
            "ray": setup.ray, "preset": case.preset, "layers": case.layers, "public": case.public,
        };
        let name = format!("{}, {processes} of one core", case.name);
        let baseline = alone.as_deref().map(|alone| ("one process of one core", alone));
        harness.row(PASS, name.as_str(), &times, baseline, params.clone());
        if let Some(predicted) = setup.predicted {
            let baseline = alone.as_ref().map(|_| ("one process of one core, predicted", predicted.alone));
            harness.value(PREDICTED, name.as_str(), predicted.seconds, baseline, params.clone());
            let baseline = alone.as_ref().map(|_| ("predicted", predicted.sent_bytes));
            harness.value(SENT, name.as_str(), sent, baseline, params);
        }
        alone.get_or_insert(times);
    }
    Ok(())
}

/// A question to a recogniser of digits with one replica on Ray, beside one without Ray.
fn overhead(harness: &mut Harness<'_>) -> anyhow::Result<()> {
    harness.progress("a recogniser of digits with and without Ray");
    let cluster = RayCluster::start(&harness.options.root, json!({ "part": "overhead" }))?;
    let case = ("digits, one replica".to_owned(), "digits ray".to_owned());
    measure(harness, &RefCell::new(cluster), &[case], "digits plain", 0)
}

/// A question to a database in shards on Ray, beside the whole one without Ray; and the questions of several clients at
/// once, which passes over the tables answer together.
fn shards(harness: &mut Harness<'_>) -> anyhow::Result<()> {
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
) -> anyhow::Result<()> {
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
