//! The planner: lowers a graph to a program, chooses methods, places masks, and counts keys and levels.

use std::collections::BTreeMap;

use unspoken_ckks::{CkksParameters, Complex64, CostModel, Encoder, Simulated, Simulator};
use unspoken_permute::PlanCache;

use super::Graph;
use super::action::Action;
use super::operation::Operation;
use super::program::{MatrixProgram, Step, last_uses};
use crate::encrypted::EncryptedMatrix;
use crate::error::{EncryptedMatrixError, display_shape, shape_error};
use crate::layout::Layout;
use crate::linear::{LinearMap, Operand};
use crate::permuted::Selection;
use crate::product::{Product, ProductTask, estimates, extended_bytes};
use crate::reduce::{MatrixVector, Sum, TileMask};

/// Limits of a program, and what saves time to plan it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Budget<'a> {
    /// Maximum number of rotation keys of a product of two matrices; no limit if `None`.
    pub most_keys: Option<usize>,
    /// Keeps the plans of permutations. It does not change a program.
    pub cache: Option<&'a PlanCache>,
}

/// Plans the last node of a graph for inputs at `level`, the parameters' scale and this layout. Products use the method
/// that is predicted to be fastest within the budget. If there are too few levels for it, products use the shallowest
/// method.
///
/// # Errors
/// If the graph is empty, there are too few levels even for the shallowest methods (the message says how many are
/// needed), or no method fits the budget.
pub fn plan(
    encoder: &Encoder,
    graph: &Graph,
    layout: Layout,
    level: usize,
    budget: Budget<'_>,
) -> Result<MatrixProgram, EncryptedMatrixError> {
    let attempt = |level, shallow| Planner::new(encoder, graph, layout, level, budget, shallow).plan(graph);
    match attempt(level, false) {
        Err(EncryptedMatrixError::Depth { .. }) => {}
        done => return done,
    }
    let missing = match attempt(level, true) {
        Err(EncryptedMatrixError::Depth { .. }) => level,
        done => return done,
    };
    let highest = encoder.parameters().max_level();
    let needed = (missing + 1..=highest).find(|&level| attempt(level, true).is_ok());
    let (needed, remedy) = match needed {
        Some(level) => (level, format!("encrypt the inputs at level {level} or above")),
        None => (highest + 1, format!("preset '{}' has {highest}: use a deeper one", encoder.parameters().name())),
    };
    Err(EncryptedMatrixError::Depth { operation: "the expression", found: level, needed, remedy })
}

/// Lowers a graph to steps. Each step is prepared for the level and scale that its operands have in a counting run, and
/// is then counted itself. [`Operation::plan`](super::Operation) adds the steps of each operation.
pub(super) struct Planner<'a> {
    encoder: &'a Encoder,
    simulator: Simulator,
    model: CostModel,
    layout: Layout,
    level: usize,
    budget: Budget<'a>,
    /// Whether only the methods with the fewest levels are allowed.
    shallow: bool,
    /// The number of each input, by name.
    input_numbers: BTreeMap<&'a str, usize>,
    inputs: Vec<Option<(usize, usize)>>,
    steps: Vec<Step>,
    lines: Vec<String>,
    results: Vec<EncryptedMatrix<Simulated>>,
    /// For each masked step, the step that masks its result, so that each result is masked at most once.
    masked: BTreeMap<usize, usize>,
}

impl<'a> Planner<'a> {
    fn new(
        encoder: &'a Encoder,
        graph: &'a Graph,
        layout: Layout,
        level: usize,
        budget: Budget<'a>,
        shallow: bool,
    ) -> Self {
        Planner {
            encoder,
            simulator: Simulator::counting(encoder),
            model: CostModel::nominal(encoder.parameters()),
            layout,
            level,
            budget,
            shallow,
            input_numbers: graph.inputs().enumerate().map(|(number, (name, _))| (name, number)).collect(),
            inputs: vec![None; graph.inputs().count()],
            steps: Vec::new(),
            lines: Vec::new(),
            results: Vec::new(),
            masked: BTreeMap::new(),
        }
    }

    fn plan(mut self, graph: &Graph) -> Result<MatrixProgram, EncryptedMatrixError> {
        let mut steps: BTreeMap<usize, usize> = BTreeMap::new();
        for (number, operands) in graph.evaluation_order() {
            let operands: Vec<usize> = operands.iter().filter_map(|operand| steps.get(operand).copied()).collect();
            let step = graph.nodes()[number].operation().plan(&mut self, &operands)?;
            steps.insert(number, step);
        }
        let output = self.results.last();
        let output = output.ok_or_else(|| shape_error("plan an expression", "no nodes; needed at least one"))?;
        let (output_level, _) = output.level_and_scale(&self.simulator)?;
        let cost = self.simulator.cost();
        let (prepared_bytes, working_bytes) = self.memory();
        Ok(MatrixProgram {
            layout: self.layout,
            inputs: self.inputs,
            steps: self.steps,
            lines: self.lines,
            level: self.level,
            output_level,
            keys: self.simulator.key_plan(),
            seconds: self.model.seconds(&cost),
            cost,
            prepared_bytes,
            working_bytes,
        })
    }

    /// Bytes of the encoded plaintexts of all steps, and the maximum bytes of ciphertexts held during a run.
    fn memory(&self) -> (u64, u64) {
        let level = |step: usize| {
            let found = self.results[step].level_and_scale(&self.simulator);
            found.map_or(self.level, |(level, _)| level)
        };
        let bytes = |count: usize, level: usize| {
            // A product before its relinearisation has three polynomials.
            3 * count as u64 * extended_bytes(self.parameters(), level) as u64
        };
        let last = last_uses(&self.steps);
        let (mut prepared, mut live, mut most) = (0, 0, 0);
        for (number, step) in self.steps.iter().enumerate() {
            let from = step.operands.iter().map(|&operand| level(operand)).max().unwrap_or(level(number));
            let tiles: Vec<usize> = step.operands.iter().map(|&operand| self.results[operand].tiles().len()).collect();
            let result = bytes(self.results[number].tiles().len(), level(number));
            prepared += step.action.prepared_bytes(self.parameters(), from) as u64;
            most = most.max(live + result + bytes(step.action.working_ciphertexts(self.parameters(), &tiles), from));
            live += result;
            let mut dropped: Vec<usize> = step.operands.iter().copied().filter(|&o| last[o] == number).collect();
            dropped.dedup();
            live -= dropped.iter().map(|&o| bytes(self.results[o].tiles().len(), level(o))).sum::<u64>();
        }
        (prepared, most)
    }

    pub(super) fn parameters(&self) -> &CkksParameters {
        self.encoder.parameters()
    }

    pub(super) fn layout(&self) -> Layout {
        self.layout
    }

    /// Adds a step and counts it. Returns its number.
    pub(super) fn push(&mut self, action: Action, operands: Vec<usize>) -> Result<usize, EncryptedMatrixError> {
        let result = match &action {
            Action::Input(number) => self.stand_in(self.inputs.get(*number).copied().flatten().unwrap_or((1, 1)))?,
            Action::Constant(values) => self.stand_in(values.dim())?,
            action => {
                let results = operands.iter().map(|&operand| self.result(operand)).collect::<Result<Vec<_>, _>>()?;
                action.run(&self.simulator, &results)?
            }
        };
        let names: Vec<String> = operands.iter().map(|operand| format!("#{operand}")).collect();
        let (level, _) = result.level_and_scale(&self.simulator)?;
        let (name, shape) = (action.name(), display_shape(result.shape()));
        let of = if names.is_empty() { String::new() } else { format!(" of {}", names.join(", ")) };
        self.lines.push(format!("#{}: {name}{of}, {shape}, level {level}", self.steps.len()));
        self.steps.push(Step { action, operands });
        self.results.push(result);
        Ok(self.steps.len() - 1)
    }

    /// A simulated matrix that replaces an input or a constant of this shape in the counting run.
    fn stand_in(&self, shape: (usize, usize)) -> Result<EncryptedMatrix<Simulated>, EncryptedMatrixError> {
        let scale = self.parameters().scale();
        let level = self.level.min(self.parameters().max_level());
        let count = self.layout.tiles(shape);
        let tile = |_| self.simulator.encrypt(&[Complex64::default()], level, scale);
        EncryptedMatrix::from_tiles(self.layout, shape, 1, (0..count).map(tile).collect::<Result<_, _>>()?)
    }

    /// The number of an input that the graph uses.
    pub(super) fn input_number(&mut self, name: &str, shape: (usize, usize)) -> Result<usize, EncryptedMatrixError> {
        let number = self.input_numbers.get(name).copied();
        let number = number.ok_or_else(|| shape_error("input", format!("'{name}' has no number; this is a bug")))?;
        self.inputs[number] = Some(shape);
        Ok(number)
    }

    fn result(&self, step: usize) -> Result<&EncryptedMatrix<Simulated>, EncryptedMatrixError> {
        let there = self.results.get(step);
        there.ok_or_else(|| shape_error("plan an expression", format!("step {step} has no result; this is a bug")))
    }

    /// Shape, level and scale of the result of a step.
    pub(super) fn operand(&self, step: usize) -> Result<Operand, EncryptedMatrixError> {
        let result = self.result(step)?;
        let (level, scale) = result.level_and_scale(&self.simulator)?;
        Ok(Operand { shape: result.shape(), level, scale })
    }

    /// The number of the step itself if its result is clean, else of a step that masks the result.
    pub(super) fn clean(&mut self, step: usize) -> Result<usize, EncryptedMatrixError> {
        if self.result(step)?.is_clean() {
            return Ok(step);
        }
        if let Some(&masked) = self.masked.get(&step) {
            return Ok(masked);
        }
        let Operand { level, scale, .. } = self.operand(step)?;
        let mask = TileMask::new(self.parameters(), self.layout, level, scale)?;
        let masked = self.push(Action::Mask(Box::new(mask)), vec![step])?;
        self.masked.insert(step, masked);
        Ok(masked)
    }

    /// Where plans of permutations are kept.
    pub(super) fn cache(&self) -> Option<&'a PlanCache> {
        self.budget.cache
    }

    /// Maximum number of levels of a method that has a choice.
    pub(super) fn depth_limit(&self) -> usize {
        if self.shallow { 1 } else { usize::MAX }
    }

    /// The transpose with the number of factors that is predicted to be fastest. Depths are compared for the same
    /// output level. There is one factor if only the shallowest methods are allowed.
    pub(super) fn choose_transpose(&self, a: usize) -> Result<LinearMap, EncryptedMatrixError> {
        let (parameters, operand) = (self.parameters(), self.operand(a)?);
        let most = if self.shallow { 1 } else { LinearMap::transpose_depths(self.layout).min(operand.level.max(1)) };
        let mut best: Option<(f64, LinearMap)> = None;
        for depth in 1..=most {
            // For equal output levels: a deeper transpose starts at a higher level.
            let start = Operand { level: operand.level - (most - depth), ..operand };
            let compared = LinearMap::transpose(parameters, self.layout, start, depth)?;
            let seconds = self.model.seconds(&compared.tile_cost());
            if best.as_ref().is_none_or(|(least, _)| seconds < *least) {
                best = Some((seconds, LinearMap::transpose(parameters, self.layout, operand, depth)?));
            }
        }
        best.map(|(_, map)| map).ok_or_else(|| shape_error("plan a transpose", "no depth; this is a bug"))
    }

    /// The product by the method that is predicted to be fastest, among the shallowest methods if only those are
    /// allowed.
    pub(super) fn choose_product(&self, a: usize, b: usize) -> Result<Product, EncryptedMatrixError> {
        let (a, b) = (self.operand(a)?, self.operand(b)?);
        let level = a.level.min(b.level);
        let output_level = level.checked_sub(2).ok_or_else(|| EncryptedMatrixError::Depth {
            operation: "matmul",
            found: level,
            needed: 2,
            remedy: "start at a higher level, or use a deeper preset".into(),
        })?;
        let task = ProductTask {
            layout: self.layout,
            shape: (a.shape.0, a.shape.1, b.shape.1),
            // All methods are compared for this output level, so deeper ones start higher than `level`. That is
            // accurate enough for the choice.
            output_level: output_level.min(self.parameters().max_level().saturating_sub(3)),
            most_keys: self.budget.most_keys,
        };
        let fits = |depth: usize| if self.shallow { depth <= 2 } else { depth <= level };
        let all = estimates(self.encoder, &self.model, &task)?;
        let best = all.into_iter().map(|estimate| estimate.method).find(|method| fits(method.depth()));
        let method = best.ok_or_else(|| EncryptedMatrixError::Depth {
            operation: "matmul",
            found: level,
            needed: 3,
            remedy: "start at a higher level, or allow more keys".into(),
        })?;
        Product::new(self.parameters(), self.layout, method, level, [a.scale, b.scale])
    }
}

impl Operation {
    /// Adds the steps that compute the operation to a plan and returns the number of the last one. `operands` are
    /// numbers of steps.
    fn plan(&self, planner: &mut Planner<'_>, operands: &[usize]) -> Result<usize, EncryptedMatrixError> {
        let (parameters, layout) = (planner.parameters().clone(), planner.layout());
        let (action, operands) = match (self, operands) {
            (Operation::Input { name, shape }, []) => (Action::Input(planner.input_number(name, *shape)?), vec![]),
            (Operation::Constant(values), []) => (Action::Constant(values.clone()), vec![]),
            (Operation::MatMul, &[a, b]) => {
                let (a, b) = (planner.clean(a)?, planner.clean(b)?);
                (Action::MatMul(Box::new(planner.choose_product(a, b)?)), vec![a, b])
            }
            (Operation::MatrixVector, &[a, x]) => {
                let x = planner.clean(x)?;
                let product = MatrixVector::new(&parameters, layout, planner.operand(a)?, planner.operand(x)?)?;
                (Action::MatrixVector(Box::new(product)), vec![a, x])
            }
            (Operation::Transpose, &[a]) => (Action::linear(planner.choose_transpose(a)?), vec![a]),
            (Operation::Rows(rows), &[a]) => {
                (Action::linear(LinearMap::rows(&parameters, layout, planner.operand(a)?, rows)?), vec![a])
            }
            (Operation::Columns(columns), &[a]) => {
                let (input, depth) = (planner.operand(a)?, planner.depth_limit());
                let action = match Selection::plan(&parameters, layout, input, columns, (depth, planner.cache()))? {
                    Selection::Permutation(permutation) => Action::Permute(permutation),
                    Selection::Long(permutation) => Action::PermuteLong(permutation),
                    Selection::Map(map) => Action::Linear(map),
                };
                (action, vec![a])
            }
            (Operation::TimesLeft(weights), &[a]) => {
                (Action::linear(LinearMap::times_left(&parameters, layout, planner.operand(a)?, weights)?), vec![a])
            }
            (Operation::TimesRight(weights), &[a]) => {
                (Action::linear(LinearMap::times_right(&parameters, layout, planner.operand(a)?, weights)?), vec![a])
            }
            (Operation::Sum(axis), &[a]) => {
                let input = planner.operand(a)?;
                let sum = Sum::new(&parameters, layout, *axis, input.level, input.scale)?;
                (Action::Sum(Box::new(sum)), vec![a])
            }
            (Operation::Reshape(shape), &[a]) => {
                (Action::linear(LinearMap::reshape(&parameters, layout, planner.operand(a)?, *shape)?), vec![a])
            }
            (Operation::Add, &[a, b]) => (Action::Add, vec![a, b]),
            (Operation::Subtract, &[a, b]) => (Action::Subtract, vec![a, b]),
            (Operation::Multiply, &[a, b]) => (Action::Multiply, vec![a, b]),
            (Operation::Scale(factor), &[a]) => (Action::Scale(*factor), vec![a]),
            (_, operands) => return Err(self.refuse_operands(operands.len())),
        };
        planner.push(action, operands)
    }
}
