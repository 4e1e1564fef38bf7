//! Cost of circuits: operation counts, and a model that converts them to seconds.
//!
//! The costs of operations are functions of [`Cost`], and planners that use formulas call the same functions. A
//! rotation from shared digits that is kept counts as three inner products, because digits and keys are read from
//! memory.

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::time::{Duration, Instant};

use unspoken_ring::{Basis, Domain, HELD_IMAGES, Image, ImageInput, Poly, Ring, Seed, Special, SubringPoly};

use crate::encoding::Encoder;
use crate::error::CkksError;
use crate::parameters::CkksParameters;

/// Weight of the inner product of a key with shared digits where the rotation is kept: digits and key are read from
/// memory, and the product is written to memory. This weight and [`STREAMED_WEIGHT`] are fitted to the times of 97
/// plans of permutations in rings of degree 2^14 and 2^15 on one AVX-512 core. With them the ratio of predicted to
/// measured times spreads by 9 % instead of 14 %, and no chosen plan was more than 9 % slower than the best one.
const HOISTED_WEIGHT: u64 = 3;

/// Weight of a product with a plaintext vector where both ciphertext and vector are read from memory.
const STREAMED_WEIGHT: u64 = 3;

/// Operation counts. The simulator charges them for each operation, and planners compare plans by them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Relinearisations and automorphisms, by their number of primes without the special ones.
    pub key_switches: BTreeMap<usize, u64>,
    /// The part of `key_switches` that are rotations from shared raised digits, by the same number.
    /// Rotations that are summed at once do not count here.
    pub hoisted_rotations: BTreeMap<usize, u64>,
    /// Products of two ciphertexts.
    pub tensors: u64,
    /// Divisions by the primes of a level.
    pub rescales: u64,
    /// Products of a ciphertext with an encoded vector.
    pub plaintext_products: u64,
    /// Transforms of one limb (`n` residues of one prime), in either direction.
    pub limb_transforms: u64,
    /// Residues multiplied and added in basis conversions, which stay in the cache.
    pub conversion_macs: u64,
    /// Residues multiplied and added in inner products with keys, which come from memory.
    pub key_macs: u64,
    /// Residues multiplied and added in products of plaintext matrices with ciphertexts.
    pub matrix_macs: u64,
    /// Residues multiplied and added in products with encoded vectors that repeat, of which one value is stored for
    /// each run of equal ones: they stay in the cache.
    pub run_macs: u64,
    /// Residues passed through an element-wise operation: sum, product, permutation, copy.
    pub elementwise: u64,
    /// Residues of vectors encoded during the run, their transforms included.
    pub encoded: u64,
}

impl Cost {
    /// Number of key switches over all numbers of primes.
    pub fn total_key_switches(&self) -> u64 {
        self.key_switches.values().sum()
    }

    /// Cost of a relinearisation or an automorphism over `basis` that rescales to `to` in the same step.
    pub fn key_switch(ring: &Ring, basis: Basis, to: Basis) -> Self {
        let limbs = ring.limb_count(basis);
        let mut cost = Self::decomposition(ring, basis);
        cost += Self::hoisted_product(ring, basis);
        cost += Self::division(ring, ring.switching_basis(basis), to).times(2);
        cost += Self::elementwise(ring, 2 * limbs);
        cost.key_switches.insert(limbs, 1);
        cost
    }

    /// Cost of the digit decomposition of one polynomial: its digits raised to the extended basis.
    pub fn decomposition(ring: &Ring, basis: Basis) -> Self {
        let (extended, digits) = (ring.limb_count(ring.switching_basis(basis)), ring.digit_primes(basis));
        let conversions: usize = digits.iter().map(|digit| digit.len() * (extended - digit.len())).sum();
        Cost {
            limb_transforms: (digits.len() * extended) as u64,
            conversion_macs: (conversions * ring.degree()) as u64,
            ..Self::default()
        }
    }

    /// Cost of the inner product of raised digits with a key.
    pub fn hoisted_product(ring: &Ring, basis: Basis) -> Self {
        let limbs = 2 * ring.digit_count(basis.chain) * ring.limb_count(ring.switching_basis(basis));
        Cost { key_macs: (limbs * ring.degree()) as u64, ..Self::default() }
    }

    /// Cost of a rotation from digits that are raised already, left undivided. Its inner product counts
    /// `HOISTED_WEIGHT` times.
    pub fn hoisted_rotation(ring: &Ring, basis: Basis) -> Self {
        let (limbs, extended) = (ring.limb_count(basis), ring.limb_count(ring.switching_basis(basis)));
        let mut cost = Self::hoisted_product(ring, basis).times(HOISTED_WEIGHT);
        cost += Self::elementwise(ring, 3 * limbs + 4 * extended);
        cost.key_switches.insert(limbs, 1);
        cost.hoisted_rotations.insert(limbs, 1);
        cost
    }

    /// Cost of `count` rotations of one vector with one digit decomposition, each rotation divided
    /// ([`Arithmetic::rotate_hoisted`](crate::Arithmetic::rotate_hoisted)).
    pub fn hoisted_rotations(ring: &Ring, basis: Basis, count: u64) -> Self {
        let limbs = ring.limb_count(basis);
        let mut each = Self::hoisted_product(ring, basis).times(HOISTED_WEIGHT);
        each += Self::division(ring, ring.switching_basis(basis), basis).times(2);
        each += Self::elementwise(ring, 2 * limbs);
        each.key_switches.insert(limbs, 1);
        each.hoisted_rotations.insert(limbs, 1);
        let mut cost = Self::decomposition(ring, basis);
        cost += each.times(count);
        cost
    }

    /// Cost of the sum of `rotations` rotations of one vector and of `copies` times the vector itself: one digit
    /// decomposition and one division, which also rescales to `to`
    /// ([`Arithmetic::sum_rotations`](crate::Arithmetic::sum_rotations)). The rotated limbs are added while they are in
    /// the cache, so the inner products weigh less than in [`Cost::hoisted_rotation`].
    pub fn sum_of_rotations(ring: &Ring, basis: Basis, rotations: u64, copies: u64, to: Basis) -> Self {
        let (limbs, extended) = (ring.limb_count(basis), ring.limb_count(ring.switching_basis(basis)));
        let mut rotation = Self::hoisted_product(ring, basis);
        rotation += Self::elementwise(ring, 4 * extended);
        rotation.key_switches.insert(limbs, 1);
        let mut cost = Self::decomposition(ring, basis);
        cost += rotation.times(rotations);
        cost += Self::elementwise(ring, 2 * limbs + 2 * extended).times(rotations + copies);
        cost += Self::division(ring, ring.switching_basis(basis), to).times(2);
        cost.rescales = u64::from(to != basis);
        cost
    }

    /// Cost of `rows` sums of products of plaintext vectors with hoisted rotations of one vector at `level`, each sum
    /// divided once, rescale included ([`Arithmetic::rotation_products`](crate::Arithmetic::rotation_products)).
    pub(crate) fn rotation_products(
        parameters: &CkksParameters,
        level: usize,
        steps: &[i64],
        products: usize,
        rows: usize,
    ) -> Self {
        let (ring, basis) = (parameters.ring(), parameters.basis(level));
        let rotations = steps.iter().filter(|&&s| s.rem_euclid(parameters.slots() as i64) != 0).count() as u64;
        let mut cost = Self::decomposition(ring, basis);
        cost += Self::hoisted_rotation(ring, basis).times(rotations);
        cost += Self::undivided_products(ring, basis, 1, products as u64);
        let to = parameters.basis(level.saturating_sub(1));
        let mut division = Self::division(ring, ring.switching_basis(basis), to).times(2);
        division.rescales = 1;
        cost += division.times(rows as u64);
        cost
    }

    /// Cost of `count` products of plaintext vectors with undivided rotations, summed. The rotations stay in the cache
    /// for all sums. A vector of which one value is stored for each `run` stays there, too. Others come from memory:
    /// each product counts twice, because it waits for memory more than a plain sum does.
    pub(crate) fn undivided_products(ring: &Ring, basis: Basis, run: usize, count: u64) -> Self {
        let limbs = 2 * ring.limb_count(ring.switching_basis(basis));
        let product = match run {
            1 => Self::elementwise(ring, 2 * limbs),
            _ => Cost { run_macs: (limbs * ring.degree()) as u64, ..Self::default() },
        };
        Cost { plaintext_products: 1, ..product }.times(count)
    }

    /// Cost of `count` products of ciphertexts with plaintext vectors that are encoded already, summed
    /// ([`Arithmetic::sum_products`](crate::Arithmetic::sum_products)). Every product reads three polynomials from
    /// memory, which counts `STREAMED_WEIGHT` times.
    pub fn sum_of_products(ring: &Ring, basis: Basis, count: u64) -> Self {
        let mut product = Self::elementwise(ring, 4 * ring.limb_count(basis)).times(STREAMED_WEIGHT);
        product.plaintext_products = 1;
        product.times(count)
    }

    /// Cost of the product of two ciphertexts, not relinearised.
    pub fn tensor(ring: &Ring, basis: Basis) -> Self {
        Cost { tensors: 1, ..Self::elementwise(ring, 7 * ring.limb_count(basis)) }
    }

    /// Cost of the sum or difference of two ciphertexts with `components` components: the operation and two copies, to
    /// the lower level and into the result.
    pub fn addition(ring: &Ring, basis: Basis, components: usize) -> Self {
        Self::elementwise(ring, 3 * components * ring.limb_count(basis))
    }

    /// Cost of rescaling a ciphertext with `components` components.
    pub fn rescale(ring: &Ring, from: Basis, to: Basis, components: usize) -> Self {
        Cost { rescales: 1, ..Self::division(ring, from, to).times(components as u64) }
    }

    /// Cost of the division of one polynomial over `from` to the basis `to`.
    pub fn division(ring: &Ring, from: Basis, to: Basis) -> Self {
        let special = ring.special_primes(from).len().saturating_sub(ring.special_primes(to).len());
        let surplus = from.chain.saturating_sub(to.chain) + from.terminal.saturating_sub(to.terminal);
        let (dropped, kept) = (special + surplus, ring.limb_count(to));
        Cost {
            limb_transforms: (dropped + kept) as u64,
            conversion_macs: ((dropped + 1) * kept * ring.degree()) as u64,
            elementwise: (2 * kept * ring.degree()) as u64,
            ..Self::default()
        }
    }

    /// Cost of the product of a plaintext matrix with ciphertexts of `components` components.
    pub fn matrix(ring: &Ring, basis: Basis, components: usize, (rows, columns): (usize, usize)) -> Self {
        let limbs = components * ring.limb_count(basis);
        let matrix_macs = (limbs * rows * columns * ring.degree()) as u64;
        Cost { matrix_macs, ..Self::elementwise(ring, limbs * columns) }
    }

    /// Cost of element-wise passes over `limbs` limbs.
    pub fn elementwise(ring: &Ring, limbs: usize) -> Self {
        Cost { elementwise: (limbs * ring.degree()) as u64, ..Self::default() }
    }

    /// Cost of encoding a vector over `limbs` primes.
    pub(crate) fn encoding(ring: &Ring, limbs: usize) -> Self {
        Cost { encoded: (limbs * ring.degree()) as u64, ..Self::default() }
    }

    /// The cost multiplied by `count`.
    pub fn times(self, count: u64) -> Self {
        let each = |counts: BTreeMap<usize, u64>| counts.into_iter().map(|(chain, n)| (chain, n * count)).collect();
        Cost {
            key_switches: each(self.key_switches),
            hoisted_rotations: each(self.hoisted_rotations),
            tensors: self.tensors * count,
            rescales: self.rescales * count,
            plaintext_products: self.plaintext_products * count,
            limb_transforms: self.limb_transforms * count,
            conversion_macs: self.conversion_macs * count,
            key_macs: self.key_macs * count,
            matrix_macs: self.matrix_macs * count,
            run_macs: self.run_macs * count,
            elementwise: self.elementwise * count,
            encoded: self.encoded * count,
        }
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        for (own, more) in
            [(&mut self.key_switches, other.key_switches), (&mut self.hoisted_rotations, other.hoisted_rotations)]
        {
            more.into_iter().for_each(|(chain, count)| *own.entry(chain).or_insert(0) += count);
        }
        self.tensors += other.tensors;
        self.rescales += other.rescales;
        self.plaintext_products += other.plaintext_products;
        self.limb_transforms += other.limb_transforms;
        self.conversion_macs += other.conversion_macs;
        self.key_macs += other.key_macs;
        self.matrix_macs += other.matrix_macs;
        self.run_macs += other.run_macs;
        self.elementwise += other.elementwise;
        self.encoded += other.encoded;
    }
}

/// Seconds per unit of each kind of work. Predictions are accurate to a factor of about two: caches are modelled
/// roughly, and threads that wait for each other not at all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CostModel {
    /// Per transform of one limb.
    pub limb_transform: f64,
    /// Per residue of a basis conversion.
    pub conversion_mac: f64,
    /// Per residue of an inner product with a key.
    pub key_mac: f64,
    /// Per residue of a matrix product.
    pub matrix_mac: f64,
    /// Per residue of a product with a vector that repeats.
    pub run_mac: f64,
    /// Per residue of an element-wise operation.
    pub elementwise: f64,
    /// Per residue of an encoding.
    pub encoding: f64,
}

/// Minimum duration and minimum number of runs for the measurement of each kind of work.
const MEASURE_FOR: Duration = Duration::from_millis(50);
const MEASURE_TIMES: u32 = 3;

/// Least part of a decomposition that its conversions take: its transforms are timed alone, and the difference of both
/// times is not exact.
const LEAST_CONVERSIONS: f64 = 0.1;

/// Rows and columns, and number of primes, of the timed matrix product.
const MATRIX_SIDE: usize = 32;
const MATRIX_PRIMES: usize = 4;

/// Number of the timed sums of products with vectors that repeat, and the runs of those vectors.
const RUN_SUMS: usize = 16;
const RUN: usize = 4 * SubringPoly::MIN_RUN;

impl CostModel {
    /// Nominal values for one AVX2 core at about 3 GHz, for choosing between plans, where only ratios matter.
    pub fn nominal(parameters: &CkksParameters) -> Self {
        let degree = parameters.ring().degree() as f64;
        let limb_transform = 0.2e-9 * degree * degree.log2();
        CostModel {
            limb_transform,
            conversion_mac: 0.3e-9,
            key_mac: 0.3e-9,
            matrix_mac: 0.1e-9,
            run_mac: 0.1e-9,
            elementwise: 0.4e-9,
            encoding: 10e-9,
        }
    }

    /// Measures each kind of work on this machine, on the threads of the current rayon pool. Takes less than a second.
    ///
    /// # Errors
    /// If a ring operation fails, which valid parameters rule out.
    pub fn measure(parameters: &CkksParameters) -> Result<Self, CkksError> {
        let ring = parameters.ring();
        let degree = ring.degree() as f64;
        let full = parameters.basis(parameters.max_level());
        let limbs = ring.limb_count(full) as f64;
        let seed = Seed([0; 32]);
        let other = ring.uniform(&seed, 1, full);

        let mut poly = ring.uniform(&seed, 0, full);
        let transforms = fastest(|| {
            ring.to_coefficients(&mut poly)?;
            ring.to_evaluation(&mut poly)
        })?;
        let sums = fastest(|| ring.add_assign(&mut poly, &other))?;
        let limb_transform = transforms / (2.0 * limbs);
        let decompositions = fastest(|| ring.decompose(&poly).map(drop))?;
        let decomposition = Cost::decomposition(ring, full);
        let conversions = decompositions - limb_transform * decomposition.limb_transforms as f64;

        let chain = full.chain.min(2 * ring.digit_len());
        let row = ring.uniform(&seed, 2, ring.gadget_key_basis(chain));
        let key = ring.gadget_key(chain, &vec![[&row, &row]; ring.digit_count(chain)])?;
        let is_short = ring.switching_basis(Basis::chain(chain)).special == Special::Short;
        let key = if is_short { ring.short_gadget_key(&key)? } else { key };
        let digits = ring.decompose(&ring.restricted(&poly, Basis::chain(chain))?)?;
        let products = fastest(|| ring.gadget_product_hoisted(&digits, &key).map(drop))?;

        let primes = full.chain.min(MATRIX_PRIMES);
        let entry = |row, column| (row * MATRIX_SIDE + column + 1) as i128;
        let matrix = ring.real_matrix(Basis::chain(primes), MATRIX_SIDE, MATRIX_SIDE, entry);
        let inputs: Vec<Poly> = (0..MATRIX_SIDE).map(|_| ring.zero(Basis::chain(primes), Domain::Evaluation)).collect();
        let inputs: Vec<&Poly> = inputs.iter().collect();
        let matrices = fastest(|| ring.matrix_product(&matrix, &inputs).map(drop))?;

        let raised = digits.raised();
        let factor = ring.evaluate_subring_f64(&vec![1.0; ring.degree() / RUN], 1, raised, RUN)?;
        let zero = ring.zero(raised, Domain::Evaluation);
        let input = ImageInput { digits: &digits, added: [&zero, &zero] };
        let images = [Image { input, key: None, galois: 1 }; HELD_IMAGES];
        let row = || (0..HELD_IMAGES).map(|number| (number, &factor)).collect::<Vec<_>>();
        let runs = fastest(|| {
            let sums = (0..RUN_SUMS).map(|_| row().into()).collect();
            ring.hoisted_product_sums(&images, sums).map(drop)
        })?;
        let run_macs = 2 * RUN_SUMS * HELD_IMAGES * ring.limb_count(raised);

        let encoder = Encoder::new(parameters);
        let level = parameters.max_level();
        let values: Vec<f64> = (0..parameters.slots()).map(|j| (j as f64).sin()).collect();
        let encodings = fastest(|| encoder.encode_real(&values, level, parameters.scale()).map(drop))?;

        Ok(CostModel {
            limb_transform,
            conversion_mac: conversions.max(LEAST_CONVERSIONS * decompositions) / decomposition.conversion_macs as f64,
            key_mac: products / Cost::hoisted_product(ring, Basis::chain(chain)).key_macs as f64,
            matrix_mac: matrices / ((MATRIX_SIDE * MATRIX_SIDE * primes) as f64 * degree),
            run_mac: runs / (run_macs as f64 * degree),
            elementwise: sums / (limbs * degree),
            encoding: encodings / (limbs * degree),
        })
    }

    /// Predicted seconds.
    pub fn seconds(&self, cost: &Cost) -> f64 {
        self.limb_transform * cost.limb_transforms as f64
            + self.conversion_mac * cost.conversion_macs as f64
            + self.key_mac * cost.key_macs as f64
            + self.matrix_mac * cost.matrix_macs as f64
            + self.run_mac * cost.run_macs as f64
            + self.elementwise * cost.elementwise as f64
            + self.encoding * cost.encoded as f64
    }
}

/// Seconds of the fastest of several runs, which excludes most disturbances by other programs.
fn fastest<E>(mut work: impl FnMut() -> Result<(), E>) -> Result<f64, E> {
    let (begin, mut best) = (Instant::now(), f64::INFINITY);
    let mut runs = 0;
    while runs < MEASURE_TIMES || begin.elapsed() < MEASURE_FOR {
        let start = Instant::now();
        work()?;
        best = best.min(start.elapsed().as_secs_f64());
        runs += 1;
    }
    Ok(best)
}
