//! Products of plaintext matrices with the coefficients of ciphertexts at the lowest level, in a ring of small degree.
//!
//! A ciphertext of degree `n` is switched to a secret `s'(X^r)` of the subring of degree `n' = n / r` and falls apart
//! into `r` ciphertexts of that degree, and each of those into module ciphertexts of degree `t`
//! ([`Ring::module_rows`]). A matrix product on coefficients is then an integer matrix product for every prime, at no
//! level. The results are packed again, by one key switch for each part of `s'`, and switched to the sparse secret of a
//! bootstrap (Bae, Cheon, Hanrot, Park and Stehlé, "Plaintext-ciphertext matrix multiplication and FHE bootstrapping:
//! fast and fused", CRYPTO 2024; private Llama paper, section 5.2 and appendix A).
//!
//! The secret `s'` has degree `n'`, so its keys are counted as keys of that degree: the primes of the lowest level and
//! one special prime.

use rayon::prelude::*;
use unspoken_ring::{Basis, ModuleRows, Poly, Ring, RingError, RingKind, RingLiteral, RingMatrix};

use crate::ciphertext::Ciphertext;
use crate::encapsulation::switch_by_row;
use crate::error::RlweError;
use crate::parameters::{Parameters, ParametersLiteral, SmallRings};
use crate::security::SecretDistribution;
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

/// The small ring of a parameter set, and the degree of its module ciphertexts.
#[derive(Clone, Debug)]
pub struct SmallRing {
    pub(crate) main: Parameters,
    /// The degree of the parameter set, with the primes of the small ring.
    pub(crate) wide: Ring,
    pub(crate) small: Parameters,
    degree: usize,
}

impl SmallRing {
    /// The ring of degree `small_degree`, the same one for all calls with these parameters, with module ciphertexts of
    /// degree `module_degree`: number of coefficients to a row of the products.
    ///
    /// # Errors
    /// If the parameters are not made for bootstrapping or have no special primes, the ring has less than 128 bits of
    /// security and the name does not begin with `insecure_`, or a degree is not a power of two below the next one.
    pub fn new(parameters: &Parameters, small_degree: usize, module_degree: usize) -> Result<Self, RlweError> {
        let base = parameters.encapsulation()?.base;
        let ring = parameters.ring();
        let least = ModuleRows::MIN_DEGREE;
        let fits = |degree: usize, above: usize| degree.is_power_of_two() && degree < above;
        let possible = fits(small_degree, ring.degree()) && fits(module_degree, small_degree) && module_degree >= least;
        if ring.special().is_empty() || !possible {
            let reason = format!(
                "a small ring of degree {small_degree} with module ciphertexts of degree {module_degree}; needed \
                 special primes, and powers of two below {} and {small_degree} of which the second is {least} or more",
                ring.degree()
            );
            return Err(RlweError::Encapsulation { name: parameters.name().into(), reason });
        }
        let literal = |degree: usize| RingLiteral {
            degree,
            kind: RingKind::Standard,
            chain: ring.chain()[..base].to_vec(),
            terminal: Vec::new(),
            special: ring.special()[..1].to_vec(),
            digit_len: 1,
        };
        let make = || -> Result<SmallRings, RlweError> {
            let mut wide = Ring::new(literal(ring.degree()), ring.backend())?;
            let small = ParametersLiteral {
                name: format!("{}_small", parameters.name()),
                ring: literal(small_degree),
                secret: SecretDistribution::UniformTernary,
                encapsulation: None,
            };
            let mut small = Parameters::with_backend(small, ring.backend())?;
            if let Some(device) = ring.device() {
                (wide, small) = (wide.on_device(device)?, small.on_device(device)?);
            }
            Ok(SmallRings { wide, small })
        };
        let SmallRings { wide, small } = parameters.small_rings(small_degree, make)?;
        Ok(SmallRing { main: parameters.clone(), wide, small, degree: module_degree })
    }

    /// The parameters of the ring of small degree.
    pub fn parameters(&self) -> &Parameters {
        &self.small
    }

    /// Number of coefficients of a row, `t`.
    pub fn row_len(&self) -> usize {
        self.degree
    }

    /// Number of rows of a ciphertext, `n / t`: coefficient `i + c (n / t)` is coefficient `c` of row `i`.
    pub fn rows(&self) -> usize {
        self.main.ring().degree() / self.degree
    }

    /// Number of module ciphertexts of a ciphertext of the small ring, and of the parts of its secret.
    pub fn rank(&self) -> usize {
        self.small.ring().degree() / self.degree
    }

    /// The primes of the key to the sparse secret.
    pub(crate) fn up_basis(&self) -> Basis {
        Basis::chain(self.main.encapsulation().map_or(0, |encapsulation| encapsulation.primes))
    }

    /// The primes of its ciphertexts: the primes of the lowest level.
    pub fn basis(&self) -> Basis {
        Basis::chain(self.small.ring().chain().len())
    }

    /// Packs an integer matrix for products.
    pub fn matrix(&self, rows: usize, columns: usize, entry: impl Fn(usize, usize) -> i128 + Sync) -> RingMatrix {
        self.small.ring().real_matrix(self.basis(), rows, columns, entry)
    }

    /// Bytes in memory of a packed matrix.
    pub fn matrix_bytes(&self, rows: usize, columns: usize) -> usize {
        self.small.ring().real_matrix_bytes(self.basis(), rows, columns)
    }

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
