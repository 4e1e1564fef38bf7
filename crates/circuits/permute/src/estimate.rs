//! What plans cost: one model for all strategies.

use std::collections::{BTreeMap, BTreeSet};

use unspoken_ckks::{CkksParameters, Cost, CostModel};
use unspoken_rlwe::KeyPlan;

use crate::diagonals::Diagonals;
use crate::error::PermuteError;
use crate::plan::{Plan, Program};
use crate::prepared::linear_plan;
use crate::walk::{Machine, Meter, walk};

/// What a plan costs with one parameter set, its result at one level.
#[derive(Clone, Debug)]
pub struct Estimate {
    /// Levels it takes.
    pub depth: usize,
    /// By level: rotations from shared digits (baby steps), and whole ones (giant steps and nodes).
    pub rotations: BTreeMap<usize, [u64; 2]>,
    /// Masks multiplied by.
    pub masks: u64,
    /// Bytes of the encoded masks in memory.
    pub mask_bytes: u64,
    /// The keys.
    pub keys: KeyPlan,
    /// How many keys there would be if every giant step had its own, as published; the same number for networks.
    pub separate_keys: usize,
    /// The work, with rotations from shared digits and masks of networks weighed as they are priced.
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
    let mut meter = Meter::new(parameters);
    let depth = plan.depth();
    let mut separate = BTreeSet::new();
    match plan.program() {
        Program::Network(network) => {
            walk(network, level, &mut meter, &(level + depth))?;
        }
        Program::Stages(stages) => {
            let mut below = level + depth;
            for stage in stages {
                let diagonals = stage.diagonals();
                match diagonals.single() {
                    Some(0) => {}
                    Some(shift) => {
                        separate.insert(shift.rem_euclid(parameters.slots() as i64));
                        meter.rotate(&below, shift)?;
                    }
                    None => {
                        separate.extend(separate_rotations(&diagonals, stage.babies, parameters.slots()));
                        stage_cost(&mut meter, &diagonals, stage.babies, below)?;
                        below -= 1;
                    }
                }
            }
        }
    }
    let Meter { cost, keys, mask_bytes, rotations, .. } = meter;
    let separate_keys = if separate.is_empty() { keys.len() } else { separate.len() };
    Ok(Estimate { depth, rotations, masks: cost.plaintext_products, mask_bytes, keys, separate_keys, cost })
}

/// Adds a stage of more than one diagonal.
fn stage_cost(meter: &mut Meter<'_>, diagonals: &Diagonals, babies: usize, level: usize) -> Result<(), PermuteError> {
    let plan = linear_plan(meter.parameters, diagonals, babies, (level, meter.parameters.scale()), false)?;
    let rotations = steps_of(diagonals, babies, meter.parameters.slots());
    let baby = rotations.0.iter().filter(|&&rotation| rotation != 0).count() as u64;
    let [hoisted, whole] = meter.rotations.entry(level).or_default();
    *hoisted += baby;
    *whole += rotations.1.iter().filter(|&&giant| giant != 0).count() as u64;
    meter.cost += plan.cost();
    meter.cost += gathered(meter.parameters, level, baby);
    meter.keys.extend(&plan.key_plan());
    meter.mask_bytes += plan.bytes() as u64;
    Ok(())
}

/// How often the inner product of a key with shared digits counts beyond once.
const GATHERED: u64 = 2;

/// What so many rotations from shared digits cost beyond [`LinearPlan::cost`](unspoken_ckks::LinearPlan::cost): they gather
/// all raised digits in the order of their automorphism, and write sums over the extended basis that are read much later.
/// Fitted, as the weight of a network's masks is, to the times of 97 plans in rings of degree 2^14 and 2^15 on one AVX-512
/// core: predictions over times then spread by 9 % instead of 14 %, and no choice was over 9 % slower than the best of them.
pub(crate) fn gathered(parameters: &CkksParameters, level: usize, rotations: u64) -> Cost {
    Cost::hoisted_product(parameters.ring(), parameters.chain(level)).times(GATHERED * rotations)
}

/// How many rotations of a stage are from shared digits.
pub(crate) fn baby_rotations(diagonals: &Diagonals, babies: usize, slots: usize) -> u64 {
    steps_of(diagonals, babies, slots).0.iter().filter(|&&rotation| rotation != 0).count() as u64
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
