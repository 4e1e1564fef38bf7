//! Sums over the images of polynomials under automorphisms, for packing many LWE ciphertexts into one RLWE ciphertext
//! (Mahdavi et al., "InsPIRe", ring packing with preprocessed masks).
//!
//! In *orbit order* the values of a polynomial at the roots `psi^(5^t)` come first, for `t` below `n/2`, then those at
//! `psi^(-5^t)`. There the automorphism `X -> X^5` rotates each half by one place. So the products of many polynomials
//! with the images of one under `X -> X^(5^i)` are sums over windows of its values, which move by one place.

use std::ops::Range;

use rayon::prelude::*;
use zeroize::Zeroize;

use crate::basis::{Basis, Domain};
use crate::digits::GadgetDigits;
use crate::error::RingError;
use crate::kernels::TABLE_BLOCK;
use crate::memory::Words;
use crate::poly::Poly;
use crate::ring::Ring;
use crate::stored::Stored;

/// The shape of a list of factors `d_0, d_1, ..` for sums `sum_i d_i sigma^i(key)`, where `sigma` is `X -> X^5`.
///
/// The words of a list may be in any memory, such as a mapped file. Their order is: for each prime and each block of 16
/// values in orbit order, for each factor, that block of that factor. A sum reads them once from the first to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrbitShape {
    /// Number of factors, at most `n/2`.
    pub factors: usize,
    /// Number of chain primes.
    pub chain: usize,
}

/// The sums `sum_l X^l sigma(m_l)` over polynomials `m_0, .., m_(n-1)`, for all automorphisms `sigma`.
///
/// The value of such a sum at a root `z` is the value at `z` of the polynomial whose coefficients are the values of all
/// `m_l` at `sigma(z)`. So `n` transforms give all sums.
pub struct GaloisSums {
    /// For each position `u` of the evaluation domain, the transform of the values of all polynomials at `u`.
    transformed: Vec<Poly>,
}

/// A polynomial whose images are multiplied with factors. Made by [`Ring::orbit_table`].
pub struct OrbitTable {
    /// For each prime and each half in orbit order, its values twice, so that every window is contiguous.
    pub(crate) words: Words,
    chain: usize,
}

impl std::fmt::Debug for OrbitTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OrbitTable").field("chain", &self.chain).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for GaloisSums {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GaloisSums").field("polynomials", &self.transformed.len()).finish_non_exhaustive()
    }
}

impl Ring {
    /// Prepares the sums over `n` polynomials in the evaluation domain, all over the same chain primes. Runs on all
    /// threads. Standard ring.
    ///
    /// # Errors
    /// If there are not `n` polynomials, or one is in another domain or basis, or the ring is conjugate-invariant.
    pub fn galois_sums(&self, polys: &[Poly]) -> Result<GaloisSums, RingError> {
        const OPERATION: &str = "sum over automorphisms";
        self.check_standard(OPERATION)?;
        let n = self.degree();
        let Some(basis) = polys.first().map(Poly::basis).filter(|_| polys.len() == n) else {
            let (what, found) = ("the polynomials of a sum over automorphisms", polys.len());
            return Err(RingError::Length { what, found, needed: "as many as the degree" });
        };
        for poly in polys {
            self.check_values(OPERATION, poly, Basis::chain(basis.chain))?;
        }
        let secret = polys.iter().any(Poly::is_secret);
        let polys = self.all_here(polys)?;
        let transform = |positions: Range<usize>| -> Vec<Poly> {
            let blank = |_| {
                let mut column = self.blank(basis, Domain::Evaluation);
                column.words.inherit(secret);
                column
            };
            let mut columns: Vec<Poly> = positions.clone().map(blank).collect();
            for prime in 0..basis.chain {
                for (l, poly) in polys.iter().enumerate() {
                    let values = &poly.limb(prime)[positions.clone()];
                    columns.iter_mut().zip(values).for_each(|(column, value)| column.limb_mut(prime)[l] = *value);
                }
                let mut limbs: Vec<&mut [u32]> = columns.iter_mut().map(|column| column.limb_mut(prime)).collect();
                self.forward(prime, &mut limbs);
            }
            columns
        };
        let blocks = (0..n / TABLE_BLOCK).into_par_iter();
        let blocks = blocks.map(|block| transform(block * TABLE_BLOCK..(block + 1) * TABLE_BLOCK));
        Ok(GaloisSums { transformed: blocks.flatten().collect() })
    }

    /// The sum for the automorphism `X -> X^galois`, in the evaluation domain.
    ///
    /// # Errors
    /// If `galois` is even or not below `2n`, or the sums are of another ring.
    pub fn galois_sum(&self, sums: &GaloisSums, galois: u64) -> Result<Poly, RingError> {
        let permutation = self.permutation(galois)?;
        let first = &sums.transformed[0];
        self.check_own("sum over automorphisms", first)?;
        let mut sum = self.blank_from(&[first], first.basis(), Domain::Evaluation);
        self.for_each_limb(&mut sum, |i, _, limb| {
            for (at, value) in limb.iter_mut().enumerate() {
                *value = sums.transformed[permutation.source_of(at)].limb(i)[at];
            }
        });
        Ok(sum)
    }

    /// Number of words of a list of factors.
    pub fn orbit_words(&self, shape: OrbitShape) -> usize {
        shape.factors * shape.chain * self.degree()
    }

    /// Writes factor `index` of a list: the only digit of a decomposed polynomial.
    ///
    /// # Errors
    /// If the words are not a list of this shape, the list has no factor `index`, or the digits are not one digit of
    /// one polynomial over the list's primes.
    pub fn write_orbit_factor(
        &self,
        shape: OrbitShape,
        words: &mut [u32],
        index: usize,
        digits: &GadgetDigits,
    ) -> Result<(), RingError> {
        self.check_orbit(shape, 1, words)?;
        if index >= shape.factors {
            let what = "the number of a factor";
            return Err(RingError::Length { what, found: index, needed: "a number within the shape" });
        }
        self.check_only_digit(digits, shape.chain)?;
        let fetched = if digits.words.is_here() { None } else { Some(self.fetched(&digits.words)?) };
        let limbs = fetched.as_ref().unwrap_or(&digits.words);
        let order = self.orbit_order();
        let blocks = self.degree() / TABLE_BLOCK;
        for (number, unit) in words.chunks_exact_mut(shape.factors * TABLE_BLOCK).enumerate() {
            let values = &limbs[number / blocks * self.stride()..][..self.degree()];
            let places = &order[number % blocks * TABLE_BLOCK..][..TABLE_BLOCK];
            let target = &mut unit[index * TABLE_BLOCK..][..TABLE_BLOCK];
            target.iter_mut().zip(places).for_each(|(word, &place)| *word = values[place as usize]);
        }
        Ok(())
    }

    /// Prepares a polynomial in the evaluation domain, over chain primes, for sums over its images. Standard ring.
    ///
    /// # Errors
    /// If the polynomial is in the coefficient domain or over other than chain primes, or the ring is
    /// conjugate-invariant.
    pub fn orbit_table(&self, key: &Poly) -> Result<OrbitTable, RingError> {
        const OPERATION: &str = "sum over an orbit";
        self.check_standard(OPERATION)?;
        let chain = key.basis().chain;
        self.check_values(OPERATION, key, Basis::chain(chain))?;
        if let Some(on) = self.on() {
            return Ok(OrbitTable { words: on.orbit_table(self, key)?, chain });
        }
        let key = &*self.here(key)?;
        let (n, order) = (self.degree(), self.orbit_order());
        let mut words = self.scratch(2 * n * chain, key.is_secret());
        for (prime, doubled) in words.chunks_exact_mut(2 * n).enumerate() {
            let (modulus, limb) = (self.modulus(prime), key.limb(prime));
            for (doubled, order) in doubled.chunks_exact_mut(n).zip(order.chunks_exact(n / 2)) {
                let places = order.iter().chain(order);
                doubled.iter_mut().zip(places).for_each(|(word, &place)| *word = limb[place as usize]);
            }
            // Factors are plain residues, so the key takes the factor that products lose.
            self.kernels().scale_assign(modulus, doubled, modulus.shoup(modulus.r));
        }
        Ok(OrbitTable { words, chain })
    }

    /// Sums `sum_i d_i sigma^i(key)` over the factors of lists, where `sigma` is `X -> X^5`, in the evaluation domain:
    /// the sums of all lists, each with keys of its own. There are as many results as each list has keys. The words are
    /// those of the lists one after the other, and are read once for all keys. Runs on all threads. Words that are not
    /// below their prime give wrong sums but are memory-safe.
    ///
    /// # Errors
    /// If the words are not lists of this shape, or a key is of another ring or over other primes, or lists have
    /// different numbers of keys.
    pub fn orbit_sums(
        &self,
        shape: OrbitShape,
        words: Stored<'_, u32>,
        keys: &[&[OrbitTable]],
    ) -> Result<Vec<Poly>, RingError> {
        const OPERATION: &str = "sum over an orbit";
        self.check_orbit(shape, keys.len(), words.items)?;
        let queries = keys.first().map_or(0, |keys| keys.len());
        if let Some(keys) = keys.iter().find(|keys| keys.len() != queries) {
            let (what, found) = ("the keys of a list of factors", keys.len());
            return Err(RingError::Length { what, found, needed: "as many as the others have" });
        }
        for key in keys.iter().copied().flatten() {
            self.check_words(OPERATION, &key.words)?;
            if key.chain != shape.chain {
                let (found, needed) = (Basis::chain(key.chain), Basis::chain(shape.chain));
                return Err(RingError::Basis { operation: OPERATION, found, needed });
            }
        }
        if queries == 0 {
            return Ok(Vec::new());
        }
        if let Some(on) = self.on() {
            return on.orbit_sums(self, (shape, words), keys);
        }
        let mut lists = words.items.chunks_exact(self.orbit_words(shape)).zip(keys);
        let mut sums = lists.next().map_or(Vec::new(), |(words, keys)| self.list_sums(shape, words, keys));
        for (words, keys) in lists {
            self.add_each(&mut sums, &self.list_sums(shape, words, keys))?;
        }
        Ok(sums)
    }

    /// The sums of one list.
    fn list_sums(&self, shape: OrbitShape, words: &[u32], keys: &[OrbitTable]) -> Vec<Poly> {
        let (n, half, blocks) = (self.degree(), self.degree() / 2, self.degree() / TABLE_BLOCK);
        let secret = keys.iter().any(|key| key.words.is_secret());
        let unit_sums = |(number, unit): (usize, &[u32])| {
            let (prime, at) = (number / blocks, number % blocks * TABLE_BLOCK);
            let start = 2 * n * prime + at / half * n + at % half;
            let window = start..start + shape.factors + TABLE_BLOCK - 1;
            let mut sums = vec![0; keys.len() * TABLE_BLOCK];
            for (key, sums) in keys.iter().zip(sums.chunks_exact_mut(TABLE_BLOCK)) {
                self.kernels().window_sum(self.modulus(prime), unit, &key.words[window.clone()], sums);
            }
            sums
        };
        let units = words.par_chunks_exact(shape.factors * TABLE_BLOCK).enumerate();
        let mut units: Vec<Vec<u32>> = units.map(unit_sums).collect();
        let order = self.orbit_order();
        let gather = |key: usize| {
            let mut sum = self.blank(Basis::chain(shape.chain), Domain::Evaluation);
            sum.words.inherit(secret);
            for (number, sums) in units.iter().enumerate() {
                let (prime, at) = (number / blocks, number % blocks * TABLE_BLOCK);
                let limb = sum.limb_mut(prime);
                let places = &order[at..at + TABLE_BLOCK];
                let sums = &sums[key * TABLE_BLOCK..][..TABLE_BLOCK];
                places.iter().zip(sums).for_each(|(&place, value)| limb[place as usize] = *value);
            }
            sum
        };
        let sums = (0..keys.len()).map(gather).collect();
        if secret {
            units.zeroize();
        }
        sums
    }

    fn check_orbit(&self, shape: OrbitShape, lists: usize, words: &[u32]) -> Result<(), RingError> {
        self.check_standard("sum over an orbit")?;
        let OrbitShape { factors, chain } = shape;
        let fits = (1..=self.chain().len()).contains(&chain) && (1..=self.degree() / 2).contains(&factors);
        if fits && words.len() == lists * self.orbit_words(shape) {
            return Ok(());
        }
        Err(RingError::Length {
            what: "the words of a list of factors",
            found: words.len(),
            needed: "those of its shape",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modular::primes_descending;
    use crate::{Backend, DeviceCopy, RingKind, RingLiteral, SecretRng};

    const N: usize = 512;

    fn rings() -> impl Iterator<Item = Ring> {
        let backends = Backend::ALL.into_iter().filter(|backend| backend.is_available());
        backends.flat_map(|backend| {
            [26, 30].map(|bits| {
                let chain = primes_descending(1 << (bits - 1), 1 << bits, 2 * N as u32).take(2).collect();
                let kind = RingKind::Standard;
                let literal = RingLiteral { degree: N, kind, chain, terminal: vec![], special: vec![], digit_len: 1 };
                Ring::new(literal, backend).unwrap()
            })
        })
    }

    fn bytes(ring: &Ring, poly: &Poly) -> Vec<u8> {
        let mut bytes = Vec::new();
        ring.write_residues(poly, &mut bytes);
        bytes
    }

    #[test]
    fn sums_over_an_orbit_are_sums_of_products_with_images() {
        for ring in rings() {
            let (seed, basis) = (SecretRng::insecure_from_seed(4).seed(), Basis::chain(2));
            let gadget = ring.digit_gadget(2, 20, 1).unwrap();
            for factors in [1, 7, N / 2 - 1, N / 2] {
                let shape = OrbitShape { factors, chain: 2 };
                let mut words = vec![9; ring.orbit_words(shape)];
                let keys = [0, 1, 2].map(|stream| ring.uniform(&seed, stream, basis));
                let mut expected = keys.each_ref().map(|_| ring.zero(basis, Domain::Evaluation));
                let mut galois = 1;
                for index in 0..factors {
                    let mut operand = ring.uniform(&seed, 100 + index as u32, basis);
                    ring.to_coefficients(&mut operand).unwrap();
                    let digits = ring.digits(gadget, &[&operand]).unwrap();
                    ring.write_orbit_factor(shape, &mut words, index, &digits).unwrap();
                    let factor = ring.digit_value(&digits).unwrap();
                    for (sum, key) in expected.iter_mut().zip(&keys) {
                        ring.mul_add_assign(sum, &factor, &ring.automorphism(key, galois).unwrap()).unwrap();
                    }
                    galois = galois * 5 % (2 * N as u64);
                }
                let keys = keys.map(|key| ring.orbit_table(&key).unwrap());
                let copy = DeviceCopy::default();
                let found = ring.orbit_sums(shape, Stored::new(&words, &copy), &[&keys]).unwrap();
                assert_eq!(found.len(), 3);
                for (found, expected) in found.iter().zip(&expected) {
                    assert_eq!(bytes(&ring, found), bytes(&ring, expected), "{factors} factors");
                }
            }
        }
    }

    #[test]
    fn sums_over_automorphisms_are_those_of_the_definition() {
        let ring = rings().last().unwrap();
        let (seed, basis) = (SecretRng::insecure_from_seed(5).seed(), Basis::chain(2));
        let polys: Vec<Poly> = (0..N as u32).map(|stream| ring.uniform(&seed, stream, basis)).collect();
        let sums = ring.galois_sums(&polys).unwrap();
        for galois in [1, 5, 25, 2 * N as u64 - 1, 2 * N as u64 - 5] {
            let mut expected = ring.zero(basis, Domain::Evaluation);
            for (l, poly) in polys.iter().enumerate() {
                let power: Vec<i32> = (0..N).map(|i| i32::from(i == l)).collect();
                let power = ring.evaluate_i32(&power, basis).unwrap();
                ring.mul_add_assign(&mut expected, &power, &ring.automorphism(poly, galois).unwrap()).unwrap();
            }
            let found = ring.galois_sum(&sums, galois).unwrap();
            assert_eq!(bytes(&ring, &found), bytes(&ring, &expected), "{galois}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let ring = rings().next().unwrap();
        let poly = ring.zero(Basis::chain(2), Domain::Evaluation);
        assert!(matches!(ring.galois_sums(std::slice::from_ref(&poly)), Err(RingError::Length { .. })));
        let shape = OrbitShape { factors: 2, chain: 2 };
        let mut words = vec![0; ring.orbit_words(shape)];
        let copy = DeviceCopy::default();
        let sums = |shape: OrbitShape, words: &[u32], key: OrbitTable| {
            ring.orbit_sums(shape, Stored::new(words, &copy), &[&[key]])
        };
        let key = ring.orbit_table(&poly).unwrap();
        assert!(matches!(sums(shape, &words[1..], key), Err(RingError::Length { .. })));
        let narrow = || ring.orbit_table(&ring.zero(Basis::chain(1), Domain::Evaluation)).unwrap();
        assert!(matches!(sums(shape, &words, narrow()), Err(RingError::Basis { .. })));
        let other = rings().next().unwrap();
        let foreign = other.orbit_table(&other.zero(Basis::chain(2), Domain::Evaluation)).unwrap();
        assert!(matches!(sums(shape, &words, foreign), Err(RingError::ForeignOperand { .. })));
        assert!(matches!(
            ring.orbit_table(&ring.zero(Basis::chain(1), Domain::Coefficient)),
            Err(RingError::Domain { .. })
        ));
        let coefficients = ring.zero(Basis::chain(2), Domain::Coefficient);
        let digits = ring.digits(ring.digit_gadget(2, 20, 1).unwrap(), &[&coefficients]).unwrap();
        assert!(ring.write_orbit_factor(shape, &mut words, 2, &digits).is_err());
        let several = ring.digits(ring.digit_gadget(2, 20, 2).unwrap(), &[&coefficients]).unwrap();
        assert!(ring.write_orbit_factor(shape, &mut words, 0, &several).is_err());
        let too_many = OrbitShape { factors: N / 2 + 1, chain: 1 };
        let words = vec![0; ring.orbit_words(too_many)];
        assert!(sums(too_many, &words, narrow()).is_err());
    }
}
