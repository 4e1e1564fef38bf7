//! Products of integer matrices, module ciphertexts, and polynomials of smaller rings.

use unspoken_device::Address;
use unspoken_device::kernel::{self, MatrixArgs, ModuleArgs, PackArgs, SelectArgs, StepArgs};

use super::ring::DeviceRing;
use crate::basis::{Basis, Domain};
use crate::error::RingError;
use crate::kernels::MATRIX_TILE;
use crate::matrix::RingMatrix;
use crate::memory::Words;
use crate::module_rows::ModuleRows;
use crate::poly::Poly;
use crate::ring::Ring;

/// The words of each limb that vectors of a matrix product have.
#[derive(Clone, Copy)]
struct Length {
    /// Residues.
    residues: usize,
    /// Words from one limb to the next, of inputs and of outputs.
    limbs: [usize; 2],
}

/// A part of each limb of a polynomial: one word of so many, from word `first` on.
#[derive(Clone, Copy)]
struct Step {
    first: usize,
    step: usize,
}

impl DeviceRing {
    /// One polynomial for each row of the matrix.
    pub(crate) fn matrix_product(
        &self,
        ring: &Ring,
        matrix: &RingMatrix,
        inputs: &[&Poly],
        basis: Basis,
    ) -> Result<Vec<Poly>, RingError> {
        let (rows, _) = matrix.shape();
        let results =
            (0..rows).map(|_| self.blank(ring, basis, Domain::Evaluation)).collect::<Result<Vec<_>, RingError>>()?;
        let vectors = inputs.iter().copied().chain(&results).map(|poly| Ok(self.limbs(poly)?.words));
        let vectors = vectors.collect::<Result<Vec<Address>, RingError>>()?;
        let length = Length { residues: ring.degree(), limbs: [ring.stride(); 2] };
        self.products(ring, matrix, basis, &vectors, length)?;
        Ok(results)
    }

    /// One module ciphertext for each row of the matrix.
    pub(crate) fn module_product(
        &self,
        ring: &Ring,
        matrix: &RingMatrix,
        rows: &ModuleRows,
    ) -> Result<Words, RingError> {
        let ((count, columns), row_len) = (matrix.shape(), rows.row_len());
        let out = self.memory(ring, rows.chain() * count * row_len)?;
        let (from, to) = (rows.words.on(&self.device)?, out.on(&self.device)?);
        let inputs = (0..columns).map(|column| from.at(column * row_len));
        let vectors: Vec<Address> = inputs.chain((0..count).map(|row| to.at(row * row_len))).collect();
        let length = Length { residues: row_len, limbs: [columns * row_len, count * row_len] };
        self.products(ring, matrix, Basis::chain(rows.chain()), &vectors, length)?;
        Ok(out)
    }

    /// First the vectors of the columns, then the vectors of the rows.
    fn products(
        &self,
        ring: &Ring,
        matrix: &RingMatrix,
        basis: Basis,
        vectors: &[Address],
        length: Length,
    ) -> Result<(), RingError> {
        let (rows, columns) = matrix.shape();
        let (words, matrices) = matrix.on(&self.device)?;
        let vectors = self.device.upload(vectors)?;
        let arguments = MatrixArgs {
            ring: self.ring,
            basis: self.basis(basis),
            matrix_basis: self.basis(matrix.basis()),
            matrix: words.address(),
            matrix_len: (rows.div_ceil(MATRIX_TILE) * columns) as u32,
            matrices: matrices as u32,
            split: if matrices == 1 { u32::MAX } else { ring.degree() as u32 / 2 },
            rows: rows as u32,
            columns: columns as u32,
            vectors: vectors.address(),
            length: length.residues as u32,
            input_limb: length.limbs[0] as u64,
            output_limb: length.limbs[1] as u64,
        };
        let blocks = [length.residues.div_ceil(kernel::MATRIX_RUN), rows.div_ceil(kernel::MATRIX_ROWS)];
        self.launch(kernel::MATRIX_PRODUCT, [blocks[0], blocks[1], ring.limb_count(basis)], &arguments)
    }

    /// Copies words of each of `limbs` limbs, `count` of each.
    fn copy_steps(
        &self,
        (source, source_limb, from): (&Words, usize, Step),
        (target, target_limb, to): (&Words, usize, Step),
        limbs: usize,
        count: usize,
    ) -> Result<(), RingError> {
        let arguments = StepArgs {
            source: source.on(&self.device)?.at(from.first),
            target: target.on(&self.device)?.at(to.first),
            source_limb: source_limb as u64,
            target_limb: target_limb as u64,
            source_step: from.step as u32,
            target_step: to.step as u32,
            count: count as u64,
        };
        self.launch(kernel::STEPS, [count.div_ceil(kernel::THREADS), limbs, 1], &arguments)
    }

    /// `poly(X^k)` for a polynomial of a ring of degree `n / k`, over chain primes.
    pub(crate) fn embed(&self, ring: &Ring, poly: &Poly) -> Result<Poly, RingError> {
        let out = Poly { domain: Domain::Coefficient, ..self.zero(ring, poly.basis)? };
        let to = Step { first: 0, step: ring.degree() / poly.degree };
        let source = (&poly.words, poly.stride, Step { first: 0, step: 1 });
        self.copy_steps(source, (&out.words, out.stride, to), poly.limbs, poly.degree)?;
        Ok(out)
    }

    /// The parts of a polynomial of a larger ring, over chain primes.
    pub(crate) fn split(&self, ring: &Ring, poly: &Poly, ratio: usize) -> Result<Vec<Poly>, RingError> {
        let part = |first: usize| {
            let part = self.blank(ring, poly.basis, Domain::Coefficient)?;
            let source = (&poly.words, poly.stride, Step { first, step: ratio });
            let target = (&part.words, part.stride, Step { first: 0, step: 1 });
            self.copy_steps(source, target, part.limbs, part.degree)?;
            Ok(part)
        };
        (0..ratio).map(part).collect()
    }

    /// The polynomial with these parts, of a smaller ring.
    pub(crate) fn merge(&self, ring: &Ring, parts: &[Poly], basis: Basis) -> Result<Poly, RingError> {
        let out = self.blank(ring, basis, Domain::Coefficient)?;
        for (first, part) in parts.iter().enumerate() {
            let source = (&part.words, part.stride, Step { first: 0, step: 1 });
            let target = (&out.words, out.stride, Step { first, step: parts.len() });
            self.copy_steps(source, target, part.limbs, part.degree)?;
        }
        Ok(out)
    }

    /// The words of module ciphertexts of degree `degree`, as [`Ring::module_rows`] orders them.
    pub(crate) fn module_rows(
        &self,
        ring: &Ring,
        ciphertexts: &[[&Poly; 2]],
        (degree, chain): (usize, usize),
    ) -> Result<Words, RingError> {
        let (rank, row_len) = (ring.degree() / degree, degree + ring.degree());
        let count = ciphertexts.len() * rank;
        let out = self.memory(ring, chain * count * row_len)?;
        for (number, [body, mask]) in ciphertexts.iter().enumerate() {
            let arguments = ModuleArgs {
                ring: self.ring,
                body: self.limbs(body)?.words,
                mask: self.limbs(mask)?.words,
                rows: out.on(&self.device)?.at(number * row_len),
                part: (ciphertexts.len() * row_len) as u64,
                limb: (count * row_len) as u64,
                log_part: degree.ilog2(),
            };
            self.launch(kernel::MODULE_ROWS, [row_len.div_ceil(kernel::THREADS), rank, chain], &arguments)?;
        }
        Ok(out)
    }

    /// The words of the chosen rows.
    pub(crate) fn select_rows(&self, ring: &Ring, rows: &ModuleRows, indices: &[usize]) -> Result<Words, RingError> {
        let (row_len, chain) = (rows.row_len(), rows.chain());
        let out = self.memory(ring, chain * indices.len() * row_len)?;
        let chosen = self.device.upload(&indices.iter().map(|&index| index as u32).collect::<Vec<u32>>())?;
        let arguments = SelectArgs {
            source: rows.words.on(&self.device)?.address(),
            target: out.on(&self.device)?.address(),
            source_limb: (rows.count() * row_len) as u64,
            target_limb: (indices.len() * row_len) as u64,
            row_len: row_len as u32,
            chosen: chosen.address(),
        };
        self.launch(kernel::SELECT_ROWS, [indices.len(), row_len.div_ceil(kernel::THREADS), chain], &arguments)?;
        Ok(out)
    }

    /// The words of rows, and then of more rows.
    pub(crate) fn chain_rows(&self, ring: &Ring, rows: [&ModuleRows; 2]) -> Result<Words, RingError> {
        let limb = rows.map(|rows| rows.count() * rows.row_len());
        let (chain, both) = (rows[0].chain(), limb[0] + limb[1]);
        let out = self.memory(ring, chain * both)?;
        for (rows, limb, first) in [(rows[0], limb[0], 0), (rows[1], limb[1], limb[0])] {
            let source = (&rows.words, limb, Step { first: 0, step: 1 });
            self.copy_steps(source, (&out, both, Step { first, step: 1 }), chain, limb)?;
        }
        Ok(out)
    }

    /// The body and the masks whose parts are components of rows.
    pub(crate) fn pack_rows(
        &self,
        ring: &Ring,
        rows: &ModuleRows,
        sources: &[Option<usize>],
    ) -> Result<(Poly, Vec<Poly>), RingError> {
        let (rank, chain) = (sources.len(), rows.chain());
        let pieces = (0..=rank).map(|_| self.blank(ring, Basis::chain(chain), Domain::Coefficient));
        let mut pieces = pieces.collect::<Result<Vec<_>, RingError>>()?;
        let out = pieces.iter().map(|piece| Ok(self.limbs(piece)?.words)).collect::<Result<Vec<_>, RingError>>()?;
        let chosen: Vec<u32> =
            sources.iter().map(|source| source.map_or(kernel::NO_ROW, |index| index as u32)).collect();
        let (out, chosen) = (self.device.upload(&out)?, self.device.upload(&chosen)?);
        let arguments = PackArgs {
            ring: self.ring,
            rows: rows.words.on(&self.device)?.address(),
            limb: (rows.count() * rows.row_len()) as u64,
            row_len: rows.row_len() as u32,
            log_part: rows.degree().ilog2(),
            chosen: chosen.address(),
            out: out.address(),
        };
        self.launch(kernel::PACK_ROWS, [ring.degree().div_ceil(kernel::THREADS), rank + 1, chain], &arguments)?;
        let masks = pieces.split_off(1);
        let body = pieces.remove(0);
        Ok((body, masks))
    }
}
