//! The gadget of small rings, whose modulus has one or two primes: signed digits of whole coefficients.
//!
//! A coefficient `x` modulo `Q`, taken between `-Q/2` and `Q/2`, is close to `sum_i d_i 2^(drop + i log2_base)` with
//! `levels` digits between `-2^(log2_base - 1)` and `2^(log2_base - 1)`; the lowest `drop` bits are rounded away
//! (Chillotti, Gama, Georgieva and Izabachene, "TFHE", Journal of Cryptology 2020, section 3.2). Unlike the hybrid
//! gadget it needs no special primes. The digits of `-x` are the digits of `x` negated, so digits have mean zero.

use std::sync::Arc;

use zeroize::zeroize_stack;

use crate::basis::{Basis, Domain};
use crate::error::RingError;
use crate::kernels::KEY_BLOCK;
use crate::kernels::digits::{Composition, DigitTable};
use crate::memory::{Pool, Words};
use crate::modular::Modulus;
use crate::poly::Poly;
use crate::ring::Ring;

/// Bytes of stack that are wiped after a decomposition of secret coefficients: more than the kernel's arrays need.
const DIGIT_STACK_BYTES: usize = 8192;

/// Largest number of bits of a digit, so that its absolute value is a valid input of the transforms.
const MAX_LOG2_BASE: u32 = 28;

/// The decomposition of coefficients into signed digits. Made by [`Ring::digit_gadget`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DigitGadget {
    chain: usize,
    log2_base: u32,
    levels: usize,
    drop: u32,
}

impl DigitGadget {
    /// Number of primes of the modulus: 1 or 2.
    pub fn chain(&self) -> usize {
        self.chain
    }

    /// Number of bits of a digit.
    pub fn log2_base(&self) -> u32 {
        self.log2_base
    }

    /// Number of digits of a coefficient.
    pub fn levels(&self) -> usize {
        self.levels
    }

    /// `log2` of the weight of digit `level`, where level 0 is the lowest digit. An encryption under the gadget has one
    /// row per digit.
    pub fn log2_weight(&self, level: usize) -> u32 {
        self.drop + self.log2_base * level as u32
    }
}

/// The rows of an encryption under a [`DigitGadget`], in the order in which products read them.
///
/// For an operand of `k` polynomials there are `k * levels` rows: one for each digit of the first polynomial, lowest
/// first, then of the second, and so on.
pub struct DigitKey {
    /// Identifies the ring of the key.
    owner: Arc<Pool>,
    pub(crate) words: Words,
    gadget: DigitGadget,
    rows: usize,
    degree: usize,
}

impl DigitKey {
    /// The gadget that decomposes the operands.
    pub fn gadget(&self) -> DigitGadget {
        self.gadget
    }

    /// Number of polynomials of an operand: 1, or 2 for whole ciphertexts.
    pub fn components(&self) -> usize {
        self.rows / self.gadget.levels
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> usize {
        self.words.count() * size_of::<u32>()
    }

    fn rows(&self, prime: usize) -> impl Iterator<Item = &[u32]> {
        let len = 2 * self.degree;
        self.words[prime * self.rows * len..][..self.rows * len].chunks_exact(len)
    }
}

impl std::fmt::Debug for DigitKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DigitKey").field("gadget", &self.gadget).field("rows", &self.rows).finish_non_exhaustive()
    }
}

/// The transformed digits of one or two polynomials, for products with many keys. Plain residues, not in Montgomery
/// form.
pub struct GadgetDigits {
    /// `[prime][component][level]` limbs.
    pub(crate) words: Words,
    gadget: DigitGadget,
    pub(crate) rows: usize,
}

impl Ring {
    /// The gadget of `levels` digits of `log2_base` bits for coefficients over the first `chain` primes.
    ///
    /// # Errors
    /// If the ring is not the standard one, `chain` is not 1 or 2 or exceeds the ring's chain, `log2_base` is not 1 to
    /// 28, or `levels` is zero or more than the modulus has digits.
    pub fn digit_gadget(&self, chain: usize, log2_base: u32, levels: usize) -> Result<DigitGadget, RingError> {
        let refuse = |what, found, needed| Err(RingError::Length { what, found, needed });
        self.check_standard("signed digits")?;
        if !(1..=2).contains(&chain) || chain > self.chain().len() {
            return refuse("the chain of a digit gadget", chain, "1 or 2, and no more than the ring has");
        }
        if !(1..=MAX_LOG2_BASE).contains(&log2_base) {
            return refuse("a signed digit", log2_base as usize, "1 to 28 bits");
        }
        let bits = u64::BITS - self.chain_product(chain).leading_zeros();
        let whole = bits.div_ceil(log2_base) as usize;
        if !(1..=whole).contains(&levels) {
            return refuse("the list of signed digits", levels, "at least 1 and at most the digits of the modulus");
        }
        Ok(DigitGadget { chain, log2_base, levels, drop: bits.saturating_sub(log2_base * levels as u32) })
    }

    /// Builds a key from the rows of a gadget encryption, each a pair in the evaluation domain over the gadget's
    /// primes.
    ///
    /// # Errors
    /// If the number of rows is not `levels` or twice that, or a row has another basis or domain.
    pub fn digit_key(&self, gadget: DigitGadget, rows: &[[&Poly; 2]]) -> Result<DigitKey, RingError> {
        if rows.len() != gadget.levels && rows.len() != 2 * gadget.levels {
            let needed = "one or two rows per digit";
            return Err(RingError::Length { what: "the list of gadget rows", found: rows.len(), needed });
        }
        let needed = Basis::chain(gadget.chain);
        rows.iter().flatten().try_for_each(|component| self.check_values("digit key", component, needed))?;
        let owner = Arc::clone(self.pool());
        // What a device alone has stays there.
        let is_there = rows.iter().flatten().any(|component| !component.words.is_here());
        if let Some(on) = self.on().filter(|_| is_there) {
            let words = on.key_rows(self, gadget.chain, rows)?;
            return Ok(DigitKey { owner, words, gadget, rows: rows.len(), degree: self.degree() });
        }
        let len = 2 * self.degree();
        let mut words = Pool::new(0).take(gadget.chain * rows.len() * len);
        words.inherit(rows.iter().flatten().any(|component| component.is_secret()));
        let here = self.all_here(rows.iter().flatten().copied())?;
        for (at, target) in words.chunks_exact_mut(len).enumerate() {
            let (prime, row) = (at / rows.len(), at % rows.len());
            let (first, second) = (&here[2 * row], &here[2 * row + 1]);
            let blocks = first.limb(prime).chunks_exact(KEY_BLOCK).zip(second.limb(prime).chunks_exact(KEY_BLOCK));
            for (target, (first, second)) in target.chunks_exact_mut(2 * KEY_BLOCK).zip(blocks) {
                target[..KEY_BLOCK].copy_from_slice(first);
                target[KEY_BLOCK..].copy_from_slice(second);
            }
            // Products lose a factor R. Digits are plain residues, so the rows take this factor, once.
            let modulus = self.modulus(prime);
            self.kernels().scale_assign(modulus, target, modulus.shoup(modulus.r));
        }
        Ok(DigitKey { owner, words, gadget, rows: rows.len(), degree: self.degree() })
    }

    /// Decomposes one or two polynomials in the coefficient domain, over the gadget's primes, and transforms the
    /// digits.
    ///
    /// # Errors
    /// If there are not one or two operands, or one has another basis or domain.
    pub fn digits(&self, gadget: DigitGadget, operands: &[&Poly]) -> Result<GadgetDigits, RingError> {
        const OPERATION: &str = "cut into signed digits";
        if !(1..=2).contains(&operands.len()) {
            let (what, found) = ("the operand of a digit gadget", operands.len());
            return Err(RingError::Length { what, found, needed: "one or two polynomials" });
        }
        let needed = Basis::chain(gadget.chain);
        for operand in operands {
            self.check_domain(OPERATION, operand, Domain::Coefficient)?;
            if operand.basis() != needed {
                return Err(RingError::Basis { operation: OPERATION, found: operand.basis(), needed });
            }
        }
        let rows = operands.len() * gadget.levels;
        if let Some(on) = self.on() {
            let words = on.digits(self, &self.digit_table(gadget), gadget.levels, operands)?;
            return Ok(GadgetDigits { words, gadget, rows });
        }
        let (n, stride) = (self.degree(), self.stride());
        let secret = operands.iter().any(|operand| operand.is_secret());
        let mut words = self.scratch(gadget.chain * rows * stride, secret);
        let table = self.digit_table(gadget);
        let moduli: Vec<Modulus> = (0..gadget.chain).map(|prime| *self.modulus(prime)).collect();
        for (component, operand) in operands.iter().enumerate() {
            let residues: Vec<&[u32]> = operand.limbs().collect();
            let at = |limb: usize| limb % rows / gadget.levels == component;
            let limbs = words.chunks_exact_mut(stride).enumerate().filter(|(limb, _)| at(*limb));
            let mut outputs: Vec<&mut [u32]> = limbs.map(|(_, limb)| &mut limb[..n]).collect();
            self.kernels().signed_digits(&residues, &table, &moduli, &mut outputs);
        }
        if secret {
            zeroize_stack::<DIGIT_STACK_BYTES>();
        }
        for (prime, limbs) in words.chunks_exact_mut(rows * stride).enumerate() {
            let mut limbs: Vec<&mut [u32]> = limbs.chunks_exact_mut(stride).map(|limb| &mut limb[..n]).collect();
            self.forward(prime, &mut limbs);
        }
        Ok(GadgetDigits { words, gadget, rows })
    }

    /// Refuses digits that are not the only one of one decomposed polynomial. The limbs of their words are its
    /// residues.
    pub(crate) fn check_only_digit(&self, digits: &GadgetDigits, chain: usize) -> Result<(), RingError> {
        const OPERATION: &str = "use a digit as a polynomial";
        self.check_words(OPERATION, &digits.words)?;
        if digits.rows != 1 {
            let (what, found) = ("the digits of a polynomial", digits.rows);
            return Err(RingError::Length { what, found, needed: "one" });
        }
        if digits.gadget.chain != chain {
            let (found, needed) = (Basis::chain(digits.gadget.chain), Basis::chain(chain));
            return Err(RingError::Basis { operation: OPERATION, found, needed });
        }
        Ok(())
    }

    /// The only digit of one decomposed polynomial, as a polynomial in the evaluation domain.
    ///
    /// # Errors
    /// If there are several digits or polynomials, or they are of another ring.
    pub fn digit_value(&self, digits: &GadgetDigits) -> Result<Poly, RingError> {
        let basis = Basis::chain(digits.gadget.chain);
        self.check_only_digit(digits, basis.chain)?;
        let mut poly = self.poly_of(digits.words.duplicate(), basis, Domain::Evaluation);
        let to_montgomery = |prime: usize| self.modulus(prime).shoup(self.modulus(prime).r);
        match self.on() {
            Some(on) => on.scale_assign_by(self, &mut poly, to_montgomery)?,
            None => self.for_each_limb(&mut poly, |_, prime, limb| {
                self.kernels().scale_assign(self.modulus(prime), limb, to_montgomery(prime));
            }),
        }
        Ok(poly)
    }

    /// `sum digit * row` for both components of the rows, in the evaluation domain.
    ///
    /// # Errors
    /// If digits and key are of different gadgets, numbers of components or rings.
    pub fn digit_product(&self, digits: &GadgetDigits, key: &DigitKey) -> Result<[Poly; 2], RingError> {
        self.check_digit_key(digits, key)?;
        if let Some(on) = self.on() {
            return on.digit_product(self, digits, key);
        }
        let basis = Basis::chain(digits.gadget.chain);
        let mut out: [Poly; 2] = std::array::from_fn(|_| self.blank(basis, Domain::Evaluation));
        out.iter_mut().for_each(|poly| poly.words.inherit(digits.words.is_secret() || key.words.is_secret()));
        for prime in 0..basis.chain {
            let [out0, out1] = &mut out;
            self.digit_product_limb(prime, digits, key, [out0.limb_mut(prime), out1.limb_mut(prime)]);
        }
        Ok(out)
    }

    /// `acc += sum_k (X^e_k - 1) (digits . key_k)` over the terms `(e_k, key_k)`, in the evaluation domain. A blind
    /// rotation adds this sum to its accumulator for the bits that it processes together. Exponents are modulo `2n`; a
    /// term whose exponent is zero adds nothing and is skipped.
    ///
    /// # Errors
    /// As for [`Ring::digit_product`], or if `acc` is in the coefficient domain or over other primes.
    pub fn add_rotated_differences(
        &self,
        acc: &mut [Poly; 2],
        digits: &GadgetDigits,
        terms: &[(u32, &DigitKey)],
    ) -> Result<(), RingError> {
        const OPERATION: &str = "add rotated differences";
        let needed = Basis::chain(digits.gadget.chain);
        acc.iter().try_for_each(|poly| self.check_values(OPERATION, poly, needed))?;
        terms.iter().try_for_each(|(_, key)| self.check_digit_key(digits, key))?;
        let n = self.degree();
        let moves = |(exponent, _): &&(u32, &DigitKey)| exponent % (2 * n as u32) != 0;
        let terms: Vec<(u32, &DigitKey)> = terms.iter().filter(moves).copied().collect();
        if let Some(on) = self.on() {
            return on.add_rotated_differences(self, acc, digits, &terms);
        }
        let powers = self.root_powers();
        let secret = digits.words.is_secret() || terms.iter().any(|(_, key)| key.words.is_secret());
        acc.iter_mut().for_each(|poly| poly.words.inherit(secret));
        let mut scratch = self.scratch(3 * n, secret);
        let (factor, products) = scratch.split_at_mut(n);
        let (first, second) = products.split_at_mut(n);
        for (prime, powers) in powers.iter().enumerate().take(needed.chain) {
            let modulus = self.modulus(prime);
            for &(exponent, key) in &terms {
                self.digit_product_limb(prime, digits, key, [&mut *first, &mut *second]);
                self.kernels().rotation_difference(modulus, powers, exponent, factor);
                let [acc0, acc1] = &mut *acc;
                self.kernels().mul_add_assign(modulus, acc0.limb_mut(prime), first, factor);
                self.kernels().mul_add_assign(modulus, acc1.limb_mut(prime), second, factor);
            }
        }
        Ok(())
    }

    /// `poly * X^exponent` in the coefficient domain; the exponent is modulo `2n`. Standard ring.
    ///
    /// # Errors
    /// If the polynomial is in the evaluation domain, or the ring is conjugate-invariant.
    pub fn rotated(&self, poly: &Poly, exponent: u32) -> Result<Poly, RingError> {
        self.check_domain("multiply by a power of X", poly, Domain::Coefficient)?;
        self.check_standard("multiply by a power of X")?;
        let n = self.degree();
        let exponent = exponent as usize % (2 * n);
        if let Some(on) = self.on() {
            return on.coefficient_map(self, poly, 1, exponent as u32);
        }
        let (shift, negated) = (exponent % n, exponent >= n);
        let mut result = self.blank_from(&[poly], poly.basis(), Domain::Coefficient);
        self.for_each_limb(&mut result, |i, prime, limb| {
            let (source, modulus) = (poly.limb(i), self.modulus(prime));
            limb[shift..].copy_from_slice(&source[..n - shift]);
            limb[..shift].copy_from_slice(&source[n - shift..]);
            let wrapped = if negated { &mut limb[shift..] } else { &mut limb[..shift] };
            wrapped.iter_mut().for_each(|x| *x = modulus.neg(*x));
        });
        Ok(result)
    }

    fn digit_product_limb(&self, prime: usize, digits: &GadgetDigits, key: &DigitKey, out: [&mut [u32]; 2]) {
        let stride = self.stride();
        let limbs = digits.words[prime * digits.rows * stride..][..digits.rows * stride].chunks_exact(stride);
        let limbs: Vec<&[u32]> = limbs.map(|limb| &limb[..self.degree()]).collect();
        let rows: Vec<&[u32]> = key.rows(prime).collect();
        self.kernels().inner_product(self.modulus(prime), &limbs, &rows, out);
    }

    fn check_digit_key(&self, digits: &GadgetDigits, key: &DigitKey) -> Result<(), RingError> {
        const OPERATION: &str = "digit product";
        self.check_words(OPERATION, &digits.words)?;
        self.check_rows(OPERATION, key)?;
        let same = key.gadget == digits.gadget && key.rows == digits.rows;
        let what = "the rows of a digit key";
        if same { Ok(()) } else { Err(RingError::Length { what, found: key.rows, needed: "one per digit" }) }
    }

    /// Checks that a key was made by this ring object and can be had.
    pub(crate) fn check_rows(&self, operation: &'static str, key: &DigitKey) -> Result<(), RingError> {
        if !Arc::ptr_eq(&key.owner, self.pool()) {
            return Err(RingError::ForeignOperand { operation });
        }
        if key.words.is_here() { Ok(()) } else { self.check_words(operation, &key.words) }
    }

    /// The product of the first one or two primes.
    fn chain_product(&self, chain: usize) -> u64 {
        self.chain()[..chain].iter().map(|&q| u64::from(q)).product()
    }

    pub(crate) fn digit_table(&self, gadget: DigitGadget) -> DigitTable {
        let product = self.chain_product(gadget.chain);
        let DigitGadget { log2_base, levels, drop, .. } = gadget;
        let shifts = (0..levels as u32).map(|level| 1i64 << (drop + log2_base * (level + 1) - 1));
        let rounding = if drop == 0 { 0 } else { 1i64 << (drop - 1) };
        let second = (gadget.chain == 2).then(|| {
            let (first, modulus) = (self.chain()[0], *self.modulus(1));
            let inverse = modulus.shoup(modulus.inv(first % modulus.q));
            Composition { modulus, first, lift: first.div_ceil(modulus.q) * modulus.q, inverse }
        });
        DigitTable { log2_base, drop, half: product / 2, product, offset: shifts.sum::<i64>() + rounding, second }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modular::primes_descending;
    use crate::{Backend, RingKind, RingLiteral, SecretRng};

    const N: usize = 512;

    fn ring(backend: Backend, chain: usize) -> Ring {
        let chain = primes_descending(1 << 25, 1 << 27, 2 * N as u32).take(chain).collect();
        let literal =
            RingLiteral { degree: N, kind: RingKind::Standard, chain, terminal: vec![], special: vec![], digit_len: 1 };
        Ring::new(literal, backend).unwrap()
    }

    fn backends() -> impl Iterator<Item = Backend> {
        Backend::ALL.into_iter().filter(|backend| backend.is_available())
    }

    /// Coefficients between `-Q/2` and `Q/2`.
    fn integers(ring: &Ring, poly: &Poly) -> Vec<i128> {
        let mut poly = poly.clone();
        ring.to_coefficients(&mut poly).unwrap();
        let product = i128::from(ring.chain_product(poly.basis().chain));
        let primes: Vec<i128> = ring.primes(poly.basis()).map(i128::from).collect();
        (0..N)
            .map(|i| {
                let mut x = i128::from(poly.limb(0)[i]);
                if let [first, second] = primes[..] {
                    let found = i128::from(poly.limb(1)[i]);
                    let inverse = i128::from(ring.modulus(1).inv((first % second) as u32));
                    x += first * ((found - x).rem_euclid(second) * inverse % second);
                }
                if x > product / 2 { x - product } else { x }
            })
            .collect()
    }

    /// A key whose rows are the weights of the digits times `poly`: its products are products with `poly` up to
    /// rounding.
    fn transparent_key(ring: &Ring, gadget: DigitGadget, poly: &Poly, components: usize) -> DigitKey {
        let row = |level: usize| {
            let mut row = poly.clone();
            ring.scale_assign(&mut row, 1 << gadget.log2_weight(level)).unwrap();
            row
        };
        let weighted: Vec<Poly> = (0..gadget.levels()).map(row).collect();
        let zero = ring.zero(Basis::chain(gadget.chain()), Domain::Evaluation);
        let first = weighted.iter().map(|row| [row, &zero]);
        let second = weighted.iter().map(|row| [&zero, row]);
        let rows: Vec<[&Poly; 2]> = if components == 1 { first.collect() } else { first.chain(second).collect() };
        ring.digit_key(gadget, &rows).unwrap()
    }

    fn uniform(ring: &Ring, stream: u32) -> Poly {
        ring.uniform(&SecretRng::insecure_from_seed(1).seed(), stream, Basis::chain(ring.chain().len()))
    }

    fn coefficients(ring: &Ring, mut poly: Poly) -> Poly {
        ring.to_coefficients(&mut poly).unwrap();
        poly
    }

    #[test]
    fn digits_add_up_to_what_was_cut() {
        for (backend, chain) in backends().flat_map(|backend| [1, 2].map(|chain| (backend, chain))) {
            let ring = ring(backend, chain);
            let one = ring.evaluate_i32(&std::array::from_fn::<i32, N, _>(|i| i32::from(i == 0)), Basis::chain(chain));
            let one = one.unwrap();
            let operand = coefficients(&ring, uniform(&ring, 0));
            for (log2_base, levels) in [(7, 3), (13, 2), (5, 6), (3, 9), (1, 20)] {
                let gadget = ring.digit_gadget(chain, log2_base, levels.min(27 * chain / log2_base as usize)).unwrap();
                let digits = ring.digits(gadget, &[&operand]).unwrap();
                let [sum, none] = ring.digit_product(&digits, &transparent_key(&ring, gadget, &one, 1)).unwrap();
                let (found, wanted) = (integers(&ring, &sum), integers(&ring, &operand));
                let rounding = (1i128 << gadget.log2_weight(0)) / 2;
                assert!(found.iter().zip(&wanted).all(|(f, w)| (f - w).abs() <= rounding), "{backend:?} {gadget:?}");
                assert!(integers(&ring, &none).iter().all(|&x| x == 0));
            }
        }
    }

    #[test]
    fn whole_modulus_is_cut_exactly() {
        let ring = ring(Backend::detect(), 2);
        let gadget = ring.digit_gadget(2, 9, 6).unwrap();
        assert_eq!((gadget.log2_weight(0), gadget.log2_weight(5)), (0, 45));
        let (a, b) = (uniform(&ring, 0), uniform(&ring, 1));
        let digits = ring.digits(gadget, &[&coefficients(&ring, a.clone())]).unwrap();
        let [product, _] = ring.digit_product(&digits, &transparent_key(&ring, gadget, &b, 1)).unwrap();
        assert_eq!(integers(&ring, &product), integers(&ring, &ring.mul(&a, &b).unwrap()));
    }

    #[test]
    fn rotated_differences_are_what_they_say() {
        for backend in backends() {
            let ring = ring(backend, 2);
            let gadget = ring.digit_gadget(2, 9, 6).unwrap();
            let [a, b, c, d] = [0, 1, 2, 3].map(|stream| uniform(&ring, stream));
            let pair = [&a, &b].map(|poly| coefficients(&ring, poly.clone()));
            let digits = ring.digits(gadget, &[&pair[0], &pair[1]]).unwrap();
            let keys = [&c, &d].map(|poly| transparent_key(&ring, gadget, poly, 2));
            let exponents = [3 * N as u32 / 2 + 7, 5];
            let mut acc = [a.clone(), b.clone()];
            let terms = [(exponents[0], &keys[0]), (exponents[1], &keys[1]), (2 * N as u32, &keys[0])];
            ring.add_rotated_differences(&mut acc, &digits, &terms).unwrap();
            for (acc, start) in acc.iter().zip([&a, &b]) {
                let mut expected = coefficients(&ring, start.clone());
                for (factor, exponent) in [&c, &d].into_iter().zip(exponents) {
                    let product = coefficients(&ring, ring.mul(start, factor).unwrap());
                    ring.add_assign(&mut expected, &ring.rotated(&product, exponent).unwrap()).unwrap();
                    ring.sub_assign(&mut expected, &product).unwrap();
                }
                assert_eq!(integers(&ring, acc), integers(&ring, &expected));
            }
        }
    }

    #[test]
    fn rotation_wraps_with_a_sign() {
        let ring = ring(Backend::detect(), 1);
        let one = ring.from_i32(&std::array::from_fn::<i32, N, _>(|i| i as i32), Basis::chain(1)).unwrap();
        for exponent in [0, 1, N, N + 3, 2 * N - 1] {
            let found = integers(&ring, &ring.rotated(&one, exponent as u32).unwrap());
            for i in 0..N {
                let (at, sign) = ((i + exponent) % N, if (i + exponent) / N % 2 == 1 { -1 } else { 1 });
                assert_eq!(found[at], sign * i as i128);
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let ring = ring(Backend::detect(), 2);
        assert!(matches!(ring.digit_gadget(3, 9, 2), Err(RingError::Length { found: 3, .. })));
        assert!(matches!(ring.digit_gadget(2, 29, 1), Err(RingError::Length { found: 29, .. })));
        assert!(matches!(ring.digit_gadget(2, 9, 7), Err(RingError::Length { found: 7, .. })));
        let gadget = ring.digit_gadget(2, 9, 2).unwrap();
        let a = uniform(&ring, 0);
        assert!(matches!(ring.digits(gadget, &[&a]), Err(RingError::Domain { .. })));
        let a = coefficients(&ring, a);
        let digits = ring.digits(gadget, &[&a]).unwrap();
        let whole = transparent_key(&ring, gadget, &uniform(&ring, 1), 2);
        assert!(matches!(ring.digit_product(&digits, &whole), Err(RingError::Length { .. })));
    }
}
