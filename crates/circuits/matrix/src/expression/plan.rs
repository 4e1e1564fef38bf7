//! From an expression to a program: methods chosen, masks placed, keys and levels counted.

use std::collections::BTreeMap;

use unspoken_ckks::{Complex64, CostModel, Encoder, Simulated, Simulator};

use super::program::{Program, Step};
use super::{Expression, Operation};
use crate::encrypted::EncryptedMatrix;
use crate::error::{MatrixError, shape_error, shown};
use crate::layout::Layout;
use crate::linear::{Input, LinearMap};
use crate::product::{Product, Task, estimates};
use crate::reduce::{Cleaning, MatrixVector, Sum};

/// What a program may take.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Budget {
    /// The most rotation keys of a product of two matrices; no bound if none.
    pub most_keys: Option<usize>,
}

/// Plans an expression for inputs at `level` (and the parameters' scale), laid out as `layout` says. Products take the
/// method that is predicted to be fastest within the budget; where the levels do not reach for that, the shallowest.
///
/// # Errors
/// If an input is used with two shapes, the levels do not reach even so (the message says how many would), or no method
/// fits the budget.
pub fn plan(
    encoder: &Encoder,
    expression: &Expression,
    layout: Layout,
    level: usize,
    budget: Budget,
) -> Result<Program, MatrixError> {
    match Planner::new(encoder, layout, level, budget, false).plan(expression) {
        Err(MatrixError::Depth { .. }) => {}
        done => return done,
    }
    let missing = match Planner::new(encoder, layout, level, budget, true).plan(expression) {
        Err(MatrixError::Depth { .. }) => level,
        done => return done,
    };
    let highest = encoder.parameters().max_level();
    let needed = (missing + 1..=highest)
        .find(|&level| Planner::new(encoder, layout, level, budget, true).plan(expression).is_ok());
    let (needed, remedy) = match needed {
        Some(level) => (level, format!("encrypt the inputs at level {level} or above")),
        None => (highest + 1, format!("preset '{}' has {highest}: use a deeper one", encoder.parameters().name())),
    };
    Err(MatrixError::Depth { operation: "the expression", found: level, needed, remedy })
}

struct Planner<'a> {
    encoder: &'a Encoder,
    simulator: Simulator,
    model: CostModel,
    layout: Layout,
    level: usize,
    budget: Budget,
    /// Only the methods that spend the fewest levels.
    shallow: bool,
    inputs: Vec<Option<(usize, usize)>>,
    steps: Vec<Step>,
    lines: Vec<String>,
    results: Vec<Option<EncryptedMatrix<Simulated>>>,
}

impl<'a> Planner<'a> {
    fn new(encoder: &'a Encoder, layout: Layout, level: usize, budget: Budget, shallow: bool) -> Self {
        Planner {
            encoder,
            simulator: Simulator::counting(encoder),
            model: CostModel::nominal(encoder.parameters()),
            layout,
            level,
            budget,
            shallow,
            inputs: Vec::new(),
            steps: Vec::new(),
            lines: Vec::new(),
            results: Vec::new(),
        }
    }

    /// Each part is made ready for the level and scale its operands have in a run that only counts, then counted itself.
    fn plan(mut self, expression: &Expression) -> Result<Program, MatrixError> {
        let mut steps: BTreeMap<usize, usize> = BTreeMap::new();
        // Masked copies of results, so that each is masked once.
        let mut cleaned: BTreeMap<usize, usize> = BTreeMap::new();
        for part in expression.parts() {
            let operands: Vec<usize> =
                part.node().operation.operands().iter().filter_map(|o| steps.get(&o.id()).copied()).collect();
            let step = self.step(&part, &operands, &mut cleaned)?;
            steps.insert(part.id(), step);
        }
        let output = self.results.last().and_then(Option::as_ref);
        let output = output.ok_or_else(|| shape_error("plan an expression", "no parts; this is a bug"))?;
        let (output_level, _) = output.form(&self.simulator)?;
        let cost = self.simulator.cost();
        Ok(Program {
            layout: self.layout,
            inputs: self.inputs,
            steps: self.steps,
            lines: self.lines,
            level: self.level,
            output_level,
            keys: self.simulator.key_plan(),
            seconds: self.model.seconds(&cost),
            cost,
        })
    }

    /// Adds a step and counts it; its number.
    fn push(&mut self, step: Step) -> Result<usize, MatrixError> {
        let result = match &step {
            Step::Input(index) => self.input(*index)?,
            step => step.run(&self.simulator, &[], &self.results)?,
        };
        let operands: Vec<String> =
            step.operands().into_iter().flatten().map(|operand| format!("#{operand}")).collect();
        let (level, _) = result.form(&self.simulator)?;
        let (name, shape) = (step.name(), shown(result.shape()));
        let of = if operands.is_empty() { String::new() } else { format!(" of {}", operands.join(", ")) };
        self.lines.push(format!("#{}: {name}{of}, {shape}, level {level}", self.steps.len()));
        self.steps.push(step);
        self.results.push(Some(result));
        Ok(self.steps.len() - 1)
    }

    /// A stand-in for an input.
    fn input(&self, index: usize) -> Result<EncryptedMatrix<Simulated>, MatrixError> {
        let shape = self.inputs.get(index).copied().flatten().unwrap_or((1, 1));
        let scale = self.encoder.parameters().scale();
        let level = self.level.min(self.encoder.parameters().max_level());
        let count = self.layout.tiles(shape.0) * self.layout.tiles(shape.1);
        let tile = |_| self.simulator.encrypt(&[Complex64::default()], level, scale);
        EncryptedMatrix::from_tiles(self.layout, shape, 1, (0..count).map(tile).collect::<Result<_, _>>()?)
    }

    fn result(&self, step: usize) -> Result<&EncryptedMatrix<Simulated>, MatrixError> {
        let there = self.results.get(step).and_then(Option::as_ref);
        there.ok_or_else(|| shape_error("plan an expression", format!("step {step} has no result; this is a bug")))
    }

    /// Shape, level and scale of a result.
    fn form(&self, step: usize) -> Result<Input, MatrixError> {
        let result = self.result(step)?;
        let (level, scale) = result.form(&self.simulator)?;
        Ok(Input { shape: result.shape(), level, scale })
    }

    /// The step itself if its result is clean, else its cleaning.
    fn clean(&mut self, step: usize, cleaned: &mut BTreeMap<usize, usize>) -> Result<usize, MatrixError> {
        if self.result(step)?.is_clean() {
            return Ok(step);
        }
        if let Some(&done) = cleaned.get(&step) {
            return Ok(done);
        }
        let Input { level, scale, .. } = self.form(step)?;
        let cleaning = Cleaning::new(self.encoder.parameters(), self.layout, level, scale)?;
        let done = self.push(Step::Clean(Box::new(cleaning), step))?;
        cleaned.insert(step, done);
        Ok(done)
    }

    fn step(
        &mut self,
        part: &Expression,
        operands: &[usize],
        cleaned: &mut BTreeMap<usize, usize>,
    ) -> Result<usize, MatrixError> {
        let (parameters, layout) = (self.encoder.parameters(), self.layout);
        let (first, second) = (operands.first().copied().unwrap_or(0), operands.last().copied().unwrap_or(0));
        let linear = |map: LinearMap| Step::Linear(Box::new(map), first);
        let step = match &part.node().operation {
            Operation::Input(index) => {
                self.note_input(*index, part.shape())?;
                Step::Input(*index)
            }
            Operation::MatMul(..) => {
                let (a, b) = (self.clean(first, cleaned)?, self.clean(second, cleaned)?);
                Step::MatMul(Box::new(self.product(a, b)?), a, b)
            }
            Operation::MatrixVector(..) => {
                let x = self.clean(second, cleaned)?;
                let product = MatrixVector::new(parameters, layout, self.form(first)?, self.form(x)?)?;
                Step::MatrixVector(Box::new(product), first, x)
            }
            Operation::Transpose(_) => linear(self.transpose(first)?),
            Operation::Rows(_, rows) => linear(LinearMap::rows(parameters, layout, self.form(first)?, rows)?),
            Operation::Columns(_, columns) => {
                linear(LinearMap::columns(parameters, layout, self.form(first)?, columns)?)
            }
            Operation::TimesLeft(weights, _) => {
                linear(LinearMap::times_left(parameters, layout, self.form(first)?, weights)?)
            }
            Operation::TimesRight(_, weights) => {
                linear(LinearMap::times_right(parameters, layout, self.form(first)?, weights)?)
            }
            Operation::Sum(_, axis) => {
                let Input { level, scale, .. } = self.form(first)?;
                Step::Sum(Box::new(Sum::new(parameters, layout, *axis, level, scale)?), first)
            }
            Operation::Add(..) => Step::Add(first, second),
            Operation::Subtract(..) => Step::Subtract(first, second),
            Operation::Multiply(..) => Step::Multiply(first, second),
            Operation::Scale(_, factor) => Step::Scale(*factor, first),
        };
        self.push(step)
    }

    fn note_input(&mut self, index: usize, shape: (usize, usize)) -> Result<(), MatrixError> {
        /// Inputs are numbered by the caller: a number far beyond is a mistake, and would be allocated for.
        const MOST_INPUTS: usize = 1 << 16;
        if index >= MOST_INPUTS {
            return Err(shape_error("input", format!("number {index}; needed below {MOST_INPUTS}")));
        }
        if self.inputs.len() <= index {
            self.inputs.resize(index + 1, None);
        }
        match self.inputs[index].replace(shape) {
            Some(other) if other != shape => {
                let reason = format!("input {index} is used with two shapes, {other:?} and {shape:?}; needed one");
                Err(shape_error("plan an expression", reason))
            }
            _ => Ok(()),
        }
    }

    /// The transpose in as many factors as is predicted to be fastest: each ends at the same level as one that starts
    /// with the levels it spends. One factor if the shallowest is asked for.
    fn transpose(&self, a: usize) -> Result<LinearMap, MatrixError> {
        let (parameters, form) = (self.encoder.parameters(), self.form(a)?);
        let most = if self.shallow { 1 } else { LinearMap::transpose_depths(self.layout).min(form.level.max(1)) };
        let mut best: Option<(f64, LinearMap)> = None;
        for depth in 1..=most {
            // Compared as they would be if their results were at the same level: the deeper starts higher.
            let level = form.level - (most - depth);
            let seconds = self
                .model
                .seconds(&LinearMap::transpose(parameters, self.layout, Input { level, ..form }, depth)?.tile_cost());
            if best.as_ref().is_none_or(|(least, _)| seconds < *least) {
                best = Some((seconds, LinearMap::transpose(parameters, self.layout, form, depth)?));
            }
        }
        best.map(|(_, map)| map).ok_or_else(|| shape_error("plan a transpose", "no depth; this is a bug"))
    }

    /// The product by the method that is predicted to be fastest, among the shallowest if so asked.
    fn product(&self, a: usize, b: usize) -> Result<Product, MatrixError> {
        let (a, b) = (self.form(a)?, self.form(b)?);
        let level = a.level.min(b.level);
        let output_level = level.checked_sub(2).ok_or_else(|| MatrixError::Depth {
            operation: "matmul",
            found: level,
            needed: 2,
            remedy: "start at a higher level, or use a deeper preset".into(),
        })?;
        let task = Task {
            layout: self.layout,
            shape: (a.shape.0, a.shape.1, b.shape.1),
            // Deeper methods are compared from where they would start: the model is close enough for the choice.
            output_level: output_level.min(self.encoder.parameters().max_level().saturating_sub(3)),
            most_keys: self.budget.most_keys,
        };
        let fits = |depth: usize| if self.shallow { depth <= 2 } else { depth <= level };
        let all = estimates(self.encoder, &self.model, &task)?;
        let best = all.into_iter().map(|estimate| estimate.method).find(|method| fits(method.depth()));
        let method = best.ok_or_else(|| MatrixError::Depth {
            operation: "matmul",
            found: level,
            needed: 3,
            remedy: "start at a higher level, or allow more keys".into(),
        })?;
        Product::new(self.encoder.parameters(), self.layout, method, level, [a.scale, b.scale])
    }
}
