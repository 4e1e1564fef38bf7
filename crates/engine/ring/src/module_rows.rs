//! Module ciphertexts: the rows of a matrix product on coefficients.
//!
//! A ciphertext `(b, a)` in the ring of degree `n` under `s` has `k = n / t` module ciphertexts of degree `t` and rank
//! `k` (Bae, Cheon, Hanrot, Park and Stehlé, "Plaintext-ciphertext matrix multiplication and FHE bootstrapping: fast
//! and fused", CRYPTO 2024). With `Z = Y^k` and `p(Y) = sum_i Y^i p_i(Z)` for every polynomial `p`, the message's part
//! `m_i` is `b_i + sum_j r_(i,j) s_j`, where `r_(i,j)` is `a_(i-j)` for `j <= i` and `Z a_(k+i-j)` for the others.
//! Integer combinations of rows `(b_i, r_(i,0), ..., r_(i,k-1))` are module ciphertexts of the same combinations of the
//! messages.

use std::sync::Arc;

use rayon::prelude::*;

use crate::basis::{Basis, Domain};
use crate::error::RingError;
use crate::kind::RingKind;
use crate::matrix::RingMatrix;
use crate::memory::{Pool, Words};
use crate::modular::Modulus;
use crate::poly::Poly;
use crate::ring::Ring;

/// Module ciphertexts of one degree over chain primes, each a row of residues for every prime.
pub struct ModuleRows {
    /// Identifies the ring of which they are parts.
    owner: Arc<Pool>,
    /// `t`.
    degree: usize,
    chain: usize,
    count: usize,
    /// `t` residues of the body and `n` of the mask.
    row_len: usize,
    /// `[prime][row]`.
    pub(crate) words: Words,
}

impl ModuleRows {
    /// Number of module ciphertexts.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The degree `t`.
    pub fn degree(&self) -> usize {
        self.degree
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> usize {
        self.words.count() * size_of::<u32>()
    }

    /// Whether they were made from polynomials that are marked secret.
    pub fn is_secret(&self) -> bool {
        self.words.is_secret()
    }

    pub(crate) fn chain(&self) -> usize {
        self.chain
    }

    /// Residues of a row.
    pub(crate) fn row_len(&self) -> usize {
        self.row_len
    }

    fn limb(&self, prime: usize) -> &[u32] {
        let len = self.count * self.row_len;
        &self.words[prime * len..][..len]
    }

    fn row(&self, prime: usize, index: usize) -> &[u32] {
        &self.words[(prime * self.count + index) * self.row_len..][..self.row_len]
    }

    fn check_indices<'a>(&self, mut indices: impl Iterator<Item = &'a usize>) -> Result<(), RingError> {
        match indices.find(|index| **index >= self.count) {
            None => Ok(()),
            Some(&found) => {
                let what = "the index of a module ciphertext";
                Err(RingError::Length { what, found, needed: "less than their number" })
            }
        }
    }
}

impl Ring {
    /// The parts of a polynomial of a larger ring: coefficient `c` of part `i` is coefficient `i + c r` of `poly`, with
    /// `r` the ratio of the degrees. Coefficient domain in and out; chain primes alone.
    ///
    /// # Errors
    /// If the rings do not fit each other, or the polynomial's domain or basis is not as described.
    pub fn split_from(&self, from: &Ring, poly: &Poly) -> Result<Vec<Poly>, RingError> {
        const OPERATION: &str = "split into a smaller ring";
        from.check_domain(OPERATION, poly, Domain::Coefficient)?;
        let ratio = self.parts_of(OPERATION, from, poly.basis())?;
        if let Some(on) = self.on_with(from) {
            return on.split(self, poly, ratio);
        }
        let poly = &*from.here(poly)?;
        let part = |index: usize| {
            let mut part = self.blank_from(&[poly], poly.basis(), Domain::Coefficient);
            self.for_each_limb(&mut part, |limb, _, target| {
                let source = poly.limb(limb).iter().skip(index).step_by(ratio);
                target.iter_mut().zip(source).for_each(|(target, source)| *target = *source);
            });
            part
        };
        Ok((0..ratio).map(part).collect())
    }

    /// The polynomial with these parts: the inverse of [`Ring::split_from`].
    ///
    /// # Errors
    /// If the rings do not fit each other, the number of parts is not the ratio of the degrees, or their domain or
    /// basis is not as described.
    pub fn merge_from(&self, from: &Ring, parts: &[Poly]) -> Result<Poly, RingError> {
        const OPERATION: &str = "merge into a larger ring";
        let basis = parts.first().map_or(Basis::chain(1), Poly::basis);
        let ratio = from.parts_of(OPERATION, self, basis)?;
        if parts.len() != ratio {
            let what = "the parts of a polynomial";
            return Err(RingError::Length { what, found: parts.len(), needed: "the ratio of the degrees" });
        }
        for part in parts {
            from.check_domain(OPERATION, part, Domain::Coefficient)?;
            if part.basis() != basis {
                return Err(RingError::Basis { operation: OPERATION, found: part.basis(), needed: basis });
            }
        }
        if let Some(on) = self.on_with(from) {
            return on.merge(self, parts, basis);
        }
        let parts = from.all_here(parts)?;
        let mut result =
            self.blank_from(&parts.iter().map(|part| &**part).collect::<Vec<_>>(), basis, Domain::Coefficient);
        self.for_each_limb(&mut result, |limb, _, target| {
            for (index, part) in parts.iter().enumerate() {
                let target = target.iter_mut().skip(index).step_by(ratio);
                target.zip(part.limb(limb)).for_each(|(target, source)| *target = *source);
            }
        });
        Ok(result)
    }

    /// The ratio of the degree of `from` to this ring's, if a polynomial over `basis` has parts in this ring.
    fn parts_of(&self, operation: &'static str, from: &Ring, basis: Basis) -> Result<usize, RingError> {
        if basis != Basis::chain(basis.chain) {
            return Err(RingError::Basis { operation, found: basis, needed: Basis::chain(basis.chain) });
        }
        let same_primes = self.chain().get(..basis.chain) == from.chain().get(..basis.chain);
        let standard = self.kind() == RingKind::Standard && from.kind() == RingKind::Standard;
        if !same_primes || !standard || basis.chain == 0 || !from.degree().is_multiple_of(self.degree()) {
            return Err(RingError::ForeignOperand { operation });
        }
        Ok(from.degree() / self.degree())
    }

    /// The module ciphertexts of degree `degree` of ciphertexts `(b, a)`, all over the same chain primes, in the
    /// coefficient domain. Row `p + i len` is part `i` of ciphertext `p` of the `len` ciphertexts.
    ///
    /// # Errors
    /// If there are no ciphertexts, `degree` is not a power of two below the ring's, or domains or bases are not as
    /// described.
    pub fn module_rows(&self, ciphertexts: &[[&Poly; 2]], degree: usize) -> Result<ModuleRows, RingError> {
        const OPERATION: &str = "module ciphertexts";
        let Some([first, _]) = ciphertexts.first() else {
            return Err(RingError::Length { what: "ciphertexts of a matrix product", found: 0, needed: "one or more" });
        };
        let (rank, basis) = (self.module_rank(degree)?, first.basis());
        for poly in ciphertexts.iter().flatten() {
            self.check_domain(OPERATION, poly, Domain::Coefficient)?;
            if poly.basis() != basis || basis != Basis::chain(basis.chain) {
                let needed = Basis::chain(basis.chain);
                return Err(RingError::Basis { operation: OPERATION, found: poly.basis(), needed });
            }
        }
        let row_len = degree + self.degree();
        let count = ciphertexts.len() * rank;
        let words = match self.on() {
            Some(on) => on.module_rows(self, ciphertexts, (degree, basis.chain))?,
            None => {
                let mut words = self.pool().take(basis.chain * count * row_len);
                words.inherit(ciphertexts.iter().flatten().any(|poly| poly.is_secret()));
                words.par_chunks_exact_mut(row_len).enumerate().for_each(|(number, row)| {
                    let (prime, index) = (number / count, number % count);
                    let (ciphertext, part) = (ciphertexts[index % ciphertexts.len()], index / ciphertexts.len());
                    write_row(self.modulus(prime), ciphertext.map(|poly| poly.limb(prime)), (part, rank), row);
                });
                words
            }
        };
        Ok(ModuleRows { owner: Arc::clone(self.pool()), degree, chain: basis.chain, count, row_len, words })
    }

    /// `A x`: one module ciphertext per row of an integer matrix.
    ///
    /// # Errors
    /// If the number of module ciphertexts is not the number of columns, the matrix is complex or not packed for their
    /// primes, or one is of another ring.
    pub fn module_product(&self, matrix: &RingMatrix, rows: &ModuleRows) -> Result<ModuleRows, RingError> {
        const OPERATION: &str = "matrix product of module ciphertexts";
        if !matrix.is_of(self) || !Arc::ptr_eq(&rows.owner, self.pool()) {
            return Err(RingError::ForeignOperand { operation: OPERATION });
        }
        let (count, columns) = matrix.shape();
        if rows.count != columns {
            let what = "the vector of a matrix product";
            return Err(RingError::Length { what, found: rows.count, needed: "the number of columns" });
        }
        let packed = |prime: usize| {
            let (found, needed) = (matrix.basis(), Basis::chain(rows.chain));
            matrix.real(needed, prime).ok_or(RingError::Basis { operation: OPERATION, found, needed })
        };
        let packed = (0..rows.chain).map(packed).collect::<Result<Vec<_>, RingError>>()?;
        let words = match self.on() {
            Some(on) => on.module_product(self, matrix, rows)?,
            None => {
                let limb_len = count * rows.row_len;
                let mut words = self.pool().take(rows.chain * limb_len);
                words.inherit(rows.is_secret());
                words.par_chunks_exact_mut(limb_len.max(1)).zip(packed).enumerate().for_each(
                    |(prime, (limb, packed))| {
                        let inputs: Vec<&[u32]> = (0..rows.count).map(|index| rows.row(prime, index)).collect();
                        let mut outputs: Vec<&mut [u32]> = limb.chunks_exact_mut(rows.row_len).collect();
                        self.kernels().matrix_product(self.modulus(prime), packed, &inputs, &mut outputs);
                    },
                );
                words
            }
        };
        Ok(ModuleRows { owner: Arc::clone(&rows.owner), count, words, ..*rows })
    }

    /// The body and the `k` masks of one ciphertext whose message has the messages of these rows as its parts: part `i`
    /// is the message of row `source(i)`, and 0 if there is no source. Mask `j` belongs to the part `s_j(Y^k)` of the
    /// secret. Coefficient domain.
    ///
    /// # Errors
    /// If the rows are of another ring, or a source is beyond the last row.
    pub fn pack_module_rows(
        &self,
        rows: &ModuleRows,
        source: impl Fn(usize) -> Option<usize>,
    ) -> Result<(Poly, Vec<Poly>), RingError> {
        const OPERATION: &str = "pack module ciphertexts";
        if !Arc::ptr_eq(&rows.owner, self.pool()) {
            return Err(RingError::ForeignOperand { operation: OPERATION });
        }
        let rank = self.module_rank(rows.degree)?;
        let sources: Vec<Option<usize>> = (0..rank).map(source).collect();
        rows.check_indices(sources.iter().flatten())?;
        if let Some(on) = self.on() {
            return on.pack_rows(self, rows, &sources);
        }
        let pack = |piece: usize| {
            let mut poly = self.zero(Basis::chain(rows.chain), Domain::Coefficient);
            poly.words.inherit(rows.is_secret());
            self.for_each_limb(&mut poly, |_, prime, limb| {
                for (part, source) in sources.iter().enumerate() {
                    let Some(index) = *source else { continue };
                    let values = &rows.row(prime, index)[piece * rows.degree..][..rows.degree];
                    let target = limb.iter_mut().skip(part).step_by(rank);
                    target.zip(values).for_each(|(target, value)| *target = *value);
                }
            });
            poly
        };
        Ok((pack(0), (1..=rank).into_par_iter().map(pack).collect()))
    }

    /// The rows with these indices, in this order.
    ///
    /// # Errors
    /// If the rows are of another ring, or an index is beyond the last row.
    pub fn select_module_rows(&self, rows: &ModuleRows, indices: &[usize]) -> Result<ModuleRows, RingError> {
        const OPERATION: &str = "select module ciphertexts";
        if !Arc::ptr_eq(&rows.owner, self.pool()) {
            return Err(RingError::ForeignOperand { operation: OPERATION });
        }
        rows.check_indices(indices.iter())?;
        let words = match self.on() {
            Some(on) => on.select_rows(self, rows, indices)?,
            None => {
                let mut words = self.pool().take(rows.chain * indices.len() * rows.row_len);
                words.inherit(rows.is_secret());
                for (number, target) in words.chunks_exact_mut(rows.row_len).enumerate() {
                    target.copy_from_slice(rows.row(number / indices.len(), indices[number % indices.len()]));
                }
                words
            }
        };
        Ok(ModuleRows { owner: Arc::clone(&rows.owner), count: indices.len(), words, ..*rows })
    }

    /// These rows, then the rows of `more`.
    ///
    /// # Errors
    /// If the rows have different degrees or primes, or are of another ring.
    pub fn chain_module_rows(&self, rows: &ModuleRows, more: &ModuleRows) -> Result<ModuleRows, RingError> {
        const OPERATION: &str = "chain module ciphertexts";
        let own = |rows: &ModuleRows| Arc::ptr_eq(&rows.owner, self.pool());
        if !own(rows) || !own(more) || rows.degree != more.degree {
            return Err(RingError::ForeignOperand { operation: OPERATION });
        }
        if rows.chain != more.chain {
            let (found, needed) = (Basis::chain(more.chain), Basis::chain(rows.chain));
            return Err(RingError::Basis { operation: OPERATION, found, needed });
        }
        let count = rows.count + more.count;
        let words = match self.on() {
            Some(on) => on.chain_rows(self, [rows, more])?,
            None => {
                let mut words = self.pool().take(rows.chain * count * rows.row_len);
                words.inherit(rows.is_secret() || more.is_secret());
                for (prime, limb) in words.chunks_exact_mut((count * rows.row_len).max(1)).enumerate() {
                    let (first, second) = limb.split_at_mut(rows.count * rows.row_len);
                    first.copy_from_slice(rows.limb(prime));
                    second.copy_from_slice(more.limb(prime));
                }
                words
            }
        };
        Ok(ModuleRows { owner: Arc::clone(&rows.owner), count, words, ..*rows })
    }

    /// `k = n / t`.
    fn module_rank(&self, degree: usize) -> Result<usize, RingError> {
        let least = ModuleRows::MIN_DEGREE;
        if self.kind() != RingKind::Standard || !degree.is_power_of_two() || !(least..self.degree()).contains(&degree) {
            let what = "the degree of module ciphertexts";
            return Err(RingError::Length { what, found: degree, needed: "a power of two from 16 to half the degree" });
        }
        Ok(self.degree() / degree)
    }
}

impl ModuleRows {
    /// Smallest degree: vector instructions process one component at a time.
    pub const MIN_DEGREE: usize = 16;
}

/// Writes part `part` of a ciphertext: the part of the body, and the products of the parts of the mask with the powers
/// of `Y`.
fn write_row(modulus: &Modulus, [body, mask]: [&[u32]; 2], (part, rank): (usize, usize), row: &mut [u32]) {
    let degree = body.len() / rank;
    let (own, components) = row.split_at_mut(degree);
    gather(body, (part, rank), own);
    for (j, component) in components.chunks_exact_mut(degree).enumerate() {
        if j <= part {
            gather(mask, (part - j, rank), component);
        } else {
            gather(mask, (rank + part - j, rank), component);
            component.rotate_right(1);
            component[0] = modulus.neg(component[0]);
        }
    }
}

/// Copies every `rank`-th residue, from residue `part` on.
fn gather(source: &[u32], (part, rank): (usize, usize), target: &mut [u32]) {
    target.iter_mut().zip(source.iter().skip(part).step_by(rank)).for_each(|(target, source)| *target = *source);
}
