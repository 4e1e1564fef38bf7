//! Embedding lookups by every plan, per token (paper, Table 3).

use std::cell::Cell;

use serde_json::{Map, Value};
use unspoken_ckks::Preset;
use unspoken_lookup::{LookupPlan, LookupTask, OutputForm, best_plan};

use super::fixture::LookupFixture;
use super::indicator::IndicatorBaseline;
use super::subtables::Subtables;
use super::{KIM, PAPER, StageTimes};
use crate::clock::{Repetitions, TimedOperation, alternate, median, scaled};
use crate::harness::Harness;
use crate::row::{Metric, params};

/// Number of measured rows of random tables, and of the baseline: the linear stage works row by row, so its time is
/// proportional to the rows.
pub(super) const ROWS: usize = 64;

/// The presets of a case, each with enough levels.
#[derive(Clone, Copy)]
pub(super) struct Presets {
    pub(super) complex: &'static str,
    pub(super) real: &'static str,
    pub(super) baseline: &'static str,
}

/// The tables with one number of columns.
pub(super) struct Case<'a> {
    pub(super) presets: Presets,
    pub(super) tables: &'a Subtables,
    /// Row counts `d` to report. Ours are measured with this number of rows, or with all rows of the tables, and
    /// extrapolated; times of the baseline are extrapolated from [`ROWS`].
    pub(super) widths: &'a [usize],
    pub(super) repetitions: usize,
}

/// Runs one case and reports it.
pub(super) fn run(harness: &mut Harness<'_>, case: &Case<'_>) -> anyhow::Result<()> {
    let columns = case.tables.columns();
    harness.progress(format!("{columns} columns: keys of the baseline"));
    let kim = IndicatorBaseline::new(Preset::find(case.presets.baseline)?, columns, 1)?;
    case.widths.iter().try_for_each(|&width| measure(harness, case, &kim, width))
}

/// Times all plans and the baseline for `width` rows, in turn.
fn measure(harness: &mut Harness<'_>, case: &Case<'_>, kim: &IndicatorBaseline, width: usize) -> anyhow::Result<()> {
    let columns = case.tables.columns();
    let (tables, few) = (case.tables.first_rows(width)?, case.tables.first_rows(ROWS.min(width))?);
    let mut fixtures = Vec::new();
    for (preset, plan) in case.plans(width)? {
        harness.progress(format!("{columns} columns, {width} rows: keys and query of plan {plan}"));
        fixtures.push(LookupFixture::new(preset, plan, &tables)?);
    }
    harness.progress(format!("{columns} columns, {width} rows: all plans in turn"));
    let turn = Cell::new(0);
    let shared = &*harness;
    let mut operations: Vec<TimedOperation<'_, [f64; 2]>> = Vec::new();
    for fixture in &fixtures {
        let tables = &tables;
        operations.push(Box::new(move || fixture.measure(shared, tables)));
    }
    // Each repetition measures another column, which represents all of them.
    operations.push(Box::new(|| {
        let column = turn.replace(turn.get() + 1) % columns;
        let [vectors, linear] = kim.measure(shared, &few, column..column + 1)?;
        Ok([vectors * columns as f64, linear])
    }));
    let mut samples = alternate(Repetitions::exactly(case.repetitions), &mut operations)?;
    drop(operations);
    let share = |measured: &Subtables| width as f64 / measured.rows() as f64;
    let kim = StageTimes::new(&samples.pop().unwrap_or_default(), share(&few));
    let times: Vec<StageTimes> = samples.iter().map(|samples| StageTimes::new(samples, share(&tables))).collect();
    let paper = times.first().cloned().unwrap_or_default();
    let mut report = Report { harness, case, width, rows: tables.rows(), paper, kim };
    fixtures.iter().zip(&times).for_each(|(fixture, times)| report.plan(fixture, times));
    Ok(())
}

/// Times the planner's choice for the first width in turn with parts of the baseline, one part for each repetition:
/// together all columns of one subtable. The other subtables have the same operations.
pub(super) fn run_whole(harness: &mut Harness<'_>, case: &Case<'_>) -> anyhow::Result<()> {
    let columns = case.tables.columns();
    let width = case.widths.first().copied().unwrap_or(1);
    let tables = case.tables.first_rows(width)?;
    harness.progress(format!("{columns} columns: keys of the baseline"));
    let kim = IndicatorBaseline::new(Preset::find(case.presets.baseline)?, columns, 1)?;
    let (preset, plan) = case.plans(width)?[1];
    let fixture = LookupFixture::new(preset, plan, &tables)?;
    harness.progress(format!("{columns} columns, {width} rows: all columns of the baseline, in turn with {plan}"));
    let (part, shared) = (columns.div_ceil(case.repetitions), &*harness);
    // The round that is not counted measures the last part.
    let turn = Cell::new(case.repetitions - 1);
    let mut operations: Vec<TimedOperation<'_, [f64; 2]>> = vec![
        Box::new(|| fixture.measure(shared, &tables)),
        Box::new(|| {
            let number = turn.replace((turn.get() + 1) % case.repetitions);
            kim.measure(shared, &tables, number * part..columns.min((number + 1) * part))
        }),
    ];
    let samples = alternate(Repetitions::exactly(case.repetitions), &mut operations)?;
    drop(operations);
    let [ours, theirs] = [0, 1].map(|side| StageTimes::new(samples.get(side).map_or(&[][..], Vec::as_slice), 1.0));
    let all = theirs.vectors.iter().sum::<f64>() + median(&theirs.linear);
    let name = format!(
        "{}, log p = {}, d = {width}, {plan}, {preset}, all columns of Kim et al.",
        case.tables.label,
        columns.ilog2()
    );
    let params = params! {
        "preset": preset, "plan": plan.to_string(), "data": case.tables.source, "subtables": case.tables.tables.len(),
        "columns": columns, "rows": width, "tokens": fixture.tokens(), "baseline_preset": case.presets.baseline,
        "baseline_columns_measured": columns, "turns": case.repetitions,
    };
    let metric = Metric::less("whole_lookup_per_token", "ms");
    harness.value(metric, name, 1e3 * median(&ours.total()), Some(("Kim et al.", 1e3 * all)), params);
    Ok(())
}

impl Case<'_> {
    /// The paper's plan first, then the planner's choices, each with its preset.
    fn plans(&self, rows: usize) -> anyhow::Result<[(&'static str, LookupPlan); 3]> {
        let (subtables, columns) = (self.tables.tables.len(), self.tables.columns());
        let task = LookupTask { subtables, rows, columns, form: OutputForm::Rows };
        let Presets { complex, real, .. } = self.presets;
        let best =
            |preset: &str| -> anyhow::Result<LookupPlan> { Ok(best_plan(&Preset::find(preset)?.build()?, task)?) };
        Ok([(complex, LookupPlan::Paper), (complex, best(complex)?), (real, best(real)?)])
    }
}

/// Result rows of one width.
struct Report<'a, 'b> {
    harness: &'a mut Harness<'b>,
    case: &'a Case<'a>,
    width: usize,
    rows: usize,
    paper: StageTimes,
    kim: StageTimes,
}

impl Report<'_, '_> {
    fn plan(&mut self, fixture: &LookupFixture, times: &StageTimes) {
        let plan = fixture.lookup.plan();
        let name = self.name(fixture);
        let paper = |samples: &[f64]| (plan != LookupPlan::Paper).then(|| (PAPER, samples.to_vec()));
        let total = Metric::less("lookup_per_token", "ms");
        let samples = [
            (total, times.total(), paper(&self.paper.total())),
            (total, times.total(), Some((KIM, self.kim.total()))),
            (Metric::less("vecgen_per_token", "ms"), times.vectors.clone(), paper(&self.paper.vectors)),
            (Metric::less("pcmm_per_token", "ms"), times.linear.clone(), paper(&self.paper.linear)),
        ];
        for (metric, ours, baseline) in samples {
            let baseline = baseline.map(|(name, seconds)| (name, scaled(&seconds, 1e3)));
            let baseline = baseline.as_ref().map(|(name, ms)| (*name, ms.as_slice()));
            // The paper's total is compared with Kim's only.
            if baseline.is_some() || metric.name != total.name {
                let params = self.params(fixture);
                self.harness.timing(metric, &name, &scaled(&ours, 1e3), baseline, params);
            }
        }
        let (depth, kim) =
            (plan.depth(self.case.tables.columns()), LookupPlan::Indicator.depth(self.case.tables.columns()));
        let levels = Metric::less("lookup_depth", "levels");
        self.harness.value(levels, &name, depth as f64, Some((KIM, kim as f64)), self.params(fixture));
        let bytes = Metric::less("lookup_query_bytes_per_token", "bytes");
        let per_token = fixture.query_bytes as f64 / fixture.tokens();
        self.harness.value(bytes, &name, per_token, None, self.params(fixture));
    }

    fn name(&self, fixture: &LookupFixture) -> String {
        let (label, log2_columns) = (self.case.tables.label, self.case.tables.columns().ilog2());
        format!("{label}, log p = {log2_columns}, d = {}, {}, {}", self.width, fixture.lookup.plan(), fixture.preset)
    }

    fn params(&self, fixture: &LookupFixture) -> Map<String, Value> {
        let tables = self.case.tables;
        params! {
            "preset": fixture.preset, "plan": fixture.lookup.plan().to_string(), "data": tables.source,
            "subtables": tables.tables.len(), "columns": tables.columns(), "rows": self.width,
            "rows_measured": self.rows, "tokens": fixture.tokens(),
            "baseline_preset": self.case.presets.baseline, "baseline_columns_measured": self.kim.vectors.len(),
        }
    }
}
