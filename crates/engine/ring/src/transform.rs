//! The transforms between the two domains.

use crate::basis::Domain;
use crate::error::RingError;
use crate::kind::RingKind;
use crate::poly::Poly;
use crate::ring::Ring;

impl Ring {
    // ----- transforms -----

    /// Transforms to the evaluation domain, in place. No effect on a polynomial that is already in this domain.
    pub fn to_evaluation(&self, poly: &mut Poly) -> Result<(), RingError> {
        self.check_own("to_evaluation", poly)?;
        if poly.domain == Domain::Evaluation {
            return Ok(());
        }
        if let Some(on) = self.on() {
            return on.to_evaluation(self, poly);
        }
        poly.domain = Domain::Evaluation;
        self.for_each_limb(poly, |_, prime, limb| {
            let table = self.table(prime);
            self.kernels().scale_assign(&table.modulus, limb, table.modulus.shoup(table.modulus.r));
            self.forward(prime, &mut [limb]);
        });
        Ok(())
    }

    /// Transforms to the coefficient domain, in place. No effect on a polynomial that is already in this domain.
    pub fn to_coefficients(&self, poly: &mut Poly) -> Result<(), RingError> {
        self.check_own("to_coefficients", poly)?;
        if poly.domain == Domain::Coefficient {
            return Ok(());
        }
        if let Some(on) = self.on() {
            return on.to_coefficients(self, poly);
        }
        poly.domain = Domain::Coefficient;
        self.for_each_limb(poly, |_, prime, limb| {
            let table = self.table(prime);
            let scale = table.modulus.from_montgomery(table.degree_inverse);
            self.kernels().ntt_inverse(table, limb, table.modulus.shoup(scale));
            self.unfold(prime, limb);
        });
        Ok(())
    }

    /// Forward transform of coefficient limbs that are already in Montgomery form.
    pub(crate) fn forward(&self, prime: usize, limbs: &mut [&mut [u32]]) {
        let table = self.table(prime);
        if self.kind() == RingKind::ConjugateInvariant {
            let imaginary = table.modulus.shoup(table.imaginary);
            limbs.iter_mut().for_each(|limb| self.kernels().fold(&table.modulus, imaginary, limb));
        }
        self.kernels().ntt_forward(table, limbs);
    }

    /// Undoes the fold of the conjugate-invariant ring after an inverse transform.
    pub(crate) fn unfold(&self, prime: usize, limb: &mut [u32]) {
        if self.kind() == RingKind::ConjugateInvariant {
            let table = self.table(prime);
            self.kernels().unfold(&table.modulus, table.modulus.shoup(table.imaginary), limb);
        }
    }
}
