//! Work of a part of the pass, and the machine that does it.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::ops::AddAssign;
use std::time::Instant;

use rayon::prelude::*;
use unspoken_ckks::{CkksError, CkksParameters, Cost, CostModel};

/// Work of a step.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Work {
    /// Operations outside bootstraps.
    pub(super) own: Cost,
    /// Operations of bootstraps.
    pub(super) bootstraps: Cost,
    /// Maps from slots to coefficients: first halves of bootstraps.
    pub(super) first_halves: u64,
    /// Raises with the map from coefficients to slots and the reduction: second halves.
    pub(super) second_halves: u64,
    /// Key switches in the small ring of products on coefficients. Their work is in `own`.
    pub(super) small_key_switches: u64,
    /// Integer multiply-adds of products with weights on coefficients. Their work is in `own`.
    pub(super) multiply_adds: u64,
}

impl Work {
    pub(super) fn of(own: Cost) -> Self {
        Work { own, ..Work::default() }
    }

    /// Seconds outside bootstraps and in bootstraps.
    pub(super) fn seconds(&self, model: &CostModel) -> [f64; 2] {
        [model.seconds(&self.own), model.seconds(&self.bootstraps)]
    }
}

impl AddAssign for Work {
    fn add_assign(&mut self, other: Self) {
        self.own += other.own;
        self.bootstraps += other.bootstraps;
        self.first_halves += other.first_halves;
        self.second_halves += other.second_halves;
        self.small_key_switches += other.small_key_switches;
        self.multiply_adds += other.multiply_adds;
    }
}

/// `all` without `part`, each count at least 0.
pub(super) fn difference(all: &Cost, part: &Cost) -> Cost {
    let each = |all: &BTreeMap<usize, u64>, part: &BTreeMap<usize, u64>| {
        let rest = |(chain, count): (&usize, &u64)| {
            let rest = count.saturating_sub(part.get(chain).copied().unwrap_or(0));
            (rest > 0).then_some((*chain, rest))
        };
        all.iter().filter_map(rest).collect()
    };
    Cost {
        key_switches: each(&all.key_switches, &part.key_switches),
        hoisted_rotations: each(&all.hoisted_rotations, &part.hoisted_rotations),
        tensors: all.tensors.saturating_sub(part.tensors),
        rescales: all.rescales.saturating_sub(part.rescales),
        plaintext_products: all.plaintext_products.saturating_sub(part.plaintext_products),
        limb_transforms: all.limb_transforms.saturating_sub(part.limb_transforms),
        residue_macs: all.residue_macs.saturating_sub(part.residue_macs),
        matrix_macs: all.matrix_macs.saturating_sub(part.matrix_macs),
        elementwise: all.elementwise.saturating_sub(part.elementwise),
        encoded: all.encoded.saturating_sub(part.encoded),
    }
}

/// A machine: seconds of each kind of work of the engine, and its memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// Seconds of each kind of work.
    pub model: CostModel,
    /// Bytes read from memory in a second, on all threads that the plan uses.
    pub bandwidth: f64,
}

/// Bytes that the measurement of the bandwidth reads, more than the caches hold, and the number of runs.
const READ_BYTES: usize = 512 << 20;
const READ_TIMES: usize = 3;

/// Bytes that one task reads.
const READ_PART: usize = 1 << 20;

/// Bytes read in a second on the nominal machine, one core at 3 GHz.
const NOMINAL_BANDWIDTH: f64 = 10e9;

impl Machine {
    /// Nominal values ([`CostModel::nominal`], 10 GB/s): equal on every machine.
    pub fn nominal(parameters: &CkksParameters) -> Self {
        Machine { model: CostModel::nominal(parameters), bandwidth: NOMINAL_BANDWIDTH }
    }

    /// Measures this machine on the threads of the current rayon pool, in some seconds and 512 MiB.
    ///
    /// # Errors
    /// The errors of [`CostModel::measure`].
    pub fn measure(parameters: &CkksParameters) -> Result<Self, CkksError> {
        Ok(Machine { model: CostModel::measure(parameters)?, bandwidth: read_bandwidth() })
    }
}

/// Bytes per second of the fastest of several sums over a buffer.
fn read_bandwidth() -> f64 {
    let buffer: Vec<u64> = (0..READ_BYTES / size_of::<u64>()).into_par_iter().map(|word| word as u64).collect();
    let sum = |part: &[u64]| part.iter().fold(0u64, |sum, word| sum ^ word);
    let run = |_| {
        let start = Instant::now();
        black_box(buffer.par_chunks(READ_PART / size_of::<u64>()).map(sum).reduce(|| 0, |a, b| a ^ b));
        start.elapsed().as_secs_f64()
    };
    let fastest = (0..READ_TIMES).map(run).fold(f64::INFINITY, f64::min);
    READ_BYTES as f64 / fastest
}
