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

use std::sync::Arc;

use rayon::prelude::*;

use crate::division::{conversion_target, digit_scale, product_mod};
use crate::error::RingError;
use crate::kernels::{ConversionTarget, KEY_BLOCK};
use crate::memory::{Pool, Words};
use crate::modular::Shoup;
use crate::poly::{Basis, Domain, Poly, Special};
use crate::ring::Ring;

/// Number of primes for which digits are raised, transformed and multiplied together, so that the digits are read once
/// for all of them.
const TILE: usize = 4;

/// Bits by which the product of the special primes of the short form exceeds every digit. The noise of a key switch
/// with a short form is then far below the rounding error of its division, although rounding errors of its keys are
/// about four bits above fresh ones.
pub const SHORT_MARGIN: f64 = 16.0;

/// Constants of the decomposition of polynomials over one basis.
pub(crate) struct DecompositionTable {
    /// The primes of each digit.
    digits: Vec<Vec<Member>>,
    /// Per limb: `(Q_d/q)^-1 / (n R)`.
    scales: Vec<Shoup>,
    /// `[tile][digit]`: the primes of the tile outside the digit.
    conversions: Vec<Vec<Vec<ConversionTarget>>>,
}

/// A prime of a digit.
#[derive(Clone, Copy)]
struct Member {
    /// Its index in the ring's tables.
    prime: usize,
    /// The limb of a polynomial over the basis.
    limb: usize,
}

impl DecompositionTable {
    pub(crate) fn new(ring: &Ring, basis: Basis) -> Self {
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

    /// The limb of a prime of a digit.
    fn own_limb(&self, digit: usize, prime: usize) -> Option<usize> {
        self.digits[digit].iter().find(|member| member.prime == prime).map(|member| member.limb)
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

/// A gadget encryption: for every prime of an extended basis with all terminal primes, and every digit, two residue
/// polynomials. The basis has all special primes, or those of the short form.
///
/// Stored in the order in which the inner product reads it: per prime, per digit, blocks of 64 residues that alternate
/// between the two components.
pub struct GadgetKey {
    /// Identifies the ring of the key.
    owner: Arc<Pool>,
    words: Words,
    basis: Basis,
    digits: usize,
    degree: usize,
}

impl GadgetKey {
    /// The primes of the key. It multiplies polynomials over at most its primes of the chain and any number of terminal
    /// primes whose [`Ring::switching_basis`] has the same special primes.
    pub fn basis(&self) -> Basis {
        self.basis
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> usize {
        self.words.len() * size_of::<u32>()
    }

    pub(crate) fn is_secret(&self) -> bool {
        self.words.is_secret()
    }

    fn row(&self, prime: usize, digit: usize) -> &[u32] {
        let len = 2 * self.degree;
        &self.words[(prime * self.digits + digit) * len..][..len]
    }
}

impl std::fmt::Debug for GadgetKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GadgetKey").field("basis", &self.basis).field("digits", &self.digits).finish_non_exhaustive()
    }
}

/// A polynomial whose digits are raised to the extended basis, for products with many keys (hoisting).
pub struct Decomposed {
    /// `[prime][digit]` limbs.
    pub(crate) words: Words,
    pub(crate) basis: Basis,
    pub(crate) digits: usize,
}

impl Decomposed {
    /// The basis of the decomposed polynomial.
    pub fn basis(&self) -> Basis {
        self.basis
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

    /// The basis of a whole [`GadgetKey`] over the first `chain` primes.
    pub fn gadget_key_basis(&self, chain: usize) -> Basis {
        Basis::extended(chain).with_terminal(self.terminal().len())
    }

    /// The basis to which key switches raise the digits of polynomials over `basis`: with the special primes of the
    /// short form of keys, if every digit is smaller than their product by [`SHORT_MARGIN`] bits, else with all.
    pub fn switching_basis(&self, basis: Basis) -> Basis {
        let short = basis.with_short_special();
        let few = self.special_primes(short);
        let log2 = |primes: &[u32]| primes.iter().map(|&q| f64::from(q).log2()).sum::<f64>();
        let room = log2(few) - SHORT_MARGIN;
        let small = |digit: &Vec<u32>| log2(digit) <= room;
        if few.len() < self.special().len() && self.digit_primes(basis).iter().all(small) {
            short
        } else {
            basis.with_special()
        }
    }

    /// The basis of the short form of keys that cover `chain` primes: the most primes of the chain over which a
    /// polynomial can have the short form as its [`Ring::switching_basis`]. None if there is no such polynomial.
    pub fn short_key_basis(&self, chain: usize) -> Option<Basis> {
        let fits = |&chain: &usize| self.switching_basis(Basis::chain(chain)).special == Special::Short;
        let most = (1..=chain).take_while(fits).last()?;
        Some(Basis::chain(most).with_terminal(self.terminal().len()).with_short_special())
    }

    /// Whether all polynomials over at most `chain` primes and any terminal primes use the short form.
    pub fn is_always_short(&self, chain: usize) -> bool {
        let all = Basis::chain(chain).with_terminal(self.terminal().len());
        self.switching_basis(all).special == Special::Short
    }

    /// Bytes in memory of a [`GadgetKey`] over `basis`.
    pub fn gadget_key_bytes(&self, basis: Basis) -> usize {
        self.limb_count(basis) * self.digit_count(basis.chain) * 2 * self.degree() * size_of::<u32>()
    }

    /// Builds a key from a gadget encryption: `rows[d]` are the two components of digit `d` over
    /// [`Ring::gadget_key_basis`], in the evaluation domain.
    ///
    /// # Errors
    /// If the number of rows is not the number of digits, or a row has another basis or domain.
    pub fn gadget_key(&self, chain: usize, rows: &[[&Poly; 2]]) -> Result<GadgetKey, RingError> {
        let mut builder = self.gadget_key_builder(chain)?;
        for row in rows {
            builder.push(*row)?;
        }
        builder.finish()
    }

    /// A builder for a gadget key that is filled digit by digit, so that the polynomials of only one digit are in
    /// memory besides the key.
    ///
    /// # Errors
    /// If the ring has no special primes or fewer chain primes.
    pub fn gadget_key_builder(&self, chain: usize) -> Result<GadgetKeyBuilder<'_>, RingError> {
        if chain == 0 || chain > self.chain().len() || self.special().is_empty() {
            let all = Basis::chain(self.chain().len());
            let found = if self.special().is_empty() { all } else { all.with_special() };
            return Err(RingError::Basis { operation: "gadget key", found, needed: Basis::extended(chain.max(1)) });
        }
        Ok(self.builder_over(self.gadget_key_basis(chain)))
    }

    fn builder_over(&self, basis: Basis) -> GadgetKeyBuilder<'_> {
        // Keys live long and have many sizes. They get a pool of their own that recycles nothing.
        let words = Pool::new(0).take(self.gadget_key_bytes(basis) / size_of::<u32>());
        let (owner, digits) = (Arc::clone(self.pool()), self.digit_count(basis.chain));
        let key = GadgetKey { owner, words, basis, digits, degree: self.degree() };
        GadgetKeyBuilder { ring: self, key, filled: 0 }
    }

    /// The short form of a key, over [`Ring::short_key_basis`].
    ///
    /// # Errors
    /// If the key is of another ring, is a short form itself, or has none.
    pub fn short_gadget_key(&self, key: &GadgetKey) -> Result<GadgetKey, RingError> {
        const OPERATION: &str = "short form of a key";
        if !Arc::ptr_eq(&key.owner, self.pool()) {
            return Err(RingError::ForeignOperand { operation: OPERATION });
        }
        let (found, needed) = (key.basis, Basis::extended(1).with_terminal(self.terminal().len()));
        let short = self.short_key_basis(found.chain).filter(|_| found.special == Special::All);
        let short = short.ok_or(RingError::Basis { operation: OPERATION, found, needed })?;
        let mut builder = self.builder_over(short);
        for digit in 0..self.digit_count(short.chain) {
            let row = self.key_row(key, digit, short.with_special());
            let [body, mask] = row.each_ref().map(|component| self.rescale_round(component, short));
            builder.push([&body?, &mask?])?;
        }
        builder.finish()
    }

    /// The two components of a digit of a key, over some of its primes.
    fn key_row(&self, key: &GadgetKey, digit: usize, basis: Basis) -> [Poly; 2] {
        std::array::from_fn(|component| {
            let mut poly = self.blank(basis, Domain::Evaluation);
            poly.words.inherit(key.is_secret());
            self.for_each_limb(&mut poly, |i, _, limb| {
                let row = key.row(key.basis.limb_over(basis, i), digit).chunks_exact(2 * KEY_BLOCK);
                for (target, both) in limb.chunks_exact_mut(KEY_BLOCK).zip(row) {
                    target.copy_from_slice(&both[component * KEY_BLOCK..][..KEY_BLOCK]);
                }
            });
            poly
        })
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
        let mut result = self.zero(self.switching_basis(poly.basis().without_special()), Domain::Evaluation);
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
        self.for_each_limb(acc, |i, prime, limb| {
            if i < needed.chain + needed.terminal {
                self.add_special_multiple(extended, prime, limb, poly.limb(i));
            }
        });
        Ok(())
    }

    /// `acc += P * source` modulo a prime that is not special, with `P` the product of the special primes of `basis`.
    fn add_special_multiple(&self, basis: Basis, prime: usize, acc: &mut [u32], source: &[u32]) {
        let modulus = self.modulus(prime);
        let first = self.chain().len() + self.terminal().len();
        let factor = modulus.shoup(product_mod(self, modulus, first..first + self.special_primes(basis).len()));
        self.kernels().add_scaled_assign(modulus, acc, source, factor);
    }

    /// Raises every digit of `poly` to [`Ring::switching_basis`]. Evaluation domain.
    ///
    /// # Errors
    /// If `poly` is in the coefficient domain or over special primes, or the ring has none.
    pub fn decompose(&self, poly: &Poly) -> Result<Decomposed, RingError> {
        let plain = self.plain_digits(poly)?;
        let basis = poly.basis();
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
        Ok(Decomposed { words, basis, digits })
    }

    /// `sum_d digit_d key_d` for both components of the key, over [`Ring::switching_basis`]: `P` times the product.
    ///
    /// # Errors
    /// If the key covers fewer chain primes than `poly` or has other special primes, or as for [`Ring::decompose`].
    pub fn gadget_product(&self, poly: &Poly, key: &GadgetKey) -> Result<[Poly; 2], RingError> {
        let basis = poly.basis();
        self.check_key("gadget product", basis, key)?;
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
    pub fn gadget_product_hoisted(&self, digits: &Decomposed, key: &GadgetKey) -> Result<[Poly; 2], RingError> {
        self.check_key("hoisted gadget product", digits.basis, key)?;
        if !digits.words.belongs_to(self.pool()) {
            return Err(RingError::ForeignOperand { operation: "hoisted gadget product" });
        }
        let basis = self.switching_basis(digits.basis);
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

    pub(crate) fn check_key(&self, operation: &'static str, basis: Basis, key: &GadgetKey) -> Result<(), RingError> {
        if !Arc::ptr_eq(&key.owner, self.pool()) {
            return Err(RingError::ForeignOperand { operation });
        }
        let needed = self.switching_basis(basis);
        if basis.chain > key.basis.chain || needed.special != key.basis.special {
            return Err(RingError::Basis { operation, found: key.basis, needed });
        }
        Ok(())
    }

    /// The residues of the digits modulo their own primes, as plain coefficients `z_i` shifted by half their prime.
    ///
    /// A digit is raised as `sum_i (z_i + h_i mod q_i) Q_d/q_i - sum_i h_i Q_d/q_i`, so that its coefficients have mean
    /// zero. Without the shift their mean is a multiple of `1 + X + X^2 + ...`, which is huge at the slots whose root
    /// is close to 1, so the noise of every key switch accumulates in those slots.
    fn plain_digits(&self, poly: &Poly) -> Result<Poly, RingError> {
        self.check_domain("decompose", poly, Domain::Evaluation)?;
        let (found, needed) = (poly.basis(), poly.basis().without_special());
        if found != needed || self.special().is_empty() {
            return Err(RingError::Basis { operation: "decompose", found, needed });
        }
        let table = self.decomposition(needed);
        let mut plain = self.blank_from(&[poly], needed, Domain::Coefficient);
        self.for_each_limb(&mut plain, |i, prime, limb| {
            self.kernels().ntt_inverse_from(self.table(prime), poly.limb(i), limb, table.scales[i]);
            self.unfold(prime, limb);
            self.kernels().add_word_assign(self.modulus(prime), limb, half(self, prime));
        });
        Ok(plain)
    }

    /// Fills the `[prime][digit]` limbs of one tile, except those of a prime's own digit.
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

    pub(crate) fn multiply_digits(&self, prime: usize, digits: &[&[u32]], key: &GadgetKey, out: [&mut [u32]; 2]) {
        let all = self.chain().len();
        let row = if prime < all { prime } else { key.basis.chain + prime - all };
        let rows: Vec<&[u32]> = (0..digits.len()).map(|d| key.row(row, d)).collect();
        self.kernels().inner_product(self.modulus(prime), digits, &rows, out);
    }
}

/// Fills a [`GadgetKey`] one digit at a time.
pub struct GadgetKeyBuilder<'a> {
    ring: &'a Ring,
    key: GadgetKey,
    filled: usize,
}

impl GadgetKeyBuilder<'_> {
    /// Appends the two components of the next digit: evaluation domain, over the basis of the key.
    ///
    /// # Errors
    /// If the row has another basis or domain, or the key already has all digits.
    pub fn push(&mut self, row: [&Poly; 2]) -> Result<(), RingError> {
        let needed = self.key.basis;
        for component in row {
            self.ring.check_domain("gadget key", component, Domain::Evaluation)?;
            if component.basis() != needed {
                return Err(RingError::Basis { operation: "gadget key", found: component.basis(), needed });
            }
        }
        if self.filled == self.key.digits {
            return Err(self.wrong_count(self.filled + 1));
        }
        self.key.words.inherit(row.iter().any(|component| component.is_secret()));
        let (len, digits, filled) = (2 * self.key.degree, self.key.digits, self.filled);
        self.key.words.par_chunks_exact_mut(digits * len).enumerate().for_each(|(prime, rows)| {
            let target = &mut rows[filled * len..][..len];
            let blocks = row[0].limb(prime).chunks_exact(KEY_BLOCK).zip(row[1].limb(prime).chunks_exact(KEY_BLOCK));
            for (target, (first, second)) in target.chunks_exact_mut(2 * KEY_BLOCK).zip(blocks) {
                target[..KEY_BLOCK].copy_from_slice(first);
                target[KEY_BLOCK..].copy_from_slice(second);
            }
        });
        self.filled += 1;
        Ok(())
    }

    /// The finished key.
    ///
    /// # Errors
    /// If digits are missing.
    pub fn finish(self) -> Result<GadgetKey, RingError> {
        if self.filled == self.key.digits { Ok(self.key) } else { Err(self.wrong_count(self.filled)) }
    }

    fn wrong_count(&self, found: usize) -> RingError {
        RingError::Length { what: "the list of gadget rows", found, needed: "one row per digit" }
    }
}
