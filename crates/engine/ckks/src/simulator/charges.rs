//! The work and the memory that a simulator counts.

use std::sync::{Arc, Mutex, PoisonError};

use super::Simulator;
use crate::arithmetic::Arithmetic;
use crate::cost::Cost;
use crate::error::CkksError;
use crate::memory;
use crate::parameters::Drop;
use crate::simulator::Record;
use crate::simulator::simulated::Simulated;

impl Simulator {
    /// Records the cost of an operation, and the limbs that it held at its peak: with the result, without the operands.
    pub(super) fn charge(&self, cost: Cost, limbs: usize) {
        self.record().cost += cost;
        self.meter.pass(memory::bytes(self.parameters().ring(), limbs));
    }

    /// Runs `work` on a simulator with the same noise and keys and a separate record, and records its keys and
    /// overflows. Returns its result, cost and peak memory. If `work` fails, nothing is recorded.
    pub(super) fn apart<T>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, CkksError>,
    ) -> Result<(T, Cost, u64), CkksError> {
        let (noise, keys) = (Arc::clone(&self.noise), self.keys.clone());
        let encoder = self.encoder.clone();
        let (record, meter) = (Mutex::default(), Arc::default());
        let (samples_encodings, cancel) = (self.samples_encodings, self.cancel.clone());
        let inner = Simulator { encoder, noise, keys, samples_encodings, record, meter, cancel };
        let before = inner.meter.begin();
        let result = work(&inner)?;
        let bytes = inner.meter.live(&before);
        let Record { plan, overflows, cost, .. } = inner.record.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut record = self.record();
        record.plan.extend(&plan);
        record.overflows.extend(overflows);
        Ok((result, cost, bytes))
    }

    /// As [`Simulator::apart`]; charges `cost` and `bytes` instead of what `work` charged.
    pub(super) fn charge_instead<T>(
        &self,
        (cost, bytes): (Cost, u64),
        work: impl FnOnce(&Self) -> Result<T, CkksError>,
    ) -> Result<T, CkksError> {
        let (result, ..) = self.apart(work)?;
        self.record().cost += cost;
        self.meter.pass(bytes);
        Ok(result)
    }

    /// Charges element-wise passes over `limbs` limbs that hold `held` limbs of memory.
    pub(super) fn charge_elementwise(&self, limbs: usize, held: usize) {
        self.charge(Cost::elementwise(self.parameters().ring(), limbs), held);
    }

    /// Records an operation that also encodes a vector.
    pub(super) fn charge_encoding(&self, cost: Cost, limbs: usize) {
        let parameters = self.parameters();
        self.record().cost += cost;
        self.meter.pass(memory::bytes(parameters.ring(), limbs) + memory::encoding(parameters));
    }

    /// Cost of a drop to a lower level.
    pub(super) fn drop_cost(&self, a: &Simulated, level: usize) -> Cost {
        let (parameters, ring) = (self.parameters(), self.parameters().ring());
        let copied = Cost::elementwise(ring, a.components * parameters.limbs(level));
        match parameters.drop(a.level, level) {
            Drop::Nested => copied,
            Drop::Rescaled { by, reached, .. } => {
                let (from, to) = (parameters.basis(by), parameters.basis(reached));
                let mut cost = Cost::elementwise(ring, 2 * a.components * parameters.limbs(by));
                cost += Cost::division(ring, from, to).times(a.components as u64);
                cost
            }
        }
    }

    /// Limbs that a drop to a lower level holds at its peak, its result included.
    pub(super) fn drop_limbs(&self, a: &Simulated, level: usize) -> usize {
        let parameters = self.parameters();
        let result = a.components * parameters.limbs(level);
        match parameters.drop(a.level, level) {
            Drop::Nested => result,
            Drop::Rescaled { by, reached, .. } => {
                let (copy, reached) = (a.components * parameters.limbs(by), parameters.limbs(reached));
                a.components * reached + copy + memory::division(parameters.limbs(by) + reached)
            }
        }
    }

    /// Cost and limbs of an automorphism at the level of `a`: a key switch and the permutation of both components.
    pub(super) fn automorphism_cost(&self, a: &Simulated) -> (Cost, usize) {
        let (ring, basis) = (self.parameters().ring(), self.parameters().basis(a.level));
        (Cost::key_switch(ring, basis, basis), memory::key_switch(ring, basis))
    }
}
