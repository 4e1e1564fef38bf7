//! One-hot vectors from encrypted indicators by Kim et al. (ICML 2024), as implemented in
//! `unspoken_lookup::indicator`: a few columns are measured and extrapolated to all columns.

use std::ops::Range;

use unspoken_ckks::{
    Arithmetic, Ciphertext, CkksParameters, Complex64, Encoder, Evaluator, InnerSum, PreparedMatrix, Preset,
};
use unspoken_lookup::{LookupPlan, Table, indicator, query_scale};
use unspoken_ring::SecretRng;
use unspoken_rlwe::{EvaluationKeys, KeyKind, KeyPlan, SecretKey};

use super::KIM;
use super::data::ClassifierData;
use super::one_hot::{apply_tables, table_matrices};
use super::plans::ClassifierFixture;
use super::subtables::Subtables;
use crate::clock::{Repetitions, TimedOperation, alternate, median};
use crate::error::{larger_error, wrong};
use crate::harness::Harness;
use crate::row::{Metric, params};

/// Largest allowed distance of an indicator from 0 or 1: each squaring doubles an error near 1; at 1024 columns and a
/// scale of 50 bits the error reaches about 2e-3.
const TOLERANCE: f64 = 1e-2;

/// A client of the baseline: an encrypted vector of indices, and the keys of the whole computation.
pub(super) struct IndicatorBaseline {
    parameters: CkksParameters,
    encoder: Encoder,
    secret: SecretKey,
    keys: EvaluationKeys,
    indices: Ciphertext,
    columns: usize,
}

/// Measures `measured` columns of the baseline, each in turn with a batch of `ours`.
pub(super) fn run(
    harness: &mut Harness<'_>,
    data: &ClassifierData,
    ours: &mut ClassifierFixture,
    preset: &Preset,
    measured: usize,
) -> anyhow::Result<()> {
    harness.progress(format!("{}: keys for the indicator", preset.name));
    let shape = data.model.encoder().shape();
    let baseline = IndicatorBaseline::new(preset, shape.columns, shape.max_tokens)?;
    let batch = baseline.parameters.slots() / shape.max_tokens;
    harness.progress(format!("{measured} columns of the indicator, in turn with batches of ours"));
    let messages: Vec<String> = data.messages.iter().take(ours.batch_size()).cloned().collect();
    let (mut turn, mut last) = (0, None);
    let shared = &*harness;
    let column: TimedOperation<'_> = Box::new(|| {
        let (column, seconds) = baseline.column(shared, turn % shape.columns)?;
        turn += 1;
        last = Some(column);
        Ok(seconds)
    });
    let full = ours.batch_size() as f64;
    let classify: TimedOperation<'_> = Box::new(|| Ok(ours.classify(shared.stopwatch(), &messages)?.seconds / full));
    let mut samples = alternate(Repetitions::exactly(measured), &mut [column, classify])?;
    let ours_seconds = samples.pop().unwrap_or_default();
    let columns = samples.pop().unwrap_or_default();
    let Some(column) = last else { return Ok(()) };
    let linear = baseline.linear(harness, data, &column)?;
    let all = shape.subtables * shape.columns;
    let theirs: Vec<f64> = columns.iter().map(|column| (column * all as f64 + linear) / batch as f64).collect();
    let params = params! {
        "preset": ours.preset(), "plan": ours.plan.to_string(), "data": data.source,
        "baseline_preset": preset.name, "baseline_messages_per_query": batch,
        "baseline_seconds_per_column": median(&columns), "baseline_linear_seconds": linear,
    };
    let case = format!("fastText, {}, against the indicator extrapolated from {measured} of {all} columns", ours.plan);
    let time = Metric::less("time_per_message", "s");
    harness.timing(time, case, &ours_seconds, Some((KIM, &theirs)), params);
    Ok(())
}

impl IndicatorBaseline {
    /// Generates keys for the indicator and for sums over `tokens` slots.
    pub(super) fn new(preset: &Preset, columns: usize, tokens: usize) -> anyhow::Result<Self> {
        let parameters = preset.build()?;
        let mut rng = SecretRng::insecure_from_seed(4);
        let secret = SecretKey::generate(parameters.rlwe(), &mut rng)?;
        let encoder = Encoder::new(&parameters);
        let depth = LookupPlan::Indicator.depth(columns);
        let mut plan = KeyPlan::new();
        plan.require(KeyKind::Relinearisation, parameters.chain(depth));
        let stride = parameters.slots() / tokens;
        plan.extend(&InnerSum::new(stride as i64, tokens)?.key_plan(&parameters, 0));
        let keys = EvaluationKeys::generate(&secret, &plan, &mut rng)?;
        let values: Vec<f64> = (0..parameters.slots()).map(|j| (j % columns) as f64 / columns as f64).collect();
        let plain = encoder.encode_real(&values, depth, query_scale(&parameters, depth))?;
        let indices = encoder.encrypt(&plain, &secret, &mut rng)?.expand(&parameters);
        Ok(IndicatorBaseline { parameters, encoder, secret, keys, indices, columns })
    }

    /// Seconds per token, in two parts. The first is the indicators: measured for the columns of one table, and
    /// multiplied by the number of tables. The second is the products of all columns with the tables.
    pub(super) fn measure(
        &self,
        harness: &Harness<'_>,
        tables: &Subtables,
        columns: Range<usize>,
    ) -> anyhow::Result<[f64; 2]> {
        let (mut vectors, mut last) = (0.0, None);
        for column in columns.clone() {
            let (indicator, seconds) = self.column(harness, column)?;
            vectors += seconds;
            last = Some(indicator);
        }
        let linear = last.map_or(Ok(0.0), |indicator| self.product(harness, tables, &indicator))?;
        let vectors = vectors * tables.tables.len() as f64;
        Ok([vectors, linear].map(|seconds| seconds / self.parameters.slots() as f64))
    }

    /// The indicator of one column, checked, and its time in seconds.
    fn column(&self, harness: &Harness<'_>, column: usize) -> anyhow::Result<(Ciphertext, f64)> {
        let evaluator = Evaluator::new(&self.encoder, &self.keys);
        let (result, seconds) =
            harness.stopwatch().time(|| indicator(&evaluator, &self.indices, column, self.columns))?;
        let expected = |j: usize| if j % self.columns == column { 1.0 } else { 0.0 };
        let slots = self.encoder.decrypt(&result, &self.secret)?;
        let found = slots.iter().enumerate().map(|(j, z)| (z - expected(j)).norm()).fold(0.0, larger_error);
        if found <= TOLERANCE {
            Ok((result, seconds))
        } else {
            Err(wrong(format!("indicator of column {column}"), found, TOLERANCE))
        }
    }

    /// Seconds of the linear stage for all subtables: the products with all columns, then the sum over the tokens.
    /// `column` is used for every column.
    fn linear(&self, harness: &Harness<'_>, data: &ClassifierData, column: &Ciphertext) -> anyhow::Result<f64> {
        let shape = data.model.encoder().shape();
        let matrices = table_matrices(data, &self.parameters, column.level(), column.scale())?;
        let inputs = vec![column; self.columns];
        let evaluator = Evaluator::new(&self.encoder, &self.keys);
        let stride = self.parameters.slots() / shape.max_tokens;
        let work = || -> anyhow::Result<Vec<Ciphertext>> {
            let sums = apply_tables(&evaluator, &matrices, &inputs)?;
            // Two classes share a ciphertext, in its real and imaginary parts, so half of the sums are enough.
            let pairs = sums.iter().take(shape.classes.div_ceil(2));
            let total = |sum: &Ciphertext| evaluator.sum_slots(&evaluator.rescale(sum)?, stride, shape.max_tokens);
            Ok(pairs.map(total).collect::<Result<_, _>>()?)
        };
        harness.stopwatch().seconds(work)
    }

    /// Seconds of the products with these tables and the rescale. `column` is used for every column.
    fn product(&self, harness: &Harness<'_>, tables: &Subtables, column: &Ciphertext) -> anyhow::Result<f64> {
        let (level, scale) = (column.level(), column.scale());
        let outputs = vec![self.parameters.scale() * self.parameters.level_modulus(level); tables.rows()];
        let inputs = vec![column; self.columns];
        let matrix = |table: &Table| {
            let entry = |r: usize, c: usize| Complex64::from(table.row(r)[c]);
            PreparedMatrix::new(&self.parameters, level, &vec![scale; self.columns], &outputs, entry)
        };
        let matrices = tables.tables.iter().map(matrix).collect::<Result<Vec<_>, _>>()?;
        let evaluator = Evaluator::new(&self.encoder, &self.keys);
        let work = || -> anyhow::Result<Vec<Ciphertext>> {
            let sums = apply_tables(&evaluator, &matrices, &inputs)?;
            Ok(sums.iter().map(|sum| evaluator.rescale(sum)).collect::<Result<_, _>>()?)
        };
        harness.stopwatch().seconds(work)
    }
}
