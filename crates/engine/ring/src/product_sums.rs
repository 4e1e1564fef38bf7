//! Sums of products that share their operands.

use std::borrow::Borrow;

use rayon::prelude::*;

use crate::error::RingError;
use crate::poly::{Domain, Poly};
use crate::ring::Ring;

/// Residues of one limb that are processed at a time: the blocks of the inputs stay in the cache for all rows.
const BLOCK: usize = 8192;

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
        const OPERATION: &str = "sums of products";
        let lacking = RingError::Length { what: "the inputs of sums of products", found: inputs.len(), needed: "more" };
        let Some([first, _]) = inputs.first() else { return Err(lacking) };
        let needed = first.basis();
        for poly in
            inputs.iter().flatten().copied().chain(rows.iter().flat_map(|row| row.iter().map(|(_, f)| f.borrow())))
        {
            self.check_domain(OPERATION, poly, Domain::Evaluation)?;
            if poly.basis() != needed {
                return Err(RingError::Basis { operation: OPERATION, found: poly.basis(), needed });
            }
        }
        if rows.iter().flat_map(|row| row.iter()).any(|(i, _)| *i >= inputs.len()) {
            return Err(lacking);
        }
        let (n, stride) = (self.degree(), self.stride());
        // A sum is secret if one of its factors or one of its inputs is secret.
        let blank = |row: &&[(usize, F)]| {
            let secret = |(i, factor): &(usize, F)| {
                factor.borrow().is_secret() || inputs[*i].iter().any(|component| component.is_secret())
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
            for at in (0..n).step_by(BLOCK) {
                let block = at..n.min(at + BLOCK);
                for (row, output) in rows.iter().zip(outputs.iter_mut()) {
                    for (component, output) in output.iter_mut().enumerate() {
                        let [factors, values] = &mut operands;
                        factors.clear();
                        values.clear();
                        factors.extend(row.iter().map(|(_, factor)| &factor.borrow().limb(limb)[block.clone()]));
                        values.extend(row.iter().map(|(i, _)| &inputs[*i][component].limb(limb)[block.clone()]));
                        self.kernels().dot(self.modulus(prime), factors, values, &mut output[block.clone()]);
                    }
                }
            }
        });
        Ok(sums)
    }
}
