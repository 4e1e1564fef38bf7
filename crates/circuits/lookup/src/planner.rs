//! Choosing a plan by counted cost.

use std::fmt;

use unspoken_ckks::{CkksParameters, Cost, CostModel};

use crate::budget::{Budget, Spread};
use crate::cosine;
use crate::error::LookupError;
use crate::plan::{OutputForm, Plan, indicator_squarings};
use crate::powers::{Shape, power_shapes, query_scale};
use crate::table::padded_columns;

/// What is to be looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// Subtables `l`.
    pub subtables: usize,
    /// Rows `d`.
    pub rows: usize,
    /// Columns `p`, padded to a power of two as a [`Table`](crate::Table) pads them.
    pub columns: usize,
    /// How rows become outputs.
    pub form: OutputForm,
}

/// A plan and what it costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// The plan.
    pub plan: Plan,
    /// Levels it consumes.
    pub depth: usize,
    /// Counted work.
    pub cost: Cost,
    /// Bytes of what the first stage hands to the second.
    pub bytes: u64,
    /// Predicted seconds.
    pub seconds: f64,
    /// The bound of the error (see [`Budget`]) for tables of independent entries of mean square 1, root mean square over
    /// the rows; `None` for the baseline.
    pub error: Option<f64>,
}

/// Every plan the preset has the slots and the levels for, cheapest first; one-hot queries, which are a client's burden,
/// aside.
///
/// Queries are encrypted at the level the plan needs, so a shallower plan also works on smaller ciphertexts.
pub fn estimates(parameters: &CkksParameters, task: Task, model: &CostModel) -> Vec<Estimate> {
    let columns = padded_columns(task.columns);
    let babies = (1..columns.ilog2() - 1).map(|log| Plan::BabyGiant { babies: 1 << log });
    let cosines = (1..columns.ilog2()).map(|log| Plan::Cosine { babies: 1 << log });
    let plans = [Plan::Paper, Plan::ComplexFirst, Plan::LazyLast, Plan::Indicator];
    let plans = plans.into_iter().chain(babies).chain(cosines);
    let mut estimates: Vec<Estimate> = plans.filter_map(|plan| estimate(parameters, task, plan, model)).collect();
    estimates.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    estimates
}

/// The cheapest plan by the nominal cost model.
///
/// # Errors
/// If the preset has the levels for none.
pub fn best_plan(parameters: &CkksParameters, task: Task) -> Result<Plan, LookupError> {
    let cheapest = estimates(parameters, task, &CostModel::nominal(parameters)).into_iter().next();
    cheapest.map(|estimate| estimate.plan).ok_or_else(|| LookupError::Plan {
        plan: "auto".into(),
        preset: parameters.name().into(),
        reason: format!(
            "no plan for {} columns with outputs as {:?} fits its slots and {} levels; use a deeper preset, and rows where \
             slots are real",
            padded_columns(task.columns),
            task.form,
            parameters.max_level()
        ),
    })
}

/// What one plan costs; `None` if the preset is too shallow or its slots are of the wrong kind.
pub fn estimate(parameters: &CkksParameters, task: Task, plan: Plan, model: &CostModel) -> Option<Estimate> {
    let task = Task { columns: padded_columns(task.columns), ..task };
    if plan.depth(task.columns) > parameters.max_level() || !plan.fits(parameters.ring().kind(), task.form) {
        return None;
    }
    let depth = plan.depth(task.columns);
    let mut counter = Counter { parameters, cost: Cost::default(), bytes: 0 };
    counter.run(task, plan, depth)?;
    let Counter { cost, bytes, .. } = counter;
    let budget = Budget::of(parameters, plan, Spread::typical(task.subtables, task.rows, task.columns));
    let error = budget.map(|budget| budget.error(parameters.scale()));
    Some(Estimate { plan, depth, seconds: model.seconds(&cost), cost, bytes, error })
}

struct Counter<'a> {
    parameters: &'a CkksParameters,
    cost: Cost,
    bytes: u64,
}

impl Counter<'_> {
    fn run(&mut self, task: Task, plan: Plan, depth: usize) -> Option<()> {
        let n = task.columns / 2;
        let l = task.subtables;
        let input = Shape { level: depth, scale: query_scale(self.parameters, depth) };
        // Complex rows: two per pair.
        let rows = match task.form {
            OutputForm::Rows => task.rows,
            OutputForm::Pairs => 2 * task.rows.div_ceil(2),
        };
        let outputs = if task.form == OutputForm::Rows { task.rows } else { task.rows.div_ceil(2) };
        match plan {
            Plan::Paper => {
                let shapes = self.powers(input, n, l)?;
                shapes.iter().for_each(|shape| self.automorphisms(shape.level, l));
                let level = shapes[n - 1].level;
                self.hold(level, l * (2 * n - 1));
                self.matrix(level, l * task.rows, 2 * n - 1);
                self.rescales(level, task.rows);
            }
            Plan::Indicator => {
                for level in depth - indicator_squarings(task.columns)..=depth {
                    self.products(level, l * task.columns);
                }
                self.hold(1, l * task.columns);
                self.matrix(1, l * task.rows, task.columns);
                self.rescales(1, task.rows);
            }
            Plan::OneHot => {
                self.hold(1, l * task.columns);
                self.matrix(1, l * task.rows, task.columns);
                self.rescales(1, task.rows);
            }
            Plan::ComplexFirst => {
                let shapes = self.powers(input, n, l)?;
                let level = shapes[n - 1].level;
                self.hold(level, l * n);
                self.matrix(level, l * rows, n);
                self.automorphisms(level, outputs);
            }
            Plan::LazyLast => {
                let shapes = self.powers(input, n / 2, l)?;
                let level = shapes[n / 2 - 1].level;
                self.tensors(level, l * n / 2);
                // The upper half has three components.
                self.hold(level, (l * n * 5).div_ceil(4));
                self.matrix(level, l * rows, n / 2);
                // Three components on the upper half.
                self.matrix(level, (l * rows * 3).div_ceil(2), n / 2);
                self.relinearisations(level, rows);
                self.automorphisms(level - 1, outputs);
            }
            Plan::BabyGiant { babies } => {
                let low = self.powers(input, babies, l)?;
                let giants = self.powers(low[babies - 1], n / babies - 1, l)?;
                let level = self.giant_steps(l * rows, babies, &giants)?;
                self.hold(level, l * (babies + giants.len()));
                self.relinearisations(level, rows);
                self.automorphisms(level.checked_sub(1)?, outputs);
            }
            Plan::Cosine { babies } => {
                let shapes = cosine::shapes(input, task.columns, babies, self.parameters)?;
                for shape in shapes.babies[1..].iter().chain(&shapes.giants[1..]) {
                    self.products(shape.level + 1, l);
                    // Doubled; another polynomial scaled and taken off.
                    self.sums(shape.level + 1, 8 * l);
                }
                let level = self.giant_steps(l * rows, babies, &shapes.giants)?;
                self.hold(level, l * (babies + shapes.giants.len()));
                self.relinearisations(level, rows);
            }
        }
        Some(())
    }

    /// Combinations of the babies, each but the first of a row times a giant; returns their level.
    fn giant_steps(&mut self, rows: usize, babies: usize, giants: &[Shape]) -> Option<usize> {
        let level = giants.iter().map(|s| s.level).min()?;
        self.matrix(level, rows * (giants.len() + 1), babies);
        self.tensors(level, rows * giants.len());
        self.sums(level, 3 * rows * giants.len());
        Some(level)
    }

    /// `a^1 .. a^count` for `times` vectors.
    fn powers(&mut self, start: Shape, count: usize, times: usize) -> Option<Vec<Shape>> {
        let shapes = power_shapes(start, count, self.parameters)?;
        for shape in &shapes[1..] {
            self.products(shape.level + 1, times);
        }
        Some(shapes)
    }

    /// Products at `level`, relinearised and rescaled.
    fn products(&mut self, level: usize, count: usize) {
        self.tensors(level, count);
        self.relinearisations(level, count);
    }

    fn tensors(&mut self, level: usize, count: usize) {
        let chain = self.parameters.chain(level);
        // Four products and a sum of each residue.
        self.cost += Cost::elementwise(self.parameters.ring(), 5 * chain).times(count as u64);
        self.cost.tensors += count as u64;
    }

    fn relinearisations(&mut self, level: usize, count: usize) {
        let (ring, chain) = (self.parameters.ring(), self.parameters.chain(level));
        self.cost += Cost::key_switch(ring, chain, self.parameters.level_primes(level)).times(count as u64);
    }

    fn automorphisms(&mut self, level: usize, count: usize) {
        let (ring, chain) = (self.parameters.ring(), self.parameters.chain(level));
        self.cost += Cost::key_switch(ring, chain, 0).times(count as u64);
        self.sums(level, 2 * count);
    }

    fn rescales(&mut self, level: usize, count: usize) {
        let (from, to) = (self.parameters.chain(level), self.parameters.chain(level - 1));
        self.cost += Cost::division(self.parameters.ring(), from, to).times(2 * count as u64);
        self.cost.rescales += count as u64;
    }

    fn matrix(&mut self, level: usize, rows: usize, columns: usize) {
        self.cost += Cost::matrix(self.parameters.ring(), self.parameters.chain(level), rows, columns);
    }

    fn sums(&mut self, level: usize, polys: usize) {
        self.cost += Cost::elementwise(self.parameters.ring(), polys * self.parameters.chain(level));
    }

    fn hold(&mut self, level: usize, vectors: usize) {
        let words = 2 * self.parameters.chain(level) * self.parameters.ring().degree();
        self.bytes += (vectors * words * size_of::<u32>()) as u64;
    }
}

/// The table `--explain` prints: one line per plan, cheapest first, with the bound of its error for entries of mean
/// square 1.
pub struct Explanation<'a>(pub &'a [Estimate]);

impl fmt::Display for Explanation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:16} {:>5} {:>12} {:>9} {:>14} {:>9} {:>9} {:>11}",
            "plan", "depth", "key switches", "tensors", "matrix MACs", "MiB", "seconds", "error below"
        )?;
        for e in self.0 {
            writeln!(
                f,
                "{:16} {:>5} {:>12} {:>9} {:>14.3e} {:>9.0} {:>9.2} {:>11}",
                e.plan.to_string(),
                e.depth,
                e.cost.total_key_switches(),
                e.cost.tensors,
                e.cost.matrix_macs as f64,
                e.bytes as f64 / f64::from(1 << 20),
                e.seconds,
                e.error.map_or_else(|| "-".into(), |error| format!("2^{:.1}", error.log2()))
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use unspoken_ckks::Preset;

    use super::*;

    const CLASSIFIER: Task = Task { subtables: 4, rows: 2, columns: 256, form: OutputForm::Pairs };

    fn counted(plan: Plan) -> u64 {
        let parameters = Preset::find("insecure_n11_depth9_scale50").unwrap().build().unwrap();
        let model = CostModel::nominal(&parameters);
        estimate(&parameters, CLASSIFIER, plan, &model).unwrap().cost.total_key_switches()
    }

    #[test]
    fn key_switches_are_those_of_the_formulas() {
        assert_eq!(counted(Plan::Paper), 4 * (127 + 128));
        assert_eq!(counted(Plan::ComplexFirst), 4 * 127 + 1);
        assert_eq!(counted(Plan::LazyLast), 4 * 63 + 2 + 1);
        assert_eq!(counted(Plan::BabyGiant { babies: 16 }), 4 * (15 + 6) + 2 + 1);
    }

    #[test]
    fn real_slots_have_their_own_plan() {
        let parameters = Preset::find("insecure_n11_real_depth9_scale50").unwrap().build().unwrap();
        let model = CostModel::nominal(&parameters);
        let rows = Task { form: OutputForm::Rows, ..CLASSIFIER };
        let found = estimates(&parameters, rows, &model);
        assert_eq!(found.len(), 7, "cosines alone: an indicator needs more levels");
        assert!(found.iter().all(|e| matches!(e.plan, Plan::Cosine { .. })));
        let sixteen = estimate(&parameters, rows, Plan::Cosine { babies: 16 }, &model).unwrap();
        assert_eq!(sixteen.cost.total_key_switches(), 4 * (16 + 16 - 3) + 2);
        assert!(estimates(&parameters, CLASSIFIER, &model).is_empty(), "pairs need complex slots");
    }

    #[test]
    fn the_best_plan_for_a_classifier_has_few_babies() {
        let parameters = Preset::find("insecure_n11_depth9_scale50").unwrap().build().unwrap();
        let best = best_plan(&parameters, CLASSIFIER).unwrap();
        assert!(matches!(best, Plan::BabyGiant { babies: 4..=32 }), "{best}");
        let narrower = Task { columns: 200, ..CLASSIFIER };
        assert_eq!(best_plan(&parameters, narrower).unwrap(), best, "padded to 256");
        let shallow = Task { columns: 4096, ..CLASSIFIER };
        assert!(best_plan(&parameters, shallow).unwrap_err().to_string().contains("deeper preset"));
    }
}
