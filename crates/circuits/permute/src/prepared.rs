//! Plans made ready for encrypted vectors.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use unspoken_ckks::{
    Arithmetic, CkksError, CkksParameters, Complex64, LinearPlan, LinearTransform, PreparedVector, Steps,
};
use unspoken_rlwe::KeyPlan;

use crate::diagonals::Diagonals;
use crate::error::{PermuteError, shape};
use crate::estimate::{Estimate, estimate};
use crate::network::Network;
use crate::plan::{Plan, Program, Stage};
use crate::walk::{Machine, mask_levels, walk};

const OPERATION: &str = "permute an encrypted vector";

/// A plan made ready for one parameter set, level and scale: its masks are encoded at their first encrypted use and kept.
/// The result has the scale of the input.
pub struct PreparedPermutation {
    level: usize,
    depth: usize,
    keys: KeyPlan,
    estimate: Estimate,
    body: Body,
}

enum Body {
    Stages(Vec<Step>),
    Network(Network, Vec<PreparedVector>),
}

enum Step {
    /// A stage whose entries all go the same way: no mask, no level.
    Rotate(i64),
    Linear(LinearTransform),
}

impl PreparedPermutation {
    /// Prepares a plan for inputs of scale `scale`, so that results are at `level`: inputs must be at
    /// [`PreparedPermutation::input_level`] or above.
    ///
    /// # Errors
    /// If the vectors are longer than the slots, the parameters have too few levels, or the scale is no positive number.
    pub fn new(parameters: &CkksParameters, plan: &Plan, level: usize, scale: f64) -> Result<Self, PermuteError> {
        let slots = parameters.slots();
        if plan.length() > slots {
            let needed = format!("at most the {slots} slots; permute longer ones in blocks");
            return Err(shape(OPERATION, format!("vectors of {}", plan.length()), needed));
        }
        let depth = plan.depth();
        if level + depth > parameters.max_level() {
            let (found, needed) = (parameters.max_level(), level + depth);
            return Err(CkksError::Level { operation: OPERATION, found, needed }.into());
        }
        let estimate = estimate(plan, parameters, level)?;
        let body = match plan.program() {
            Program::Stages(stages) => {
                let mut below = level + depth;
                let mut steps = Vec::with_capacity(stages.len());
                for stage in stages {
                    let step = prepare_stage(parameters, stage, below, scale)?;
                    below -= usize::from(matches!(step, Step::Linear(_)));
                    steps.push(step);
                }
                Body::Stages(steps)
            }
            Program::Network(network) => {
                let edges = network.nodes.iter().flat_map(|node| &node.edges).chain(network.leaves.values().flatten());
                let masks = edges.filter_map(|edge| edge.mask.as_deref()).zip(mask_levels(network, level));
                let prepare = |(mask, level)| {
                    PreparedVector::new(indicator(mask, plan.length()), level, parameters.level_modulus(level))
                };
                Body::Network(network.clone(), masks.map(prepare).collect::<Result<_, _>>()?)
            }
        };
        Ok(PreparedPermutation { level, depth, keys: estimate.keys.clone(), estimate, body })
    }

    /// The level of its results.
    pub fn level(&self) -> usize {
        self.level
    }

    /// The level its inputs are used at.
    pub fn input_level(&self) -> usize {
        self.level + self.depth
    }

    /// The keys it needs.
    pub fn key_plan(&self) -> &KeyPlan {
        &self.keys
    }

    /// What it costs.
    pub fn estimate(&self) -> &Estimate {
        &self.estimate
    }

    /// Permutes an encrypted vector.
    ///
    /// # Errors
    /// If the input is below [`PreparedPermutation::input_level`], its scale is not the one prepared for, or keys are
    /// missing: all of them are named before anything is done.
    pub fn apply<A: Arithmetic>(&self, arithmetic: &A, input: &A::Vector) -> Result<A::Vector, PermuteError> {
        arithmetic.require_keys(OPERATION, &self.keys)?;
        let found = arithmetic.level(input);
        if found < self.input_level() {
            return Err(CkksError::Level { operation: OPERATION, found, needed: self.input_level() }.into());
        }
        match &self.body {
            Body::Stages(steps) => {
                let mut vector = arithmetic.lowered(input, self.input_level())?;
                for step in steps {
                    vector = Cow::Owned(match step {
                        Step::Rotate(0) => continue,
                        Step::Rotate(steps) => arithmetic.rotate(&vector, *steps)?,
                        Step::Linear(transform) => arithmetic.linear(transform, &vector)?,
                    });
                }
                Ok(vector.into_owned())
            }
            Body::Network(network, masks) => Ok(walk(network, self.level, &mut Runner { arithmetic, masks }, input)?),
        }
    }
}

/// The plan of a stage's transformation, with masks or, for its cost alone, without.
pub(crate) fn linear_plan(
    parameters: &CkksParameters,
    diagonals: &Diagonals,
    babies: usize,
    (level, scale): (usize, f64),
    masks: bool,
) -> Result<LinearPlan, CkksError> {
    let slots = parameters.slots() as i64;
    let values = |positions: &[u32]| match masks {
        true => indicator(positions, diagonals.length()),
        false => vec![Complex64::from(1.0)],
    };
    let mut map: BTreeMap<usize, Vec<Complex64>> = BTreeMap::new();
    for (shift, positions) in diagonals.iter() {
        // Shifts a whole turn of the slots apart are one rotation.
        match map.entry(shift.rem_euclid(slots) as usize) {
            Entry::Vacant(entry) => drop(entry.insert(values(positions))),
            Entry::Occupied(mut entry) => entry.get_mut().iter_mut().zip(values(positions)).for_each(|(a, b)| *a += b),
        }
    }
    let progression = diagonals.progression();
    let steps = Steps { difference: progression.difference, first: progression.first, babies };
    LinearPlan::new(parameters, map, level, scale, scale)?.with_steps(steps)
}

fn prepare_stage(parameters: &CkksParameters, stage: &Stage, level: usize, scale: f64) -> Result<Step, PermuteError> {
    let diagonals = stage.diagonals();
    if let Some(shift) = diagonals.single() {
        return Ok(Step::Rotate(shift));
    }
    let plan = linear_plan(parameters, &diagonals, stage.babies, (level, scale), true)?;
    Ok(Step::Linear(LinearTransform::deferred(plan)))
}

/// One at these positions, zero elsewhere.
fn indicator(positions: &[u32], length: usize) -> Vec<Complex64> {
    let mut mask = vec![Complex64::default(); length];
    positions.iter().for_each(|&position| mask[position as usize] = Complex64::from(1.0));
    mask
}

struct Runner<'a, A: Arithmetic> {
    arithmetic: &'a A,
    masks: &'a [PreparedVector],
}

impl<A: Arithmetic> Machine for Runner<'_, A> {
    type Vector = A::Vector;

    fn hoisted(&mut self, a: &A::Vector, steps: &[i64]) -> Result<Vec<A::Vector>, CkksError> {
        self.arithmetic.rotate_hoisted(a, steps)
    }

    fn products(&mut self, _: usize, products: &[(&A::Vector, usize)]) -> Result<A::Vector, CkksError> {
        let products: Vec<_> = products.iter().map(|&(a, mask)| (a, &self.masks[mask])).collect();
        self.arithmetic.sum_products(&products)
    }

    fn rotate_rescale(&mut self, a: &A::Vector, steps: i64) -> Result<A::Vector, CkksError> {
        self.arithmetic.rotate_rescale(a, steps)
    }

    fn rescale(&mut self, a: &A::Vector) -> Result<A::Vector, CkksError> {
        self.arithmetic.rescale(a)
    }

    fn rotate(&mut self, a: &A::Vector, steps: i64) -> Result<A::Vector, CkksError> {
        self.arithmetic.rotate(a, steps)
    }

    fn add(&mut self, a: &A::Vector, b: &A::Vector) -> Result<A::Vector, CkksError> {
        self.arithmetic.add(a, b)
    }

    fn drop_to(&mut self, a: &A::Vector, level: usize) -> Result<A::Vector, CkksError> {
        self.arithmetic.drop_to(a, level)
    }
}
