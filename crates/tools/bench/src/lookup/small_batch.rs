//! Few tokens at a time, one ciphertext of embeddings (paper, Table 6).

use unspoken_ckks::{Ciphertext, Encoder, Evaluator, Preset};
use unspoken_lookup::{StridedLookup, StridedPlan, StridedTables};
use unspoken_ring::SecretRng;
use unspoken_rlwe::{EvaluationKeys, SecretKey};

use super::subtables::Subtables;
use crate::clock::scaled;
use crate::error::BenchError;
use crate::row::{Metric, params};
use crate::session::Session;

/// Largest error of an entry, relative to the largest.
const TOLERANCE: f64 = 1e-2;

const KIM: &str = "Kim et al., same packing";

/// Tables and the presets to look them up at.
pub(super) struct Case<'a> {
    pub(super) tables: &'a Subtables,
    /// Positions of a token: rows padded to a power of two.
    pub(super) width: usize,
    pub(super) ours: &'static str,
    pub(super) baseline: &'static str,
    pub(super) repetitions: usize,
}

/// A strided lookup with a client's keys and query.
struct Party {
    tables: StridedTables,
    encoder: Encoder,
    secret: SecretKey,
    keys: EvaluationKeys,
    query: Vec<Ciphertext>,
    batch: usize,
    /// How many times this lookup makes the whole one.
    groups: usize,
}

/// Seconds of the two stages for one ciphertext of answers.
#[derive(Default)]
struct Times {
    vectors: Vec<f64>,
    linear: Vec<f64>,
}

/// Runs one case and reports it.
pub(super) fn run(session: &mut Session<'_>, case: &Case<'_>) -> Result<(), BenchError> {
    let columns = case.tables.columns();
    let mut times = [Times::default(), Times::default()];
    session.note(format!("small batch, {columns} columns: keys, diagonals"));
    let ours = Party::new(case, StridedPlan::Powers)?;
    let kim = Party::new(case, StridedPlan::Indicator)?;
    for i in 0..case.repetitions {
        session.note(format!("small batch, {columns} columns, repetition {i}"));
        for (party, times) in [&ours, &kim].into_iter().zip(&mut times) {
            party.measure(session, case, times)?;
        }
    }
    let [ours_times, kim_times] = &times;
    let total = |times: &Times| times.vectors.iter().zip(&times.linear).map(|(v, l)| v + l).collect::<Vec<f64>>();
    let (ours_total, kim_total) = (total(ours_times), total(kim_times));
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
        session.timing(Metric::less(latency, "s"), &name, ours_seconds, Some((KIM, kim_seconds)), params());
        let [a, b] = [(ours_seconds, &ours), (kim_seconds, &kim)]
            .map(|(seconds, party)| scaled(seconds, 1e3 / party.batch as f64));
        session.timing(Metric::less(per_token, "ms"), &name, &a, Some((KIM, &b)), params());
    }
    Ok(())
}

/// The index in subtable `t` that token `token` asks for.
fn index(token: usize, t: usize, columns: usize) -> usize {
    (token * 37 + t * 11) % columns
}

impl Party {
    /// Prepares our plan whole. Of the baseline, one of the equal parts its subtables fall into: the encoded diagonals of
    /// all would take too much memory.
    fn new(case: &Case<'_>, plan: StridedPlan) -> Result<Self, BenchError> {
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
        let tables = lookup.encode(&encoder)?;
        Ok(Party { tables, encoder, secret, keys, query, batch, groups })
    }

    fn measure(&self, session: &Session<'_>, case: &Case<'_>, times: &mut Times) -> Result<(), BenchError> {
        let evaluator = Evaluator::new(&self.encoder, &self.keys);
        let (clock, single) = (session.clock(), &session.single);
        let (selections, vectors) = clock.time_in(single, || self.tables.lookup().generate(&evaluator, &self.query));
        let selections = selections?;
        let (output, linear) = clock.time_in(single, || self.tables.combine(&evaluator, &selections));
        self.check(case, &output?)?;
        times.vectors.push(vectors * self.groups as f64);
        times.linear.push(linear * self.groups as f64);
        Ok(())
    }

    fn check(&self, case: &Case<'_>, output: &Ciphertext) -> Result<(), BenchError> {
        let measured = self.query_tables(case);
        let expected = |slot: usize| {
            let (row, token) = (slot / self.batch, slot % self.batch);
            let entry = |t: usize| case.tables.tables[t].row(row)[index(token, t, case.tables.columns())];
            if row < case.tables.rows() { (0..measured).map(entry).sum::<f64>() } else { 0.0 }
        };
        let slots = self.encoder.decrypt(output, &self.secret)?;
        let distance = slots.iter().enumerate().map(|(slot, z)| (z - expected(slot)).norm());
        let found = distance.fold(0.0, f64::max) / case.tables.bound();
        if found.is_nan() || found > TOLERANCE {
            let case = format!("few tokens, {} columns", case.tables.columns());
            return Err(BenchError::Wrong { case, found, needed: TOLERANCE });
        }
        Ok(())
    }

    /// How many of the tables are looked up.
    fn query_tables(&self, case: &Case<'_>) -> usize {
        case.tables.tables.len().div_ceil(self.groups)
    }
}
