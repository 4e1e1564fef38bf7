//! Operations on residues at the same position.

use unspoken_device::kernel::{self, ElementArgs, FactorArgs, Kernel, Limbs, MAX_PRIMES, RUN, Shoup};

use super::ring::DeviceRing;
use super::tables::shoup;
use crate::basis::{Basis, Domain};
use crate::error::RingError;
use crate::memory::Words;
use crate::modular;
use crate::poly::Poly;
use crate::ring::Ring;

impl DeviceRing {
    fn element_args(&self, basis: Basis, out: Limbs, a: Limbs, b: Limbs) -> ElementArgs {
        ElementArgs { ring: self.ring, basis: self.basis(basis), out, a, b }
    }

    fn run_elements(&self, ring: &Ring, kernel: Kernel<ElementArgs>, arguments: &ElementArgs, limbs: usize) -> Done {
        self.launch(kernel, self.blocks(ring, RUN, limbs), arguments)
    }

    /// A polynomial over `basis` from one operand over at least its primes.
    pub(crate) fn unary(&self, ring: &Ring, kernel: Kernel<ElementArgs>, a: &Poly, basis: Basis) -> Made {
        let out = self.blank(ring, basis, a.domain)?;
        let arguments = self.element_args(basis, self.limbs(&out)?, self.limbs(a)?, Limbs::default());
        self.run_elements(ring, kernel, &arguments, out.limbs)?;
        Ok(out)
    }

    /// A polynomial over the basis of `a` from two operands.
    pub(crate) fn binary(&self, ring: &Ring, kernel: Kernel<ElementArgs>, a: &Poly, b: &Poly) -> Made {
        let out = self.blank(ring, a.basis, a.domain)?;
        let arguments = self.element_args(a.basis, self.limbs(&out)?, self.limbs(a)?, self.limbs(b)?);
        self.run_elements(ring, kernel, &arguments, out.limbs)?;
        Ok(out)
    }

    /// Changes `a` by a kernel of one operand.
    pub(crate) fn unary_assign(&self, ring: &Ring, kernel: Kernel<ElementArgs>, a: &mut Poly) -> Done {
        let place = self.limbs_to_change(a)?;
        let arguments = self.element_args(a.basis, place, place, Limbs::default());
        self.run_elements(ring, kernel, &arguments, a.limbs)
    }

    /// Changes `a` by a kernel of two operands, of which it is the first.
    pub(crate) fn binary_assign(&self, ring: &Ring, kernel: Kernel<ElementArgs>, a: &mut Poly, b: &Poly) -> Done {
        let other = self.limbs(b)?;
        let place = self.limbs_to_change(a)?;
        self.run_elements(ring, kernel, &self.element_args(a.basis, place, place, other), a.limbs)
    }

    /// `acc += a b`.
    pub(crate) fn add_product(&self, ring: &Ring, acc: &mut Poly, a: &Poly, b: &Poly) -> Done {
        let (a, b) = (self.limbs(a)?, self.limbs(b)?);
        let place = self.limbs_to_change(acc)?;
        self.run_elements(ring, kernel::ADD_PRODUCTS, &self.element_args(acc.basis, place, a, b), acc.limbs)
    }

    /// The tensor product over `basis`.
    pub(crate) fn tensor(
        &self,
        ring: &Ring,
        a: [&Poly; 2],
        b: [&Poly; 2],
        basis: Basis,
    ) -> Result<[Poly; 3], RingError> {
        let blank = || self.blank(ring, basis, Domain::Evaluation);
        let out = [blank()?, blank()?, blank()?];
        let [out0, out1, out2] = &out;
        let arguments = kernel::TensorArgs {
            ring: self.ring,
            basis: self.basis(basis),
            a: [self.limbs(a[0])?, self.limbs(a[1])?],
            b: [self.limbs(b[0])?, self.limbs(b[1])?],
            out: [self.limbs(out0)?.words, self.limbs(out1)?.words, self.limbs(out2)?.words],
        };
        self.launch(kernel::TENSOR, self.blocks(ring, RUN, out0.limbs), &arguments)?;
        Ok(out)
    }

    /// A kernel with a factor for each limb of `out`, given by the number of its prime.
    fn run_factors(
        &self,
        ring: &Ring,
        kernel: Kernel<FactorArgs>,
        of: ElementArgs,
        basis: Basis,
        factor_of: impl Fn(usize) -> modular::Shoup,
    ) -> Done {
        let mut factor = [Shoup::default(); MAX_PRIMES];
        let primes = ring.prime_indices(basis);
        let limbs = primes.len();
        for (place, prime) in factor.iter_mut().zip(primes) {
            *place = shoup(factor_of(prime));
        }
        self.launch(kernel, self.blocks(ring, RUN, limbs), &FactorArgs { of, factor })
    }

    /// Limbs times a factor for each, by the number of its prime.
    pub(super) fn scale_limbs(
        &self,
        ring: &Ring,
        basis: Basis,
        place: Limbs,
        factor_of: impl Fn(usize) -> modular::Shoup,
    ) -> Done {
        let of = self.element_args(basis, place, place, Limbs::default());
        self.run_factors(ring, kernel::SCALE, of, basis, factor_of)
    }

    /// `a` times an integer.
    pub(crate) fn scale_assign(&self, ring: &Ring, a: &mut Poly, factor: i128) -> Done {
        self.scale_assign_by(ring, a, |prime| multiple(ring, prime, factor))
    }

    /// `a` times a factor for each limb, by the number of its prime.
    pub(crate) fn scale_assign_by(
        &self,
        ring: &Ring,
        a: &mut Poly,
        factor_of: impl Fn(usize) -> modular::Shoup,
    ) -> Done {
        let place = self.limbs_to_change(a)?;
        self.scale_limbs(ring, a.basis, place, factor_of)
    }

    /// `sum_i factor_i poly_i` over `basis`, of at least one term.
    pub(crate) fn sum_of_multiples(&self, ring: &Ring, terms: &[(&Poly, i128)], basis: Basis) -> Made {
        let domain = terms.first().map_or(Domain::Evaluation, |(poly, _)| poly.domain);
        let out = self.blank(ring, basis, domain)?;
        let place = self.limbs(&out)?;
        for (i, &(poly, factor)) in terms.iter().enumerate() {
            let of = self.element_args(basis, place, self.limbs(poly)?, Limbs::default());
            let kernel = if i == 0 { kernel::SCALE } else { kernel::ADD_SCALED };
            self.run_factors(ring, kernel, of, basis, |prime| multiple(ring, prime, factor))?;
        }
        Ok(out)
    }

    /// Adds a constant in the evaluation domain.
    pub(crate) fn add_constant(&self, ring: &Ring, a: &mut Poly, constant: i128) -> Done {
        self.add_words(ring, a, |prime| {
            let modulus = ring.modulus(prime);
            modulus.to_montgomery(modulus.from_i128(constant))
        })
    }

    /// Adds a word to each limb, by the number of its prime.
    pub(super) fn add_words(&self, ring: &Ring, a: &mut Poly, word_of: impl Fn(usize) -> u32) -> Done {
        let place = self.limbs_to_change(a)?;
        let of = self.element_args(a.basis, place, place, Limbs::default());
        let word = |prime| modular::Shoup { value: word_of(prime), quotient: 0 };
        self.run_factors(ring, kernel::ADD_WORDS, of, a.basis, word)
    }

    /// `acc += factor poly` for the limbs of `poly`, which are the first ones of `acc`, by the number of the prime.
    pub(crate) fn add_scaled(
        &self,
        ring: &Ring,
        acc: &mut Poly,
        poly: &Poly,
        factor_of: impl Fn(usize) -> modular::Shoup,
    ) -> Done {
        let source = self.limbs(poly)?;
        let place = self.limbs_to_change(acc)?;
        let of = self.element_args(poly.basis, place, source, Limbs::default());
        self.run_factors(ring, kernel::ADD_SCALED, of, poly.basis, factor_of)
    }

    /// The sum of images of a polynomial in the evaluation domain, of at least one.
    pub(crate) fn automorphisms(&self, ring: &Ring, poly: &Poly, galois: &[u64]) -> Made {
        let mut sum: Option<Poly> = None;
        for some in galois.chunks(kernel::MAX_TERMS) {
            let out = self.blank(ring, poly.basis, Domain::Evaluation)?;
            let mut elements = [0; kernel::MAX_TERMS];
            elements.iter_mut().zip(some).for_each(|(place, &galois)| *place = galois as u32);
            let arguments = kernel::AutomorphismArgs {
                ring: self.ring,
                basis: self.basis(poly.basis),
                source: self.limbs(poly)?.words,
                out: self.limbs(&out)?.words,
                terms: some.len() as u32,
                galois: elements,
            };
            self.launch(kernel::AUTOMORPHISMS, self.blocks(ring, kernel::THREADS, out.limbs), &arguments)?;
            sum = Some(match sum {
                None => out,
                Some(sum) => self.binary(ring, kernel::SUM, &sum, &out)?,
            });
        }
        sum.ok_or(RingError::Length { what: "the automorphisms of a sum", found: 0, needed: "at least one" })
    }

    /// Both components of `sum factor inputs[i]` for a row of pairs `(i, factor)`. `factor_stride` is the number of
    /// words from one limb of a factor to the next. Each word stands for `run` residues.
    pub(crate) fn product_sum(
        &self,
        ring: &Ring,
        inputs: &[[&Poly; 2]],
        row: &[(usize, &Words)],
        (factor_stride, run): (usize, usize),
        basis: Basis,
    ) -> Result<[Poly; 2], RingError> {
        let blank = || self.blank(ring, basis, Domain::Evaluation);
        let out = [blank()?, blank()?];
        let places = [self.limbs(&out[0])?.words, self.limbs(&out[1])?.words];
        // An empty row gives zeros.
        let chunks = row.chunks(kernel::MAX_TERMS).chain(row.is_empty().then_some(row)).enumerate();
        for (number, some) in chunks {
            let mut term = [kernel::Term::default(); kernel::MAX_TERMS];
            for (place, (input, factor)) in term.iter_mut().zip(some) {
                let [first, second] = inputs[*input];
                *place = kernel::Term {
                    factor: factor.on(&self.device)?.address(),
                    values: [self.limbs(first)?.words, self.limbs(second)?.words],
                };
            }
            let arguments = kernel::SumsArgs {
                ring: self.ring,
                basis: self.basis(basis),
                out: places,
                factor_stride: factor_stride as u32,
                log_run: run.ilog2(),
                accumulate: u32::from(number > 0),
                terms: some.len() as u32,
                term,
            };
            let blocks = self.blocks(ring, kernel::THREADS, out[0].limbs);
            self.launch(kernel::PRODUCT_SUMS, blocks, &arguments)?;
        }
        Ok(out)
    }
}

type Made = Result<Poly, RingError>;
type Done = Result<(), RingError>;

fn multiple(ring: &Ring, prime: usize, factor: i128) -> modular::Shoup {
    let modulus = ring.modulus(prime);
    modulus.shoup(modulus.from_i128(factor))
}
