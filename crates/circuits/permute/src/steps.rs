//! The steps of a prepared permutation.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use unspoken_ckks::{
    Arithmetic, CkksError, CkksParameters, Complex64, LinearPlan, LinearTransform, PreparedVector, Steps as LinearSteps,
};

use crate::copies::Layer;
use crate::diagonals::{Diagonals, Progression, ShiftSet};
use crate::error::PermuteError;
use crate::network::Network;
use crate::plan::{Operations, PermutationPlan};
use crate::run::{mask_levels, run_network};

/// The operations of a plan with their masks.
pub(crate) enum Steps {
    Stages(Vec<StageStep>),
    Network(Network, Vec<PreparedVector>),
    Copies {
        layers: Vec<LinearTransform>,
        /// The rotations that sum the copies; each doubles the number of copies in the sum.
        doublings: Vec<i64>,
    },
}

pub(crate) enum StageStep {
    /// A stage whose entries all move by the same distance: no mask, no level.
    Rotate(i64),
    Linear(LinearTransform),
}

/// The masks of operations.
#[derive(Clone, Copy)]
pub(crate) enum Masks {
    /// Vectors of this length, 1 at the positions that are kept.
    Values(usize),
    /// One number each: enough to count operations.
    Counted,
}

impl Masks {
    /// The mask that keeps these positions.
    fn of(self, positions: &[u32]) -> Vec<Complex64> {
        let Masks::Values(length) = self else { return vec![Complex64::from(1.0)] };
        let mut mask = vec![Complex64::default(); length];
        positions.iter().for_each(|&position| mask[position as usize] = Complex64::from(1.0));
        mask
    }

    /// The shifts of diagonals, each with its mask.
    fn of_diagonals(self, shifts: &ShiftSet, diagonals: impl FnOnce() -> Diagonals) -> Vec<(i64, Vec<Complex64>)> {
        match self {
            Masks::Values(_) => diagonals().iter().map(|(shift, positions)| (shift, self.of(positions))).collect(),
            Masks::Counted => shifts.iter().map(|shift| (shift, self.of(&[]))).collect(),
        }
    }
}

impl Steps {
    /// The operations of a plan whose result is at `level`, for inputs of scale `scale`.
    pub(crate) fn new(
        parameters: &CkksParameters,
        plan: &PermutationPlan,
        level: usize,
        scale: f64,
        masks: Masks,
    ) -> Result<Self, PermuteError> {
        match plan.program() {
            Operations::Stages(stages) => {
                let (mut below, length) = (level + plan.depth(), plan.length());
                let mut steps = Vec::with_capacity(stages.len());
                for stage in stages {
                    let shifts = stage.shift_set();
                    if let Some(shift) = shifts.single() {
                        steps.push(StageStep::Rotate(shift));
                        continue;
                    }
                    let masks = masks.of_diagonals(&shifts, || stage.diagonals());
                    let plan = linear_plan(parameters, masks, shifts.progression(), stage.babies, (below, scale))?;
                    below -= 1;
                    steps.push(StageStep::Linear(LinearTransform::deferred(plan.with_period(length))));
                }
                Ok(Steps::Stages(steps))
            }
            Operations::Copies(copies) => {
                let (top, period) = (level + plan.depth(), plan.period());
                let layer = |(number, layer): (usize, &Layer)| {
                    let (shifts, at) = (ShiftSet::of_layer(&layer.shifts), (top - number, scale));
                    let masks = masks.of_diagonals(&shifts, || layer.diagonals(period));
                    let plan = linear_plan(parameters, masks, shifts.progression(), layer.babies, at)?;
                    Ok(LinearTransform::deferred(plan.with_period(period)))
                };
                let layers = copies.layers.iter().enumerate().map(layer).collect::<Result<_, PermuteError>>()?;
                Ok(Steps::Copies { layers, doublings: copies.doublings(plan.length()).collect() })
            }
            Operations::Network(network) => {
                let edges = network.nodes.iter().flat_map(|node| &node.edges).chain(network.leaves.values().flatten());
                let positions = edges.filter_map(|edge| edge.mask.as_deref()).zip(mask_levels(network, level));
                let prepare = |(positions, level): (&[u32], usize)| {
                    PreparedVector::new(masks.of(positions), level, parameters.level_modulus(level))
                };
                Ok(Steps::Network(network.clone(), positions.map(prepare).collect::<Result<_, _>>()?))
            }
        }
    }

    /// Bytes of memory of the masks. Masks that are not yet encoded count as encoded.
    pub(crate) fn prepared_bytes(&self, parameters: &CkksParameters) -> u64 {
        match self {
            Steps::Stages(steps) => {
                let linear = |step: &StageStep| match step {
                    StageStep::Rotate(_) => 0,
                    StageStep::Linear(transform) => transform.plan().prepared_bytes(),
                };
                steps.iter().map(linear).sum()
            }
            Steps::Network(_, masks) => masks.iter().map(|mask| mask.prepared_bytes(parameters)).sum(),
            Steps::Copies { layers, .. } => layers.iter().map(LinearTransform::prepared_bytes).sum(),
        }
    }

    /// Permutes an input that is already at the input level; the result is at `level`.
    pub(crate) fn run<A: Arithmetic>(
        &self,
        arithmetic: &A,
        level: usize,
        input: &A::Vector,
    ) -> Result<A::Vector, CkksError> {
        match self {
            Steps::Stages(steps) => {
                let mut vector = Cow::Borrowed(input);
                for step in steps {
                    vector = Cow::Owned(match step {
                        StageStep::Rotate(0) => continue,
                        StageStep::Rotate(steps) => arithmetic.rotate(&vector, *steps)?,
                        StageStep::Linear(transform) => arithmetic.linear(transform, &vector)?,
                    });
                }
                Ok(vector.into_owned())
            }
            Steps::Network(network, masks) => run_network(network, level, arithmetic, masks, input),
            Steps::Copies { layers, doublings } => {
                let mut vector = Cow::Borrowed(input);
                for layer in layers {
                    vector = Cow::Owned(arithmetic.linear(layer, &vector)?);
                }
                for &steps in doublings {
                    vector = Cow::Owned(arithmetic.sum_rotations(&vector, &[0, steps])?);
                }
                Ok(vector.into_owned())
            }
        }
    }
}

/// The plan of the linear transformation of a stage, given the mask of each shift.
fn linear_plan(
    parameters: &CkksParameters,
    masks: Vec<(i64, Vec<Complex64>)>,
    Progression { difference, first, .. }: Progression,
    babies: usize,
    (level, scale): (usize, f64),
) -> Result<LinearPlan, CkksError> {
    let slots = parameters.slots() as i64;
    let mut map: BTreeMap<usize, Vec<Complex64>> = BTreeMap::new();
    for (shift, mask) in masks {
        // Shifts that differ by a multiple of the number of slots are the same rotation.
        match map.entry(shift.rem_euclid(slots) as usize) {
            Entry::Vacant(entry) => drop(entry.insert(mask)),
            Entry::Occupied(mut entry) => entry.get_mut().iter_mut().zip(mask).for_each(|(a, b)| *a += b),
        }
    }
    LinearPlan::of_steps(parameters, map, LinearSteps { difference, first, babies }, level, scale, scale)
}
