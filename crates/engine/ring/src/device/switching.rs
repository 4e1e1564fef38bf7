//! Divisions, basis extensions, decompositions and products with keys.

use std::sync::Arc;

use unspoken_device::Address;
use unspoken_device::kernel::{self, ConvertArgs, DivideArgs, KeyArgs, KeyTerm, Limbs, QuotientArgs};

use super::ring::DeviceRing;
use super::tables::{Conversion, Decomposition, Division, Exact};
use super::transform::{all, raised, some};
use crate::basis::{Basis, Domain};
use crate::error::RingError;
use crate::gadget::RnsDigits;
use crate::gadget_key::{GadgetKey, KeyRows};
use crate::kind::RingKind;
use crate::memory::Words;
use crate::poly::Poly;
use crate::ring::{Ring, cached};

impl DeviceRing {
    /// `round(poly U / D)` over `to`.
    pub(crate) fn rescale(&self, ring: &Ring, poly: &Poly, to: Basis) -> Result<Poly, RingError> {
        let division = self.division(ring, poly.basis, to)?;
        let remainder = self.converted(ring, poly, &division.remainder, to)?;
        let out = self.blank(ring, to, Domain::Evaluation)?;
        let arguments = DivideArgs {
            ring: self.ring,
            basis: self.basis(to),
            dividend: self.limbs(poly)?.words,
            remainder: self.limbs(&remainder)?.words,
            out: self.limbs(&out)?.words,
            kept: division.kept.address(),
        };
        self.launch(kernel::DIVIDE, self.blocks(ring, kernel::THREADS, out.limbs), &arguments)?;
        Ok(out)
    }

    /// The same integers over a larger basis.
    pub(crate) fn extend(&self, ring: &Ring, poly: &Poly, to: Basis) -> Result<Poly, RingError> {
        let table =
            cached(&self.caches.extensions, (poly.basis, to), || ring.extension_on(poly.basis, to, &self.device))?;
        self.converted(ring, poly, &table, to)
    }

    fn division(&self, ring: &Ring, from: Basis, to: Basis) -> Result<Arc<Division>, RingError> {
        cached(&self.caches.divisions, (from, to), || ring.division(from, to).on_device(&self.device))
    }

    /// An exact conversion to all primes of `to`, in the evaluation domain.
    fn converted(&self, ring: &Ring, poly: &Poly, exact: &Exact, to: Basis) -> Result<Poly, RingError> {
        let count = exact.sources.len();
        let digits = self.words(ring, count + 1)?;
        let words = digits.on(&self.device)?.address();
        let from = self.limbs(poly)?;
        let sources = some(from.basis, &exact.sources);
        self.inverse(ring, &sources, count, (from.words, words), (exact.scales.address(), 0))?;
        let quotient = QuotientArgs {
            ring: self.ring,
            words,
            count: count as u32,
            shift: exact.shift,
            reciprocals: exact.reciprocals.address(),
        };
        self.launch(kernel::QUOTIENT, self.blocks(ring, kernel::THREADS, 1), &quotient)?;
        let out = self.blank(ring, to, Domain::Evaluation)?;
        let place = self.limbs(&out)?;
        self.convert(ring, &exact.conversion, (&digits, Limbs::default()), to, place.words)?;
        self.forward(ring, &all(place.basis), out.limbs, place.words, false)?;
        Ok(out)
    }

    /// Converts plain digits to the primes of `basis`. The primes of a digit itself are copied from `own`.
    fn convert(
        &self,
        ring: &Ring,
        table: &Conversion,
        (plain, own): (&Words, Limbs),
        basis: Basis,
        out: Address,
    ) -> Result<(), RingError> {
        let arguments = ConvertArgs {
            ring: self.ring,
            basis: self.basis(basis),
            targets: table.targets as u32,
            digits: table.digits as u32,
            source: plain.on(&self.device)?.address(),
            digit: table.digit.address(),
            limbs: table.limbs.address(),
            offsets: table.offsets.address(),
            factors: table.factors.address(),
            listed: table.listed as u32,
            own,
            out,
        };
        let blocks = [ring.degree() / kernel::THREADS, table.digits, table.targets.div_ceil(kernel::TARGETS)];
        self.launch(kernel::CONVERT, blocks, &arguments)
    }

    /// Raises every digit to the basis of key switches.
    pub(crate) fn decompose(&self, ring: &Ring, poly: &Poly) -> Result<RnsDigits, RingError> {
        let basis = poly.basis;
        let extended = ring.switching_basis(basis);
        let table: Arc<Decomposition> =
            cached(&self.caches.decompositions, basis, || ring.decomposition_on(basis, &self.device))?;
        let own = self.limbs(poly)?;
        let mut plain = self.blank(ring, basis, Domain::Coefficient)?;
        let place = self.limbs(&plain)?;
        // In the conjugate-invariant ring, an unfolding comes before the shifts.
        let standard = ring.kind() == RingKind::Standard;
        let shifts = if standard { table.shifts.address() } else { 0 };
        let places = (own.words, place.words);
        self.inverse(ring, &all(own.basis), poly.limbs, places, (table.scales.address(), shifts))?;
        if !standard {
            self.add_words(ring, &mut plain, |prime| ring.modulus(prime).q / 2)?;
        }
        let digits = table.conversion.digits;
        let limbs = ring.limb_count(extended) * digits;
        let words = self.words(ring, limbs)?;
        let out = words.on(&self.device)?.address();
        self.convert(ring, &table.conversion, (&plain.words, own), extended, out)?;
        self.forward(ring, &raised(self.basis(extended), digits), limbs, out, false)?;
        Ok(RnsDigits { words, basis, raised: extended, digits, rows: KeyRows::EachDigit })
    }

    /// Both components of `sum_i sigma_i(digits * key_i)`, for at least one key.
    pub(crate) fn key_products(
        &self,
        ring: &Ring,
        digits: &RnsDigits,
        terms: &[(&GadgetKey, u64)],
    ) -> Result<[Poly; 2], RingError> {
        let basis = digits.raised;
        let blank = || self.blank(ring, basis, Domain::Evaluation);
        let out = [blank()?, blank()?];
        let places = [self.limbs(&out[0])?.words, self.limbs(&out[1])?.words];
        for (number, some) in terms.chunks(kernel::MAX_KEYS).enumerate() {
            let mut term = [KeyTerm::default(); kernel::MAX_KEYS];
            for (place, &(key, galois)) in term.iter_mut().zip(some) {
                let (words, key_basis, key_digits) = key.interleaved();
                *place = KeyTerm {
                    key: words.on(&self.device)?.address(),
                    basis: self.basis(key_basis),
                    digits: key_digits as u32,
                    galois: galois as u32,
                };
            }
            let arguments = KeyArgs {
                ring: self.ring,
                basis: self.basis(basis),
                raised: digits.words.on(&self.device)?.address(),
                digits: digits.digits as u32,
                out: places,
                accumulate: u32::from(number > 0),
                terms: some.len() as u32,
                term,
            };
            self.launch(kernel::KEY_PRODUCTS, self.blocks(ring, kernel::THREADS, out[0].limbs), &arguments)?;
        }
        Ok(out)
    }
}
