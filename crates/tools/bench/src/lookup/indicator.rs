//! Kim et al.'s one-hot by encrypted indicators (ICML 2024), as `unspoken_lookup::indicator` reads it: a few columns
//! measured, all of them extrapolated.

use unspoken_ckks::{
    Arithmetic, Ciphertext, CkksParameters, Complex64, Encoder, Evaluator, InnerSum, PreparedMatrix, Preset,
};
use unspoken_lookup::{Plan, Table, indicator, query_scale};
use unspoken_ring::SecretRng;
use unspoken_rlwe::{EvaluationKeys, KeyKind, KeyPlan, SecretKey};

use super::data::Sample;
use super::one_hot::{apply_tables, table_matrices};
use super::plans::Shop;
use super::subtables::Subtables;
use crate::clock::median;
use crate::error::BenchError;
use crate::row::{Metric, params};
use crate::session::Session;

/// Largest distance of an indicator from 0 or 1: each squaring doubles an error near 1, and at 1024 columns and a scale of 50
/// bits some 2e-3 come together.
const TOLERANCE: f64 = 1e-2;

/// A client of the baseline: an encrypted vector of indices and the keys for all that follows.
pub(super) struct Baseline {
    pub(super) parameters: CkksParameters,
    encoder: Encoder,
    secret: SecretKey,
    keys: EvaluationKeys,
    indices: Ciphertext,
    columns: usize,
}

/// `measured` columns of the baseline, each in turn with a batch of `ours`.
pub(super) fn run(
    session: &mut Session<'_>,
    sample: &Sample,
    ours: &mut Shop,
    preset: &Preset,
    measured: usize,
) -> Result<(), BenchError> {
    session.note(format!("{}: keys for the indicator", preset.name));
    let shape = sample.model.encoder().shape();
    let baseline = Baseline::new(preset, shape.columns, shape.max_tokens)?;
    let batch = baseline.parameters.slots() / shape.max_tokens;
    let clock = session.clock();
    let messages: Vec<String> = sample.messages.iter().take(ours.batch_size()).cloned().collect();
    let (mut ours_seconds, mut columns) = (Vec::new(), Vec::new());
    let mut last = None;
    for i in 0..measured {
        session.note(format!("indicator of column {} of {measured} measured, and a batch of ours", i + 1));
        let (column, seconds) = baseline.column(session, i)?;
        columns.push(seconds);
        last = Some(column);
        let answered = ours.classify(&session.single, clock, &messages)?;
        ours_seconds.push(answered.seconds / ours.batch_size() as f64);
    }
    let Some(column) = last else { return Ok(()) };
    let linear = baseline.linear(session, sample, &column)?;
    let all = shape.subtables * shape.columns;
    let theirs: Vec<f64> = columns.iter().map(|column| (column * all as f64 + linear) / batch as f64).collect();
    let params = params! {
        "preset": ours.preset(), "plan": ours.plan.to_string(), "data": sample.source,
        "baseline_preset": preset.name, "baseline_messages_per_query": batch,
        "baseline_seconds_per_column": median(&columns), "baseline_linear_seconds": linear,
    };
    let case = format!("fastText, {}, against the indicator extrapolated from {measured} of {all} columns", ours.plan);
    let time = Metric::less("time_per_message", "s");
    session.timing(time, case, &ours_seconds, Some(("Kim et al., extrapolated", &theirs)), params);
    Ok(())
}

impl Baseline {
    /// Keys for the indicator, and for sums over `tokens` slots.
    pub(super) fn new(preset: &Preset, columns: usize, tokens: usize) -> Result<Self, BenchError> {
        let parameters = preset.build()?;
        let mut rng = SecretRng::insecure_from_seed(4);
        let secret = SecretKey::generate(parameters.rlwe(), &mut rng)?;
        let encoder = Encoder::new(&parameters);
        let depth = Plan::Indicator.depth(columns);
        let mut plan = KeyPlan::new();
        plan.require(KeyKind::Relinearisation, parameters.chain(depth));
        let stride = parameters.slots() / tokens;
        plan.extend(&InnerSum::new(stride as i64, tokens)?.key_plan(&parameters, 0));
        let keys = EvaluationKeys::generate(&secret, &plan, &mut rng)?;
        let values: Vec<f64> = (0..parameters.slots()).map(|j| (j % columns) as f64 / columns as f64).collect();
        let plain = encoder.encode_real(&values, depth, query_scale(&parameters, depth))?;
        let indices = encoder.encrypt(&plain, &secret, &mut rng)?.expand(&parameters);
        Ok(Baseline { parameters, encoder, secret, keys, indices, columns })
    }

    /// The indicator of one column: its result, checked, and its seconds.
    pub(super) fn column(&self, session: &Session<'_>, column: usize) -> Result<(Ciphertext, f64), BenchError> {
        let evaluator = Evaluator::new(&self.encoder, &self.keys);
        let work = || indicator(&evaluator, &self.indices, column, self.columns);
        let (result, seconds) = session.clock().time_in(&session.single, work);
        let result = result?;
        let expected = |j: usize| if j % self.columns == column { 1.0 } else { 0.0 };
        let slots = self.encoder.decrypt(&result, &self.secret)?;
        let found = slots.iter().enumerate().map(|(j, z)| (z - expected(j)).norm()).fold(0.0, f64::max);
        if found <= TOLERANCE {
            Ok((result, seconds))
        } else {
            Err(BenchError::Wrong { case: format!("indicator of column {column}"), found, needed: TOLERANCE })
        }
    }

    /// Seconds of the linear stage for all subtables: matrices over every column, then the sum over the tokens. `column`
    /// stands for all of them.
    fn linear(&self, session: &Session<'_>, sample: &Sample, column: &Ciphertext) -> Result<f64, BenchError> {
        let shape = sample.model.encoder().shape();
        let matrices = table_matrices(sample, &self.parameters, column.level(), column.scale())?;
        let inputs = vec![column; self.columns];
        let evaluator = Evaluator::new(&self.encoder, &self.keys);
        let stride = self.parameters.slots() / shape.max_tokens;
        let work = || -> Result<Vec<Ciphertext>, BenchError> {
            let sums = apply_tables(&evaluator, &matrices, &inputs)?;
            // Two classes share a ciphertext, one in each part, so half as many sums are needed.
            let pairs = sums.iter().take(shape.classes.div_ceil(2));
            let total = |sum: &Ciphertext| evaluator.sum_slots(&evaluator.rescale(sum)?, stride, shape.max_tokens);
            Ok(pairs.map(total).collect::<Result<_, _>>()?)
        };
        let (result, seconds) = session.clock().time_in(&session.single, work);
        result?;
        Ok(seconds)
    }

    /// Seconds of the matrices of these tables and the rescale. `column` stands for all coordinates.
    pub(super) fn product(
        &self,
        session: &Session<'_>,
        tables: &Subtables,
        column: &Ciphertext,
    ) -> Result<f64, BenchError> {
        let (level, scale) = (column.level(), column.scale());
        let outputs = vec![self.parameters.scale() * self.parameters.level_modulus(level); tables.rows()];
        let inputs = vec![column; self.columns];
        let matrix = |table: &Table| {
            let entry = |r: usize, c: usize| Complex64::from(table.row(r)[c]);
            PreparedMatrix::new(&self.parameters, level, &vec![scale; self.columns], &outputs, entry)
        };
        let matrices = tables.tables.iter().map(matrix).collect::<Result<Vec<_>, _>>()?;
        let evaluator = Evaluator::new(&self.encoder, &self.keys);
        let work = || -> Result<Vec<Ciphertext>, BenchError> {
            let sums = apply_tables(&evaluator, &matrices, &inputs)?;
            Ok(sums.iter().map(|sum| evaluator.rescale(sum)).collect::<Result<_, _>>()?)
        };
        let (result, seconds) = session.clock().time_in(&session.single, work);
        result?;
        Ok(seconds)
    }
}
