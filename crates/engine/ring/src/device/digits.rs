//! The gadget of small rings, and maps of coefficients.

use unspoken_device::Address;
use unspoken_device::kernel::{self, DigitArgs, KeyArgs, KeyTerm, MapArgs, RotationArgs, RotationTerm};
use unspoken_device::{Buffer, Device};

use super::ring::DeviceRing;
use super::tables::shoup;
use super::transform::several;
use crate::basis::{Basis, Domain};
use crate::digits::{DigitKey, GadgetDigits};
use crate::error::RingError;
use crate::kernels::digits::DigitTable;
use crate::memory::Words;
use crate::poly::Poly;
use crate::ring::Ring;

/// Coefficients that are cut into digits: operands one after the other.
struct Source {
    words: Address,
    /// Words from the residues modulo one prime to those modulo the other.
    prime: usize,
    operands: usize,
}

impl DeviceRing {
    /// The transformed digits of one or two polynomials, `[prime][component][level]`.
    pub(crate) fn digits(
        &self,
        ring: &Ring,
        table: &DigitTable,
        levels: usize,
        operands: &[&Poly],
    ) -> Result<Words, RingError> {
        let rows = operands.len() * levels;
        let words = self.words(ring, table.primes() * rows)?;
        for (component, operand) in operands.iter().enumerate() {
            let source = Source { words: self.limbs(operand)?.words, prime: ring.stride(), operands: 1 };
            self.cut(ring, (table, levels), source, (&words, rows, component * levels))?;
        }
        self.transform_digits(ring, table, rows, &words)?;
        Ok(words)
    }

    /// The transformed digits of polynomials, `[prime][polynomial][level]`, from their limbs, `[prime][polynomial]`.
    pub(super) fn digits_of(
        &self,
        ring: &Ring,
        (table, levels): (&DigitTable, usize),
        limbs: &Words,
        operands: usize,
    ) -> Result<Words, RingError> {
        let rows = operands * levels;
        let words = self.words(ring, table.primes() * rows)?;
        let source = Source { words: limbs.on(&self.device)?.address(), prime: operands * ring.stride(), operands };
        self.cut(ring, (table, levels), source, (&words, rows, 0))?;
        self.transform_digits(ring, table, rows, &words)?;
        Ok(words)
    }

    /// Writes the digits of operands to rows of each prime, from row `first` on.
    fn cut(
        &self,
        ring: &Ring,
        (table, levels): (&DigitTable, usize),
        source: Source,
        (out, rows, first): (&Words, usize, usize),
    ) -> Result<(), RingError> {
        let (first_prime, lift, inverse) = match &table.second {
            Some(second) => (second.first, second.lift, shoup(second.inverse)),
            None => (0, 0, kernel::Shoup::default()),
        };
        let arguments = DigitArgs {
            ring: self.ring,
            source: source.words,
            source_prime: source.prime as u64,
            out: out.on(&self.device)?.address(),
            primes: table.primes() as u32,
            rows: rows as u32,
            first: first as u32,
            levels: levels as u32,
            log2_base: table.log2_base,
            drop: table.drop,
            half: table.half,
            product: table.product,
            offset: table.offset,
            first_prime,
            lift,
            inverse,
        };
        self.launch(kernel::SIGNED_DIGITS, self.blocks(ring, kernel::THREADS, source.operands), &arguments)
    }

    fn transform_digits(&self, ring: &Ring, table: &DigitTable, rows: usize, words: &Words) -> Result<(), RingError> {
        let (primes, place) = (table.primes(), words.on(&self.device)?.address());
        let basis = self.basis(Basis::chain(primes));
        self.forward(ring, &several(basis, rows), primes * rows, place, false)
    }

    /// Both components of `sum digit * row`.
    pub(crate) fn digit_product(
        &self,
        ring: &Ring,
        digits: &GadgetDigits,
        key: &DigitKey,
    ) -> Result<[Poly; 2], RingError> {
        let basis = Basis::chain(key.gadget().chain());
        let blank = || self.blank(ring, basis, Domain::Evaluation);
        let out = [blank()?, blank()?];
        let mut term = [KeyTerm::default(); kernel::MAX_KEYS];
        let (key, rows) = (key.words.on(&self.device)?.address(), digits.rows as u32);
        term[0] = KeyTerm { key, basis: self.basis(basis), digits: rows, galois: 1 };
        let arguments = KeyArgs {
            ring: self.ring,
            basis: self.basis(basis),
            raised: digits.words.on(&self.device)?.address(),
            digits: rows,
            out: [self.limbs(&out[0])?.words, self.limbs(&out[1])?.words],
            accumulate: 0,
            terms: 1,
            term,
        };
        self.launch(kernel::KEY_PRODUCTS, self.blocks(ring, kernel::THREADS, basis.chain), &arguments)?;
        Ok(out)
    }

    /// `acc += sum_k (X^e_k - 1) (digits . key_k)`.
    pub(crate) fn add_rotated_differences(
        &self,
        ring: &Ring,
        [first, second]: &mut [Poly; 2],
        digits: &GadgetDigits,
        terms: &[(u32, &DigitKey)],
    ) -> Result<(), RingError> {
        let out = [self.limbs_to_change(first)?.words, self.limbs_to_change(second)?.words];
        let powers = match self.caches.powers.get() {
            Some(powers) => powers,
            None => {
                let made = of_powers(ring, &self.device)?;
                self.caches.powers.get_or_init(|| made)
            }
        };
        for some in terms.chunks(kernel::MAX_KEYS) {
            let mut term = [RotationTerm::default(); kernel::MAX_KEYS];
            for (place, &(exponent, key)) in term.iter_mut().zip(some) {
                *place = RotationTerm { key: key.words.on(&self.device)?.address(), exponent };
            }
            let arguments = RotationArgs {
                ring: self.ring,
                basis: self.basis(first.basis),
                raised: digits.words.on(&self.device)?.address(),
                digits: digits.rows as u32,
                powers: powers.address(),
                out,
                terms: some.len() as u32,
                term,
            };
            self.launch(kernel::ROTATED_DIFFERENCES, self.blocks(ring, kernel::THREADS, first.limbs), &arguments)?;
        }
        Ok(())
    }

    /// The image under `X -> X^galois`, times `X^shift`, in the coefficient domain.
    pub(crate) fn coefficient_map(&self, ring: &Ring, poly: &Poly, galois: u32, shift: u32) -> Result<Poly, RingError> {
        let out = self.blank(ring, poly.basis, Domain::Coefficient)?;
        let arguments = MapArgs {
            ring: self.ring,
            basis: self.basis(poly.basis),
            source: self.limbs(poly)?.words,
            out: self.limbs(&out)?.words,
            galois,
            shift,
        };
        self.launch(kernel::COEFFICIENT_MAP, self.blocks(ring, kernel::THREADS, out.limbs), &arguments)?;
        Ok(out)
    }
}

/// For each chain prime the powers of its `2n`-th root of unity. Standard ring.
fn of_powers(ring: &Ring, device: &Device) -> Result<Buffer, RingError> {
    Ok(device.upload(&ring.root_powers().concat())?)
}
