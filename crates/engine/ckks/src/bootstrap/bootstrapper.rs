//! Bootstraps with encoded maps.

use super::plan::Bootstrap;
use super::works::Works;
use crate::encoding::Encoder;
use crate::error::CkksError;
use crate::group::at_once;
use crate::linear::{LinearPlan, LinearTransform, RaisedTransform};

/// A [`Bootstrap`] with encoded matrices. A server needs one for all clients.
pub struct Bootstrapper {
    pub(super) plan: Bootstrap,
    /// The map from slots to coefficients; `None` for half a bootstrap.
    pub(super) slots_to_coeffs: Option<Vec<LinearTransform>>,
    /// ModRaise with the first factor from coefficients to slots, and the other factors.
    pub(super) raised: RaisedTransform,
    pub(super) coeffs_to_slots: Vec<LinearTransform>,
    working_bytes: u64,
    pub(super) works: Works,
}

impl Bootstrapper {
    /// Encodes the matrices, which take [`Bootstrapper::prepared_bytes`], and takes working memory from the system.
    ///
    /// # Errors
    /// As for [`LinearTransform::new`].
    pub fn new(encoder: &Encoder, plan: Bootstrap) -> Result<Self, CkksError> {
        let bootstrapper = Self::deferred(encoder, plan)?;
        bootstrapper.encode(encoder)?;
        Ok(bootstrapper)
    }

    /// As [`Bootstrapper::new`], without the map from slots to coefficients. The result supports all operations except
    /// [`Bootstrapper::refresh`].
    ///
    /// # Errors
    /// As for [`LinearTransform::new`].
    pub fn from_coefficients(encoder: &Encoder, plan: Bootstrap) -> Result<Self, CkksError> {
        let bootstrapper = Self::planned(encoder, plan, false)?;
        bootstrapper.encode(encoder)?;
        Ok(bootstrapper)
    }

    /// As [`Bootstrapper::new`], but defers the encoding of the matrices to [`Bootstrapper::encode`] or the first
    /// bootstrap. A simulator never encodes.
    ///
    /// # Errors
    /// If the encoder has other parameters.
    pub fn deferred(encoder: &Encoder, plan: Bootstrap) -> Result<Self, CkksError> {
        Self::planned(encoder, plan, true)
    }

    fn planned(encoder: &Encoder, plan: Bootstrap, from_slots: bool) -> Result<Self, CkksError> {
        let working_bytes = plan.working_bytes(encoder, from_slots)?;
        let deferred = |maps: &[LinearPlan]| maps.iter().cloned().map(LinearTransform::deferred).collect();
        Ok(Bootstrapper {
            slots_to_coeffs: from_slots.then(|| deferred(&plan.slots_to_coeffs)),
            raised: RaisedTransform::deferred(plan.raised.clone()),
            coeffs_to_slots: deferred(&plan.coeffs_to_slots),
            plan,
            working_bytes,
            works: Works::new(),
        })
    }

    /// Encodes the matrices, unless that was done, and takes working memory from the system.
    ///
    /// # Errors
    /// As for [`LinearTransform::new`].
    pub fn encode(&self, encoder: &Encoder) -> Result<(), CkksError> {
        // The memory of the map that needs the most, so that the first bootstrap is not slower than others.
        let (ring, top) = (self.plan.parameters.ring(), self.plan.raised_level());
        let basis = ring.switching_basis(self.plan.parameters.basis(top));
        let live = self.plan.coeffs_to_slots.iter().map(LinearPlan::live_bytes).max().unwrap_or(0);
        ring.reserve(basis, live as usize / ring.poly_bytes(basis));
        self.raised.encode(encoder)?;
        let mut maps = self.slots_to_coeffs.iter().flatten().chain(&self.coeffs_to_slots);
        maps.try_for_each(|map| map.encode(encoder))
    }

    /// Its plan.
    pub fn plan(&self) -> &Bootstrap {
        &self.plan
    }

    /// Bytes of memory of its matrices.
    pub fn prepared_bytes(&self) -> u64 {
        let maps = self.slots_to_coeffs.iter().flatten().chain(&self.coeffs_to_slots);
        maps.map(LinearTransform::prepared_bytes).sum::<u64>() + self.raised.prepared_bytes()
    }

    /// Peak bytes of memory of one bootstrap, its result included, in addition to its input, the keys and
    /// [`Bootstrapper::prepared_bytes`].
    pub fn working_bytes(&self) -> u64 {
        self.working_bytes
    }

    /// Peak bytes of memory of [`Bootstrapper::exponentials_of_queries`] of `count` queries on the threads of the
    /// current pool, in addition to its results, the keys and [`Bootstrapper::prepared_bytes`].
    pub fn working_bytes_of_queries(&self, count: usize) -> u64 {
        at_once(count) as u64 * self.working_bytes
    }
}

pub(super) fn encode(encoder: &Encoder, maps: &[LinearPlan]) -> Result<Vec<LinearTransform>, CkksError> {
    maps.iter().map(|map| LinearTransform::new(encoder, map.clone())).collect()
}
