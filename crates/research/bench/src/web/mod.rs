//! The module for browsers in V8, against its portable kernels and against the same client in this process.

mod native;

use std::convert::Infallible;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde_json::{Value, json};
use unspoken_ckks::Preset;
use unspoken_database::{Builder, Database, Record};
use unspoken_digits::{DigitsClient, DigitsServer, Recognised};
use unspoken_digits_model::{Image, PIXELS, Shape};
use unspoken_pir::{Answer, PirClient, PirOptions, PirServer, Question};
use unspoken_pir_scheme::Mode;
use unspoken_protocol::{ApplicationError, ClientHalf, NoCounters, ServerHalf};

use self::native::Native;
use crate::clock::{TimedOperation, alternate};
use crate::error::{NO_MODULE, folder};
use crate::harness::Harness;
use crate::peer::{ClientStep, V8};
use crate::row::{Metric, params};
use crate::untrained::network;

pub(crate) const PARTS: [&str; 3] = ["digits", "retrieve", "module"];

const DIGITS_PRESET: &str = "n14_real_depth8_scale30";
/// Images of a query, at most.
const BATCH: usize = 8;

/// Records of the database, and their bytes.
const RECORDS: u64 = 4096;
const RECORD_BYTES: usize = 256;

/// Where `make web` writes the module, compressed, and the largest number of bytes that browsers should load.
const MODULE: &str = "web/site/wasm/unspoken_web_bg.wasm.br";
const MAX_MODULE_BYTES: f64 = 2e6;

const KEYS: Metric = Metric::less("key_generation", "s");
const ENCRYPTION: Metric = Metric::less("encryption", "s");
const DECRYPTION: Metric = Metric::less("decryption", "s");
const MODULE_BYTES: Metric = Metric::less("module_bytes", "bytes");

static GO: AtomicBool = AtomicBool::new(false);

pub(crate) fn run(harness: &mut Harness<'_>) -> anyhow::Result<()> {
    if harness.includes("digits") {
        digits(harness)?;
    }
    if harness.includes("retrieve") {
        retrieve(harness)?;
    }
    if harness.includes("module") {
        module(harness)?;
    }
    Ok(())
}

fn failed(error: impl ApplicationError) -> anyhow::Error {
    anyhow::anyhow!("{error}")
}

fn digits(harness: &mut Harness<'_>) -> anyhow::Result<()> {
    let parameters = Preset::find(DIGITS_PRESET)?.build()?;
    let server = DigitsServer::new(&network(Shape::FULL)?, &parameters, Some(BATCH)).map_err(failed)?;
    let drawn: Vec<u8> = (0..PIXELS).map(|at| if at % 28 == 14 { 255 } else { 0 }).collect();
    let image = Image::new(&drawn)?;
    let told = |answer: &Recognised| json!({ "digit": answer.digit });
    let native = Native::<_, DigitsClient>::new(&server, (), &image, &told)?;
    let asked = json!({ "question": { "pixels": drawn } });
    measure(harness, &format!("digits, {DIGITS_PRESET}"), native, &asked)
}

fn retrieve(harness: &mut Harness<'_>) -> anyhow::Result<()> {
    let folder = folder()?;
    let directory = folder.path().join("database");
    let value = |index: u64| index.to_le_bytes().repeat(RECORD_BYTES / 8);
    let records = (0..RECORDS).map(|index| Ok::<_, Infallible>(Record { key: None, value: value(index) }));
    Builder::new(unspoken_pir_scheme::Preset::N11).build(&directory, records, |_| (), &GO)?;
    let server = PirServer::new(Arc::new(Database::open(&directory)?))?;
    for mode in [Mode::Packed, Mode::Compact] {
        let question = Question::Index(RECORDS / 3);
        let told = |answer: &Answer| json!({ "record": answer.record.as_ref().map(|record| record.to_vec()) });
        let native = Native::<_, PirClient>::new(&server, PirOptions::new(mode, NoCounters), &question, &told)?;
        let asked = json!({ "question": { "index": RECORDS / 3 }, "mode": mode.to_string() });
        measure(harness, &format!("{mode} retrieval from {RECORDS} records"), native, &asked)?;
    }
    Ok(())
}

/// Measures each step of three clients with one secret in turn: the module with its vector kernels, the module with
/// portable ones, and this process.
fn measure<S, C>(
    harness: &mut Harness<'_>,
    case: &str,
    mut native: Native<'_, S, C>,
    asked: &Value,
) -> anyhow::Result<()>
where
    S: ServerHalf,
    C: ClientHalf + Send,
    C::Encoded: Send,
    C::Question: Sync,
{
    harness.progress(case);
    let mut opening = native.opening()?;
    if let (Some(opening), Some(asked)) = (opening.as_object_mut(), asked.as_object()) {
        opening.extend(asked.clone());
    }
    let open = |kernels| V8::start(&harness.options.root, kernels, &opening);
    let (mut ours, mut portable) = (open("simd128")?, open("portable")?);
    // Each has an answer to decrypt, and all say the same.
    let needed = native.ask()?;
    for client in [&mut ours, &mut portable] {
        let found = client.ask(|query| native.answer(query))?;
        if found != needed {
            anyhow::bail!("{case}: the answers are {found} and {needed}; this is a bug, please report it");
        }
    }
    let steps = [(ClientStep::Keys, KEYS), (ClientStep::Encryption, ENCRYPTION), (ClientStep::Decryption, DECRYPTION)];
    for (step, metric) in steps {
        let repetitions = if step == ClientStep::Keys { harness.slow_repetitions() } else { harness.repetitions() };
        let samples = harness.single_thread.install(|| {
            let native = &mut native;
            let mut clients: [TimedOperation<'_>; 3] = [
                Box::new(|| ours.seconds(step)),
                Box::new(|| portable.seconds(step)),
                Box::new(move || native.seconds(step)),
            ];
            alternate(repetitions, &mut clients)
        })?;
        let [ours, portable, native_seconds] = samples.as_slice() else { continue };
        let params = params! {
            "clock": "wall", "threads": 1, "repetitions": ours.len(), "key_bytes": native.key_bytes(),
            "ours": "module in V8, simd128",
        };
        harness.row(metric, case, ours, Some(("module in V8, portable", portable)), params.clone());
        harness.row(metric, case, ours, Some(("native", native_seconds)), params);
    }
    Ok(())
}

/// Bytes of the module as a service sends it, against the most that browsers should load.
fn module(harness: &mut Harness<'_>) -> anyhow::Result<()> {
    let length = fs::metadata(harness.options.root.join(MODULE)).map_err(|_| anyhow::anyhow!(NO_MODULE))?.len();
    let target = Some(("target", MAX_MODULE_BYTES));
    harness.value(MODULE_BYTES, "module, brotli", length as f64, target, params! {});
    Ok(())
}
