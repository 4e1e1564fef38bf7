//! What plans cost: each is run on a simulator that counts.

use std::collections::{BTreeMap, BTreeSet};

use unspoken_ckks::{CkksParameters, Complex64, Cost, CostModel, Encoder, Simulator};
use unspoken_rlwe::KeyPlan;

use crate::diagonals::Diagonals;
use crate::error::PermuteError;
use crate::plan::{Plan, Program};
use crate::prepared::Steps;

/// What a plan costs with one parameter set, its result at one level.
#[derive(Clone, Debug)]
pub struct Estimate {
    /// Levels it takes.
    pub depth: usize,
    /// By level: rotations from shared digits (baby steps), and whole ones (giant steps and nodes).
    pub rotations: BTreeMap<usize, [u64; 2]>,
    /// Masks multiplied by.
    pub masks: u64,
    /// Bytes that the prepared plan takes in memory: masks, encoded yet or not, and their values.
    pub prepared_bytes: u64,
    /// Bytes of memory that one run takes at its peak, its result included, beyond its input, the keys and
    /// [`Estimate::prepared_bytes`].
    pub working_bytes: u64,
    /// The keys.
    pub keys: KeyPlan,
    /// How many keys there would be if every giant step had its own, as published; the same number for networks.
    pub separate_keys: usize,
    /// The work.
    pub cost: Cost,
}

impl Estimate {
    /// Rotations from shared digits, and whole ones.
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
pub fn estimate(plan: &Plan, parameters: &CkksParameters, level: usize) -> Result<Estimate, PermuteError> {
    estimate_with(&Encoder::new(parameters), plan, level)
}

/// As [`estimate`], with an encoder that is there.
pub(crate) fn estimate_with(encoder: &Encoder, plan: &Plan, level: usize) -> Result<Estimate, PermuteError> {
    let parameters = encoder.parameters();
    let depth = plan.depth();
    // No mask has any values: only their number and levels count.
    let steps = Steps::new(parameters, plan, level, parameters.scale(), &|_| vec![Complex64::from(1.0)])?;
    let simulator = Simulator::counting(encoder);
    let input = simulator.encrypt(&[], level + depth, parameters.scale())?;
    let working_bytes = simulator.working_bytes(|simulator| steps.run(simulator, level, &input))?;
    let (cost, keys) = (simulator.cost(), simulator.key_plan());
    let masks = cost.plaintext_products;
    let values = plan.length() - 1;
    let prepared_bytes = steps.prepared_bytes(parameters) + masks * (values * size_of::<Complex64>()) as u64;
    let mut separate = BTreeSet::new();
    if let Program::Stages(stages) = plan.program() {
        for stage in stages {
            let (diagonals, slots) = (stage.diagonals(), parameters.slots());
            match diagonals.single() {
                Some(0) => {}
                Some(shift) => drop(separate.insert(shift.rem_euclid(slots as i64))),
                None => separate.extend(separate_rotations(&diagonals, stage.babies, slots)),
            }
        }
    }
    let separate_keys = if separate.is_empty() { keys.len() } else { separate.len() };
    let rotations = rotations(parameters, &cost);
    Ok(Estimate { depth, rotations, masks, prepared_bytes, working_bytes, keys, separate_keys, cost })
}

/// By level: rotations from shared digits, and whole ones.
fn rotations(parameters: &CkksParameters, cost: &Cost) -> BTreeMap<usize, [u64; 2]> {
    let levels = (0..=parameters.max_level()).map(|level| (parameters.chain(level), level));
    let levels: BTreeMap<usize, usize> = levels.rev().collect();
    let at = |(chain, &all): (&usize, &u64)| {
        let shared = cost.hoisted_rotations.get(chain).copied().unwrap_or(0);
        levels.get(chain).map(|&level| (level, [shared, all - shared]))
    };
    cost.key_switches.iter().filter_map(at).collect()
}

/// The baby rotations, and the giant ones counted from the first diagonal.
fn steps_of(diagonals: &Diagonals, babies: usize, slots: usize) -> (BTreeSet<i64>, BTreeSet<i64>) {
    let progression = diagonals.progression();
    // After so many terms the progression is back at its start, modulo the slots.
    let period = (slots >> progression.difference.trailing_zeros().min(slots.trailing_zeros())) as i64;
    let (difference, babies) = (progression.difference as i64, babies as i64);
    let split = |(shift, _): (i64, &[u32])| {
        let offset = (shift / difference - progression.first).rem_euclid(period);
        (difference * (progression.first + offset % babies), difference * (offset - offset % babies))
    };
    diagonals.iter().map(split).unzip()
}

/// The rotations that need a key where each giant step has its own.
fn separate_rotations(diagonals: &Diagonals, babies: usize, slots: usize) -> BTreeSet<i64> {
    let (babies, giants) = steps_of(diagonals, babies, slots);
    let rotations = babies.into_iter().chain(giants).map(|rotation| rotation.rem_euclid(slots as i64));
    rotations.filter(|&rotation| rotation != 0).collect()
}
