//! Sums of products that share their operands.

use std::borrow::Borrow;

use rayon::prelude::*;

use crate::basis::{Basis, Domain};
use crate::error::RingError;
use crate::memory::Words;
use crate::poly::Poly;
use crate::ring::Ring;
use crate::subring::SubringPoly;

/// Residues of one limb that are processed at a time, at most and at least: the blocks of the inputs stay in the cache
/// for all rows.
const MAX_IN_BLOCK: usize = 8192;
const MIN_IN_BLOCK: usize = 1024;

/// Residues of the blocks of all inputs together, if blocks are not at their least.
const INPUT_RESIDUES: usize = 1 << 17;

/// The values of a factor, each `run` times.
#[derive(Clone, Copy)]
pub(crate) struct Values<'a> {
    words: &'a Words,
    stride: usize,
    basis: Basis,
    run: usize,
}

impl<'a> Values<'a> {
    fn of(poly: &'a Poly) -> Self {
        Values { words: &poly.words, stride: poly.stride, basis: poly.basis, run: 1 }
    }

    pub(crate) fn of_subring(poly: &'a SubringPoly) -> Self {
        Values { words: &poly.words, stride: poly.stride, basis: poly.basis, run: poly.run }
    }

    pub(crate) fn of_row<F>(row: &'a [(usize, F)], values: impl Fn(&'a F) -> Self) -> Vec<(usize, Self)> {
        row.iter().map(|(i, factor)| (*i, values(factor))).collect()
    }

    pub(crate) fn is_secret(&self) -> bool {
        self.words.is_secret()
    }

    /// The values for `len` residues of a limb, from residue `at` on.
    pub(crate) fn block(&self, limb: usize, at: usize, len: usize) -> &'a [u32] {
        &self.words[limb * self.stride + at / self.run..][..len.div_ceil(self.run)]
    }
}

const OPERATION: &str = "sums of products";

impl Ring {
    /// For each row, both components of `sum factor * inputs[i]` over its pairs `(i, factor)`. Evaluation domain, one
    /// common basis. Inputs are read once for all rows.
    ///
    /// # Errors
    /// If an operand is over another basis than the first input, in the coefficient domain or of another ring, or there
    /// are no inputs, or a row names an input that does not exist.
    pub fn product_sums<F: Borrow<Poly> + Sync>(
        &self,
        inputs: &[[&Poly; 2]],
        rows: &[&[(usize, F)]],
    ) -> Result<Vec<[Poly; 2]>, RingError> {
        let factors = rows.iter().flat_map(|row| row.iter().map(|(_, factor)| factor.borrow()));
        factors.into_iter().try_for_each(|factor| self.check_domain(OPERATION, factor, Domain::Evaluation))?;
        let row = |row| Values::of_row(row, |factor: &F| Values::of(factor.borrow()));
        self.sums_by_values(inputs, &rows.iter().copied().map(row).collect::<Vec<_>>())
    }

    /// As [`Ring::product_sums`], for factors of which one of each run of equal values may be stored. All have the same
    /// run.
    pub(crate) fn sums_by_values(
        &self,
        inputs: &[[&Poly; 2]],
        rows: &[Vec<(usize, Values<'_>)>],
    ) -> Result<Vec<[Poly; 2]>, RingError> {
        let Some([first, _]) = inputs.first() else { return Err(lacking_inputs(0)) };
        let needed = first.basis();
        for poly in inputs.iter().flatten() {
            self.check_values(OPERATION, poly, needed)?;
        }
        let run = self.check_factors(needed, inputs.len(), rows)?;
        if let Some(on) = self.on() {
            let stride = rows.iter().flatten().next().map_or(self.stride(), |(_, values)| values.stride);
            let sum = |row: &Vec<(usize, Values<'_>)>| {
                let row: Vec<(usize, &Words)> = row.iter().map(|(i, values)| (*i, values.words)).collect();
                on.product_sum(self, inputs, &row, (stride, run), needed)
            };
            return rows.iter().map(sum).collect();
        }
        let (n, stride, size) = (self.degree(), self.stride(), block_size(inputs.len()));
        // A sum is secret if one of its factors or one of its inputs is secret.
        let mut sums = self.blank_sums(needed, rows.len(), |row| {
            let secret = |(i, values): &(usize, Values<'_>)| {
                values.is_secret() || inputs[*i].iter().any(|component| component.is_secret())
            };
            rows[row].iter().any(secret)
        });
        let primes: Vec<usize> = self.prime_indices(needed).collect();
        let mut limbs = limbs_of_sums(&mut sums, primes.len(), (n, stride));
        limbs.par_iter_mut().zip(&primes).enumerate().for_each(|(limb, (outputs, &prime))| {
            let mut operands: [Vec<&[u32]>; 2] = Default::default();
            for at in (0..n).step_by(size) {
                let block = at..n.min(at + size);
                for (row, output) in rows.iter().zip(outputs.iter_mut()) {
                    for (component, output) in output.iter_mut().enumerate() {
                        let [factors, values] = &mut operands;
                        factors.clear();
                        values.clear();
                        factors.extend(row.iter().map(|(_, values)| values.block(limb, at, block.len())));
                        values.extend(row.iter().map(|(i, _)| &inputs[*i][component].limb(limb)[block.clone()]));
                        self.dot(prime, (factors, run), values, &mut output[block.clone()], false);
                    }
                }
            }
        });
        Ok(sums)
    }

    /// `sum factor * value` for blocks of one limb, added to what the output has if it has `begun`. Each word of a
    /// factor is for `run` residues of a limb, or for the block if that is shorter.
    pub(crate) fn dot(
        &self,
        prime: usize,
        (factors, run): (&[&[u32]], usize),
        values: &[&[u32]],
        output: &mut [u32],
        begun: bool,
    ) {
        let (kernels, modulus) = (self.kernels(), self.modulus(prime));
        match run.min(output.len()) {
            1 => kernels.dot(modulus, factors, values, output, begun),
            run => kernels.dot_runs(modulus, factors, run, values, output, begun),
        }
    }

    /// Checks the factors of sums of products over a basis of `inputs` inputs, and returns their run.
    pub(crate) fn check_factors(
        &self,
        needed: Basis,
        inputs: usize,
        rows: &[Vec<(usize, Values<'_>)>],
    ) -> Result<usize, RingError> {
        let factors = || rows.iter().flatten().map(|(_, values)| values);
        let run = factors().next().map_or(1, |values| values.run);
        if let Some(values) = factors().find(|values| values.basis != needed) {
            return Err(RingError::Basis { operation: OPERATION, found: values.basis, needed });
        }
        factors().try_for_each(|values| self.check_words(OPERATION, values.words))?;
        if let Some(values) = factors().find(|values| values.run != run) {
            let what = "a run of equal values";
            return Err(RingError::Length { what, found: values.run, needed: "the same for all factors" });
        }
        if inputs == 0 || rows.iter().flatten().any(|(i, _)| *i >= inputs) {
            return Err(lacking_inputs(inputs));
        }
        Ok(run)
    }

    /// Pairs of polynomials for sums, each secret or not.
    pub(crate) fn blank_sums(&self, basis: Basis, count: usize, secret: impl Fn(usize) -> bool) -> Vec<[Poly; 2]> {
        let blank = |row: usize| {
            let mut pair: [Poly; 2] = std::array::from_fn(|_| self.blank(basis, Domain::Evaluation));
            pair.iter_mut().for_each(|sum| sum.words.inherit(secret(row)));
            pair
        };
        (0..count).map(blank).collect()
    }
}

/// Residues of one limb that are processed at a time, of so many inputs.
pub(crate) fn block_size(inputs: usize) -> usize {
    (INPUT_RESIDUES / (2 * inputs).next_power_of_two()).clamp(MIN_IN_BLOCK, MAX_IN_BLOCK)
}

fn lacking_inputs(found: usize) -> RingError {
    RingError::Length { what: "the inputs of sums of products", found, needed: "more" }
}

/// The limbs of all sums, by prime.
pub(crate) fn limbs_of_sums(
    sums: &mut [[Poly; 2]],
    primes: usize,
    (n, stride): (usize, usize),
) -> Vec<Vec<[&mut [u32]; 2]>> {
    let mut limbs: Vec<Vec<[&mut [u32]; 2]>> = (0..primes).map(|_| Vec::with_capacity(sums.len())).collect();
    for [sum0, sum1] in sums {
        let pairs = sum0.words.chunks_mut(stride).zip(sum1.words.chunks_mut(stride));
        limbs.iter_mut().zip(pairs).for_each(|(limbs, (a, b))| limbs.push([&mut a[..n], &mut b[..n]]));
    }
    limbs
}
