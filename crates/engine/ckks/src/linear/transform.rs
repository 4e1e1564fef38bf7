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
    encoded: OnceLock<EncodedDiagonals>,
}

pub(super) struct EncodedDiagonals {
    /// The baby numbers in use.
    pub(super) babies: Vec<usize>,
    /// Per giant number: the indices of the baby steps, each with its diagonal, rotated back by the giant step, over
    /// the extended basis.
    pub(super) rows: Vec<(usize, Vec<(usize, SubringPoly)>)>,
}

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

    /// Encodes the diagonals, unless that was done.
    ///
    /// # Errors
    /// If the scaled values of a diagonal exceed the modulus of the level.
    pub fn encode(&self, encoder: &Encoder) -> Result<(), CkksError> {
        self.encoded(encoder).map(drop)
    }

    pub(super) fn encoded(&self, encoder: &Encoder) -> Result<&EncodedDiagonals, CkksError> {
        if let Some(encoded) = self.encoded.get() {
            return Ok(encoded);
        }
        let (plan, slots) = (&self.plan, self.plan.parameters.slots());
        let (_, babies) = plan.numbers(plan.diagonals.keys());
        let babies: Vec<usize> = babies.into_iter().collect();
        let encode_row = |(giant, row): (usize, Vec<(usize, &[Complex64])>)| {
            let encode = |(baby, diagonal): (usize, &[Complex64])| {
                let values = rotated_right(diagonal, plan.steps.giant(giant, slots));
                let poly = encoder.encode_extended(&values, (plan.level, plan.basis), plan.plaintext_scale)?;
                let poly = plan.parameters.ring().into_subring(poly, plan.run)?;
                Ok((babies.binary_search(&baby).unwrap_or_default(), poly))
            };
            Ok((giant, row.into_iter().map(encode).collect::<Result<_, CkksError>>()?))
        };
        let rows = plan.rows().into_par_iter().map(encode_row).collect::<Result<_, CkksError>>()?;
        Ok(self.encoded.get_or_init(|| EncodedDiagonals { babies, rows }))
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
