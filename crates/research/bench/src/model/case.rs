//! One model: compiled, simulated, served and asked.

use std::time::Instant;

use ndarray::{Array2, ArrayView2, Axis, concatenate, s};
use serde_json::{Map, Value};
use unspoken_ckks::{CkksParameters, Encoder, Preset};
use unspoken_model::{CompiledModel, ModelError};
use unspoken_network::{NetworkError, Options, Wishes};
use unspoken_protocol::ClientHalf;

use super::service::{Circuit, Served, answer, part};
use super::subject::{Given, Subject, equal};
use super::{Case, beside, times};
use crate::error::wrong;
use crate::harness::Harness;
use crate::row::{Metric, params};

const ACCURACY: Metric = Metric::more("accuracy", "of 1");
const CLEAR: &str = "in the clear";

/// The largest error of polynomials on other rows, as a part of that on calibration rows.
const OTHER_ROWS: f64 = 1.25;

/// A case with its compiled model.
pub(super) struct Measured<'a> {
    pub(super) case: &'a Case,
    pub(super) subject: &'a Subject,
    pub(super) compiled: &'a CompiledModel,
    pub(super) served: Served,
    /// Test rows within the calibrated ranges.
    pub(super) rows: Array2<f64>,
    /// What describes the case in each row.
    pub(super) params: Map<String, Value>,
}

/// Measures a case, or says why it cannot be.
pub(super) fn run(harness: &mut Harness<'_>, case: &Case) -> anyhow::Result<()> {
    let subject = match Subject::open(&harness.options.root, case)? {
        Ok(subject) => subject,
        Err(missing) => {
            harness.progress(missing);
            return Ok(());
        }
    };
    let start = Instant::now();
    let Some((compiled, bits)) = compile(harness, case, &subject)? else { return Ok(()) };
    let compile_seconds = start.elapsed().as_secs_f64();
    let parameters = Preset::find(&compiled.preset)?.build()?;
    let circuit = Circuit::new(&compiled, &parameters)?;
    harness.progress(format!("{}: {} for {} rows; weights and keys", case.name, compiled.preset, compiled.batch));
    let served = Served::new(&compiled, &parameters)?;
    let (rows, clipped) = served.clipped(&subject.test)?;
    let params = params! {
        "preset": compiled.preset, "batch": compiled.batch, "levels": compiled.report.levels, "kink_bits": bits,
        "degrees": compiled.report.functions.iter().map(|one| one.degree).collect::<Vec<_>>(), "clipped": clipped,
        "margin": compiled.options.margin, "switching_keys": circuit.keys(),
        "backend": parameters.ring().backend().name(),
    };
    let mut measured = Measured { case, subject: &subject, compiled: &compiled, served, rows, params };
    facts(harness, &measured, compile_seconds);
    correctness(harness, &mut measured, &circuit, &parameters)?;
    drop(circuit);
    times::run(harness, &mut measured)?;
    beside::run(harness, &mut measured)
}

/// The compiled model of the first bits and batch that fit.
fn compile(harness: &mut Harness<'_>, case: &Case, subject: &Subject) -> anyhow::Result<Option<(CompiledModel, f64)>> {
    for &bits in case.kink_bits {
        for &batch in case.batches {
            harness.progress(format!("{}: compile for {batch} rows with {bits} bits", case.name));
            let options = Options { kink_error: (-bits).exp2(), ..Options::default() };
            let wishes = Wishes {
                presets: case.presets.iter().map(|&name| name.to_owned()).collect(),
                rows: Some(batch),
                memory: case.memory_mib << 20,
                ..Wishes::default()
            };
            match CompiledModel::compile(&subject.model, &[subject.calibration.view()], options, &wishes) {
                Ok(compiled) => return Ok(Some((compiled, bits))),
                // Too much memory, too many levels or too few slots.
                Err(ModelError::Circuit(error @ NetworkError::Mismatch { .. })) => {
                    harness.progress(format!("{}: not for {batch} rows with {bits} bits: {error}", case.name));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
    harness.progress(format!("{}: not measured", case.name));
    Ok(None)
}

/// Bytes, memory and seconds that are spent once.
fn facts(harness: &mut Harness<'_>, measured: &Measured<'_>, compile_seconds: f64) {
    let Measured { case, compiled, served, params, .. } = measured;
    let report = &compiled.report;
    let predicted = |value: u64| Some(("predicted", value as f64));
    let mut row = |name, unit, ours: f64, baseline| {
        harness.value(Metric::less(name, unit), case.name, ours, baseline, params.clone());
    };
    row("compile_time", "s", compile_seconds, None);
    row("prepare_time", "s", served.prepare_seconds, None);
    row("key_time", "s", served.key_seconds, None);
    row("load_keys_time", "s", served.load_seconds, None);
    row("key_bytes", "bytes", served.key_bytes as f64, predicted(report.key_bytes));
    row("weight_bytes", "bytes", report.weight_bytes as f64, None);
    row("working_bytes", "bytes", report.working_bytes as f64, None);
}

/// Accuracy and errors: rows in the clear, the first of them simulated, and the first of these encrypted.
fn correctness(
    harness: &mut Harness<'_>,
    measured: &mut Measured<'_>,
    circuit: &Circuit<'_>,
    parameters: &CkksParameters,
) -> anyhow::Result<()> {
    let (case, subject, batch) = (measured.case, measured.subject, measured.compiled.batch);
    let rows = &measured.rows;
    let (all, wanted) = (rows.nrows(), &subject.wanted[..rows.nrows()]);
    let count = all.min(case.simulated);
    harness.progress(format!("{}: {all} rows in the clear, {count} simulated", case.name));
    let encoder = Encoder::new(parameters);
    let (mut noisy, mut outside) = (Vec::new(), Vec::new());
    for first in (0..count).step_by(batch) {
        let simulated = circuit.simulate(&encoder, rows.slice(s![first..count.min(first + batch), ..]))?;
        noisy.push(simulated.noisy);
        outside.extend(simulated.outside.iter().map(|row| row + first));
    }
    let clear = subject.clear(subject.test.view())?;
    let polynomials = subject.given(circuit.run(rows.view())?)?;
    let simulated = subject.given(joined(&noisy)?)?;
    // Batches as a client sends them; the last one may have fewer rows.
    let asked = count.min(case.encrypted);
    harness.progress(format!("{}: {asked} rows encrypted", case.name));
    let mut found = Vec::new();
    let mut labels = Vec::new();
    let mut bytes = [0, 0];
    for first in (0..asked).step_by(batch) {
        let rows = measured.served.rows(rows.slice(s![first..asked.min(first + batch), ..]))?;
        let query = measured.served.client.query(&rows)?;
        let answered = answer(&measured.served.server, &measured.served.keys, &query)?;
        bytes = [query.len(), answered.len()];
        let given = measured.served.read(circuit, &answered, &rows)?;
        labels.extend(given.labels);
        found.push(given.results);
    }
    let encrypted = Given { labels, results: joined(&found)? };
    let noise = circuit.distance(&encrypted.results, &part(&polynomials.results, 0, asked));
    let inside = subject.clear(rows.slice(s![..asked, ..]))?;
    let error = circuit.distance(&encrypted.results, &inside.results);
    let bound = measured.compiled.error;
    if noise.is_nan() || noise > bound {
        return Err(wrong(format!("{}: encrypted results", case.name), noise, bound));
    }
    let mut params = measured.params.clone();
    params.insert("outside".into(), outside.len().into());
    let mut row = |metric, case: String, rows: usize, ours: f64, baseline| {
        let mut params = params.clone();
        params.insert("rows".into(), rows.into());
        harness.value(metric, case, ours, baseline, params);
    };
    let name = case.name;
    row(Metric::less("query_bytes", "bytes"), name.into(), batch, bytes[0] as f64, None);
    row(Metric::less("answer_bytes", "bytes"), name.into(), batch, bytes[1] as f64, None);
    let right = |given: &Given, rows: usize| equal(&given.labels[..rows], &wanted[..rows]);
    row(ACCURACY, format!("{name}, in the clear"), all, right(&clear, all), None);
    for (way, given, rows) in
        [("with polynomials", &polynomials, all), ("simulated", &simulated, count), ("encrypted", &encrypted, asked)]
    {
        let baseline = Some((CLEAR, right(&clear, rows)));
        row(ACCURACY, format!("{name}, {way}"), rows, right(given, rows), baseline);
    }
    let same = |given: &Given, rows: usize| equal(&given.labels[..rows], &clear.labels[..rows]);
    let agreement = Metric::more("label_agreement", "of 1");
    row(agreement, name.into(), asked, same(&encrypted, asked), Some(("simulated", same(&simulated, asked))));
    row(agreement, format!("{name}, with polynomials"), all, same(&polynomials, all), None);
    let predicted = Some(("bound of the description", bound));
    row(Metric::less("noise_error", "of the radius"), name.into(), asked, noise, predicted);
    let predicted = OTHER_ROWS * measured.compiled.report.error_of_polynomials + bound;
    let predicted = Some(("predicted from calibration rows", predicted));
    row(Metric::less("result_error", "of the radius"), name.into(), asked, error, predicted);
    Ok(())
}

/// Batches of tables, one after the other.
fn joined(batches: &[Vec<Array2<f64>>]) -> anyhow::Result<Vec<Array2<f64>>> {
    let tables = batches.first().map_or(0, Vec::len);
    let of_table = |table: usize| {
        let views: Vec<ArrayView2<'_, f64>> = batches.iter().map(|batch| batch[table].view()).collect();
        concatenate(Axis(0), &views)
    };
    Ok((0..tables).map(of_table).collect::<Result<_, _>>()?)
}
