//! Keys of the hybrid gadget ([`Ring::gadget_product`]): their forms, and how products read them.

use std::sync::Arc;

use rayon::prelude::*;

use crate::basis::{Basis, Domain, Special};
use crate::error::RingError;
use crate::kernels::KEY_BLOCK;
use crate::memory::{Pool, Words};
use crate::poly::Poly;
use crate::ring::Ring;
use crate::sampling::{Seed, UniformStream};

/// Bits by which the product of the special primes of the short form exceeds every digit. The noise of a key switch
/// with a short form is then far below the rounding error of its division, although the rounding errors of its keys are
/// about four bits above fresh errors.
pub const SHORT_MARGIN: f64 = 16.0;

/// Residues of a mask that are expanded at once. Every degree is a multiple.
const EXPANDED: usize = 512;

/// The rows of a [`GadgetKey`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyRows {
    /// One for each digit of a polynomial.
    EachDigit,
    /// One, for polynomials that are their own only digit ([`Ring::only_digit`]).
    One,
}

/// A gadget encryption: for every prime of an extended basis with all terminal primes, and every row, two residue
/// polynomials. The basis has all special primes, or only the special primes of the short form.
///
/// Stored in the order in which the inner product reads: per prime, per digit, blocks of 64 residues that alternate
/// between the two components. Or only the first components are stored, with a seed from which every product expands
/// the second components.
pub struct GadgetKey {
    /// Identifies the ring of the key.
    owner: Arc<Pool>,
    words: Words,
    /// The seed of the second components, if they are not stored: stream `d` gives the component of digit `d`.
    seed: Option<Seed>,
    basis: Basis,
    rows: KeyRows,
    digits: usize,
    degree: usize,
}

impl GadgetKey {
    /// The primes of the key. It multiplies polynomials over at most its primes of the chain and any number of terminal
    /// primes whose digits are raised to the same special primes.
    pub fn basis(&self) -> Basis {
        self.basis
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> usize {
        self.words.count() * size_of::<u32>()
    }

    pub(crate) fn is_secret(&self) -> bool {
        self.words.is_secret()
    }

    /// The words of a key with both components, its basis and its number of digits.
    pub(crate) fn interleaved(&self) -> (&Words, Basis, usize) {
        debug_assert!(self.seed.is_none(), "a ring on a device expands its keys");
        (&self.words, self.basis, self.digits)
    }

    fn row(&self, prime: usize, digit: usize) -> &[u32] {
        let len = self.row_len();
        &self.words[(prime * self.digits + digit) * len..][..len]
    }

    fn row_len(&self) -> usize {
        if self.seed.is_some() { self.degree } else { 2 * self.degree }
    }

    /// Copies residues of a row into blocks that alternate between the components.
    fn interleave(bodies: &[u32], masks: &[u32], row: &mut [u32]) {
        let blocks = bodies.chunks_exact(KEY_BLOCK).zip(masks.chunks_exact(KEY_BLOCK));
        for (target, (body, mask)) in row.chunks_exact_mut(2 * KEY_BLOCK).zip(blocks) {
            target[..KEY_BLOCK].copy_from_slice(body);
            target[KEY_BLOCK..].copy_from_slice(mask);
        }
    }
}

impl std::fmt::Debug for GadgetKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut f = f.debug_struct("GadgetKey");
        f.field("basis", &self.basis).field("digits", &self.digits).field("seeded", &self.seed.is_some());
        f.finish_non_exhaustive()
    }
}

impl Ring {
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
        self.key_bytes(basis, self.digit_count(basis.chain))
    }

    /// Bytes in memory of a [`GadgetKey`] of one row over `basis`.
    pub fn one_row_key_bytes(&self, basis: Basis) -> usize {
        self.key_bytes(basis, 1)
    }

    fn key_bytes(&self, basis: Basis, rows: usize) -> usize {
        self.limb_count(basis) * rows * 2 * self.degree() * size_of::<u32>()
    }

    /// Builds a key from a gadget encryption: `rows[d]` are the two components of digit `d` over
    /// [`Ring::gadget_key_basis`], in the evaluation domain.
    ///
    /// # Errors
    /// If the number of rows is not the number of digits, or a row has another basis or domain.
    pub fn gadget_key(&self, chain: usize, rows: &[[&Poly; 2]]) -> Result<GadgetKey, RingError> {
        let mut builder = self.gadget_key_builder(chain, KeyRows::EachDigit)?;
        for row in rows {
            builder.push(*row)?;
        }
        builder.finish()
    }

    /// A builder for a gadget key with these rows, filled row by row, so that the polynomials of only one row are in
    /// memory besides the key.
    ///
    /// # Errors
    /// If the ring has no special primes or fewer chain primes.
    pub fn gadget_key_builder(&self, chain: usize, rows: KeyRows) -> Result<GadgetKeyBuilder<'_>, RingError> {
        self.check_covered(chain)?;
        Ok(self.builder_over((self.gadget_key_basis(chain), rows), None))
    }

    /// Checks that keys for ciphertexts of `chain` primes exist.
    fn check_covered(&self, chain: usize) -> Result<(), RingError> {
        if chain == 0 || chain > self.chain().len() || self.special().is_empty() {
            let all = Basis::chain(self.chain().len());
            let found = if self.special().is_empty() { all } else { all.with_special() };
            return Err(RingError::Basis { operation: "gadget key", found, needed: Basis::extended(chain.max(1)) });
        }
        Ok(())
    }

    /// As [`Ring::gadget_key_builder`], for a key whose second components are expanded from a seed as they are used, in
    /// half of the memory: the second component of digit `d` is [`Ring::uniform`] with stream `d`.
    ///
    /// # Errors
    /// As for [`Ring::gadget_key_builder`].
    pub fn seeded_gadget_key_builder(
        &self,
        chain: usize,
        rows: KeyRows,
        seed: Seed,
    ) -> Result<SeededKeyBuilder<'_>, RingError> {
        self.check_covered(chain)?;
        Ok(SeededKeyBuilder(self.builder_over((self.gadget_key_basis(chain), rows), Some(seed))))
    }

    fn builder_over(&self, (basis, rows): (Basis, KeyRows), seed: Option<Seed>) -> GadgetKeyBuilder<'_> {
        let halves = if seed.is_some() { 1 } else { 2 };
        let digits = match rows {
            KeyRows::EachDigit => self.digit_count(basis.chain),
            KeyRows::One => 1,
        };
        // Keys live long and have many sizes. They get a pool of their own that recycles nothing.
        let words = Pool::new(0).take(self.key_bytes(basis, digits) / size_of::<u32>() / 2 * halves);
        let owner = Arc::clone(self.pool());
        let key = GadgetKey { owner, words, seed, basis, rows, digits, degree: self.degree() };
        GadgetKeyBuilder { ring: self, key, filled: 0 }
    }

    /// The short form of a key, over [`Ring::short_key_basis`].
    ///
    /// # Errors
    /// If the key is of another ring, is a short form itself, or has none, as a key of one row.
    pub fn short_gadget_key(&self, key: &GadgetKey) -> Result<GadgetKey, RingError> {
        const OPERATION: &str = "short form of a key";
        if !Arc::ptr_eq(&key.owner, self.pool()) {
            return Err(RingError::ForeignOperand { operation: OPERATION });
        }
        let (found, needed) = (key.basis, Basis::extended(1).with_terminal(self.terminal().len()));
        let short = self.short_key_basis(found.chain);
        let short = short.filter(|_| found.special == Special::All && key.rows == KeyRows::EachDigit);
        let short = short.ok_or(RingError::Basis { operation: OPERATION, found, needed })?;
        let mut builder = self.builder_over((short, KeyRows::EachDigit), None);
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
            self.for_each_limb(&mut poly, |i, prime, limb| {
                let row = key.row(key.basis.limb_over(basis, i), digit);
                match key.seed {
                    Some(_) if component == 0 => limb.copy_from_slice(row),
                    Some(seed) => seed.fill_uniform(self.kernels(), digit as u32, self.modulus(prime).q, limb),
                    None => {
                        let both = row.chunks_exact(2 * KEY_BLOCK);
                        for (target, both) in limb.chunks_exact_mut(KEY_BLOCK).zip(both) {
                            target.copy_from_slice(&both[component * KEY_BLOCK..][..KEY_BLOCK]);
                        }
                    }
                }
            });
            poly
        })
    }

    /// Checks that a key multiplies digits that are raised to this basis and need such rows.
    pub(crate) fn check_key(
        &self,
        operation: &'static str,
        (needed, rows): (Basis, KeyRows),
        key: &GadgetKey,
    ) -> Result<(), RingError> {
        if !Arc::ptr_eq(&key.owner, self.pool()) {
            return Err(RingError::ForeignOperand { operation });
        }
        if needed.chain > key.basis.chain || needed.special != key.basis.special {
            return Err(RingError::Basis { operation, found: key.basis, needed });
        }
        if rows != key.rows {
            let needed = "one for a polynomial that is its own only digit, else one for each digit";
            return Err(RingError::Length { what: "the list of gadget rows", found: key.digits, needed });
        }
        Ok(())
    }

    pub(crate) fn multiply_digits(&self, prime: usize, digits: &[&[u32]], key: &GadgetKey, out: [&mut [u32]; 2]) {
        let all = self.chain().len();
        let row = if prime < all { prime } else { key.basis.chain + prime - all };
        let rows: Vec<&[u32]> = (0..digits.len()).map(|d| key.row(row, d)).collect();
        match &key.seed {
            None => self.kernels().inner_product(self.modulus(prime), digits, &rows, out),
            Some(seed) => self.multiply_expanding(prime, digits, (&rows, seed), out),
        }
    }

    /// The inner product with bodies and the masks of a seed, which are expanded in tiles that stay in the cache.
    fn multiply_expanding(
        &self,
        prime: usize,
        digits: &[&[u32]],
        (bodies, seed): (&[&[u32]], &Seed),
        [out0, out1]: [&mut [u32]; 2],
    ) {
        let (kernels, modulus) = (self.kernels(), self.modulus(prime));
        let mut masks: Vec<UniformStream> = (0..digits.len()).map(|d| seed.stream(d as u32, modulus.q)).collect();
        let mut rows = vec![[0; 2 * EXPANDED]; digits.len()];
        let mut mask = [0; EXPANDED];
        let outputs = out0.chunks_exact_mut(EXPANDED).zip(out1.chunks_exact_mut(EXPANDED));
        for (tile, (out0, out1)) in outputs.enumerate() {
            let range = tile * EXPANDED..(tile + 1) * EXPANDED;
            for ((row, body), masks) in rows.iter_mut().zip(bodies).zip(&mut masks) {
                masks.fill(kernels, &mut mask);
                GadgetKey::interleave(&body[range.clone()], &mask, row);
            }
            let digits: Vec<&[u32]> = digits.iter().map(|digit| &digit[range.clone()]).collect();
            let rows: Vec<&[u32]> = rows.iter().map(|row| row.as_slice()).collect();
            kernels.inner_product(modulus, &digits, &rows, [out0, out1]);
        }
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
        let here = [self.ring.here(row[0])?, self.ring.here(row[1])?];
        self.push_row(&row, |prime, target| {
            GadgetKey::interleave(here[0].limb(prime), here[1].limb(prime), target);
        })
    }

    /// Fills the next row, prime by prime, with data of `components`.
    fn push_row(
        &mut self,
        components: &[&Poly],
        fill: impl Fn(usize, &mut [u32]) + Sync + Send,
    ) -> Result<(), RingError> {
        let needed = self.key.basis;
        for component in components {
            self.ring.check_domain("gadget key", component, Domain::Evaluation)?;
            if component.basis() != needed {
                return Err(RingError::Basis { operation: "gadget key", found: component.basis(), needed });
            }
        }
        if self.filled == self.key.digits {
            return Err(self.wrong_count(self.filled + 1));
        }
        self.key.words.inherit(components.iter().any(|component| component.is_secret()));
        let (len, digits, filled) = (self.key.row_len(), self.key.digits, self.filled);
        self.key.words.par_chunks_exact_mut(digits * len).enumerate().for_each(|(prime, rows)| {
            fill(prime, &mut rows[filled * len..][..len]);
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
        RingError::Length { what: "the list of gadget rows", found, needed: "all rows of the key, and no more" }
    }
}

/// Fills a seeded [`GadgetKey`] one digit at a time.
pub struct SeededKeyBuilder<'a>(GadgetKeyBuilder<'a>);

impl SeededKeyBuilder<'_> {
    /// Appends the first component of the next digit: evaluation domain, over the basis of the key.
    ///
    /// # Errors
    /// If the polynomial has another basis or domain, or the key already has all digits.
    pub fn push(&mut self, body: &Poly) -> Result<(), RingError> {
        let here = self.0.ring.here(body)?;
        self.0.push_row(&[body], |prime, target| target.copy_from_slice(here.limb(prime)))
    }

    /// The finished key.
    ///
    /// # Errors
    /// If digits are missing.
    pub fn finish(self) -> Result<GadgetKey, RingError> {
        let ring = self.0.ring;
        let key = self.0.finish()?;
        // Devices expand no seeds.
        if ring.device().is_none() {
            return Ok(key);
        }
        let mut builder = ring.builder_over((key.basis, key.rows), None);
        for digit in 0..key.digits {
            let row = ring.key_row(&key, digit, key.basis);
            builder.push(row.each_ref())?;
        }
        builder.finish()
    }
}
