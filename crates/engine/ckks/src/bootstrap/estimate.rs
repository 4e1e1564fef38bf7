//! What a bootstrap costs and gives, predicted by simulations.

use num_complex::Complex64;

use super::plan::{Bootstrap, SlotValues};
use crate::cost::CostModel;
use crate::encoding::Encoder;
use crate::error::CkksError;
use crate::simulator::{ErrorStatistics, Simulator};

/// Predicted cost and result of [`Bootstrapper::refresh`](super::Bootstrapper::refresh).
#[derive(Clone, Copy, Debug)]
pub struct BootstrapEstimate {
    /// Errors of slots of modulus 1, approximations included.
    pub error: ErrorStatistics,
    /// Seconds on the threads for which the cost model was made.
    pub seconds: f64,
    /// Number of sequential products between two bootstraps.
    pub depth: usize,
    /// Bytes of memory of a client's keys.
    pub key_bytes: u64,
    /// Bytes of memory of the matrices, once for all clients.
    pub matrix_bytes: u64,
    /// Peak bytes of one bootstrap in addition to keys and matrices.
    pub working_bytes: u64,
}

/// Seed of the simulated noise.
const SEED: u64 = 1;

impl BootstrapEstimate {
    /// Bits of precision: `-log2` of the root mean square of the errors.
    pub fn bits(&self) -> f64 {
        -self.error.rms.log2()
    }

    /// Whether this is no worse than another in bits, seconds, products and bytes, and better in one of them.
    pub fn dominates(&self, other: &Self) -> bool {
        let measures = |e: &Self| [-e.bits(), e.seconds, -(e.depth as f64), (e.key_bytes + e.matrix_bytes) as f64];
        let pairs = || measures(self).into_iter().zip(measures(other));
        pairs().all(|(own, other)| own <= other) && pairs().any(|(own, other)| own < other)
    }
}

impl Bootstrap {
    /// Simulates a bootstrap of slots on the unit circle, or of real slots, and counts its cost. Takes some seconds in
    /// the largest rings.
    ///
    /// # Errors
    /// As for [`Bootstrap::simulate_refresh`].
    pub fn estimate(&self, encoder: &Encoder, model: &CostModel) -> Result<BootstrapEstimate, CkksError> {
        let value = |j: usize| match self.values {
            SlotValues::Complex => Complex64::cis((j * j) as f64),
            SlotValues::Real => Complex64::from(((j * j) as f64).cos()),
        };
        let values: Vec<Complex64> = (0..self.slots).map(value).collect();
        let simulator = Simulator::new(encoder, SEED);
        let input = simulator.encrypt(&values, self.input_level(), self.parameters.scale())?;
        let output = self.simulate_refresh(&simulator, &input)?;
        Ok(BootstrapEstimate {
            error: ErrorStatistics::between(output.noisy(), &values),
            seconds: model.seconds(&simulator.cost()),
            depth: self.depth(),
            key_bytes: self.key_plan().memory_bytes(self.parameters.ring()),
            matrix_bytes: self.prepared_bytes(),
            working_bytes: self.working_bytes(encoder, true)?,
        })
    }
}
