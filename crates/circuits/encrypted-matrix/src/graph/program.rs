//! Planned graphs: their requirements and their execution.

use ndarray::Array2;
use unspoken_ckks::{Arithmetic, Complex64, Cost};
use unspoken_rlwe::KeyPlan;

use super::action::Action;
use crate::encrypted::{EncryptedMatrix, encode_tiles};
use crate::error::{EncryptedMatrixError, display_shape, shape_error};
use crate::layout::Layout;
use crate::product::Method;

const RUN: &str = "run an expression";

/// A planned graph for one layout and one input level. Its plaintexts are encoded once, at their first encrypted use.
pub struct MatrixProgram {
    pub(super) layout: Layout,
    /// Shape of each input that the result needs; `None` for the others.
    pub(super) inputs: Vec<Option<(usize, usize)>>,
    pub(super) steps: Vec<Step>,
    /// A line of text for each step.
    pub(super) lines: Vec<String>,
    pub(super) level: usize,
    pub(super) output_level: usize,
    pub(super) keys: KeyPlan,
    pub(super) cost: Cost,
    pub(super) seconds: f64,
    pub(super) prepared_bytes: u64,
    pub(super) working_bytes: u64,
}

/// An action on the results of earlier steps.
pub(super) struct Step {
    pub(super) action: Action,
    /// Numbers of the steps whose results are the operands.
    pub(super) operands: Vec<usize>,
}

impl MatrixProgram {
    /// The layout of the matrices.
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

    /// The keys it needs, all of which it uses.
    pub fn key_plan(&self) -> &KeyPlan {
        &self.keys
    }

    /// The operations of a run, as counted by the simulator.
    pub fn cost(&self) -> &Cost {
        &self.cost
    }

    /// Predicted seconds, for a whole batch.
    pub fn seconds(&self) -> f64 {
        self.seconds
    }

    /// Bytes of its encoded plaintexts and masks, which stay in memory after their first use.
    pub fn prepared_bytes(&self) -> u64 {
        self.prepared_bytes
    }

    /// Maximum bytes of ciphertexts that a run holds at the same time, including its inputs: an upper estimate.
    pub fn working_bytes(&self) -> u64 {
        self.working_bytes
    }

    /// A line of text for each step: operation, operands, and shape and level of the result.
    pub fn explain(&self) -> String {
        self.lines.join("\n")
    }

    /// The method of each product of two matrices, in the order of evaluation.
    pub fn methods(&self) -> Vec<Method> {
        self.steps.iter().filter_map(|step| step.action.method()).collect()
    }

    /// Runs the program. Inputs are in the order of [`Graph::inputs`](super::Graph::inputs); inputs that the result
    /// does not need are ignored. A result is dropped when no later step needs it.
    ///
    /// # Errors
    /// If an input is missing, its shape, layout, level or scale is not the planned one, or keys are missing. The error
    /// names all missing keys, before any computation starts.
    pub fn run<A: Arithmetic>(
        &self,
        arithmetic: &A,
        inputs: &[EncryptedMatrix<A::Vector>],
    ) -> Result<EncryptedMatrix<A::Vector>, EncryptedMatrixError> {
        self.run_observed(arithmetic, inputs, |_, _| {})
    }

    /// Same as [`MatrixProgram::run`]; `observe` receives the number and the result of each step.
    pub(super) fn run_observed<A: Arithmetic>(
        &self,
        arithmetic: &A,
        inputs: &[EncryptedMatrix<A::Vector>],
        mut observe: impl FnMut(usize, &EncryptedMatrix<A::Vector>),
    ) -> Result<EncryptedMatrix<A::Vector>, EncryptedMatrixError> {
        self.check_inputs(arithmetic, inputs)?;
        arithmetic.require_keys("the expression", &self.keys)?;
        let last = last_uses(&self.steps);
        let mut results: Vec<Option<EncryptedMatrix<A::Vector>>> = Vec::with_capacity(self.steps.len());
        for (index, step) in self.steps.iter().enumerate() {
            let result = match &step.action {
                Action::Input(number) => input(inputs, *number)?.clone(),
                Action::Constant(values) => self.constant(arithmetic, inputs, values)?,
                action => {
                    let operand = |&operand: &usize| {
                        let there = results.get(operand).and_then(Option::as_ref);
                        there.ok_or_else(|| shape_error(RUN, format!("step {operand} has no result; this is a bug")))
                    };
                    let operands = step.operands.iter().map(operand).collect::<Result<Vec<_>, _>>()?;
                    action.run(arithmetic, &operands)?
                }
            };
            observe(index, &result);
            results.push(Some(result));
            for &operand in step.operands.iter().filter(|&&operand| last[operand] == index) {
                results[operand] = None;
            }
        }
        results.pop().flatten().ok_or_else(|| shape_error(RUN, "no steps; this is a bug"))
    }

    /// A plaintext matrix in the form of an encrypted one, the same for each matrix of the batch. It is a ciphertext of
    /// zeros, which is 0 times an input, plus the values.
    fn constant<A: Arithmetic>(
        &self,
        arithmetic: &A,
        inputs: &[EncryptedMatrix<A::Vector>],
        values: &Array2<f64>,
    ) -> Result<EncryptedMatrix<A::Vector>, EncryptedMatrixError> {
        let reference = input(inputs, self.inputs.iter().position(Option::is_some).unwrap_or(0))?;
        let tile = reference.tiles().first().ok_or_else(|| shape_error(RUN, "an input without tiles"))?;
        let tile = arithmetic.lowered(tile, self.level)?;
        let zero = arithmetic.mul_constant(&tile, Complex64::default(), arithmetic.scale(&tile))?;
        let slots = encode_tiles(self.layout, &vec![values.clone(); reference.batch()])?;
        slots.try_map(|slots| Ok(arithmetic.add_values(&zero, slots)?))
    }

    fn check_inputs<A: Arithmetic>(
        &self,
        arithmetic: &A,
        inputs: &[EncryptedMatrix<A::Vector>],
    ) -> Result<(), EncryptedMatrixError> {
        let scale = arithmetic.parameters().scale();
        for (index, shape) in self.inputs.iter().enumerate() {
            let Some(shape) = *shape else { continue };
            let Some(input) = inputs.get(index) else {
                return Err(shape_error(RUN, format!("input {index} is missing; {} are given", inputs.len())));
            };
            if input.shape() != shape || input.layout() != self.layout || !input.is_clean() {
                let reason = format!(
                    "input {index} has shape {}; needed a clean matrix of shape {} in the layout planned for",
                    display_shape(input.shape()),
                    display_shape(shape)
                );
                return Err(shape_error(RUN, reason));
            }
            let (level, found) = input.level_and_scale(arithmetic)?;
            if level < self.level || (found / scale - 1.0).abs() > unspoken_ckks::SCALE_TOLERANCE {
                return Err(EncryptedMatrixError::Layout {
                    operation: RUN,
                    found: format!("input {index} at level {level} and scale 2^{:.3}", found.log2()),
                    needed: format!("level {} or above, and the parameters' scale", self.level),
                });
            }
        }
        Ok(())
    }
}

/// For each step, the last step that uses its result.
pub(super) fn last_uses(steps: &[Step]) -> Vec<usize> {
    let mut last = vec![0; steps.len()];
    for (index, step) in steps.iter().enumerate() {
        step.operands.iter().for_each(|&operand| last[operand] = index);
    }
    last
}

fn input<V>(inputs: &[EncryptedMatrix<V>], number: usize) -> Result<&EncryptedMatrix<V>, EncryptedMatrixError> {
    inputs.get(number).ok_or_else(|| shape_error(RUN, format!("no input {number}; {} are given", inputs.len())))
}
