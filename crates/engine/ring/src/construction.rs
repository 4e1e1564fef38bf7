//! Polynomials that are zero, uniform, or parts and images of others.

use unspoken_device::kernel;

use crate::basis::{Basis, Domain};
use crate::error::RingError;
use crate::kind::RingKind;
use crate::poly::Poly;
use crate::ring::Ring;
use crate::sampling::Seed;

impl Ring {
    /// The zero polynomial.
    pub fn zero(&self, basis: Basis, domain: Domain) -> Poly {
        let mut poly = self.blank(basis, domain);
        self.for_each_limb(&mut poly, |_, _, limb| limb.fill(0));
        poly
    }

    /// A uniform polynomial in the evaluation domain, expanded from stream `stream` of a public seed.
    pub fn uniform(&self, seed: &Seed, stream: u32, basis: Basis) -> Poly {
        let mut poly = self.blank(basis, Domain::Evaluation);
        self.for_each_limb(&mut poly, |_, prime, limb| {
            seed.fill_uniform(self.kernels(), stream, self.modulus(prime).q, limb)
        });
        poly
    }

    /// The same polynomial over fewer primes.
    ///
    /// # Errors
    /// If `basis` is not contained in the polynomial's.
    pub fn restricted(&self, poly: &Poly, basis: Basis) -> Result<Poly, RingError> {
        self.check_own("restrict", poly)?;
        let found = poly.basis;
        if !found.contains(basis) {
            return Err(RingError::Basis { operation: "restrict", found, needed: basis });
        }
        if let Some(on) = self.on() {
            return on.unary(self, kernel::COPY, poly, basis);
        }
        let mut result = self.blank_from(&[poly], basis, poly.domain);
        self.for_each_limb(&mut result, |i, _, limb| limb.copy_from_slice(poly.limb_over(basis, i)));
        Ok(result)
    }

    /// `poly(X^k)` for a polynomial of another ring, whose degree is this ring's degree divided by `k` and whose chain
    /// begins with the same primes. Coefficient domain in and out; chain primes alone.
    ///
    /// # Errors
    /// If the rings do not fit each other, or the polynomial's domain or basis is not as described.
    pub fn embed_from(&self, from: &Ring, poly: &Poly) -> Result<Poly, RingError> {
        const OPERATION: &str = "embed into a larger ring";
        from.check_domain(OPERATION, poly, Domain::Coefficient)?;
        let (found, needed) = (poly.basis(), Basis::chain(poly.basis().chain));
        if found != needed {
            return Err(RingError::Basis { operation: OPERATION, found, needed });
        }
        let same_primes = self.chain().get(..found.chain) == from.chain().get(..found.chain);
        let standard = self.kind() == RingKind::Standard && from.kind() == RingKind::Standard;
        if !same_primes || !standard || !self.degree().is_multiple_of(from.degree()) {
            return Err(RingError::ForeignOperand { operation: OPERATION });
        }
        if let Some(on) = self.on_with(from) {
            return on.embed(self, poly);
        }
        let poly = &*from.here(poly)?;
        let step = self.degree() / from.degree();
        let mut result = self.blank_from(&[poly], found, Domain::Coefficient);
        self.for_each_limb(&mut result, |i, _, limb| {
            limb.fill(0);
            limb.iter_mut().step_by(step).zip(poly.limb(i)).for_each(|(target, source)| *target = *source);
        });
        Ok(result)
    }
}
