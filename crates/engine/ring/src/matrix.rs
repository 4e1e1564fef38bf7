//! Products of a plaintext matrix with a vector of polynomials: the integer kernel of plaintext-ciphertext matrix
//! multiplication (PCMM).
//!
//! Row `r` of the result is `sum_c A[r][c] x_c`, computed on residues: one small matrix product per prime. In the
//! evaluation domain of the standard ring, `i` (that is `X^(n/2)`) is the residue `sqrt(-1)` at the first half of the
//! positions and its negative at the second half, so a complex matrix costs the same as a real one.

use std::sync::Arc;

use rayon::prelude::*;
use unspoken_device::{Buffer, Device, DeviceCopy};

use crate::basis::{Basis, Domain};
use crate::error::RingError;
use crate::kernels::PackedMatrix;
use crate::kind::RingKind;
use crate::memory::Pool;
use crate::poly::Poly;
use crate::ring::Ring;

/// An integer or Gaussian-integer matrix, reduced and packed for every prime of a basis.
pub struct RingMatrix {
    /// Identifies the ring of the matrix.
    owner: Arc<Pool>,
    rows: usize,
    columns: usize,
    basis: Basis,
    /// In the order of the limbs of a polynomial over the basis.
    primes: Vec<PrimeMatrix>,
    /// The same on the device of the ring.
    copy: DeviceCopy,
}

enum PrimeMatrix {
    Real(PackedMatrix),
    /// The matrix for the positions where `i` is `sqrt(-1)`, and the matrix for those where it is `-sqrt(-1)`.
    Complex([PackedMatrix; 2]),
}

impl PrimeMatrix {
    fn matrices(&self) -> &[PackedMatrix] {
        match self {
            PrimeMatrix::Real(matrix) => std::slice::from_ref(matrix),
            PrimeMatrix::Complex(both) => both,
        }
    }
}

impl RingMatrix {
    /// Rows and columns.
    pub fn shape(&self) -> (usize, usize) {
        (self.rows, self.columns)
    }

    /// The primes that the matrix is packed for.
    pub fn basis(&self) -> Basis {
        self.basis
    }

    pub(crate) fn is_of(&self, ring: &Ring) -> bool {
        Arc::ptr_eq(&self.owner, ring.pool())
    }

    /// The matrix for limb `limb` of a polynomial over `basis`, if it is real and packed for these primes.
    pub(crate) fn real(&self, basis: Basis, limb: usize) -> Option<&PackedMatrix> {
        match self.basis.contains(basis).then(|| &self.primes[self.basis.limb_over(basis, limb)])? {
            PrimeMatrix::Real(matrix) => Some(matrix),
            PrimeMatrix::Complex(_) => None,
        }
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> usize {
        self.matrices().map(|matrix| size_of_val(matrix.entries.as_slice())).sum()
    }

    fn matrices(&self) -> impl Iterator<Item = &PackedMatrix> {
        self.primes.iter().flat_map(PrimeMatrix::matrices)
    }

    /// The matrices of all primes on the device of the ring, and how many each prime has.
    pub(crate) fn on(&self, device: &Device) -> Result<(Arc<Buffer>, usize), RingError> {
        let buffer = self.copy.on_with(device, |device| {
            let entries: Vec<u32> = self.matrices().flat_map(|matrix| &matrix.entries).copied().collect();
            device.upload(&entries)
        })?;
        Ok((buffer, self.primes.first().map_or(1, |prime| prime.matrices().len())))
    }
}

impl Ring {
    /// Packs the real integer matrix `entry(row, column)` for the primes of a basis.
    pub fn real_matrix(
        &self,
        basis: Basis,
        rows: usize,
        columns: usize,
        entry: impl Fn(usize, usize) -> i128 + Sync,
    ) -> RingMatrix {
        let pack = |prime| {
            let modulus = self.modulus(prime);
            PrimeMatrix::Real(PackedMatrix::new(rows, columns, |r, c| modulus.from_i128(entry(r, c))))
        };
        self.matrix_of(basis, (rows, columns), pack)
    }

    /// Bytes in memory of a real matrix that is packed for the primes of a basis.
    pub fn real_matrix_bytes(&self, basis: Basis, rows: usize, columns: usize) -> usize {
        self.prime_indices(basis).count() * PackedMatrix::entries(rows, columns) * size_of::<u32>()
    }

    /// Packs the Gaussian-integer matrix `entry(row, column) = (real, imaginary)` for the primes of a basis.
    ///
    /// # Errors
    /// In the conjugate-invariant ring, which has no `i`.
    pub fn complex_matrix(
        &self,
        basis: Basis,
        rows: usize,
        columns: usize,
        entry: impl Fn(usize, usize) -> (i128, i128) + Sync,
    ) -> Result<RingMatrix, RingError> {
        if self.kind() != RingKind::Standard {
            return Err(RingError::Galois { found: self.degree() as u64 / 2 });
        }
        let pack = |prime| {
            let (modulus, imaginary) = (self.modulus(prime), self.table(prime).imaginary);
            PrimeMatrix::Complex([imaginary, modulus.neg(imaginary)].map(|i| {
                PackedMatrix::new(rows, columns, |r, c| {
                    let (re, im) = entry(r, c);
                    modulus.add(modulus.from_i128(re), modulus.mul(i, modulus.from_i128(im)))
                })
            }))
        };
        Ok(self.matrix_of(basis, (rows, columns), pack))
    }

    fn matrix_of(
        &self,
        basis: Basis,
        (rows, columns): (usize, usize),
        pack: impl Fn(usize) -> PrimeMatrix + Sync,
    ) -> RingMatrix {
        let primes: Vec<usize> = self.prime_indices(basis).collect();
        let primes = primes.into_par_iter().map(&pack).collect();
        RingMatrix { owner: Arc::clone(self.pool()), rows, columns, basis, primes, copy: DeviceCopy::default() }
    }

    /// `A x`: one polynomial per row of `matrix`, over the common basis of `inputs`. Evaluation domain.
    ///
    /// # Errors
    /// If the number of inputs is not the number of columns, or the inputs have different bases, or primes that the
    /// matrix was not packed for.
    pub fn matrix_product(&self, matrix: &RingMatrix, inputs: &[&Poly]) -> Result<Vec<Poly>, RingError> {
        const OPERATION: &str = "matrix product";
        if !Arc::ptr_eq(&matrix.owner, self.pool()) {
            return Err(RingError::ForeignOperand { operation: OPERATION });
        }
        let Some(first) = inputs.first().filter(|_| inputs.len() == matrix.columns) else {
            let what = "the vector of a matrix product";
            return Err(RingError::Length { what, found: inputs.len(), needed: "the number of columns" });
        };
        let basis = first.basis();
        for input in inputs {
            self.check_domain(OPERATION, input, Domain::Evaluation)?;
            if input.basis() != basis || !matrix.basis.contains(basis) {
                let needed = if input.basis() == basis { matrix.basis } else { basis };
                return Err(RingError::Basis { operation: OPERATION, found: input.basis(), needed });
            }
        }
        if let Some(on) = self.on() {
            return on.matrix_product(self, matrix, inputs, basis);
        }
        let mut results: Vec<Poly> =
            (0..matrix.rows).map(|_| self.blank_from(inputs, basis, Domain::Evaluation)).collect();
        let n = self.degree();
        let primes: Vec<usize> = self.prime_indices(basis).collect();
        let mut by_prime: Vec<Vec<&mut [u32]>> = primes.iter().map(|_| Vec::with_capacity(matrix.rows)).collect();
        for result in &mut results {
            let limbs = result.words.chunks_exact_mut(result.stride);
            by_prime.iter_mut().zip(limbs).for_each(|(rows, limb)| rows.push(&mut limb[..n]));
        }
        by_prime.into_par_iter().zip(&primes).enumerate().for_each(|(limb, (mut outputs, &prime))| {
            let inputs: Vec<&[u32]> = inputs.iter().map(|input| input.limb(limb)).collect();
            let (modulus, kernels) = (self.modulus(prime), self.kernels());
            match &matrix.primes[matrix.basis.limb_over(basis, limb)] {
                PrimeMatrix::Real(matrix) => kernels.matrix_product(modulus, matrix, &inputs, &mut outputs),
                PrimeMatrix::Complex([low, high]) => {
                    let (input_low, input_high): (Vec<_>, Vec<_>) = inputs.iter().map(|x| x.split_at(n / 2)).unzip();
                    let (mut low_out, mut high_out): (Vec<_>, Vec<_>) =
                        outputs.into_iter().map(|x| x.split_at_mut(n / 2)).unzip();
                    kernels.matrix_product(modulus, low, &input_low, &mut low_out);
                    kernels.matrix_product(modulus, high, &input_high, &mut high_out);
                }
            }
        });
        Ok(results)
    }
}
