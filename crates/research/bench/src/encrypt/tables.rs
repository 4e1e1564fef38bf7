//! The paper's Table 2 on real tables: one number per ciphertext, as the paper does, and packed.

use serde_json::{Map, Value};

use unspoken_audit::insecure_reproduction::RacheShape;

use super::methods::{EncryptionMethod, PreparedMethod};
use super::numbers::Table;
use super::rache;
use super::scheme::{Message, SchemeFixture};
use super::seal::{self, SealBaseline, SealPrimes};
use crate::clock::{Repetitions, TimedOperation, alternate, scaled};
use crate::harness::Harness;
use crate::peer::SealCall;
use crate::row::{Metric, params};

/// Encoding and encryption of a whole table, one number in each ciphertext.
const ONE_BY_ONE: Metric = Metric::less("table_one_by_one", "s");
/// The same with ciphertexts full of numbers.
const PACKED: Metric = Metric::less("table_packed", "s");

/// The paper's number of pivots, for all tables.
const PIVOTS: usize = 32;

/// Measures one table; `rows` of its rows are encrypted one by one.
pub(super) fn run(
    harness: &mut Harness<'_>,
    fixture: &SchemeFixture,
    seal: &mut SealBaseline,
    table: &Table,
    rows: usize,
) -> anyhow::Result<()> {
    harness.progress(format!("{}: {} rows", table.name, table.values.len()));
    let repetitions = Repetitions::exactly(rows);
    // Distance between measured rows, so that they come from all parts of the table.
    let stride = (table.values.len() / (rows + 1)).max(1);
    let singles: Vec<Vec<f64>> = table.values.iter().step_by(stride).map(|&x| vec![x]).collect();
    let samples = sample(harness, fixture, seal, &singles, Form::OneByOne, repetitions)?;
    let count = table.values.len();
    report(harness, seal, table, ONE_BY_ONE, &samples, count as f64, params! { "rows_measured": rows });

    let integers: Vec<u64> = table.values.iter().map(|x| x.round() as u64).collect();
    for shape in [RacheShape { radix: 2, pivots: PIVOTS }, rache::shape_that_holds(2, &table.values)] {
        harness.progress(format!("{}: {}", table.name, rache::name(shape)));
        let times = rache::measure(shape, harness, fixture, &integers, repetitions)?;
        let case = format!("{}, {}", table.name, rache::name(shape));
        let vanilla = scaled(&times.vanilla, count as f64);
        let params = params! { "rows": count, "rows_measured": rows, "ciphertexts": count };
        let baseline = Some(("vanilla, encryption alone", vanilla.as_slice()));
        harness.timing(ONE_BY_ONE, case, &scaled(&times.rache, count as f64), baseline, params);
    }

    let mut packed: Vec<Vec<f64>> = table.values.chunks(fixture.slots()).map(<[f64]>::to_vec).collect();
    packed.iter_mut().for_each(|values| values.resize(fixture.slots(), 0.0));
    let samples = sample(harness, fixture, seal, &packed, Form::Packed, harness.slow_repetitions())?;
    report(harness, seal, table, PACKED, &samples, 1.0, params! { "ciphertexts": packed.len() });
    Ok(())
}

/// The work of one repetition.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Encrypts one of the messages, the next one in the next repetition.
    OneByOne,
    /// Encrypts all of them.
    Packed,
}

/// Seconds of encoding and encryption with each method, then with SEAL if it is available.
fn sample(
    harness: &Harness<'_>,
    fixture: &SchemeFixture,
    seal: &mut SealBaseline,
    messages: &[Vec<f64>],
    form: Form,
    repetitions: Repetitions,
) -> anyhow::Result<Vec<Vec<f64>>> {
    let stopwatch = harness.stopwatch();
    let mut operations: Vec<TimedOperation<'_>> = Vec::new();
    for method in EncryptionMethod::ENCRYPTING {
        let mut prepared = PreparedMethod::new(fixture, method)?;
        prepared.check(&format!("{method}, a row of a table"), &messages[0])?;
        let mut turn = 0;
        let mut encrypt = move |values: &[f64]| -> anyhow::Result<f64> {
            prepared.prepare()?;
            let (message, encoding) = stopwatch.time(|| fixture.encode(values))?;
            let message = Message::shared(message);
            Ok(encoding + stopwatch.seconds(|| prepared.run(&message))?)
        };
        operations.push(Box::new(move || match form {
            Form::OneByOne => {
                turn += 1;
                encrypt(&messages[turn % messages.len()])
            }
            Form::Packed => messages.iter().map(|values| encrypt(values)).sum(),
        }));
    }
    if seal.is_there() {
        let (encode, times) = match form {
            Form::OneByOne => (SealCall::EncodeOne, 1.0),
            Form::Packed => (SealCall::Encode, messages.len() as f64),
        };
        operations.push(Box::new(move || {
            Ok(times
                * (seal.time((SealPrimes::Matched, encode))? + seal.time((SealPrimes::Matched, SealCall::Public))?))
        }));
    }
    alternate(repetitions, &mut operations)
}

/// One row per method against vanilla encryption, and one against SEAL for the product's own methods.
fn report(
    harness: &mut Harness<'_>,
    seal: &SealBaseline,
    table: &Table,
    metric: Metric,
    samples: &[Vec<f64>],
    times: f64,
    more: Map<String, Value>,
) {
    let (ours, theirs) = samples.split_at(EncryptionMethod::ENCRYPTING.len());
    let vanilla = scaled(&ours[0], times);
    let vanilla_name = EncryptionMethod::Vanilla.to_string();
    for (method, seconds) in EncryptionMethod::ENCRYPTING.iter().zip(ours) {
        let (case, seconds) = (format!("{}, {method}", table.name), scaled(seconds, times));
        let mut params = params! { "rows": table.values.len() };
        params.extend(more.clone());
        if *method != EncryptionMethod::Vanilla {
            harness.timing(metric, &case, &seconds, Some((&vanilla_name, &vanilla)), params.clone());
        }
        if method.is_own() || *method == EncryptionMethod::Vanilla {
            params.extend(seal.params(SealPrimes::Matched));
            let theirs = theirs.first().map(|seconds| scaled(seconds, times));
            let name = seal::name((SealPrimes::Matched, SealCall::Public));
            let baseline = theirs.as_ref().map(|seconds| (name.as_str(), seconds.as_slice()));
            harness.timing(metric, &case, &seconds, baseline, params);
        }
    }
}
