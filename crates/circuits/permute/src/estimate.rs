//! Cost estimates of plans, from a run on a simulator that counts operations.

use std::collections::{BTreeMap, BTreeSet};

use unspoken_ckks::{CkksParameters, Complex64, Cost, CostModel, Encoder, Simulator};
use unspoken_rlwe::KeyPlan;

use crate::diagonals::ShiftSet;
use crate::error::PermuteError;
use crate::plan::{Operations, PermutationPlan};
use crate::steps::{Masks, Steps};

/// The cost of a plan for one parameter set and one level of the result.
#[derive(Clone, Debug)]
pub struct Estimate {
    /// Number of levels it uses.
    pub depth: usize,
    /// For each level, the rotations that share a digit decomposition (baby steps), and the other rotations (giant
    /// steps and nodes).
    pub rotations: BTreeMap<usize, [u64; 2]>,
    /// Number of masks it multiplies by.
    pub masks: u64,
    /// Bytes of memory of the prepared plan: masks and their values. Masks that are not yet encoded count as encoded.
    pub prepared_bytes: u64,
    /// Peak memory of one run in bytes. It includes the result, but not the input, the keys and
    /// [`Estimate::prepared_bytes`].
    pub working_bytes: u64,
    /// The keys it needs.
    pub keys: KeyPlan,
    /// Number of keys if every giant step had its own, as in the published algorithms. For networks it is the number of
    /// `keys`.
    pub separate_keys: usize,
    /// The operations, as counted by the simulator.
    pub cost: Cost,
}

impl Estimate {
    /// Number of rotations that share a digit decomposition, and of other rotations.
    pub fn total_rotations(&self) -> [u64; 2] {
        self.rotations.values().fold([0, 0], |[a, b], [c, d]| [a + c, b + d])
    }

    /// Predicted seconds.
    pub fn seconds(&self, model: &CostModel) -> f64 {
        model.seconds(&self.cost)
    }
}

/// The cost of a plan whose result is at `level`.
///
/// # Errors
/// If the parameters have too few levels.
pub fn estimate(plan: &PermutationPlan, parameters: &CkksParameters, level: usize) -> Result<Estimate, PermuteError> {
    estimate_with(&Encoder::new(parameters), plan, level)
}

/// Same as [`estimate`], with an existing encoder.
pub(crate) fn estimate_with(encoder: &Encoder, plan: &PermutationPlan, level: usize) -> Result<Estimate, PermuteError> {
    let parameters = encoder.parameters();
    let depth = plan.depth();
    let steps = Steps::new(parameters, plan, level, parameters.scale(), Masks::Counted)?;
    let simulator = Simulator::counting(encoder);
    let input = simulator.encrypt(&[], level + depth, parameters.scale())?;
    let working_bytes = simulator.working_bytes(|simulator| steps.run(simulator, level, &input))?;
    let (cost, keys) = (simulator.cost(), simulator.key_plan());
    let masks = cost.plaintext_products;
    let values = plan.period() - 1;
    let prepared_bytes = steps.prepared_bytes(parameters) + masks * (values * size_of::<Complex64>()) as u64;
    let mut separate = BTreeSet::new();
    let slots = parameters.slots();
    match plan.program() {
        Operations::Stages(stages) => {
            for stage in stages {
                let shifts = stage.shift_set();
                match shifts.single() {
                    Some(0) => {}
                    Some(shift) => drop(separate.insert(shift.rem_euclid(slots as i64))),
                    None => separate.extend(separate_rotations(&shifts, stage.babies, slots)),
                }
            }
        }
        Operations::Copies(copies) => {
            separate.extend(copies.doublings(plan.length()));
            for layer in &copies.layers {
                separate.extend(separate_rotations(&ShiftSet::of_layer(&layer.shifts), layer.babies, slots));
            }
        }
        Operations::Network(_) => {}
    }
    let separate_keys = if separate.is_empty() { keys.len() } else { separate.len() };
    let rotations = rotations(parameters, &cost);
    Ok(Estimate { depth, rotations, masks, prepared_bytes, working_bytes, keys, separate_keys, cost })
}

/// For each level, the rotations that share a digit decomposition, and the other rotations.
fn rotations(parameters: &CkksParameters, cost: &Cost) -> BTreeMap<usize, [u64; 2]> {
    let levels = (0..=parameters.max_level()).map(|level| (parameters.limbs(level), level));
    let levels: BTreeMap<usize, usize> = levels.rev().collect();
    let at = |(chain, &all): (&usize, &u64)| {
        let shared = cost.hoisted_rotations.get(chain).copied().unwrap_or(0);
        levels.get(chain).map(|&level| (level, [shared, all - shared]))
    };
    cost.key_switches.iter().filter_map(at).collect()
}

/// The rotations of the baby steps, and of the giant steps counted from the first diagonal.
fn steps_of(shifts: &ShiftSet, babies: usize, slots: usize) -> (BTreeSet<i64>, BTreeSet<i64>) {
    let progression = shifts.progression();
    // The progression repeats modulo the number of slots after this many terms.
    let period = (slots >> progression.difference.trailing_zeros().min(slots.trailing_zeros())) as i64;
    let (difference, babies) = (progression.difference as i64, babies as i64);
    let split = |shift: i64| {
        let offset = (shift / difference - progression.first).rem_euclid(period);
        (difference * (progression.first + offset % babies), difference * (offset - offset % babies))
    };
    shifts.iter().map(split).unzip()
}

/// The rotations that need a key if each giant step has its own.
fn separate_rotations(shifts: &ShiftSet, babies: usize, slots: usize) -> BTreeSet<i64> {
    let (babies, giants) = steps_of(shifts, babies, slots);
    let rotations = babies.into_iter().chain(giants).map(|rotation| rotation.rem_euclid(slots as i64));
    rotations.filter(|&rotation| rotation != 0).collect()
}
