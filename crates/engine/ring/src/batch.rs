//! Operations on many polynomials at once, which a ring on a device does by a few kernels for all of them.

use unspoken_device::kernel::BatchOperation;

use crate::basis::{Basis, Domain};
use crate::digits::DigitKey;
use crate::error::RingError;
use crate::poly::Poly;
use crate::ring::Ring;

/// An operand of a [`DigitTerm`]: the image under `X -> X^galois` of `plus - minus`, in the evaluation domain. What is
/// missing counts as zero.
#[derive(Clone, Copy, Debug)]
pub struct Difference<'a> {
    /// What is subtracted from.
    pub plus: Option<&'a Poly>,
    /// What is subtracted.
    pub minus: Option<&'a Poly>,
}

/// A product of the signed digits of one or two polynomials with a key, plus polynomials.
#[derive(Clone, Debug)]
pub struct DigitTerm<'a> {
    /// One for each component of the key.
    pub operands: Vec<Difference<'a>>,
    /// The key.
    pub key: &'a DigitKey,
    /// What is added to each component of the product, in the evaluation domain.
    pub plus: [Option<&'a Poly>; 2],
    /// The Galois element of the images of operands and of what is added that are taken; 1 for none.
    pub galois: u64,
}

const OPERATION: &str = "products of signed digits";
const BATCH: &str = "compute with many polynomials";

impl Ring {
    /// For each term both components of `sum digit * row + plus`, in the evaluation domain. All keys have one gadget
    /// and one number of components.
    ///
    /// # Errors
    /// As for [`Ring::digits`], [`Ring::digit_product`] and [`Ring::automorphism`], if keys or numbers of operands
    /// differ, or an operand has neither part.
    pub fn digit_products(&self, terms: &[DigitTerm<'_>]) -> Result<Vec<[Poly; 2]>, RingError> {
        let Some(first) = terms.first() else { return Ok(Vec::new()) };
        let (basis, components) = (Basis::chain(first.key.gadget().chain()), first.key.components());
        for term in terms {
            self.check_rows(OPERATION, term.key)?;
            let differs = term.key.gadget() != first.key.gadget() || term.key.components() != components;
            if differs || term.operands.len() != components {
                let (what, found) = ("the operands of products of signed digits", term.operands.len());
                return Err(RingError::Length { what, found, needed: "as many as the components of one key" });
            }
            if term.operands.iter().any(|operand| operand.plus.or(operand.minus).is_none()) {
                let what = "the parts of an operand";
                return Err(RingError::Length { what, found: 0, needed: "one or two" });
            }
            let operands = term.operands.iter().flat_map(|operand| [operand.plus, operand.minus]);
            let polys = operands.chain(term.plus).flatten();
            polys.into_iter().try_for_each(|poly| self.check_values(OPERATION, poly, basis))?;
            if term.galois != 1 {
                self.permutation(term.galois)?;
            }
        }
        match self.on() {
            Some(on) => on.digit_products(self, terms),
            None => terms.iter().map(|term| self.digit_term(term)).collect(),
        }
    }

    fn digit_term(&self, term: &DigitTerm<'_>) -> Result<[Poly; 2], RingError> {
        let coefficients = |operand: &Difference<'_>| {
            let mut poly = match (term.galois, operand) {
                (1, operand) => self.difference(operand)?,
                (galois, Difference { plus: Some(plus), minus: None }) => self.automorphism(plus, galois)?,
                (galois, operand) => self.automorphism(&self.difference(operand)?, galois)?,
            };
            self.to_coefficients(&mut poly)?;
            Ok(poly)
        };
        let operands = term.operands.iter().map(coefficients).collect::<Result<Vec<_>, RingError>>()?;
        let digits = self.digits(term.key.gadget(), &operands.iter().collect::<Vec<_>>())?;
        let mut product = self.digit_product(&digits, term.key)?;
        for (component, plus) in product.iter_mut().zip(term.plus) {
            match plus {
                Some(plus) if term.galois != 1 => {
                    self.add_assign(component, &self.automorphism(plus, term.galois)?)?;
                }
                Some(plus) => self.add_assign(component, plus)?,
                None => {}
            }
        }
        Ok(product)
    }

    fn difference(&self, operand: &Difference<'_>) -> Result<Poly, RingError> {
        match (operand.plus, operand.minus) {
            (Some(plus), Some(minus)) => self.sub(plus, minus),
            (Some(plus), None) => Ok(plus.clone()),
            (None, Some(minus)) => {
                let mut poly = minus.clone();
                self.neg_assign(&mut poly)?;
                Ok(poly)
            }
            (None, None) => Ok(self.zero(Basis::chain(self.chain().len()), Domain::Evaluation)),
        }
    }

    /// `sums[i] += polys[i]`.
    ///
    /// # Errors
    /// If the numbers of polynomials and sums differ, or as for [`Ring::add_assign`].
    pub fn add_each(&self, sums: &mut [Poly], polys: &[Poly]) -> Result<(), RingError> {
        let others: Vec<&Poly> = polys.iter().collect();
        let Some(basis) = self.check_batch(sums, &others)? else { return Ok(()) };
        if let Some(on) = self.on() {
            return on.batch(self, (BatchOperation::Sum, None), basis, sums, &others);
        }
        sums.iter_mut().zip(polys).try_for_each(|(sum, poly)| self.add_assign(sum, poly))
    }

    /// `sums[i] += factor * polys[i]`, in the evaluation domain.
    ///
    /// # Errors
    /// If the numbers of polynomials and sums differ, or as for [`Ring::mul_add_assign`].
    pub fn add_multiples(&self, sums: &mut [Poly], factor: &Poly, polys: &[&Poly]) -> Result<(), RingError> {
        let Some(basis) = self.check_batch(sums, polys)? else { return Ok(()) };
        self.check_values(BATCH, factor, basis)?;
        if let Some(on) = self.on() {
            return on.batch(self, (BatchOperation::AddProduct, Some(factor)), basis, sums, polys);
        }
        sums.iter_mut().zip(polys).try_for_each(|(sum, poly)| self.mul_add_assign(sum, factor, poly))
    }

    /// The products of a factor with polynomials, in the evaluation domain.
    ///
    /// # Errors
    /// As for [`Ring::mul`].
    pub fn multiples(&self, factor: &Poly, polys: &[&Poly]) -> Result<Vec<Poly>, RingError> {
        self.check_domain(BATCH, factor, Domain::Evaluation)?;
        polys.iter().try_for_each(|poly| self.check_values(BATCH, poly, factor.basis()))?;
        if let Some(on) = self.on() {
            return on.multiples(self, factor, polys);
        }
        polys.iter().map(|poly| self.mul(factor, poly)).collect()
    }

    /// For each pair `(a, b)`: `a` becomes `a + b`, and `b` becomes `(a - b) * factor`. Evaluation domain.
    ///
    /// # Errors
    /// If `a` and `b` have different lengths, or as for [`Ring::add_assign`] and [`Ring::mul`].
    pub fn split_each(&self, a: &mut [Poly], b: &mut [Poly], factor: &Poly) -> Result<(), RingError> {
        let Some(basis) = self.check_batch(a, &b.iter().collect::<Vec<_>>())? else { return Ok(()) };
        self.check_values(BATCH, factor, basis)?;
        if let Some(on) = self.on() {
            return on.split_each(self, a, b, factor);
        }
        for (a, b) in a.iter_mut().zip(b) {
            let mut difference = self.sub(a, b)?;
            self.mul_assign(&mut difference, factor)?;
            self.add_assign(a, b)?;
            *b = difference;
        }
        Ok(())
    }

    /// The common basis of `polys` and `others`, which have equal length, in the evaluation domain; `None` if there are
    /// none.
    fn check_batch(&self, polys: &[Poly], others: &[&Poly]) -> Result<Option<Basis>, RingError> {
        if polys.len() != others.len() {
            let what = "a list of polynomials";
            return Err(RingError::Length { what, found: others.len(), needed: "as many as there are results" });
        }
        let Some(basis) = polys.first().map(Poly::basis) else { return Ok(None) };
        let all = polys.iter().chain(others.iter().copied());
        all.into_iter().try_for_each(|poly| self.check_values(BATCH, poly, basis))?;
        Ok(Some(basis))
    }
}
