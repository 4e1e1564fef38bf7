//! Linear transformations of encrypted vectors.

use unspoken_ring::Poly;
use unspoken_rlwe::{self as rlwe, ExtendedCiphertext, KeyKind, galois};

use crate::arithmetic::Arithmetic;
use crate::ciphertext::Ciphertext;
use crate::error::CkksError;
use crate::evaluator::Evaluator;
use crate::linear::plan::OPERATION;
use crate::linear::transform::{EncodedDiagonals, LinearTransform};

impl LinearTransform {
    /// Encodes the diagonals and makes the forms of the keys, unless that was done.
    pub(crate) fn prepare(&self, evaluator: &Evaluator<'_>) -> Result<(), CkksError> {
        self.encoded(evaluator.encoder())?;
        Ok(evaluator.keys().prepare(self.plan.parameters.ring(), &self.plan.key_plan())?)
    }

    /// Applies the transformation to an encrypted vector. The result is one level below the plan's, at the plan's
    /// output scale.
    ///
    /// # Errors
    /// If the vector's level is below the plan's, its scale is not the planned one, it is not relinearised, or keys are
    /// missing; the error names all missing keys.
    pub fn apply(&self, evaluator: &Evaluator<'_>, input: &Ciphertext) -> Result<Ciphertext, CkksError> {
        let (plan, slots) = (&self.plan, self.plan.parameters.slots());
        plan.check(input.level(), input.scale())?;
        evaluator.keys().check(OPERATION, &plan.key_plan())?;
        let EncodedDiagonals { babies, rows: diagonals } = self.encoded(evaluator.encoder())?;
        let input = evaluator.lowered(input, plan.level)?;
        let (ring, keys) = (evaluator.parameters().ring(), evaluator.keys());
        let elements = babies.iter().map(|&baby| galois::rotation(ring, plan.steps.baby(baby, slots) as i64));
        let rows = diagonals.iter().map(|(_, row)| row.iter().map(|(baby, diagonal)| (*baby, diagonal)).collect());
        let (elements, rows): (Vec<u64>, Vec<_>) = (elements.collect(), rows.collect());
        let sums = input.inner().hoist(ring)?.product_sums(ring, &elements, &rows, keys)?.into_iter();
        let sums: Vec<[Poly; 2]> = sums.map(ExtendedCiphertext::into_components).collect();
        let mut total: Option<(usize, [Poly; 2])> = None;
        for (&(giant, _), sum) in diagonals.iter().zip(sums).rev() {
            let sum = match total {
                Some((last, total)) => {
                    let [mut t0, mut t1] = giant_step(evaluator, total, plan.steps.giant(last - giant, slots))?;
                    ring.add_assign(&mut t0, &sum[0])?;
                    ring.add_assign(&mut t1, &sum[1])?;
                    [t0, t1]
                }
                None => sum,
            };
            total = Some((giant, sum));
        }
        let none = || CkksError::Shape { operation: OPERATION, found: 0, needed: "at least one diagonal".into() };
        let (giant, total) = total.ok_or_else(none)?;
        let total = giant_step(evaluator, total, plan.steps.giant(giant, slots))?;
        let to = evaluator.parameters().basis(plan.level - 1);
        let [c0, c1] = &total;
        let inner = rlwe::Ciphertext::new(vec![ring.rescale_round(c0, to)?, ring.rescale_round(c1, to)?])?;
        Ok(Ciphertext { inner, level: plan.level - 1, scale: plan.output_scale })
    }
}

/// Rotates an undivided sum by a giant step. The result stays undivided: only the second component is divided by `P`,
/// for its key switch.
fn giant_step(evaluator: &Evaluator<'_>, sum: [Poly; 2], steps: usize) -> Result<[Poly; 2], CkksError> {
    if steps == 0 {
        return Ok(sum);
    }
    evaluator.check_cancel()?;
    let (ring, keys) = (evaluator.parameters().ring(), evaluator.keys());
    let [c0, c1] = sum;
    let basis = c1.basis().without_special();
    let element = galois::rotation(ring, steps as i64);
    let key = keys.get(OPERATION, ring, KeyKind::Galois { element }, basis)?;
    let divided = ring.divide_round(&c1, basis)?;
    let [mut k0, k1] = ring.gadget_product(&divided, key)?;
    ring.add_assign(&mut k0, &c0)?;
    Ok([ring.automorphism(&k0, element)?, ring.automorphism(&k1, element)?])
}
