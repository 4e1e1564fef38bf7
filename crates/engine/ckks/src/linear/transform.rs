//! Linear transformations with encoded diagonals.

use std::sync::OnceLock;

use num_complex::Complex64;
use rayon::prelude::*;
use unspoken_ring::SubringPoly;

use crate::encoding::Encoder;
use crate::error::CkksError;
use crate::linear::plan::{LinearPlan, rotated_right};
use crate::memory::{self, with_idle_buffers};

/// A linear transformation with encoded diagonals, which can be applied to encrypted vectors.
pub struct LinearTransform {
    pub(super) plan: LinearPlan,
    encoded: OnceLock<EncodedRows>,
}

/// Per giant number: the baby numbers, each with its diagonal, rotated back by the giant step, over the extended basis.
pub(super) type EncodedRows = Vec<(usize, Vec<(usize, SubringPoly)>)>;

impl LinearTransform {
    /// Encodes the diagonals.
    ///
    /// # Errors
    /// If the scaled values of a diagonal exceed the modulus of the level.
    pub fn new(encoder: &Encoder, plan: LinearPlan) -> Result<Self, CkksError> {
        let transform = Self::deferred(plan);
        transform.encode(encoder)?;
        Ok(transform)
    }

    /// Defers the encoding to [`LinearTransform::encode`] or the first [`LinearTransform::apply`]. A simulator never
    /// encodes.
    pub fn deferred(plan: LinearPlan) -> Self {
        LinearTransform { plan, encoded: OnceLock::new() }
    }

    /// Encodes the diagonals, unless that was done or they are not kept ([`LinearPlan::streamed`]).
    ///
    /// # Errors
    /// If the scaled values of a diagonal exceed the modulus of the level.
    pub fn encode(&self, encoder: &Encoder) -> Result<(), CkksError> {
        if self.plan.streamed { Ok(()) } else { self.encoded(encoder).map(drop) }
    }

    pub(super) fn encoded(&self, encoder: &Encoder) -> Result<&EncodedRows, CkksError> {
        if let Some(encoded) = self.encoded.get() {
            return Ok(encoded);
        }
        let rows = self.encode_rows(encoder, |_| true)?;
        Ok(self.encoded.get_or_init(|| rows))
    }

    /// Encodes the diagonals of the wanted baby numbers.
    pub(super) fn encode_rows(
        &self,
        encoder: &Encoder,
        is_wanted: impl Fn(usize) -> bool + Sync,
    ) -> Result<EncodedRows, CkksError> {
        let (plan, slots) = (&self.plan, self.plan.parameters.slots());
        let encode_row = |(giant, row): (usize, Vec<(usize, &[Complex64])>)| {
            let encode = |(baby, diagonal): (usize, &[Complex64])| {
                let values = rotated_right(diagonal, plan.steps.giant(giant, slots));
                let level = (plan.level, plan.basis);
                Ok((baby, encoder.encode_subring(&values, level, plan.plaintext_scale, plan.run)?))
            };
            let row = row.into_iter().filter(|(baby, _)| is_wanted(*baby)).collect::<Vec<_>>();
            Ok((giant, row.into_par_iter().map(encode).collect::<Result<_, CkksError>>()?))
        };
        plan.rows().into_par_iter().map(encode_row).collect()
    }

    /// Its plan.
    pub fn plan(&self) -> &LinearPlan {
        &self.plan
    }

    /// Bytes of memory it takes: [`LinearPlan::prepared_bytes`].
    pub fn prepared_bytes(&self) -> u64 {
        self.plan.prepared_bytes()
    }

    /// Peak bytes of memory of [`LinearTransform::apply`], its result included, in addition to its input, the keys and
    /// [`LinearTransform::prepared_bytes`].
    pub fn working_bytes(&self) -> u64 {
        let (ring, basis) = (self.plan.parameters.ring(), self.plan.parameters.basis(self.plan.level));
        // Digits of the input, digits and quotients of giant steps, and a copy of the input.
        let limbs = 4 * ring.limb_count(basis);
        let freed = memory::raised_digits(ring, basis) + memory::key_switch(ring, basis) + limbs;
        with_idle_buffers(&self.plan.parameters, self.plan.live_bytes(), memory::bytes(ring, freed))
    }
}
