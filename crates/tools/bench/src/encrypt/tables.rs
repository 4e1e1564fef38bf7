//! The paper's Table 2 on real tables: one number per ciphertext, as the paper does, and packed.

use serde_json::{Map, Value};

use super::baseline::{self, Baseline, Primes};
use super::numbers::Table;
use super::rache::Cache;
use super::shop::{Message, Shop};
use super::ways::{Way, Worker};
use crate::clock::{Contender, Effort, alternate, scaled};
use crate::error::BenchError;
use crate::peer::SealCall;
use crate::row::{Metric, params};
use crate::session::Session;

/// Encoding and encryption of a whole table, one number in each ciphertext.
const ONE_BY_ONE: Metric = Metric::less("table_one_by_one", "s");
/// The same with as many numbers in a ciphertext as it holds.
const PACKED: Metric = Metric::less("table_packed", "s");

/// Pivots of the paper, for all tables.
const PIVOTS: usize = 32;

/// One table, of which `rows` are encrypted one by one.
pub(super) fn run(
    session: &mut Session<'_>,
    shop: &Shop,
    seal: &mut Baseline,
    table: &Table,
    rows: usize,
) -> Result<(), BenchError> {
    session.note(format!("{}: {} rows", table.name, table.values.len()));
    let effort = Effort { least: rows, most: rows, budget: std::time::Duration::ZERO };
    // From one row to the next that is measured: all parts of the table have their say.
    let stride = (table.values.len() / (rows + 1)).max(1);
    let singles: Vec<Vec<f64>> = table.values.iter().step_by(stride).map(|&x| vec![x]).collect();
    let samples = sample(session, shop, seal, &singles, Form::OneByOne, effort)?;
    let count = table.values.len();
    report(session, seal, table, ONE_BY_ONE, &samples, count as f64, params! { "rows_measured": rows });

    let integers: Vec<u64> = table.values.iter().map(|x| x.round() as u64).collect();
    for cache in [Cache { radix: 2, pivots: PIVOTS }, Cache::that_holds(2, &table.values)] {
        session.note(format!("{}: {}", table.name, cache.name()));
        let times = cache.measure(session, shop, &integers, effort)?;
        let case = format!("{}, {}", table.name, cache.name());
        let vanilla = scaled(&times.vanilla, count as f64);
        let params = params! { "rows": count, "rows_measured": rows, "ciphertexts": count };
        let baseline = Some(("vanilla, encryption alone", vanilla.as_slice()));
        session.timing(ONE_BY_ONE, case, &scaled(&times.rache, count as f64), baseline, params);
    }

    let mut packed: Vec<Vec<f64>> = table.values.chunks(shop.slots()).map(<[f64]>::to_vec).collect();
    packed.iter_mut().for_each(|values| values.resize(shop.slots(), 0.0));
    let samples = sample(session, shop, seal, &packed, Form::Packed, session.slow_effort())?;
    report(session, seal, table, PACKED, &samples, 1.0, params! { "ciphertexts": packed.len() });
    Ok(())
}

/// What a repetition does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// One of the messages, the next one in the next repetition.
    OneByOne,
    /// All of them.
    Packed,
}

/// Seconds of each encrypting way, then of SEAL if it is there: encoding and encryption.
fn sample(
    session: &Session<'_>,
    shop: &Shop,
    seal: &mut Baseline,
    messages: &[Vec<f64>],
    form: Form,
    effort: Effort,
) -> Result<Vec<Vec<f64>>, BenchError> {
    let (clock, single) = (session.clock(), &session.single);
    let mut contenders: Vec<Contender<'_>> = Vec::new();
    for way in Way::ENCRYPTING {
        let mut worker = Worker::new(shop, way)?;
        worker.check(&format!("{way}, a row of a table"), &messages[0])?;
        let mut turn = 0;
        let mut encrypt = move |values: &[f64]| -> Result<f64, BenchError> {
            worker.prepare()?;
            let (message, encoding) = clock.time_in(single, || shop.encode(values));
            let message = Message::shared(message?);
            let (made, encryption) = clock.time_in(single, || worker.work(&message));
            made?;
            Ok(encoding + encryption)
        };
        contenders.push(Box::new(move || match form {
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
        contenders.push(Box::new(move || {
            Ok(times * (seal.time((Primes::Matched, encode))? + seal.time((Primes::Matched, SealCall::Public))?))
        }));
    }
    alternate(effort, &mut contenders)
}

/// A row for each way against vanilla encryption, and one against SEAL for the product's own.
fn report(
    session: &mut Session<'_>,
    seal: &Baseline,
    table: &Table,
    metric: Metric,
    samples: &[Vec<f64>],
    times: f64,
    more: Map<String, Value>,
) {
    let (ours, theirs) = samples.split_at(Way::ENCRYPTING.len());
    let vanilla = scaled(&ours[0], times);
    let vanilla_name = Way::Vanilla.to_string();
    for (way, seconds) in Way::ENCRYPTING.iter().zip(ours) {
        let (case, seconds) = (format!("{}, {way}", table.name), scaled(seconds, times));
        let mut params = params! { "rows": table.values.len() };
        params.extend(more.clone());
        if *way != Way::Vanilla {
            session.timing(metric, &case, &seconds, Some((&vanilla_name, &vanilla)), params.clone());
        }
        if way.is_own() || *way == Way::Vanilla {
            params.extend(seal.params(Primes::Matched));
            let theirs = theirs.first().map(|seconds| scaled(seconds, times));
            let name = baseline::name((Primes::Matched, SealCall::Public));
            let baseline = theirs.as_ref().map(|seconds| (name.as_str(), seconds.as_slice()));
            session.timing(metric, &case, &seconds, baseline, params);
        }
    }
}
