//! Operations that several nodes of a model describe, and constants that go into a neighbour.

mod affine;
mod composites;
mod merge;
mod prune;

use crate::graph::Operation;
use crate::limits::MAX_FOLDED_BYTES;
use crate::lower::{Lowered, Step, Work};

/// Passes over all steps; each but the last changes something. Models need two or three.
const MAX_PASSES: usize = 32;

/// What becomes of a step.
pub(super) enum Change {
    /// It computes this from other values.
    Compute(Box<Operation>, Vec<usize>),
    /// It is another value.
    Same(usize),
}

/// The steps while they are changed.
pub(super) struct Fusion<'a> {
    inputs: usize,
    input_shapes: Vec<Vec<usize>>,
    steps: &'a mut Vec<Step>,
    outputs: &'a mut Vec<(String, usize)>,
    /// How many operands and outputs each value is.
    uses: Vec<usize>,
    /// Bytes of constants that may still be copied.
    left: usize,
}

/// Finds composed activations and normalisations, then moves affine steps into neighbours.
pub(crate) fn fuse(lowered: &mut Lowered) {
    prune::prune(lowered);
    let inputs = lowered.inputs.len();
    let input_shapes = lowered.inputs.iter().map(|input| input.shape.clone()).collect();
    let Lowered { steps, outputs, .. } = lowered;
    let mut fusion = Fusion { inputs, input_shapes, steps, outputs, uses: Vec::new(), left: MAX_FOLDED_BYTES };
    fusion.repeat(composites::change);
    fusion.repeat(affine::change);
    prune::prune(lowered);
}

impl Fusion<'_> {
    /// Applies a rule to all steps until it changes nothing.
    fn repeat(&mut self, rule: fn(&mut Fusion, usize) -> Option<Change>) {
        for _ in 0..MAX_PASSES {
            let mut changed = false;
            self.count_uses();
            for place in 0..self.steps.len() {
                if let Some(change) = rule(self, place) {
                    self.apply(place, change);
                    changed = true;
                }
            }
            if !changed {
                return;
            }
        }
    }

    /// Counts uses by steps that an output needs.
    fn count_uses(&mut self) {
        let needed = prune::needed(self.inputs, self.steps, self.outputs);
        self.uses = vec![0; self.inputs + self.steps.len()];
        let steps = self.steps.iter().enumerate().filter(|(place, _)| needed[self.inputs + place]);
        let operands = steps.flat_map(|(_, step)| step.inputs.iter().copied());
        for value in operands.chain(self.outputs.iter().map(|(_, value)| *value)) {
            self.uses[value] += 1;
        }
    }

    fn apply(&mut self, place: usize, change: Change) {
        match change {
            Change::Compute(operation, inputs) => {
                for &value in &inputs {
                    self.uses[value] += 1;
                }
                self.steps[place].work = Work::Compute(operation);
                self.steps[place].inputs = inputs;
            }
            Change::Same(value) => {
                let old = self.inputs + place;
                let operands = self.steps.iter_mut().flat_map(|step| step.inputs.iter_mut());
                for operand in operands.chain(self.outputs.iter_mut().map(|(_, value)| value)) {
                    if *operand == old {
                        *operand = value;
                        self.uses[value] += 1;
                    }
                }
            }
        }
    }

    /// The step of a value; none for an input.
    fn step(&self, value: usize) -> Option<&Step> {
        self.steps.get(value.checked_sub(self.inputs)?)
    }

    /// The shape of a row of a value.
    fn shape(&self, value: usize) -> &[usize] {
        match value.checked_sub(self.inputs) {
            Some(place) => &self.steps[place].shape,
            None => &self.input_shapes[value],
        }
    }

    /// The operation of a value, with its operands.
    fn operation(&self, value: usize) -> Option<(&Operation, &[usize])> {
        let step = self.step(value)?;
        match &step.work {
            Work::Compute(operation) => Some((operation, &step.inputs)),
            Work::Finish(_) => None,
        }
    }

    /// Whether only one operand or output is this value.
    fn is_used_once(&self, value: usize) -> bool {
        self.uses[value] == 1
    }

    /// Whether this many more numbers may be copied; counts them.
    fn may_copy(&mut self, numbers: usize) -> bool {
        let bytes = numbers.saturating_mul(size_of::<f32>());
        self.left.checked_sub(bytes).map(|left| self.left = left).is_some()
    }
}
