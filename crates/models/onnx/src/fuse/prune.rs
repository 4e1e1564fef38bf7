//! Steps that no output needs.

use crate::lower::{Lowered, Step};

/// Whether an output needs each value.
pub(super) fn needed(inputs: usize, steps: &[Step], outputs: &[(String, usize)]) -> Vec<bool> {
    let mut needed = vec![false; inputs + steps.len()];
    for (_, value) in outputs {
        needed[*value] = true;
    }
    for (place, step) in steps.iter().enumerate().rev() {
        if needed[inputs + place] {
            step.inputs.iter().for_each(|&value| needed[value] = true);
        }
    }
    needed
}

/// Removes the steps that no output needs. Inputs stay.
pub(super) fn prune(lowered: &mut Lowered) {
    let inputs = lowered.inputs.len();
    let needed = needed(inputs, &lowered.steps, &lowered.outputs);
    let mut next = inputs;
    let number = |(value, &needed): (usize, &bool)| {
        if value < inputs {
            return value;
        }
        next += usize::from(needed);
        next - usize::from(needed)
    };
    let renamed: Vec<usize> = needed.iter().enumerate().map(number).collect();
    let mut place = inputs;
    lowered.steps.retain(|_| {
        place += 1;
        needed[place - 1]
    });
    lowered.steps.iter_mut().flat_map(|step| step.inputs.iter_mut()).for_each(|value| *value = renamed[*value]);
    lowered.outputs.iter_mut().for_each(|(_, value)| *value = renamed[*value]);
}
