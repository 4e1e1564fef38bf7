//! A message classifier: it is trained, served, queried privately, and compared with the model in the clear.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use unspoken_classify::{Classified, ClassifyClient};
use unspoken_client::transport::Cancel;
use unspoken_client::{ServiceClient, StateDir, UsageStats};
use unspoken_fasttext::{Encoder, Model, TrainOptions, fit};
use unspoken_store::Dataset;

use super::service::Service;
use super::{Arguments, SAMPLE_BYTES, print};
use crate::progress::Bars;

const APPLICATION: &str = "classify/spam";

/// Offset of the shown bytes in a query: past names and headers, in the encrypted part.
const SAMPLE_START: usize = 4096;

/// Runs this part of the demonstration.
pub fn run(arguments: &Arguments, cancel: &Cancel) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let (model, held_out) = train(arguments, folder.path(), cancel)?;
    let directory = folder.path().join("model");
    let offer = format!("{APPLICATION}={},preset={}", directory.display(), arguments.preset);
    let service = Service::start(["--classify", &offer].map(AsRef::as_ref), folder.path())?;
    println!("service     {} offers {APPLICATION}, preset {}", service.url, arguments.preset);
    let mut bars = Bars::new();
    let transport = service.transport()?;
    // The client has only its half of the model.
    let words = Arc::new(Encoder::load(&directory)?);
    let state = StateDir::open(&folder.path().join("client"), &service.url, APPLICATION)?;
    let mut step = |step| bars.step(step);
    let mut client =
        ServiceClient::<ClassifyClient>::connect(transport, APPLICATION, words, &state, &mut step, cancel)?;
    let mut sample = Vec::new();
    let mut look = |query: &[u8]| {
        if sample.is_empty() {
            sample.extend(query.iter().skip(SAMPLE_START).take(SAMPLE_BYTES));
        }
    };
    let results = client.ask_and_show(held_out.texts(), &mut step, &mut look, cancel)?;
    let usage = client.usage();
    // One message alone.
    let first = held_out.texts().first().context("no message is held out")?;
    let single = client.ask(&[first.as_str()], &mut step, cancel)?;
    bars.finish();
    anyhow::ensure!(single[0].label == results[0].label, "a message asked about alone has another label");
    let comparison = Comparison::new(&model, &held_out, &results);
    let queries = held_out.len().div_ceil(client.description().batch());
    report(&comparison, usage, (held_out.len(), queries), client.usage(), &sample);
    println!("\nexamples    label    message");
    for (result, text) in results.iter().zip(held_out.texts()).take(6) {
        println!("            {:8} {}", result.label, text.chars().take(80).collect::<String>());
    }
    anyhow::ensure!(comparison.labels_differ == 0, "{} labels differ from the model's", comparison.labels_differ);
    Ok(())
}

/// Trains on nine tenths of the messages; returns the model and the first held-out messages.
fn train(arguments: &Arguments, folder: &Path, cancel: &Cancel) -> anyhow::Result<(Model, Dataset)> {
    let data = Dataset::read_tab_separated(&arguments.data)
        .with_context(|| format!("cannot read {}; `make demo` downloads it", arguments.data.display()))?;
    let split = data.split(0.0, 0.1, arguments.seed)?;
    let mut bars = Bars::new();
    let start = Instant::now();
    let options = TrainOptions { seed: arguments.seed, ..TrainOptions::default() };
    let (texts, labels) = (split.train.texts(), split.train.labels());
    let model = fit(texts, labels, &options, &mut |progress| bars.epoch(progress), cancel.flag())?;
    bars.finish();
    model.save(folder.join("model"))?;
    println!("data        {} messages from {}", data.len(), arguments.data.display());
    println!("trained     on {} of them in {:.1} s", split.train.len(), start.elapsed().as_secs_f64());
    let count = arguments.messages.min(split.test.len());
    let held_out = Dataset::new(split.test.texts()[..count].to_vec(), split.test.labels()[..count].to_vec())?;
    Ok((model, held_out))
}

/// Encrypted answers compared with the model's own.
struct Comparison {
    clear_accuracy: f64,
    encrypted_accuracy: f64,
    labels_differ: usize,
    /// Largest difference of a score, relative to the largest score of its message.
    worst_relative: f64,
}

impl Comparison {
    fn new(model: &Model, data: &Dataset, results: &[Classified]) -> Self {
        let share = |hits: usize| hits as f64 / data.len().max(1) as f64;
        let correct = results.iter().zip(data.labels()).filter(|(result, label)| result.label == **label).count();
        let mut worst_relative = 0.0f64;
        let mut labels_differ = 0;
        for (result, text) in results.iter().zip(data.texts()) {
            let clear = model.scores(text);
            let size = clear.iter().fold(0.0f64, |max, z| z.abs().max(max));
            let difference = result.scores.iter().zip(&clear).fold(0.0f64, |max, (a, b)| (a - b).abs().max(max));
            worst_relative = worst_relative.max(difference / size);
            labels_differ += usize::from(result.label != model.predict(text));
        }
        let clear_accuracy = model.accuracy(data);
        Comparison { clear_accuracy, encrypted_accuracy: share(correct), labels_differ, worst_relative }
    }
}

/// `usage` is the use for all messages, in these numbers of messages and queries; `after` is the use for one more
/// message alone.
fn report(
    comparison: &Comparison,
    usage: UsageStats,
    (messages, queries): (usize, usize),
    after: UsageStats,
    sample: &[u8],
) {
    let each = |total: f64| total / messages.max(1) as f64;
    let rows = [
        ("messages classified", messages.to_string()),
        ("accuracy in the clear", format!("{:.2} %", 100.0 * comparison.clear_accuracy)),
        ("accuracy encrypted", format!("{:.2} %", 100.0 * comparison.encrypted_accuracy)),
        ("messages whose labels differ", comparison.labels_differ.to_string()),
        ("largest relative difference of scores", format!("2^{:.1}", comparison.worst_relative.log2())),
        ("bytes of keys, once", usage.key_bytes.to_string()),
        ("seconds making and sending keys, once", format!("{:.2}", usage.key_seconds)),
        ("bytes of a query of many messages, mean", (usage.query_bytes / queries.max(1) as u64).to_string()),
        ("bytes of query per message, mean", format!("{:.0}", each(usage.query_bytes as f64))),
        ("bytes of answer per message", format!("{:.0}", each(usage.answer_bytes as f64))),
        ("seconds per message, client", format!("{:.4}", each(usage.client_seconds))),
        ("seconds per message, service", format!("{:.4}", each(usage.server_seconds))),
        ("bytes of a query of one message", (after.query_bytes - usage.query_bytes).to_string()),
        ("bytes of its answer", (after.answer_bytes - usage.answer_bytes).to_string()),
        ("seconds of its answer, service", format!("{:.2}", after.server_seconds - usage.server_seconds)),
        ("what the service saw", format!("{}...", hex::encode(sample))),
    ];
    print(&rows);
}
