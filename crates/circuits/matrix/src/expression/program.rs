//! Planned expressions: what they need, and how they run.

use unspoken_ckks::{Arithmetic, Cost};
use unspoken_rlwe::KeyPlan;

use crate::elementwise;
use crate::encrypted::EncryptedMatrix;
use crate::error::{MatrixError, shape_error, shown};
use crate::layout::Layout;
use crate::linear::LinearMap;
use crate::product::{Method, Product};
use crate::reduce::{Cleaning, MatrixVector, Sum};

/// An expression made ready: for one layout, from one level. Its plaintexts are encoded once, at their first encrypted use.
pub struct Program {
    pub(super) layout: Layout,
    /// Shape of each input, where the expression uses it.
    pub(super) inputs: Vec<Option<(usize, usize)>>,
    pub(super) steps: Vec<Step>,
    /// A line on each step.
    pub(super) lines: Vec<String>,
    pub(super) level: usize,
    pub(super) output_level: usize,
    pub(super) keys: KeyPlan,
    pub(super) cost: Cost,
    pub(super) seconds: f64,
}

/// One operation on the results of steps before it.
pub(super) enum Step {
    Input(usize),
    MatMul(Box<Product>, usize, usize),
    MatrixVector(Box<MatrixVector>, usize, usize),
    Linear(Box<LinearMap>, usize),
    Sum(Box<Sum>, usize),
    Clean(Box<Cleaning>, usize),
    Scale(f64, usize),
    Add(usize, usize),
    Subtract(usize, usize),
    Multiply(usize, usize),
}

impl Step {
    /// The steps whose results it takes.
    pub(super) fn operands(&self) -> [Option<usize>; 2] {
        match *self {
            Step::Input(_) => [None; 2],
            Step::Linear(_, a) | Step::Sum(_, a) | Step::Clean(_, a) | Step::Scale(_, a) => [Some(a), None],
            Step::MatMul(_, a, b)
            | Step::MatrixVector(_, a, b)
            | Step::Add(a, b)
            | Step::Subtract(a, b)
            | Step::Multiply(a, b) => [Some(a), Some(b)],
        }
    }

    /// What it is called, and by which method it is done.
    pub(super) fn name(&self) -> String {
        match self {
            Step::Input(index) => format!("input {index}"),
            Step::MatMul(product, ..) => format!("matmul by {}", product.method()),
            Step::MatrixVector(..) => "matrix times vector".into(),
            Step::Linear(map, _) => match map.depth() {
                1 => map.operation().into(),
                depth => format!("{} in {depth} factors", map.operation()),
            },
            Step::Sum(..) => "sum".into(),
            Step::Clean(..) => "clean".into(),
            Step::Scale(factor, _) => format!("scale by {factor}"),
            Step::Add(..) => "add".into(),
            Step::Subtract(..) => "subtract".into(),
            Step::Multiply(..) => "multiply".into(),
        }
    }

    /// Its result, given those of steps before it.
    pub(super) fn run<A: Arithmetic>(
        &self,
        arithmetic: &A,
        inputs: &[EncryptedMatrix<A::Vector>],
        results: &[Option<EncryptedMatrix<A::Vector>>],
    ) -> Result<EncryptedMatrix<A::Vector>, MatrixError> {
        let result = |step: usize| {
            let there = results.get(step).and_then(Option::as_ref);
            there.ok_or_else(|| shape_error("run an expression", format!("step {step} has no result; this is a bug")))
        };
        match self {
            Step::Input(index) => {
                let missing =
                    || shape_error("run an expression", format!("no input {index}; {} are given", inputs.len()));
                Ok(inputs.get(*index).ok_or_else(missing)?.clone())
            }
            Step::MatMul(product, a, b) => product.apply(arithmetic, result(*a)?, result(*b)?),
            Step::MatrixVector(product, a, x) => product.apply(arithmetic, result(*a)?, result(*x)?),
            Step::Linear(map, a) => map.apply(arithmetic, result(*a)?),
            Step::Sum(sum, a) => sum.apply(arithmetic, result(*a)?),
            Step::Clean(cleaning, a) => cleaning.apply(arithmetic, result(*a)?),
            Step::Scale(factor, a) => elementwise::scale(arithmetic, result(*a)?, *factor),
            Step::Add(a, b) => elementwise::add(arithmetic, result(*a)?, result(*b)?),
            Step::Subtract(a, b) => elementwise::subtract(arithmetic, result(*a)?, result(*b)?),
            Step::Multiply(a, b) => elementwise::multiply(arithmetic, result(*a)?, result(*b)?),
        }
    }
}

impl Program {
    /// How the matrices lie.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The level of the inputs.
    pub fn level(&self) -> usize {
        self.level
    }

    /// The level of the result.
    pub fn output_level(&self) -> usize {
        self.output_level
    }

    /// Exactly the keys it uses.
    pub fn key_plan(&self) -> &KeyPlan {
        &self.keys
    }

    /// Its work.
    pub fn cost(&self) -> &Cost {
        &self.cost
    }

    /// Predicted seconds, for a whole batch.
    pub fn seconds(&self) -> f64 {
        self.seconds
    }

    /// What it does, step by step: operation, operands, shape and level of each result.
    pub fn explain(&self) -> String {
        self.lines.join("\n")
    }

    /// How each product of two matrices is computed, in the order of evaluation.
    pub fn methods(&self) -> Vec<Method> {
        let method = |step: &Step| match step {
            Step::MatMul(product, _, _) => Some(product.method()),
            _ => None,
        };
        self.steps.iter().filter_map(method).collect()
    }

    /// Runs it. Inputs are numbered as in the expression; those it does not use are ignored. What is no longer needed is
    /// dropped on the way.
    ///
    /// # Errors
    /// If an input is missing, of another shape, layout, level or scale than planned for, or keys are missing: all of
    /// them are named before anything is done.
    pub fn run<A: Arithmetic>(
        &self,
        arithmetic: &A,
        inputs: &[EncryptedMatrix<A::Vector>],
    ) -> Result<EncryptedMatrix<A::Vector>, MatrixError> {
        self.check_inputs(arithmetic, inputs)?;
        arithmetic.require_keys("the expression", &self.keys)?;
        let mut last = vec![0; self.steps.len()];
        for (index, step) in self.steps.iter().enumerate() {
            step.operands().into_iter().flatten().for_each(|operand| last[operand] = index);
        }
        let mut results: Vec<Option<EncryptedMatrix<A::Vector>>> = Vec::with_capacity(self.steps.len());
        for (index, step) in self.steps.iter().enumerate() {
            results.push(Some(step.run(arithmetic, inputs, &results)?));
            for operand in step.operands().into_iter().flatten().filter(|&operand| last[operand] == index) {
                results[operand] = None;
            }
        }
        results.pop().flatten().ok_or_else(|| shape_error("run an expression", "no steps; this is a bug"))
    }

    fn check_inputs<A: Arithmetic>(
        &self,
        arithmetic: &A,
        inputs: &[EncryptedMatrix<A::Vector>],
    ) -> Result<(), MatrixError> {
        const OPERATION: &str = "run an expression";
        let scale = arithmetic.parameters().scale();
        for (index, shape) in self.inputs.iter().enumerate() {
            let Some(shape) = *shape else { continue };
            let Some(input) = inputs.get(index) else {
                return Err(shape_error(OPERATION, format!("input {index} is missing; {} are given", inputs.len())));
            };
            if input.shape() != shape || input.layout() != self.layout || !input.is_clean() {
                let reason = format!(
                    "input {index} has shape {}; needed a clean matrix of shape {} in the layout planned for",
                    shown(input.shape()),
                    shown(shape)
                );
                return Err(shape_error(OPERATION, reason));
            }
            let (level, found) = input.form(arithmetic)?;
            if level < self.level || (found / scale - 1.0).abs() > unspoken_ckks::SCALE_TOLERANCE {
                return Err(MatrixError::Layout {
                    operation: OPERATION,
                    found: format!("input {index} at level {level} and scale 2^{:.3}", found.log2()),
                    needed: format!("level {} or above, and the parameters' scale", self.level),
                });
            }
        }
        Ok(())
    }
}
