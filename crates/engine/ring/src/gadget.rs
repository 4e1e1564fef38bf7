//! The hybrid RNS gadget: decomposition into digits of several primes, and products with gadget keys.
//!
//! The terminal primes and then the chain are split into digits of `digit_len` primes. Let `Q_d` be the product of the
//! primes of digit `d`, and `P` the product of the special primes. A gadget encryption of `m` contains, for each digit,
//! an encryption of `P (Q/Q_d) [(Q/Q_d)^-1 mod Q_d] m`, which is `P m` modulo the primes of digit `d` and zero modulo
//! all others; so it does not depend on the level. A basis that lacks primes of a digit has a smaller digit. A product
//! raises every digit of its operand to the whole extended basis, multiplies and adds; dividing by `P` afterwards gives
//! the product with a small error (Han and Ki, "Better bootstrapping for approximate homomorphic encryption", CT-RSA
//! 2020, section 3).
//!
//! Polynomials over few primes have small digits, for which a smaller `P` is enough, and every prime of `P` costs
//! transforms. So a key has a short form for them: the key over few primes, divided by all special primes but the first
//! few. That division is public, and its rounding errors are the errors of the short form.

use std::convert::Infallible;
use std::sync::Arc;

use rayon::prelude::*;
use unspoken_device::Device;

use crate::basis::{Basis, Domain, Special};
use crate::decomposition_table::{DecompositionTable, Member, TILE};
use crate::device::tables::Decomposition;
use crate::division::{conversion_target, digit_scale, product_mod};
use crate::error::RingError;
use crate::gadget_key::{GadgetKey, KeyRows};
use crate::kernels::ConversionTarget;
use crate::memory::Words;
use crate::modular::Shoup;
use crate::poly::Poly;
use crate::ring::{Ring, cached};

impl DecompositionTable {
    /// The constants of the decomposition of polynomials over a basis.
    fn new(ring: &Ring, basis: Basis) -> Self {
        let mut digits: Vec<Vec<Member>> = vec![Vec::new(); ring.digit_count(basis.chain)];
        for (limb, prime) in ring.prime_indices(basis).enumerate() {
            if let Some(digit) = ring.digit_of(prime) {
                digits[digit].push(Member { prime, limb });
            }
        }
        let members: Vec<Vec<usize>> = digits.iter().map(|d| d.iter().map(|member| member.prime).collect()).collect();
        let scale = |prime: usize| {
            let digit = members.iter().find(|digit| digit.contains(&prime)).expect("each prime is in a digit");
            digit_scale(ring, prime, digit)
        };
        let scales = ring.prime_indices(basis).map(scale).collect();
        let targets: Vec<usize> = ring.prime_indices(ring.switching_basis(basis)).collect();
        let conversions = targets
            .par_chunks(TILE)
            .map(|tile| {
                let outside = |d: &Vec<usize>| {
                    let outside = tile.iter().filter(|prime| !d.contains(prime));
                    outside.map(|&prime| centred_target(ring, prime, d)).collect()
                };
                members.iter().map(outside).collect()
            })
            .collect();
        DecompositionTable { digits, scales, conversions }
    }
}

/// As [`conversion_target`], for plain digits that were shifted by half their primes ([`half`]): the offset undoes the
/// shift.
fn centred_target(ring: &Ring, prime: usize, digit: &[usize]) -> ConversionTarget {
    let mut target = conversion_target(ring, prime, digit);
    let modulus = target.modulus;
    let shifts = digit.iter().zip(&target.factors).map(|(&i, &factor)| modulus.mul(half(ring, i) % modulus.q, factor));
    target.offset = modulus.neg(shifts.fold(0, |sum, shift| modulus.add(sum, shift)));
    target
}

/// Half of a prime, rounded down: the shift of its plain digits.
fn half(ring: &Ring, prime: usize) -> u32 {
    ring.modulus(prime).q / 2
}

/// A polynomial whose digits are raised to the extended basis, for products with many keys (hoisting).
pub struct RnsDigits {
    /// `[prime][digit]` limbs.
    pub(crate) words: Words,
    pub(crate) basis: Basis,
    /// The basis to which the digits are raised.
    pub(crate) raised: Basis,
    pub(crate) digits: usize,
    /// The rows of the keys that multiply these digits.
    pub(crate) rows: KeyRows,
}

impl RnsDigits {
    /// The basis of the decomposed polynomial.
    pub fn basis(&self) -> Basis {
        self.basis
    }

    /// The basis to which the digits are raised.
    pub fn raised(&self) -> Basis {
        self.raised
    }
}

impl Ring {
    /// Number of digits of a polynomial over the first `chain` primes and any number of terminal primes.
    pub fn digit_count(&self, chain: usize) -> usize {
        (self.terminal().len() + chain).div_ceil(self.digit_len())
    }

    /// The digit of a prime; none for a special prime.
    fn digit_of(&self, prime: usize) -> Option<usize> {
        let (chain, terminal) = (self.chain().len(), self.terminal().len());
        let place = if prime < chain { terminal + prime } else { prime - chain };
        (prime < chain + terminal).then(|| place / self.digit_len())
    }

    /// The primes of each digit of a polynomial over `basis`.
    pub fn digit_primes(&self, basis: Basis) -> Vec<Vec<u32>> {
        let mut digits = vec![Vec::new(); self.digit_count(basis.chain)];
        for prime in self.prime_indices(basis.without_special()) {
            digits[self.digit_of(prime).expect("it is not special")].push(self.modulus(prime).q);
        }
        digits
    }

    /// Adds `P * digit_mask_d * poly` to `target`: the gadget's message in digit `d`. Evaluation domain, extended
    /// basis.
    ///
    /// # Errors
    /// If the operands differ in basis or domain.
    pub fn add_gadget_message(&self, target: &mut Poly, poly: &Poly, digit: usize) -> Result<(), RingError> {
        self.check_domain("gadget message", target, Domain::Evaluation)?;
        self.check_domain("gadget message", poly, Domain::Evaluation)?;
        let basis = target.basis();
        if !poly.basis().contains(basis.without_special()) {
            let (found, needed) = (poly.basis(), basis);
            return Err(RingError::Basis { operation: "gadget message", found, needed });
        }
        target.words.inherit(poly.is_secret());
        self.fetch(target)?;
        let poly = &*self.here(poly)?;
        self.for_each_limb(target, |i, prime, limb| {
            if self.digit_of(prime) == Some(digit) {
                self.add_special_multiple(basis, prime, limb, poly.limb_over(basis, i));
            }
        });
        Ok(())
    }

    /// `P * poly` over [`Ring::switching_basis`], so that a polynomial can be added to gadget products that are not yet
    /// divided by `P`. Evaluation domain.
    ///
    /// # Errors
    /// If `poly` is in the coefficient domain or over special primes already.
    pub fn lift_special(&self, poly: &Poly) -> Result<Poly, RingError> {
        let basis = self.switching_basis(poly.basis().without_special());
        let mut result = match self.on() {
            Some(on) => on.zero(self, basis)?,
            None => self.zero(basis, Domain::Evaluation),
        };
        self.add_lifted_assign(&mut result, poly)?;
        Ok(result)
    }

    /// `acc += P * poly`, where `acc` is over an extended basis, with `P` the product of its special primes, and `poly`
    /// over the same primes without the special ones. Evaluation domain.
    ///
    /// # Errors
    /// If a basis or a domain is not as described.
    pub fn add_lifted_assign(&self, acc: &mut Poly, poly: &Poly) -> Result<(), RingError> {
        const OPERATION: &str = "lift to the extended basis";
        self.check_domain(OPERATION, acc, Domain::Evaluation)?;
        self.check_domain(OPERATION, poly, Domain::Evaluation)?;
        let (found, needed) = (poly.basis(), acc.basis().without_special());
        if found != needed || acc.basis().special == Special::None {
            return Err(RingError::Basis { operation: OPERATION, found, needed });
        }
        acc.words.inherit(poly.is_secret());
        let extended = acc.basis();
        if let Some(on) = self.on() {
            return on.add_scaled(self, acc, poly, |prime| self.special_product(extended, prime));
        }
        self.for_each_limb(acc, |i, prime, limb| {
            if i < needed.chain + needed.terminal {
                self.add_special_multiple(extended, prime, limb, poly.limb(i));
            }
        });
        Ok(())
    }

    /// `acc += P * source` modulo a prime that is not special, with `P` the product of the special primes of `basis`.
    fn add_special_multiple(&self, basis: Basis, prime: usize, acc: &mut [u32], source: &[u32]) {
        self.kernels().add_scaled_assign(self.modulus(prime), acc, source, self.special_product(basis, prime));
    }

    /// The product of the special primes of `basis` modulo a prime.
    fn special_product(&self, basis: Basis, prime: usize) -> Shoup {
        let modulus = self.modulus(prime);
        let first = self.chain().len() + self.terminal().len();
        modulus.shoup(product_mod(self, modulus, first..first + self.special_primes(basis).len()))
    }

    /// Raises every digit of `poly` to [`Ring::switching_basis`]. Evaluation domain.
    ///
    /// # Errors
    /// If `poly` is in the coefficient domain or over special primes, or the ring has none.
    pub fn decompose(&self, poly: &Poly) -> Result<RnsDigits, RingError> {
        let basis = self.check_digits(poly)?;
        if let Some(on) = self.on() {
            return on.decompose(self, poly);
        }
        let plain = self.plain_digits(poly)?;
        let table = self.decomposition(basis);
        let digits = table.digits.len();
        let primes: Vec<usize> = self.prime_indices(self.switching_basis(basis)).collect();
        let stride = self.stride();
        let mut words = self.scratch(primes.len() * digits * stride, poly.is_secret());
        let tiles = words.par_chunks_mut(TILE * digits * stride).zip(primes.par_chunks(TILE));
        tiles.enumerate().for_each(|(tile, (words, primes))| {
            self.raise_tile(&table, tile, primes, poly, &plain, words);
            self.copy_own_digits(&table, primes, poly, words);
        });
        Ok(RnsDigits { words, basis, raised: self.switching_basis(basis), digits, rows: KeyRows::EachDigit })
    }

    /// A polynomial over a basis with all special primes as its own only digit, for products with keys of one row
    /// ([`KeyRows::One`](crate::KeyRows)). Evaluation domain.
    ///
    /// # Errors
    /// If `poly` is in the coefficient domain or over another basis.
    pub fn only_digit(&self, poly: Poly) -> Result<RnsDigits, RingError> {
        const OPERATION: &str = "only digit";
        self.check_domain(OPERATION, &poly, Domain::Evaluation)?;
        let (found, needed) = (poly.basis(), poly.basis().with_special());
        if found != needed {
            return Err(RingError::Basis { operation: OPERATION, found, needed });
        }
        let (basis, raised) = (found.without_special(), found);
        Ok(RnsDigits { words: poly.words, basis, raised, digits: 1, rows: KeyRows::One })
    }

    /// `sum_d digit_d key_d` for both components of the key, over [`Ring::switching_basis`]: `P` times the product.
    ///
    /// # Errors
    /// If the key covers fewer chain primes than `poly` or has other special primes, or as for [`Ring::decompose`].
    pub fn gadget_product(&self, poly: &Poly, key: &GadgetKey) -> Result<[Poly; 2], RingError> {
        let basis = poly.basis();
        self.check_key("gadget product", (self.switching_basis(basis), KeyRows::EachDigit), key)?;
        self.check_digits(poly)?;
        if let Some(on) = self.on() {
            return on.key_products(self, &on.decompose(self, poly)?, &[(key, 1)]);
        }
        let plain = self.plain_digits(poly)?;
        let table = self.decomposition(basis);
        let digits = table.digits.len();
        let extended = self.switching_basis(basis);
        let primes: Vec<usize> = self.prime_indices(extended).collect();
        let (n, stride) = (self.degree(), self.stride());
        let secret = poly.is_secret() || key.is_secret();
        let mut out: [Poly; 2] = std::array::from_fn(|_| self.blank(extended, Domain::Evaluation));
        out.iter_mut().for_each(|component| component.words.inherit(secret));
        let [out0, out1] = &mut out;
        let tiles = out0.words.par_chunks_mut(TILE * stride).zip(out1.words.par_chunks_mut(TILE * stride));
        tiles.zip(primes.par_chunks(TILE)).enumerate().for_each(|(tile, ((out0, out1), primes))| {
            let mut raised = self.scratch(primes.len() * digits * stride, poly.is_secret());
            self.raise_tile(&table, tile, primes, poly, &plain, &mut raised);
            let outputs = out0.chunks_exact_mut(stride).zip(out1.chunks_exact_mut(stride));
            for ((&prime, limbs), (out0, out1)) in primes.iter().zip(raised.chunks_exact(digits * stride)).zip(outputs)
            {
                let raised = limbs.chunks_exact(stride).enumerate();
                let limbs: Vec<&[u32]> = raised
                    .map(|(digit, raised)| match table.own_limb(digit, prime) {
                        Some(limb) => poly.limb(limb),
                        None => &raised[..n],
                    })
                    .collect();
                self.multiply_digits(prime, &limbs, key, [&mut out0[..n], &mut out1[..n]]);
            }
        });
        Ok(out)
    }

    /// As [`Ring::gadget_product`], for digits that are already raised.
    ///
    /// # Errors
    /// If the key covers fewer chain primes than the digits or has other special primes.
    pub fn gadget_product_hoisted(&self, digits: &RnsDigits, key: &GadgetKey) -> Result<[Poly; 2], RingError> {
        self.check_key("hoisted gadget product", (digits.raised, digits.rows), key)?;
        self.check_words("hoisted gadget product", &digits.words)?;
        if let Some(on) = self.on() {
            return on.key_products(self, digits, &[(key, 1)]);
        }
        let basis = digits.raised;
        let primes: Vec<usize> = self.prime_indices(basis).collect();
        let (n, stride) = (self.degree(), self.stride());
        let secret = digits.words.is_secret() || key.is_secret();
        let mut out: [Poly; 2] = std::array::from_fn(|_| self.blank(basis, Domain::Evaluation));
        out.iter_mut().for_each(|component| component.words.inherit(secret));
        let [out0, out1] = &mut out;
        let outputs = out0.words.par_chunks_mut(stride).zip(out1.words.par_chunks_mut(stride));
        let raised = digits.words.par_chunks_exact(digits.digits * stride);
        outputs.zip(raised).zip(&primes).for_each(|(((out0, out1), raised), &prime)| {
            let limbs: Vec<&[u32]> = raised.chunks_exact(stride).map(|limb| &limb[..n]).collect();
            self.multiply_digits(prime, &limbs, key, [&mut out0[..n], &mut out1[..n]]);
        });
        Ok(out)
    }

    /// The constants of the decomposition of polynomials over a basis.
    fn decomposition(&self, basis: Basis) -> Arc<DecompositionTable> {
        let make = || Ok::<_, Infallible>(DecompositionTable::new(self, basis));
        let Ok(table) = cached(&self.caches().decompositions, basis, make);
        table
    }

    /// The same constants on a device.
    pub(crate) fn decomposition_on(&self, basis: Basis, device: &Device) -> Result<Decomposition, RingError> {
        let primes: Vec<usize> = self.prime_indices(self.switching_basis(basis)).collect();
        let shifts: Vec<u32> = self.prime_indices(basis).map(|prime| half(self, prime)).collect();
        self.decomposition(basis).on_device(device, &primes, &shifts)
    }

    /// The residues of the digits modulo their own primes, as plain coefficients `z_i` shifted by half their prime.
    ///
    /// A digit is raised as `sum_i (z_i + h_i mod q_i) Q_d/q_i - sum_i h_i Q_d/q_i`, so that its coefficients have mean
    /// zero. Without the shift their mean is a multiple of `1 + X + X^2 + ...`, which is huge at the slots whose root
    /// is close to 1, so the noise of every key switch accumulates in those slots.
    fn plain_digits(&self, poly: &Poly) -> Result<Poly, RingError> {
        let needed = self.check_digits(poly)?;
        let table = self.decomposition(needed);
        let mut plain = self.blank_from(&[poly], needed, Domain::Coefficient);
        self.for_each_limb(&mut plain, |i, prime, limb| {
            self.kernels().ntt_inverse_from(self.table(prime), poly.limb(i), limb, table.scales[i]);
            self.unfold(prime, limb);
            self.kernels().add_word_assign(self.modulus(prime), limb, half(self, prime));
        });
        Ok(plain)
    }

    /// The basis of a polynomial, which must be one that has digits.
    fn check_digits(&self, poly: &Poly) -> Result<Basis, RingError> {
        self.check_domain("decompose", poly, Domain::Evaluation)?;
        let (found, needed) = (poly.basis(), poly.basis().without_special());
        if found != needed || self.special().is_empty() {
            return Err(RingError::Basis { operation: "decompose", found, needed });
        }
        Ok(found)
    }

    /// Fills the `[prime][digit]` limbs of one tile, except each prime's own digit.
    fn raise_tile(
        &self,
        table: &DecompositionTable,
        tile: usize,
        primes: &[usize],
        poly: &Poly,
        plain: &Poly,
        raised: &mut [u32],
    ) {
        debug_assert_eq!(poly.basis(), plain.basis());
        let (n, stride, digits) = (self.degree(), self.stride(), table.digits.len());
        let mut limbs: Vec<Vec<Option<&mut [u32]>>> = raised
            .chunks_exact_mut(digits * stride)
            .map(|row| row.chunks_exact_mut(stride).map(|limb| Some(&mut limb[..n])).collect())
            .collect();
        let mut by_prime: Vec<Vec<&mut [u32]>> = primes.iter().map(|_| Vec::with_capacity(digits)).collect();
        for (d, digit) in table.digits.iter().enumerate() {
            let outside: Vec<usize> = (0..primes.len()).filter(|&t| table.own_limb(d, primes[t]).is_none()).collect();
            let mut outputs: Vec<&mut [u32]> = outside.iter().filter_map(|&t| limbs[t][d].take()).collect();
            let sources: Vec<&[u32]> = digit.iter().map(|member| plain.limb(member.limb)).collect();
            self.kernels().convert(&sources, &table.conversions[tile][d], &mut outputs);
            outside.iter().zip(outputs).for_each(|(&t, limb)| by_prime[t].push(limb));
        }
        for (&prime, mut limbs) in primes.iter().zip(by_prime) {
            self.forward(prime, &mut limbs);
        }
    }

    fn copy_own_digits(&self, table: &DecompositionTable, primes: &[usize], poly: &Poly, raised: &mut [u32]) {
        let (n, stride, digits) = (self.degree(), self.stride(), table.digits.len());
        for (&prime, row) in primes.iter().zip(raised.chunks_exact_mut(digits * stride)) {
            for digit in 0..digits {
                if let Some(limb) = table.own_limb(digit, prime) {
                    row[digit * stride..][..n].copy_from_slice(poly.limb(limb));
                }
            }
        }
    }
}
