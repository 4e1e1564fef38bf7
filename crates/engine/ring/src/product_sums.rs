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
struct Values<'a> {
    words: &'a Words,
    stride: usize,
    basis: Basis,
    run: usize,
}

impl<'a> Values<'a> {
    fn of(poly: &'a Poly) -> Self {
        Values { words: &poly.words, stride: poly.stride, basis: poly.basis, run: 1 }
    }

    fn of_subring(poly: &'a SubringPoly) -> Self {
        Values { words: &poly.words, stride: poly.stride, basis: poly.basis, run: poly.run }
    }

    fn of_row<F>(row: &'a [(usize, F)], values: impl Fn(&'a F) -> Self) -> Vec<(usize, Self)> {
        row.iter().map(|(i, factor)| (*i, values(factor))).collect()
    }

    /// The values for `len` residues of a limb, from residue `at` on.
    fn block(&self, limb: usize, at: usize, len: usize) -> &'a [u32] {
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

    /// As [`Ring::product_sums`], for factors of which one of each run of equal values is stored. All have the same
    /// run.
    ///
    /// # Errors
    /// As for [`Ring::product_sums`], or if runs differ.
    pub fn subring_product_sums(
        &self,
        inputs: &[[&Poly; 2]],
        rows: &[&[(usize, SubringPoly)]],
    ) -> Result<Vec<[Poly; 2]>, RingError> {
        let row = |row| Values::of_row(row, Values::of_subring);
        self.sums_by_values(inputs, &rows.iter().copied().map(row).collect::<Vec<_>>())
    }

    fn sums_by_values(
        &self,
        inputs: &[[&Poly; 2]],
        rows: &[Vec<(usize, Values<'_>)>],
    ) -> Result<Vec<[Poly; 2]>, RingError> {
        let lacking = RingError::Length { what: "the inputs of sums of products", found: inputs.len(), needed: "more" };
        let Some([first, _]) = inputs.first() else { return Err(lacking) };
        let needed = first.basis();
        for poly in inputs.iter().flatten() {
            self.check_domain(OPERATION, poly, Domain::Evaluation)?;
        }
        let factors = || rows.iter().flatten().map(|(_, values)| values);
        let run = factors().next().map_or(1, |values| values.run);
        let bases = inputs.iter().flatten().map(|poly| poly.basis()).chain(factors().map(|values| values.basis));
        if let Some(found) = bases.into_iter().find(|basis| *basis != needed) {
            return Err(RingError::Basis { operation: OPERATION, found, needed });
        }
        factors().try_for_each(|values| self.check_words(OPERATION, values.words))?;
        if let Some(values) = factors().find(|values| values.run != run) {
            let what = "a run of equal values";
            return Err(RingError::Length { what, found: values.run, needed: "the same for all factors" });
        }
        if rows.iter().flatten().any(|(i, _)| *i >= inputs.len()) {
            return Err(lacking);
        }
        if let Some(on) = self.on() {
            let stride = factors().next().map_or(self.stride(), |values| values.stride);
            let sum = |row: &Vec<(usize, Values<'_>)>| {
                let row: Vec<(usize, &Words)> = row.iter().map(|(i, values)| (*i, values.words)).collect();
                on.product_sum(self, inputs, &row, (stride, run), needed)
            };
            return rows.iter().map(sum).collect();
        }
        let (n, stride) = (self.degree(), self.stride());
        let fitting = INPUT_RESIDUES / (2 * inputs.len()).next_power_of_two();
        let size = fitting.clamp(MIN_IN_BLOCK, MAX_IN_BLOCK);
        // A sum is secret if one of its factors or one of its inputs is secret.
        let blank = |row: &Vec<(usize, Values<'_>)>| {
            let secret = |(i, values): &(usize, Values<'_>)| {
                values.words.is_secret() || inputs[*i].iter().any(|component| component.is_secret())
            };
            let mut pair: [Poly; 2] = std::array::from_fn(|_| self.blank(needed, Domain::Evaluation));
            pair.iter_mut().for_each(|sum| sum.words.inherit(row.iter().any(secret)));
            pair
        };
        let mut sums: Vec<[Poly; 2]> = rows.iter().map(blank).collect();
        let primes: Vec<usize> = self.prime_indices(needed).collect();
        // The limbs of all sums, by prime.
        let mut limbs: Vec<Vec<[&mut [u32]; 2]>> = primes.iter().map(|_| Vec::with_capacity(rows.len())).collect();
        for [sum0, sum1] in &mut sums {
            let pairs = sum0.words.chunks_mut(stride).zip(sum1.words.chunks_mut(stride));
            limbs.iter_mut().zip(pairs).for_each(|(limbs, (a, b))| limbs.push([&mut a[..n], &mut b[..n]]));
        }
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
                        let (kernels, modulus, output) =
                            (self.kernels(), self.modulus(prime), &mut output[block.clone()]);
                        match run {
                            1 => kernels.dot(modulus, factors, values, output),
                            run => kernels.dot_runs(modulus, factors, run.min(block.len()), values, output),
                        }
                    }
                }
            }
        });
        Ok(sums)
    }
}
