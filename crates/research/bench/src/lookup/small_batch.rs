//! Lookups of few tokens, with one ciphertext of embeddings (paper, Table 6).

use unspoken_ckks::{Ciphertext, Encoder, Evaluator, Preset};
use unspoken_lookup::{StridedLookup, StridedPlan};
use unspoken_ring::SecretRng;
use unspoken_rlwe::{EvaluationKeys, SecretKey};

use super::StageTimes;
use super::subtables::Subtables;
use crate::clock::{Repetitions, TimedOperation, alternate, scaled};
use crate::error::{larger_error, wrong};
use crate::harness::Harness;
use crate::row::{Metric, params};

/// Largest allowed error of an entry, relative to the largest entry.
const TOLERANCE: f64 = 1e-2;

const KIM: &str = "Kim et al., same packing";

/// Tables and the presets of their lookups.
pub(super) struct Case<'a> {
    pub(super) tables: &'a Subtables,
    /// Positions of a token: the rows, padded to a power of two.
    pub(super) width: usize,
    pub(super) ours: &'static str,
    pub(super) baseline: &'static str,
    pub(super) repetitions: usize,
}

/// A strided lookup with a client's keys and query.
struct StridedFixture {
    lookup: StridedLookup,
    encoder: Encoder,
    secret: SecretKey,
    keys: EvaluationKeys,
    query: Vec<Ciphertext>,
    batch: usize,
    /// Number of such lookups that make up the whole lookup.
    groups: usize,
}

/// Runs one case and reports it.
pub(super) fn run(harness: &mut Harness<'_>, case: &Case<'_>) -> anyhow::Result<()> {
    let columns = case.tables.columns();
    harness.progress(format!("small batch, {columns} columns: keys, diagonals"));
    let ours = StridedFixture::new(case, StridedPlan::Powers)?;
    let kim = StridedFixture::new(case, StridedPlan::Indicator)?;
    harness.progress(format!("small batch, {columns} columns: both in turn"));
    let shared = &*harness;
    let operation =
        |fixture| -> TimedOperation<'_, [f64; 2]> { Box::new(move || StridedFixture::measure(fixture, shared, case)) };
    let samples = alternate(Repetitions::exactly(case.repetitions), &mut [operation(&ours), operation(&kim)])?;
    let [ours_times, kim_times] = [&samples[0], &samples[1]].map(|samples| StageTimes::new(samples, 1.0));
    let (ours_total, kim_total) = (ours_times.total(), kim_times.total());
    let stages = [
        ("small_batch_latency", "small_batch_per_token", &ours_total, &kim_total),
        ("small_batch_vecgen", "small_batch_vecgen_per_token", &ours_times.vectors, &kim_times.vectors),
        ("small_batch_matvec", "small_batch_matvec_per_token", &ours_times.linear, &kim_times.linear),
    ];
    let name = format!("embedding of few tokens, log p = {}, d = {}", columns.ilog2(), case.tables.rows());
    let params = || {
        params! {
            "preset": case.ours, "baseline_preset": case.baseline, "data": case.tables.source,
            "subtables": case.tables.tables.len(), "columns": columns, "rows": case.tables.rows(),
            "tokens": ours.batch, "baseline_tokens": kim.batch, "baseline_measured_times": kim.groups,
        }
    };
    for (latency, per_token, ours_seconds, kim_seconds) in stages {
        harness.timing(Metric::less(latency, "s"), &name, ours_seconds, Some((KIM, kim_seconds)), params());
        let [a, b] = [(ours_seconds, &ours), (kim_seconds, &kim)]
            .map(|(seconds, fixture)| scaled(seconds, 1e3 / fixture.batch as f64));
        harness.timing(Metric::less(per_token, "ms"), &name, &a, Some((KIM, &b)), params());
    }
    Ok(())
}

/// The index in subtable `t` that token `token` queries.
fn index(token: usize, t: usize, columns: usize) -> usize {
    (token * 37 + t * 11) % columns
}

impl StridedFixture {
    /// Prepares our plan completely. Prepares one of the equal parts of the baseline's subtables: the encoded
    /// diagonals of all parts would need too much memory.
    fn new(case: &Case<'_>, plan: StridedPlan) -> anyhow::Result<Self> {
        let preset = if plan == StridedPlan::Powers { case.ours } else { case.baseline };
        let parameters = Preset::find(preset)?.build()?;
        let batch = parameters.slots() / case.width;
        let bound = case.tables.bound();
        let whole = case.tables.tables.len();
        let groups = match plan {
            StridedPlan::Powers => 1,
            StridedPlan::Indicator => whole.div_ceil(plan.shared(whole, case.tables.columns(), case.width)),
        };
        let count = whole.div_ceil(groups);
        let lookup = StridedLookup::new(&parameters, &case.tables.tables[..count], plan, batch, bound)?;
        let encoder = Encoder::new(&parameters);
        let mut rng = SecretRng::insecure_from_seed(7);
        let secret = SecretKey::generate(parameters.rlwe(), &mut rng)?;
        let keys = EvaluationKeys::generate(&secret, &lookup.key_plan(), &mut rng)?;
        let list = |t: usize| (0..batch).map(|token| Some(index(token, t, case.tables.columns()))).collect();
        let indices: Vec<Vec<Option<usize>>> = (0..count).map(list).collect();
        let mut query = Vec::new();
        for values in lookup.query_values(&indices)? {
            let plaintext = encoder.encode(&values, lookup.input_level(), lookup.input_scale())?;
            query.push(encoder.encrypt(&plaintext, &secret, &mut rng)?.expand(&parameters));
        }
        lookup.encode(&encoder)?;
        Ok(StridedFixture { lookup, encoder, secret, keys, query, batch, groups })
    }

    /// Seconds of VecGen and of the linear stage for one ciphertext of answers; the result is checked.
    fn measure(&self, harness: &Harness<'_>, case: &Case<'_>) -> anyhow::Result<[f64; 2]> {
        let (evaluator, stopwatch) = (Evaluator::new(&self.encoder, &self.keys), harness.stopwatch());
        let (selections, vectors) = stopwatch.time(|| self.lookup.generate(&evaluator, &self.query))?;
        let (output, linear) = stopwatch.time(|| self.lookup.combine(&evaluator, &selections))?;
        self.check(case, &output)?;
        Ok([vectors, linear].map(|seconds| seconds * self.groups as f64))
    }

    fn check(&self, case: &Case<'_>, output: &Ciphertext) -> anyhow::Result<()> {
        let measured = self.query_tables(case);
        let expected = |slot: usize| {
            let (row, token) = (slot / self.batch, slot % self.batch);
            let entry = |t: usize| case.tables.tables[t].row(row)[index(token, t, case.tables.columns())];
            if row < case.tables.rows() { (0..measured).map(entry).sum::<f64>() } else { 0.0 }
        };
        let slots = self.encoder.decrypt(output, &self.secret)?;
        let distance = slots.iter().enumerate().map(|(slot, z)| (z - expected(slot)).norm());
        let found = distance.fold(0.0, larger_error) / case.tables.bound();
        if found.is_nan() || found > TOLERANCE {
            let case = format!("few tokens, {} columns", case.tables.columns());
            return Err(wrong(case, found, TOLERANCE));
        }
        Ok(())
    }

    /// Number of tables that one query looks up.
    fn query_tables(&self, case: &Case<'_>) -> usize {
        case.tables.tables.len().div_ceil(self.groups)
    }
}
