//! The planner: cost estimates of all plans, and the choice of the cheapest.

use std::fmt;

use unspoken_ckks::{CkksParameters, Cost, CostModel, key_switch_bytes, vector_bytes, with_idle_buffers};
use unspoken_ring::Ring;

use crate::baby_giant::block_rows;
use crate::cosine;
use crate::error::LookupError;
use crate::error_bound::{ErrorBound, TableSummary};
use crate::plan::{LookupPlan, OutputForm, indicator_squarings};
use crate::powers::{LevelScale, power_shapes, query_scale};
use crate::table::padded_columns;

/// A planning task: the shape of the tables and the form of the outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LookupTask {
    /// Subtables `l`.
    pub subtables: usize,
    /// Rows `d`.
    pub rows: usize,
    /// Columns `p`, padded to a power of two as a [`Table`](crate::Table) pads them.
    pub columns: usize,
    /// Form of the outputs.
    pub form: OutputForm,
}

/// A plan and its cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// The plan.
    pub plan: LookupPlan,
    /// Number of levels it uses.
    pub depth: usize,
    /// The counted operations.
    pub cost: Cost,
    /// Peak memory of one run in bytes, without its query, the keys and the prepared tables.
    pub working_bytes: u64,
    /// Predicted seconds.
    pub seconds: f64,
    /// The bound of the error (see [`ErrorBound`]), a root mean square over the rows, for tables of independent entries
    /// of mean square 1. `None` for the baselines.
    pub error: Option<f64>,
}

/// Estimates of all plans that fit the slots and the levels of the preset, the cheapest first. One-hot queries are left
/// out, because their cost is the client's.
///
/// Queries are encrypted at the minimum level of the plan, so a shallower plan also uses smaller ciphertexts.
pub fn estimates(parameters: &CkksParameters, task: LookupTask, model: &CostModel) -> Vec<Estimate> {
    let columns = padded_columns(task.columns);
    let babies = (1..columns.ilog2() - 1).map(|log| LookupPlan::BabyGiant { babies: 1 << log });
    let cosines = (1..columns.ilog2()).map(|log| LookupPlan::Cosine { babies: 1 << log });
    let plans = [LookupPlan::Paper, LookupPlan::ComplexFirst, LookupPlan::LazyLast, LookupPlan::Indicator];
    let plans = plans.into_iter().chain(babies).chain(cosines);
    let mut estimates: Vec<Estimate> = plans.filter_map(|plan| estimate(parameters, task, plan, model)).collect();
    estimates.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    estimates
}

/// The cheapest plan by the nominal cost model.
///
/// # Errors
/// If no plan fits the slots and the levels of the preset.
pub fn best_plan(parameters: &CkksParameters, task: LookupTask) -> Result<LookupPlan, LookupError> {
    let cheapest = estimates(parameters, task, &CostModel::nominal(parameters)).into_iter().next();
    cheapest.map(|estimate| estimate.plan).ok_or_else(|| LookupError::LookupPlan {
        plan: "auto".into(),
        preset: parameters.name().into(),
        reason: format!(
            "no plan for {} columns with outputs as {:?} fits its slots and {} levels; use a deeper preset, or rows \
             if the slots are real",
            padded_columns(task.columns),
            task.form,
            parameters.max_level()
        ),
    })
}

/// Estimate of one plan; `None` if the preset has too few levels or slots of the wrong kind.
pub fn estimate(
    parameters: &CkksParameters,
    task: LookupTask,
    plan: LookupPlan,
    model: &CostModel,
) -> Option<Estimate> {
    let task = LookupTask { columns: padded_columns(task.columns), ..task };
    if plan.depth(task.columns) > parameters.max_level() || !plan.fits(parameters.ring().kind(), task.form) {
        return None;
    }
    let depth = plan.depth(task.columns);
    let mut counter = Counter::new(parameters, task);
    counter.run(plan, depth)?;
    let working_bytes = counter.working_bytes(depth);
    let cost = counter.cost;
    let bound = ErrorBound::of(parameters, plan, TableSummary::typical(task.subtables, task.rows, task.columns));
    let error = bound.map(|bound| bound.error(parameters.scale()));
    Some(Estimate { plan, depth, seconds: model.seconds(&cost), cost, working_bytes, error })
}

/// Peak memory in bytes of one run of a plan on queries at `level`. It includes the outputs, but not the query, the
/// keys and the prepared tables. `None` if there are too few levels.
pub(crate) fn working_bytes(
    parameters: &CkksParameters,
    task: LookupTask,
    plan: LookupPlan,
    level: usize,
) -> Option<u64> {
    let mut counter = Counter::new(parameters, task);
    counter.run(plan, level)?;
    Some(counter.working_bytes(level))
}

/// Counts the operations and the memory of a plan by formulas, without tables. The counts equal the counts of a run on
/// [`Simulator::counting`](unspoken_ckks::Simulator).
struct Counter<'a> {
    parameters: &'a CkksParameters,
    task: LookupTask,
    cost: Cost,
    /// Bytes that the first stage holds while it computes the vectors of one subtable.
    generating: u64,
    /// Bytes of the result of the first stage, for each subtable.
    generated: u64,
    /// Bytes that the second stage holds in addition.
    combining: u64,
}

impl<'a> Counter<'a> {
    fn new(parameters: &'a CkksParameters, task: LookupTask) -> Self {
        Counter { parameters, task, cost: Cost::default(), generating: 0, generated: 0, combining: 0 }
    }

    /// Counts a run on queries at level `top`.
    fn run(&mut self, plan: LookupPlan, top: usize) -> Option<()> {
        let task = self.task;
        let n = task.columns / 2;
        let l = task.subtables;
        let input = LevelScale { level: top, scale: query_scale(self.parameters, top) };
        // Complex rows: two per pair.
        let rows = match task.form {
            OutputForm::Rows => task.rows,
            OutputForm::Pairs => 2 * task.rows.div_ceil(2),
        };
        let outputs = if task.form == OutputForm::Rows { task.rows } else { task.rows.div_ceil(2) };
        match plan {
            LookupPlan::Paper => {
                let shapes = self.powers(input, n, l)?;
                shapes.iter().for_each(|shape| self.conjugations(shape.level, l));
                // The differences; `conjugations` has counted the sums.
                shapes.iter().for_each(|shape| self.sums(shape.level, l));
                // Every power, its real and its imaginary part.
                self.generating *= 3;
                let level = shapes[n - 1].level;
                self.real_matrix(level, 2 * n - 1);
            }
            LookupPlan::Indicator => {
                let last = top.checked_sub(indicator_squarings(task.columns) + 1)?;
                for level in last + 1..=top {
                    self.products(level, l * task.columns);
                }
                // All columns at the last level, and the intermediate vectors of one column.
                self.generating = self.vectors(task.columns, last) + self.vectors(3, top);
                self.real_matrix(last, task.columns);
            }
            LookupPlan::OneHot => {
                self.generating = self.vectors(task.columns, top);
                self.real_matrix(top, task.columns);
            }
            LookupPlan::ComplexFirst => {
                let shapes = self.powers(input, n, l)?;
                let level = shapes[n - 1].level;
                self.generated = self.vectors(n, level);
                self.matrix(level, 2, rows, n);
                self.conjugations(level, outputs);
                self.combining = self.vectors(self.summands() * rows, level).max(self.vectors(rows + outputs, level));
            }
            LookupPlan::LazyLast => self.lazy_last(input, rows, outputs)?,
            LookupPlan::BabyGiant { babies } => self.baby_giant(input, babies, rows, outputs)?,
            LookupPlan::Cosine { babies } => self.cosine(input, babies, rows)?,
        }
        Some(())
    }

    /// Counts products of the upper half of the powers that are relinearised after the matrices.
    fn lazy_last(&mut self, input: LevelScale, rows: usize, outputs: usize) -> Option<()> {
        let (half, subtables) = (self.task.columns / 4, self.task.subtables);
        let shapes = self.powers(input, half, subtables)?;
        let level = shapes[half - 1].level;
        self.tensors(level, subtables * half);
        // The upper half has three components.
        let upper = |counter: &Self, vectors: usize| counter.polynomials(3 * vectors, level);
        self.generated = self.vectors(half, level) + upper(self, half);
        self.generating += upper(self, half);
        self.matrix(level, 2, rows, half);
        self.matrix(level, 3, rows, half);
        self.cost += Cost::addition(self.ring(), self.parameters.basis(level), 3).times(rows as u64);
        self.relinearisations(level, rows);
        self.conjugations(level - 1, outputs);
        self.combining = self.vectors(rows, level) + upper(self, self.summands() * rows);
        let finishing = self.vectors(rows, level) + upper(self, rows) + self.vectors(rows, level - 1);
        self.combining = self.combining.max(finishing);
        Some(())
    }

    /// Counts combinations of baby powers, multiplied by giant powers.
    fn baby_giant(&mut self, input: LevelScale, babies: usize, rows: usize, outputs: usize) -> Option<()> {
        let subtables = self.task.subtables;
        let low = self.powers(input, babies, subtables)?;
        let generating = self.generating;
        let giants = self.powers(low[babies - 1], self.task.columns / 2 / babies - 1, subtables)?;
        self.generating += generating;
        let level = self.giant_steps(rows, babies, &giants)?;
        self.generated = self.vectors(babies + giants.len(), level);
        self.relinearisations(level, rows);
        self.conjugations(level.checked_sub(1)?, outputs);
        self.combining = self.combining.max(self.vectors(rows + outputs, level - 1));
        Some(())
    }

    /// Counts the same of Chebyshev polynomials.
    fn cosine(&mut self, input: LevelScale, babies: usize, rows: usize) -> Option<()> {
        let subtables = self.task.subtables;
        let shapes = cosine::shapes(input, self.task.columns, babies, self.parameters)?;
        for shape in shapes.babies[1..].iter().chain(&shapes.giants[1..]) {
            self.products(shape.level + 1, subtables);
            // The product is doubled, and another polynomial is scaled and subtracted.
            let limbs = self.parameters.limbs(shape.level + 1);
            self.cost += Cost::elementwise(self.ring(), 20 * limbs).times(subtables as u64);
        }
        let all = shapes.babies.iter().chain(&shapes.giants);
        self.generating = all.map(|shape| self.vectors(1, shape.level)).sum();
        let level = self.giant_steps(rows, babies, &shapes.giants)?;
        self.generated = self.vectors(babies + shapes.giants.len(), level);
        self.relinearisations(level, rows);
        Some(())
    }

    /// The peak memory of a run on queries at `level`, plus a product and its relinearisation at that level.
    fn working_bytes(&self, level: usize) -> u64 {
        let subtables = self.task.subtables as u64;
        let generating = (subtables - 1) * self.generated + self.generating;
        let combining = subtables * self.generated + self.combining;
        let product = |level: usize| self.polynomials(3, level) + key_switch_bytes(self.parameters, level);
        let live = generating.max(combining) + product(level);
        // Everything that either stage holds, results of matrices twice, and a product of every level.
        let touched = self.generating + combining + self.combining + (0..=level).map(product).sum::<u64>();
        with_idle_buffers(self.parameters, live, touched.saturating_sub(live))
    }

    fn ring(&self) -> &'a Ring {
        self.parameters.ring()
    }

    /// Bytes of `count` polynomials.
    fn polynomials(&self, count: usize, level: usize) -> u64 {
        (count * self.ring().poly_bytes(self.parameters.basis(level))) as u64
    }

    /// Bytes of `count` vectors of two components.
    fn vectors(&self, count: usize, level: usize) -> u64 {
        count as u64 * vector_bytes(self.parameters, level)
    }

    /// Number of lists of rows that the sum over the subtables holds at the same time: the sums so far, the next rows,
    /// and the new sums.
    fn summands(&self) -> usize {
        if self.task.subtables > 1 { 3 } else { 1 }
    }

    /// Counts real matrices over `columns` parts of each subtable, and a rescale of every row.
    fn real_matrix(&mut self, level: usize, columns: usize) {
        let rows = self.task.rows;
        self.generated = self.vectors(columns, level);
        self.matrix(level, 2, rows, columns);
        let (from, to) = (self.parameters.basis(level), self.parameters.basis(level - 1));
        self.cost += Cost::rescale(self.ring(), from, to, 2).times(rows as u64);
        let rescaling = self.vectors(rows, level) + self.vectors(2 * rows, level - 1);
        self.combining = self.vectors(self.summands() * rows, level).max(rescaling);
    }

    /// Counts the combinations of the babies, and the products with a giant for all but the first of a row. Returns
    /// their level.
    fn giant_steps(&mut self, rows: usize, babies: usize, giants: &[LevelScale]) -> Option<usize> {
        let level = giants.iter().map(|s| s.level).min()?;
        let (groups, subtables) = (giants.len() + 1, self.task.subtables);
        let products = subtables * rows * giants.len();
        self.cost +=
            Cost::matrix(self.ring(), self.parameters.basis(level), 2, (rows * groups, babies)).times(subtables as u64);
        self.tensors(level, products);
        let sums = Cost::addition(self.ring(), self.parameters.basis(level), 3);
        self.cost += sums.times((rows * (subtables * groups - 1)) as u64);
        let block = block_rows(groups).min(rows);
        self.combining = self.vectors(block * groups, level) + self.polynomials(3 * (block + 2), level);
        self.combining += self.vectors(rows, level - 1);
        Some(level)
    }

    /// Counts `a^1 .. a^count` for `times` subtables, and sets the memory of the first stage to the powers of one
    /// subtable.
    fn powers(&mut self, start: LevelScale, count: usize, times: usize) -> Option<Vec<LevelScale>> {
        let shapes = power_shapes(start, count, self.parameters)?;
        for shape in &shapes[1..] {
            self.products(shape.level + 1, times);
        }
        self.generating = shapes.iter().map(|shape| self.vectors(1, shape.level)).sum();
        Some(shapes)
    }

    /// Counts relinearised and rescaled products at `level`.
    fn products(&mut self, level: usize, count: usize) {
        self.tensors(level, count);
        self.relinearisations(level, count);
    }

    fn tensors(&mut self, level: usize, count: usize) {
        self.cost += Cost::tensor(self.ring(), self.parameters.basis(level)).times(count as u64);
    }

    fn relinearisations(&mut self, level: usize, count: usize) {
        let below = self.parameters.basis(level.saturating_sub(1));
        let mut cost = Cost::key_switch(self.ring(), self.parameters.basis(level), below);
        cost.rescales = 1;
        self.cost += cost.times(count as u64);
    }

    /// Counts conjugations, each followed by a sum.
    fn conjugations(&mut self, level: usize, count: usize) {
        let basis = self.parameters.basis(level);
        self.cost += Cost::key_switch(self.ring(), basis, basis).times(count as u64);
        self.sums(level, count);
    }

    /// Counts sums of vectors.
    fn sums(&mut self, level: usize, count: usize) {
        self.cost += Cost::addition(self.ring(), self.parameters.basis(level), 2).times(count as u64);
    }

    /// Counts one matrix per subtable over vectors with this number of components, and the sums over the subtables.
    fn matrix(&mut self, level: usize, components: usize, rows: usize, columns: usize) {
        let (basis, subtables) = (self.parameters.basis(level), self.task.subtables);
        self.cost += Cost::matrix(self.ring(), basis, components, (rows, columns)).times(subtables as u64);
        self.cost += Cost::addition(self.ring(), basis, components).times((rows * (subtables - 1)) as u64);
    }
}

/// The table that `--explain` prints: one line per plan, the cheapest first, with the bound of its error for entries of
/// mean square 1.
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
                e.working_bytes as f64 / f64::from(1 << 20),
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

    const CLASSIFIER: LookupTask = LookupTask { subtables: 4, rows: 2, columns: 256, form: OutputForm::Pairs };

    fn counted(plan: LookupPlan) -> u64 {
        let parameters = Preset::find("insecure_n11_depth9_scale50").unwrap().build().unwrap();
        let model = CostModel::nominal(&parameters);
        estimate(&parameters, CLASSIFIER, plan, &model).unwrap().cost.total_key_switches()
    }

    #[test]
    fn key_switches_are_those_of_the_formulas() {
        assert_eq!(counted(LookupPlan::Paper), 4 * (127 + 128));
        assert_eq!(counted(LookupPlan::ComplexFirst), 4 * 127 + 1);
        assert_eq!(counted(LookupPlan::LazyLast), 4 * 63 + 2 + 1);
        assert_eq!(counted(LookupPlan::BabyGiant { babies: 16 }), 4 * (15 + 6) + 2 + 1);
    }

    #[test]
    fn real_slots_have_their_own_plan() {
        let parameters = Preset::find("insecure_n11_real_depth9_scale50").unwrap().build().unwrap();
        let model = CostModel::nominal(&parameters);
        let rows = LookupTask { form: OutputForm::Rows, ..CLASSIFIER };
        let found = estimates(&parameters, rows, &model);
        assert_eq!(found.len(), 7, "cosines alone: an indicator needs more levels");
        assert!(found.iter().all(|e| matches!(e.plan, LookupPlan::Cosine { .. })));
        let sixteen = estimate(&parameters, rows, LookupPlan::Cosine { babies: 16 }, &model).unwrap();
        assert_eq!(sixteen.cost.total_key_switches(), 4 * (16 + 16 - 3) + 2);
        assert!(estimates(&parameters, CLASSIFIER, &model).is_empty(), "pairs need complex slots");
    }

    #[test]
    fn the_best_plan_for_a_classifier_has_few_babies() {
        let parameters = Preset::find("insecure_n11_depth9_scale50").unwrap().build().unwrap();
        let best = best_plan(&parameters, CLASSIFIER).unwrap();
        assert!(matches!(best, LookupPlan::BabyGiant { babies: 4..=32 }), "{best}");
        let narrower = LookupTask { columns: 200, ..CLASSIFIER };
        assert_eq!(best_plan(&parameters, narrower).unwrap(), best, "padded to 256");
        let shallow = LookupTask { columns: 4096, ..CLASSIFIER };
        assert!(best_plan(&parameters, shallow).unwrap_err().to_string().contains("deeper preset"));
    }
}
