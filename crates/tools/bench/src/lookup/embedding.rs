//! Embeddings by every plan, per token (paper, Table 3).

use serde_json::{Map, Value};
use unspoken_ckks::{Ciphertext, Preset};
use unspoken_lookup::{Generated, OutputForm, Plan, Task, best_plan};

use super::indicator::Baseline;
use super::party::{Party, lookup};
use super::subtables::Subtables;
use crate::error::BenchError;
use crate::row::{Metric, params};
use crate::session::Session;

/// Rows that are measured: the linear stage works row by row, so more take proportionally longer.
pub(super) const ROWS: usize = 64;

/// Columns of the baseline that are measured, at least.
const COORDINATES: usize = 2;

const PAPER: &str = "ive-paper";
const KIM: &str = "Kim et al., extrapolated";

/// The presets of a case, each with levels enough.
#[derive(Clone, Copy)]
pub(super) struct Presets {
    pub(super) complex: &'static str,
    pub(super) real: &'static str,
    pub(super) baseline: &'static str,
}

/// The tables of one number of columns.
pub(super) struct Case<'a> {
    pub(super) presets: Presets,
    pub(super) tables: &'a Subtables,
    /// Numbers of rows `d` to report; those beyond [`ROWS`] are extrapolated from that many of the tables'.
    pub(super) widths: &'a [usize],
    pub(super) repetitions: usize,
}

/// Seconds per token, repetition by repetition.
#[derive(Default)]
struct Times {
    vectors: Vec<f64>,
    linear: Vec<f64>,
}

impl Times {
    fn total(&self) -> Vec<f64> {
        self.vectors.iter().zip(&self.linear).map(|(v, l)| v + l).collect()
    }
}

/// What does not depend on the number of rows, measured once.
struct Common {
    paper: Party,
    generated: Generated<Ciphertext>,
    paper_vectors: Vec<f64>,
    kim: Baseline,
    column: Ciphertext,
    kim_vectors: Vec<f64>,
}

/// Runs one case and reports it.
pub(super) fn run(session: &mut Session<'_>, case: &Case<'_>) -> Result<(), BenchError> {
    let common = Common::measure(session, case)?;
    for &width in case.widths {
        common.width(session, case, width)?;
    }
    Ok(())
}

impl Common {
    fn measure(session: &mut Session<'_>, case: &Case<'_>) -> Result<Self, BenchError> {
        let columns = case.tables.columns();
        let all = (columns * case.tables.tables.len()) as f64;
        session.note(format!("{columns} columns: keys of plan paper and of the baseline"));
        let paper = Party::new(case.presets.complex, Plan::Paper, &case.tables.first_rows(1)?)?;
        let kim = Baseline::new(Preset::find(case.presets.baseline)?, columns, 1)?;
        let slots = kim.parameters.slots() as f64;
        let (mut paper_vectors, mut kim_vectors) = (Vec::new(), Vec::new());
        let first = kim.column(session, 0)?;
        let mut column = first.0;
        kim_vectors.push(first.1 * all / slots);
        let (mut generated, seconds) = paper.generate(session)?;
        paper_vectors.push(seconds);
        for i in 1..case.repetitions.max(COORDINATES) {
            session.note(format!("{columns} columns: repetition {i}"));
            let (found, seconds) = kim.column(session, i)?;
            column = found;
            kim_vectors.push(seconds * all / slots);
            if i < case.repetitions {
                let (found, seconds) = paper.generate(session)?;
                generated = found;
                paper_vectors.push(seconds);
            }
        }
        Ok(Common { paper, generated, paper_vectors, kim, column, kim_vectors })
    }

    /// All plans for `width` rows, in turn.
    fn width(&self, session: &mut Session<'_>, case: &Case<'_>, width: usize) -> Result<(), BenchError> {
        let columns = case.tables.columns();
        let tables = case.tables.first_rows(ROWS.min(width))?;
        let share = width as f64 / tables.rows() as f64;
        let mut ours = Vec::new();
        for (preset, task) in case.contenders(width) {
            let plan = best_plan(&Preset::find(preset)?.build()?, task)?;
            session.note(format!("{columns} columns, {width} rows: keys and query of plan {plan}"));
            ours.push((Party::new(preset, plan, &tables)?, Times::default()));
        }
        let paper_lookup = lookup(&self.paper.parameters, Plan::Paper, &tables)?;
        let mut paper = Times { vectors: self.paper_vectors.clone(), ..Times::default() };
        let mut kim = Times { vectors: self.kim_vectors.clone(), ..Times::default() };
        for _ in 0..case.repetitions {
            session.note(format!("{columns} columns, {width} rows: all plans"));
            paper.linear.push(share * self.paper.combine(session, &paper_lookup, &tables, &self.generated)?);
            for (party, times) in &mut ours {
                let (generated, seconds) = party.generate(session)?;
                times.vectors.push(seconds);
                times.linear.push(share * party.combine(session, &party.lookup, &tables, &generated)?);
            }
            let seconds = self.kim.product(session, &tables, &self.column)?;
            kim.linear.push(share * seconds / self.kim.parameters.slots() as f64);
        }
        let mut report = Report { session, case, width, rows: tables.rows(), paper: &paper, kim: &kim };
        report.plan(&self.paper, &paper);
        ours.iter().for_each(|(party, times)| report.plan(party, times));
        Ok(())
    }
}

impl Case<'_> {
    /// The presets of our plans, with what they are to plan for.
    fn contenders(&self, rows: usize) -> [(&'static str, Task); 2] {
        let (subtables, columns) = (self.tables.tables.len(), self.tables.columns());
        let task = Task { subtables, rows, columns, form: OutputForm::Rows };
        [(self.presets.complex, task), (self.presets.real, task)]
    }
}

/// Rows of the results of one width.
struct Report<'a, 'b> {
    session: &'a mut Session<'b>,
    case: &'a Case<'a>,
    width: usize,
    rows: usize,
    paper: &'a Times,
    kim: &'a Times,
}

impl Report<'_, '_> {
    fn plan(&mut self, party: &Party, times: &Times) {
        let plan = party.lookup.plan();
        let ours = plan != Plan::Paper;
        let name = self.name(party);
        let paper = |samples| ours.then_some((PAPER, samples));
        let total = Metric::less("lookup_per_token", "ms");
        let samples = [
            (total, times.total(), paper(self.paper.total())),
            (total, times.total(), Some((KIM, self.kim.total()))),
            (Metric::less("vecgen_per_token", "ms"), times.vectors.clone(), paper(self.paper.vectors.clone())),
            (Metric::less("pcmm_per_token", "ms"), times.linear.clone(), paper(self.paper.linear.clone())),
        ];
        for (metric, found, baseline) in samples {
            let [found, against] = [found, baseline.as_ref().map_or_else(Vec::new, |(_, samples)| samples.clone())]
                .map(|samples| samples.iter().map(|seconds| seconds * 1e3).collect::<Vec<f64>>());
            let baseline = baseline.as_ref().map(|(name, _)| (*name, against.as_slice()));
            // The paper's total is shown against Kim's alone.
            if baseline.is_some() || metric.name != total.name {
                let params = self.params(party);
                self.session.timing(metric, &name, &found, baseline, params);
            }
        }
        let (depth, kim) = (plan.depth(self.case.tables.columns()), Plan::Indicator.depth(self.case.tables.columns()));
        let levels = Metric::less("lookup_depth", "levels");
        self.session.fact(levels, &name, depth as f64, Some((KIM, kim as f64)), self.params(party));
        let bytes = Metric::less("lookup_query_bytes_per_token", "bytes");
        self.session.fact(bytes, &name, party.query_bytes as f64 / party.tokens(), None, self.params(party));
    }

    fn name(&self, party: &Party) -> String {
        let (label, log2_columns) = (self.case.tables.label, self.case.tables.columns().ilog2());
        format!("{label}, log p = {log2_columns}, d = {}, {}, {}", self.width, party.lookup.plan(), party.preset)
    }

    fn params(&self, party: &Party) -> Map<String, Value> {
        let tables = self.case.tables;
        params! {
            "preset": party.preset, "plan": party.lookup.plan().to_string(), "data": tables.source,
            "subtables": tables.tables.len(), "columns": tables.columns(), "rows": self.width,
            "rows_measured": self.rows, "tokens": party.tokens(),
            "baseline_preset": self.case.presets.baseline, "baseline_columns_measured": self.kim.vectors.len(),
        }
    }
}
