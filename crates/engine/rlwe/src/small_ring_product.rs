//! Products of plaintext matrices with rows of ciphertexts in a small ring.

use rayon::iter::{IntoParallelIterator, ParallelIterator};
use unspoken_ring::{ModuleRows, Poly, RingError, RingMatrix};

use crate::ciphertext::Ciphertext;
use crate::encapsulation::switch_by_row;
use crate::error::RlweError;
use crate::small_ring::SmallRing;
use crate::small_ring_keys::SmallRingKeys;

/// Where the rows of a matrix product lie in ciphertexts. The rows of a ciphertext are numbered as [`SmallRing::rows`]
/// says; the rows of the next ciphertext follow.
#[derive(Clone, Copy, Debug)]
pub struct RowPlaces<'a> {
    /// The row of the inputs for each column of the matrix.
    pub inputs: &'a [usize],
    /// The row of the matrix that each row of the outputs has; `None` for zero.
    pub outputs: &'a [Option<usize>],
}

impl SmallRing {
    /// The rows of the product of a matrix with rows of ciphertexts at the lowest level, under the sparse secret, ready
    /// for [`Ciphertext::raise`].
    ///
    /// # Errors
    /// If the ciphertexts are not over [`SmallRing::basis`], do not have two components, or lack a row that `places`
    /// names, or if the matrix has another number of rows or columns than `places` expects.
    pub fn product(
        &self,
        keys: &SmallRingKeys,
        matrix: &RingMatrix,
        places: &RowPlaces<'_>,
        inputs: &[&Ciphertext],
    ) -> Result<Vec<Ciphertext>, RlweError> {
        let small = self.small.ring();
        let parts = inputs.iter().map(|input| self.split(keys, input)).collect::<Result<Vec<_>, _>>()?;
        let rows = |parts: &Vec<[Poly; 2]>| -> Result<ModuleRows, RlweError> {
            let pairs: Vec<[&Poly; 2]> = parts.iter().map(|pair| pair.each_ref()).collect();
            Ok(small.module_rows(&pairs, self.degree)?)
        };
        let Some((first, others)) = parts.split_first() else {
            let what = "the ciphertexts of a matrix product";
            return Err(RingError::Length { what, found: 0, needed: "one or more" }.into());
        };
        let all = others.iter().try_fold(rows(first)?, |all, parts| -> Result<ModuleRows, RlweError> {
            Ok(small.chain_module_rows(&all, &rows(parts)?)?)
        })?;
        let rows = small.module_product(matrix, &small.select_module_rows(&all, places.inputs)?)?;
        drop(all);
        let ratio = self.main.ring().degree() / small.degree();
        let packed = places.outputs.chunks(self.rows()).map(|sources| {
            let source = |row: usize| sources.get(row).copied().flatten();
            let pieces: Result<Vec<_>, RlweError> = (0..ratio)
                .into_par_iter()
                .map(|piece| self.pack(keys, &small.pack_module_rows(&rows, |part| source(piece + part * ratio))?))
                .collect();
            self.merge(keys, pieces?)
        });
        packed.collect()
    }

    /// The ciphertexts of the small ring of which a ciphertext consists, in the coefficient domain.
    fn split(&self, keys: &SmallRingKeys, input: &Ciphertext) -> Result<Vec<[Poly; 2]>, RlweError> {
        const OPERATION: &str = "switch to the small ring";
        let (ring, small, basis) = (self.main.ring(), self.small.ring(), self.basis());
        let [c0, c1] = input.pair(OPERATION)?;
        if c1.basis() != basis {
            let found = c1.basis();
            return Err(RingError::Basis { operation: OPERATION, found, needed: basis }.into());
        }
        let widened = |component: &Poly| -> Result<Poly, RlweError> {
            let mut coefficients = component.clone();
            ring.to_coefficients(&mut coefficients)?;
            Ok(self.wide.embed_from(ring, &coefficients)?)
        };
        let mut mask = widened(c1)?;
        self.wide.to_evaluation(&mut mask)?;
        let [k0, k1] = self.wide.gadget_product(&mask, &keys.down)?;
        let [mut k0, mut k1] = [self.wide.divide_round(&k0, basis)?, self.wide.divide_round(&k1, basis)?];
        self.wide.to_coefficients(&mut k0)?;
        self.wide.to_coefficients(&mut k1)?;
        self.wide.add_assign(&mut k0, &widened(c0)?)?;
        let [bodies, masks] = [small.split_from(&self.wide, &k0)?, small.split_from(&self.wide, &k1)?];
        Ok(bodies.into_iter().zip(masks).map(|(body, mask)| [body, mask]).collect())
    }

    /// A ciphertext of the small ring from its body and its masks for the parts of the secret.
    fn pack(&self, keys: &SmallRingKeys, (body, masks): &(Poly, Vec<Poly>)) -> Result<[Poly; 2], RlweError> {
        let (small, basis) = (self.small.ring(), self.basis());
        let mut sum: Option<[Poly; 2]> = None;
        for (mask, key) in masks.iter().zip(&keys.parts) {
            let mut mask = mask.clone();
            small.to_evaluation(&mut mask)?;
            let [k0, k1] = small.gadget_product(&mask, key)?;
            match &mut sum {
                None => sum = Some([k0, k1]),
                Some([s0, s1]) => {
                    small.add_assign(s0, &k0)?;
                    small.add_assign(s1, &k1)?;
                }
            }
        }
        let [s0, s1] = sum.expect("the rank is at least two");
        let [mut k0, mut k1] = [small.divide_round(&s0, basis)?, small.divide_round(&s1, basis)?];
        small.to_coefficients(&mut k0)?;
        small.to_coefficients(&mut k1)?;
        small.add_assign(&mut k0, body)?;
        Ok([k0, k1])
    }

    /// Joins the ciphertexts of the small ring to one ciphertext under the sparse secret.
    fn merge(&self, keys: &SmallRingKeys, parts: Vec<[Poly; 2]>) -> Result<Ciphertext, RlweError> {
        let ring = self.main.ring();
        let (bodies, masks): (Vec<Poly>, Vec<Poly>) = parts.into_iter().map(|[body, mask]| (body, mask)).unzip();
        let merged = |parts: &[Poly]| -> Result<Poly, RlweError> {
            let mut poly = ring.merge_from(self.small.ring(), parts)?;
            ring.to_evaluation(&mut poly)?;
            Ok(poly)
        };
        switch_by_row(ring, [&merged(&bodies)?, &merged(&masks)?], &keys.up)
    }
}
