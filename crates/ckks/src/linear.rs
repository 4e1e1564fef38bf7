//! Linear transformations of the slots, given by their diagonals.
//!
//! `out[j] = sum_k diagonal_k[j] in[j + k]`. Writing `k = g + b` with `g` a multiple of the number of baby steps, this is
//! `sum_g rot_g(sum_b rot_-g(diagonal_(g+b)) rot_b(in))`: one rotation per baby step and per giant step instead of one
//! per diagonal. The outer sum is taken by Horner's rule, from the largest `g` down, so that giant steps rotate by the
//! differences of successive `g`: where these are equal, one key serves all of them. Encrypted, both are hoisted (Bossuat, Mouchet, Troncoso-Pastoriza and Hubaux, "Efficient bootstrapping
//! for approximate homomorphic encryption with non-sparse keys", EUROCRYPT 2021, section 4): the baby steps share one
//! raise of digits and stay over the extended basis, undivided; each giant step divides one component by `P`; the sum is
//! divided once, by `P` and the level's primes together.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use num_complex::Complex64;
use unspoken_ring::{Basis, Poly, Ring, RingKind};
use unspoken_rlwe::{self as rlwe, EvaluationKeys, ExtendedCiphertext, KeyKind, KeyPlan, RlweError, galois};

use crate::arithmetic::{Arithmetic, check_scale, check_scales};
use crate::cost::{Cost, CostModel};
use crate::encoding::Encoder;
use crate::error::CkksError;
use crate::evaluator::Evaluator;
use crate::parameters::CkksParameters;
use crate::vector::Ciphertext;

const OPERATION: &str = "linear transformation";

/// The non-zero diagonals of a matrix, and how they will be applied: what to know before anything is encoded or any key
/// is made.
#[derive(Clone, Debug)]
pub struct LinearPlan {
    parameters: CkksParameters,
    /// Shared by the copies of a plan: they are large.
    diagonals: Arc<BTreeMap<usize, Vec<Complex64>>>,
    baby_steps: usize,
    level: usize,
    input_scale: f64,
    output_scale: f64,
}

impl LinearPlan {
    /// Plans `out[j] = sum_k diagonals[k][j] in[j + k]` (indices modulo the slots) for inputs of scale `input_scale` at
    /// `level` or above. The result has scale `output_scale` and is one level below `level`: products and rescale are one
    /// step. The number of baby steps is the cheapest power of two.
    ///
    /// # Errors
    /// If there are no diagonals, one's index or length does not fit the slots, an entry is not finite (or not real, in
    /// the conjugate-invariant ring), a scale is no positive number, or the level is 0 or above the highest.
    pub fn new(
        parameters: &CkksParameters,
        diagonals: BTreeMap<usize, Vec<Complex64>>,
        level: usize,
        input_scale: f64,
        output_scale: f64,
    ) -> Result<Self, CkksError> {
        const OPERATION: &str = "plan a linear transformation";
        let slots = parameters.slots();
        if diagonals.is_empty() {
            return Err(CkksError::Shape { operation: OPERATION, found: 0, needed: "at least one diagonal".into() });
        }
        if level == 0 {
            return Err(CkksError::Level { operation: OPERATION, found: 0, needed: 1 });
        }
        if level > parameters.max_level() {
            return Err(CkksError::Level { operation: OPERATION, found: parameters.max_level(), needed: level });
        }
        check_scale(OPERATION, input_scale)?;
        check_scale(OPERATION, output_scale)?;
        let real = parameters.ring().kind() == RingKind::ConjugateInvariant;
        for (&k, diagonal) in &diagonals {
            if k >= slots {
                let needed = format!("diagonals numbered below the {slots} slots");
                return Err(CkksError::Shape { operation: OPERATION, found: k, needed });
            }
            if diagonal.len() != slots {
                let needed = format!("one for each of the {slots} slots, in diagonal {k}");
                return Err(CkksError::Shape { operation: OPERATION, found: diagonal.len(), needed });
            }
            if let Some(index) = diagonal.iter().position(|z| !z.is_finite() || (real && z.im != 0.0)) {
                let (found, needed) =
                    (diagonal[index].to_string(), "a finite number, real in the conjugate-invariant ring");
                return Err(CkksError::Value { operation: OPERATION, index, found, needed });
            }
        }
        let with_steps = |baby_steps| LinearPlan {
            parameters: parameters.clone(),
            diagonals: Arc::default(),
            baby_steps,
            level,
            input_scale,
            output_scale,
        };
        let model = CostModel::nominal(parameters);
        let indices: Vec<usize> = diagonals.keys().copied().collect();
        let price = |baby_steps: &usize| model.seconds(&with_steps(*baby_steps).cost_of(&indices));
        let choices = (0..=slots.trailing_zeros()).map(|log2| 1usize << log2);
        let baby_steps = choices.min_by(|a, b| price(a).total_cmp(&price(b))).unwrap_or(1);
        Ok(LinearPlan { diagonals: Arc::new(diagonals), ..with_steps(baby_steps) })
    }

    /// The same plan with another number of baby steps: fewer keys and products with fewer, more divisions.
    ///
    /// # Errors
    /// If it is no power of two up to the number of slots.
    pub fn with_baby_steps(self, baby_steps: usize) -> Result<Self, CkksError> {
        if !baby_steps.is_power_of_two() || baby_steps > self.parameters.slots() {
            let needed = format!("a power of two up to the {} slots", self.parameters.slots());
            return Err(CkksError::Shape { operation: "choose baby steps", found: baby_steps, needed });
        }
        Ok(LinearPlan { baby_steps, ..self })
    }

    /// The number of baby steps: rotations by less than this, and by multiples of it.
    pub fn baby_steps(&self) -> usize {
        self.baby_steps
    }

    /// The level of its inputs; the result is one below.
    pub fn level(&self) -> usize {
        self.level
    }

    /// The rotations it does, to the left: baby steps, and the differences of successive giant steps.
    pub fn rotations(&self) -> Vec<usize> {
        let (babies, giants) = self.steps(self.diagonals.keys());
        let differences = giants.iter().scan(0, |last, &giant| Some(giant - std::mem::replace(last, giant)));
        let rotations: BTreeSet<usize> = babies.into_iter().chain(differences).collect();
        rotations.into_iter().filter(|&steps| steps > 0).collect()
    }

    /// The keys it needs.
    pub fn key_plan(&self) -> KeyPlan {
        let (ring, chain) = (self.parameters.ring(), self.parameters.chain(self.level));
        let mut plan = KeyPlan::new();
        for steps in self.rotations() {
            plan.require(KeyKind::Galois { element: galois::rotation(ring, steps as i64) }, chain);
        }
        plan
    }

    /// The work of [`LinearTransform::apply`].
    pub fn cost(&self) -> Cost {
        let indices: Vec<usize> = self.diagonals.keys().copied().collect();
        self.cost_of(&indices)
    }

    /// Bytes the encoded diagonals of a [`LinearTransform`] take in memory.
    pub fn bytes(&self) -> usize {
        let basis = Basis::extended(self.parameters.chain(self.level));
        self.diagonals.len() * self.parameters.ring().poly_bytes(basis)
    }

    /// The transformation by plain rotations, products and sums, for any arithmetic: what [`LinearTransform::apply`] is
    /// compared to, and how a simulator runs it. Same keys, levels and scales; more divisions, so more time and noise.
    ///
    /// # Errors
    /// If the input's level is below the plan's, its scale is not the one planned for, or a key is missing.
    pub fn evaluate<A: Arithmetic>(&self, arithmetic: &A, input: &A::Vector) -> Result<A::Vector, CkksError> {
        self.check(arithmetic.level(input), arithmetic.scale(input))?;
        let input = arithmetic.drop_to(input, self.level)?;
        let mut babies = BTreeMap::new();
        let mut sums: BTreeMap<usize, A::Vector> = BTreeMap::new();
        for (&k, diagonal) in self.diagonals.iter() {
            let (giant, baby) = self.split(k);
            if let std::collections::btree_map::Entry::Vacant(entry) = babies.entry(baby) {
                entry.insert(arithmetic.rotate(&input, baby as i64)?);
            }
            let values = rotated_right(diagonal, giant);
            let product = arithmetic.mul_values(&babies[&baby], &values, self.plaintext_scale())?;
            let sum = match sums.remove(&giant) {
                Some(sum) => arithmetic.add(&sum, &product)?,
                None => product,
            };
            sums.insert(giant, sum);
        }
        let mut total: Option<(usize, A::Vector)> = None;
        for (giant, sum) in sums.into_iter().rev() {
            total = Some((
                giant,
                match total {
                    Some((last, total)) => arithmetic.add(&arithmetic.rotate(&total, (last - giant) as i64)?, &sum)?,
                    None => sum,
                },
            ));
        }
        let none = || CkksError::Shape { operation: OPERATION, found: 0, needed: "at least one diagonal".into() };
        let (giant, total) = total.ok_or_else(none)?;
        arithmetic.rescale(&arithmetic.rotate(&total, giant as i64)?)
    }

    /// What diagonals are scaled by: the rescale takes it back, up to the change from input to output scale.
    fn plaintext_scale(&self) -> f64 {
        self.parameters.level_modulus(self.level) * (self.output_scale / self.input_scale)
    }

    /// `k = giant + baby`.
    fn split(&self, k: usize) -> (usize, usize) {
        (k - k % self.baby_steps, k % self.baby_steps)
    }

    fn steps<'a>(&self, indices: impl Iterator<Item = &'a usize>) -> (BTreeSet<usize>, BTreeSet<usize>) {
        let (giants, babies) = indices.map(|&k| self.split(k)).unzip::<_, _, BTreeSet<_>, BTreeSet<_>>();
        (babies, giants)
    }

    fn check(&self, level: usize, scale: f64) -> Result<(), CkksError> {
        if level < self.level {
            return Err(CkksError::Level { operation: OPERATION, found: level, needed: self.level });
        }
        check_scales(OPERATION, self.input_scale, scale)
    }

    fn cost_of(&self, indices: &[usize]) -> Cost {
        // A permutation and a sum of products count twice: they wait for memory more than a sum does.
        let (ring, parameters) = (self.parameters.ring(), &self.parameters);
        let (chain, special) = (parameters.chain(self.level), ring.special().len());
        let extended = chain + special;
        let (babies, giants) = self.steps(indices.iter());
        let nontrivial = |steps: &BTreeSet<usize>| steps.iter().filter(|&&s| s > 0).count() as u64;
        let mut cost = Cost::decomposition(ring, chain);
        let mut baby = Cost::hoisted_product(ring, chain);
        baby += Cost::elementwise(ring, 3 * chain + 4 * extended);
        cost += baby.times(nontrivial(&babies));
        let mut product = Cost::elementwise(ring, 4 * extended);
        product.plaintext_products = 1;
        cost += product.times(indices.len() as u64);
        let mut giant = Cost::division(ring, extended, chain);
        giant += Cost::decomposition(ring, chain);
        giant += Cost::hoisted_product(ring, chain);
        giant += Cost::elementwise(ring, 8 * extended);
        cost += giant.times(nontrivial(&giants));
        cost += Cost::division(ring, extended, parameters.chain(self.level - 1)).times(2);
        cost.rescales = 1;
        cost.key_switches.insert(chain, nontrivial(&babies) + nontrivial(&giants));
        cost
    }
}

/// A linear transformation with its diagonals encoded, to be applied to encrypted vectors.
pub struct LinearTransform {
    plan: LinearPlan,
    babies: Vec<usize>,
    /// Per giant step: which of the baby steps, and the diagonal, rotated back by the giant step, over the extended basis.
    rows: Vec<(usize, Vec<(usize, Poly)>)>,
}

impl LinearTransform {
    /// Encodes the diagonals.
    ///
    /// # Errors
    /// If the scaled values of a diagonal exceed the modulus of the level.
    pub fn new(encoder: &Encoder, plan: LinearPlan) -> Result<Self, CkksError> {
        let (babies, _) = plan.steps(plan.diagonals.keys());
        let babies: Vec<usize> = babies.into_iter().collect();
        let mut rows: Vec<(usize, Vec<(usize, Poly)>)> = Vec::new();
        for (&k, diagonal) in plan.diagonals.iter() {
            let (giant, baby) = plan.split(k);
            let baby = babies.binary_search(&baby).unwrap_or_default();
            let values = rotated_right(diagonal, giant);
            let poly = encoder.encode_extended(&values, plan.level, plan.plaintext_scale())?;
            match rows.last_mut() {
                // Diagonals are in order, so those of one giant step follow each other.
                Some((last, row)) if *last == giant => row.push((baby, poly)),
                _ => rows.push((giant, vec![(baby, poly)])),
            }
        }
        Ok(LinearTransform { plan, babies, rows })
    }

    /// Its plan.
    pub fn plan(&self) -> &LinearPlan {
        &self.plan
    }

    /// Transforms an encrypted vector; the result is one level below the plan's, at the plan's output scale.
    ///
    /// # Errors
    /// If the vector's level is below the plan's, its scale is not the one planned for, it waits to be relinearised, or
    /// keys are missing: all of them are named.
    pub fn apply(&self, evaluator: &Evaluator<'_>, input: &Ciphertext) -> Result<Ciphertext, CkksError> {
        let plan = &self.plan;
        plan.check(input.level(), input.scale())?;
        evaluator.keys().check(OPERATION, &plan.key_plan())?;
        let input = evaluator.drop_to(input, plan.level)?;
        let (ring, keys) = (evaluator.parameters().ring(), evaluator.keys());
        let babies = self.rotated_inputs(ring, keys, input.inner())?;
        let inputs: Vec<[&Poly; 2]> = babies.iter().map(|baby| baby.components().each_ref()).collect();
        let rows: Vec<&[(usize, Poly)]> = self.rows.iter().map(|(_, row)| row.as_slice()).collect();
        let sums = ring.product_sums(&inputs, &rows)?;
        drop(babies);
        let mut total: Option<(usize, [Poly; 2])> = None;
        for (&(giant, _), sum) in self.rows.iter().zip(sums).rev() {
            total = Some((
                giant,
                match total {
                    Some((last, total)) => {
                        let [mut t0, mut t1] = giant_step(evaluator, total, last - giant)?;
                        ring.add_assign(&mut t0, &sum[0])?;
                        ring.add_assign(&mut t1, &sum[1])?;
                        [t0, t1]
                    }
                    None => sum,
                },
            ));
        }
        let none = || CkksError::Shape { operation: OPERATION, found: 0, needed: "at least one diagonal".into() };
        let (giant, total) = total.ok_or_else(none)?;
        let total = giant_step(evaluator, total, giant)?;
        let to = Basis::chain(evaluator.parameters().chain(plan.level - 1));
        let [c0, c1] = &total;
        let inner = rlwe::Ciphertext::new(vec![ring.divide_round(c0, to)?, ring.divide_round(c1, to)?])?;
        Ok(Ciphertext { inner, level: plan.level - 1, scale: plan.output_scale })
    }

    /// The rotations of the input by the baby steps, undivided.
    fn rotated_inputs(
        &self,
        ring: &Ring,
        keys: &EvaluationKeys,
        input: &rlwe::Ciphertext,
    ) -> Result<Vec<ExtendedCiphertext>, RlweError> {
        let hoisted = input.hoist(ring)?;
        let rotate = |&baby: &usize| {
            let element = galois::rotation(ring, baby as i64);
            hoisted.automorphism_extended(ring, element, keys)
        };
        self.babies.iter().map(rotate).collect()
    }
}

/// Rotates an undivided sum by a giant step, leaving it undivided: only its second component is divided by `P`, to be
/// switched again.
fn giant_step(evaluator: &Evaluator<'_>, sum: [Poly; 2], steps: usize) -> Result<[Poly; 2], CkksError> {
    if steps == 0 {
        return Ok(sum);
    }
    evaluator.check_cancel()?;
    let (ring, keys) = (evaluator.parameters().ring(), evaluator.keys());
    let [c0, c1] = sum;
    let chain = c1.basis().chain;
    let element = galois::rotation(ring, steps as i64);
    let key = keys.get(OPERATION, KeyKind::Galois { element }, chain)?;
    let divided = ring.divide_round(&c1, Basis::chain(chain))?;
    let [mut k0, k1] = ring.gadget_product(&divided, key)?;
    ring.add_assign(&mut k0, &c0)?;
    Ok([ring.automorphism(&k0, element)?, ring.automorphism(&k1, element)?])
}

/// `values` with entry `j` taken from `j - steps`.
fn rotated_right(values: &[Complex64], steps: usize) -> Vec<Complex64> {
    let (head, tail) = values.split_at(values.len() - steps);
    [tail, head].concat()
}
