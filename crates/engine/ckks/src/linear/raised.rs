//! Linear transformations of raised vectors, at no level: ModRaise and the first factor of CoeffsToSlots in one.
//!
//! A raised vector is its own only digit, so each rotation is one product with a key of one row
//! ([`Raised::product_sum`](unspoken_rlwe::Raised::product_sum)). There are no baby steps and giant steps: every
//! diagonal has its own rotation of the input and its own key, and all of them share one division.

use std::collections::BTreeMap;

use num_complex::Complex64;
use unspoken_ring::{Basis, SubringPoly};
use unspoken_rlwe::{self as rlwe, KeyKind, KeyPlan, galois};

use crate::arithmetic::Arithmetic;
use crate::ciphertext::Ciphertext;
use crate::cost::Cost;
use crate::encoding::Encoder;
use crate::error::CkksError;
use crate::evaluator::Evaluator;
use crate::linear::plan::LinearPlan;
use crate::linear::steps::Steps;
use crate::linear::transform::LinearTransform;
use crate::memory;
use crate::parameters::CkksParameters;

/// Plan of a linear transformation of raised vectors.
#[derive(Clone, Debug)]
pub(crate) struct RaisedPlan {
    plan: LinearPlan,
    /// Sum over the diagonals of the mean square of their values.
    energy: f64,
}

impl RaisedPlan {
    /// Plans `out[j] = sum_k diagonals[k][j] in[j + k]` for vectors of scale `input_scale` that are raised to `level`.
    /// The result has scale `output_scale` at that level.
    ///
    /// # Errors
    /// As for [`LinearPlan::new`], or if the parameters have no raised vectors.
    pub(crate) fn new(
        parameters: &CkksParameters,
        diagonals: BTreeMap<usize, Vec<Complex64>>,
        level: usize,
        (input_scale, output_scale): (f64, f64),
    ) -> Result<Self, CkksError> {
        let all = Steps::of_babies(parameters.slots());
        let plan = LinearPlan::of_steps(parameters, diagonals, all, level, input_scale, output_scale)?;
        let plaintext_scale = parameters.rlwe().raised_divisor()? * (output_scale / input_scale);
        let basis = parameters.basis(level).with_special();
        let mean =
            |diagonal: &Vec<Complex64>| diagonal.iter().map(Complex64::norm_sqr).sum::<f64>() / diagonal.len() as f64;
        let energy = plan.diagonals.values().map(mean).sum();
        Ok(RaisedPlan { plan: LinearPlan { plaintext_scale, basis, ..plan }, energy })
    }

    /// Sum over the diagonals of the mean square of their values.
    pub(crate) fn energy(&self) -> f64 {
        self.energy
    }

    /// The level of the result.
    pub(crate) fn level(&self) -> usize {
        self.plan.level
    }

    /// The scales of the input and of the result.
    pub(crate) fn scales(&self) -> (f64, f64) {
        (self.plan.input_scale, self.plan.output_scale)
    }

    /// The scale of the encoded diagonals.
    pub(crate) fn plaintext_scale(&self) -> f64 {
        self.plan.plaintext_scale
    }

    /// The diagonals, by the rotation of the input to the left.
    pub(crate) fn diagonals(&self) -> &BTreeMap<usize, Vec<Complex64>> {
        &self.plan.diagonals
    }

    /// The basis of the encoded diagonals.
    pub(crate) fn basis(&self) -> Basis {
        self.plan.basis
    }

    /// The keys it needs, one for each diagonal.
    pub(crate) fn key_plan(&self) -> KeyPlan {
        let (ring, basis) = (self.plan.parameters.ring(), self.plan.parameters.basis(self.plan.level));
        let mut plan = KeyPlan::new();
        for &steps in self.plan.diagonals.keys() {
            let element = galois::rotation(ring, steps as i64);
            plan.require_over(KeyKind::Decapsulation { element }, basis);
        }
        plan
    }

    /// The cost of [`RaisedTransform::apply`].
    pub(crate) fn cost(&self) -> Cost {
        let parameters = &self.plan.parameters;
        let (ring, basis, extended) = (parameters.ring(), parameters.basis(self.plan.level), self.plan.basis);
        let (limbs, base) = (ring.limb_count(extended), parameters.chain(0));
        // The extension of both components.
        let mut cost = Cost {
            limb_transforms: 2 * (base + limbs) as u64,
            conversion_macs: (2 * base * limbs * ring.degree()) as u64,
            ..Cost::elementwise(ring, 4 * limbs)
        };
        let mut product = Cost { key_macs: (2 * limbs * ring.degree()) as u64, ..Cost::elementwise(ring, 9 * limbs) };
        product.plaintext_products = 1;
        product.key_switches.insert(ring.limb_count(basis), 1);
        cost += product.times(self.plan.diagonals.len() as u64);
        cost += Cost::division(ring, extended, basis).times(2);
        cost
    }

    /// Peak limbs of [`RaisedTransform::apply`], its result included: the raised components and the sums, or the sums
    /// and their divisions.
    pub(crate) fn live_limbs(&self) -> usize {
        let (ring, basis) = (self.plan.parameters.ring(), self.plan.parameters.basis(self.plan.level));
        let extended = ring.limb_count(self.plan.basis);
        let images = memory::held_images(ring, self.plan.basis, self.plan.diagonals.len());
        (4 * extended + images).max(2 * extended + memory::division(extended) + 2 * ring.limb_count(basis))
    }

    /// Bytes of memory of a [`RaisedTransform`] of this plan.
    pub(crate) fn prepared_bytes(&self) -> u64 {
        self.plan.prepared_bytes()
    }
}

/// A linear transformation of raised vectors with encoded diagonals.
pub(crate) struct RaisedTransform(LinearTransform);

impl RaisedTransform {
    /// Defers the encoding to [`RaisedTransform::encode`] or the first [`RaisedTransform::apply`].
    pub(crate) fn deferred(plan: RaisedPlan) -> Self {
        RaisedTransform(LinearTransform::deferred(plan.plan))
    }

    /// Encodes the diagonals, unless that was done.
    ///
    /// # Errors
    /// As for [`LinearTransform::new`].
    pub(crate) fn encode(&self, encoder: &Encoder) -> Result<(), CkksError> {
        self.0.encode(encoder)
    }

    /// Bytes of memory it takes.
    pub(crate) fn prepared_bytes(&self) -> u64 {
        self.0.prepared_bytes()
    }

    /// Raises a ciphertext under the sparse secret and applies the transformation. The result is under the main secret.
    ///
    /// # Errors
    /// If the ciphertext is not of level 0, or keys are missing; the error names all missing keys.
    pub(crate) fn apply(&self, evaluator: &Evaluator<'_>, sparse: &rlwe::Ciphertext) -> Result<Ciphertext, CkksError> {
        let (plan, parameters) = (&self.0.plan, evaluator.parameters());
        let (ring, basis, slots) = (parameters.ring(), parameters.basis(plan.level), parameters.slots());
        let encoded = self.0.encoded(evaluator.encoder())?;
        let element = |baby: usize| galois::rotation(ring, plan.steps.baby(baby, slots) as i64);
        let diagonals = encoded.iter().flat_map(|(_, row)| row);
        let terms: Vec<(u64, &SubringPoly)> = diagonals.map(|(baby, diagonal)| (element(*baby), diagonal)).collect();
        evaluator.check_cancel()?;
        // The raised components are freed before the division.
        let sum = sparse.raise(parameters.rlwe(), basis)?.product_sum(ring, &terms, evaluator.keys())?;
        let inner = sum.divide(ring, basis)?;
        Ok(Ciphertext { inner, level: plan.level, scale: plan.output_scale })
    }
}
