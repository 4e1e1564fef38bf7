//! Linear transformations of encrypted vectors.

use std::collections::{BTreeMap, BTreeSet};

use unspoken_ring::{ImageSum, Poly};
use unspoken_rlwe::{self as rlwe, ExtendedCiphertext, KeyKind, galois};

use crate::arithmetic::Arithmetic;
use crate::ciphertext::Ciphertext;
use crate::error::CkksError;
use crate::evaluator::Evaluator;
use crate::linear::plan::OPERATION;
use crate::linear::sums::{LinearSums, STREAMED_BABIES, horner};
use crate::linear::transform::{EncodedRows, LinearTransform};

impl LinearTransform {
    /// Encodes the diagonals and makes the forms of the keys, unless that was done.
    pub(crate) fn prepare(&self, evaluator: &Evaluator<'_>) -> Result<(), CkksError> {
        self.encode(evaluator.encoder())?;
        Ok(evaluator.keys().prepare(self.plan.parameters.ring(), &self.plan.key_plan())?)
    }

    /// Applies the transformation to an encrypted vector. The result is one level below the plan's, at the plan's
    /// output scale.
    ///
    /// # Errors
    /// If the vector's level is below the plan's, its scale is not the planned one, it is not relinearised, or keys are
    /// missing; the error names all missing keys.
    pub fn apply(&self, evaluator: &Evaluator<'_>, input: &Ciphertext) -> Result<Ciphertext, CkksError> {
        Ok(apply_sums(evaluator, &[vec![(0, self)]], &[input])?.swap_remove(0))
    }
}

/// The sums of each result by their giant numbers, not divided by `P`.
type Sums = BTreeMap<(usize, usize), [Poly; 2]>;

/// [`Arithmetic::linear_sums`](crate::Arithmetic::linear_sums) of ciphertexts.
pub(crate) fn apply_sums(
    evaluator: &Evaluator<'_>,
    rows: &[Vec<(usize, &LinearTransform)>],
    inputs: &[&Ciphertext],
) -> Result<Vec<Ciphertext>, CkksError> {
    let planned = LinearSums::new(rows)?;
    let levels: Vec<_> = inputs.iter().map(|input| (input.level(), input.scale())).collect();
    let (level, scale) = planned.output(&levels)?;
    evaluator.keys().check(OPERATION, &planned.key_plan())?;
    let (ring, slots) = (evaluator.parameters().ring(), evaluator.parameters().slots());
    let (steps, to) = (planned.steps(), evaluator.parameters().basis(level));
    let mut results = Vec::with_capacity(rows.len());
    for group in planned.groups() {
        let mut sums = Sums::new();
        for (&number, babies) in &group.babies {
            let transforms = group.rows.clone().flat_map(|row| {
                let own = rows[row].iter().filter(|(input, _)| *input == number);
                own.map(move |(_, transform)| (row, *transform))
            });
            add_products(evaluator, &transforms.collect::<Vec<_>>(), inputs[number], babies, &mut sums)?;
        }
        for row in group.rows {
            let rest = sums.split_off(&(row + 1, 0));
            let own = std::mem::replace(&mut sums, rest).into_iter().map(|((_, giant), sum)| (giant, sum)).collect();
            let add = |[mut t0, mut t1]: [Poly; 2], sum: [Poly; 2]| {
                ring.add_assign(&mut t0, &sum[0])?;
                ring.add_assign(&mut t1, &sum[1])?;
                Ok([t0, t1])
            };
            let [c0, c1] = horner(own, add, |sum, giants| giant_step(evaluator, sum, steps.giant(giants, slots)))?;
            let inner = rlwe::Ciphertext::new(vec![ring.rescale_round(&c0, to)?, ring.rescale_round(&c1, to)?])?;
            results.push(Ciphertext { inner, level, scale });
        }
    }
    Ok(results)
}

/// Adds the products of one input with the diagonals of its transformations, each with the number of its result.
fn add_products(
    evaluator: &Evaluator<'_>,
    transforms: &[(usize, &LinearTransform)],
    input: &Ciphertext,
    babies: &BTreeSet<usize>,
    sums: &mut Sums,
) -> Result<(), CkksError> {
    let Some(plan) = transforms.first().map(|(_, transform)| transform.plan()) else { return Ok(()) };
    let (ring, slots, keys) = (evaluator.parameters().ring(), evaluator.parameters().slots(), evaluator.keys());
    let input = evaluator.lowered(input, plan.level)?;
    let hoisted = input.inner().hoist(ring)?;
    let babies: Vec<usize> = babies.iter().copied().collect();
    let is_streamed = transforms.iter().any(|(_, transform)| transform.plan().streamed);
    for part in babies.chunks(if is_streamed { STREAMED_BABIES } else { babies.len().max(1) }) {
        evaluator.check_cancel()?;
        let encode = |(_, transform): &(usize, &LinearTransform)| {
            let is_own = transform.plan().streamed;
            is_own.then(|| transform.encode_rows(evaluator.encoder(), |baby| part.contains(&baby))).transpose()
        };
        let own = transforms.iter().map(encode).collect::<Result<Vec<Option<EncodedRows>>, _>>()?;
        let mut places: Vec<(usize, usize)> = Vec::new();
        let mut begun = Vec::new();
        for ((row, transform), own) in transforms.iter().zip(&own) {
            let encoded = match own {
                Some(own) => own,
                None => transform.encoded(evaluator.encoder())?,
            };
            for (giant, diagonals) in encoded {
                let number = |(baby, diagonal)| Some((part.binary_search(baby).ok()?, diagonal));
                let terms: Vec<_> =
                    diagonals.iter().map(|(baby, diagonal)| (baby, diagonal)).filter_map(number).collect();
                if !terms.is_empty() {
                    places.push((*row, *giant));
                    begun.push(ImageSum { before: sums.remove(&(*row, *giant)), terms });
                }
            }
        }
        let elements = part.iter().map(|&baby| galois::rotation(ring, plan.steps.baby(baby, slots) as i64));
        let added = hoisted.product_sums(ring, &elements.collect::<Vec<_>>(), begun, keys)?;
        sums.extend(places.into_iter().zip(added.into_iter().map(ExtendedCiphertext::into_components)));
    }
    Ok(())
}

/// Rotates an undivided sum by a giant step. The result stays undivided: only the second component is divided by `P`,
/// for its key switch.
fn giant_step(evaluator: &Evaluator<'_>, sum: [Poly; 2], steps: usize) -> Result<[Poly; 2], CkksError> {
    if steps == 0 {
        return Ok(sum);
    }
    evaluator.check_cancel()?;
    let (ring, keys) = (evaluator.parameters().ring(), evaluator.keys());
    let [c0, c1] = sum;
    let basis = c1.basis().without_special();
    let element = galois::rotation(ring, steps as i64);
    let key = keys.get(OPERATION, ring, KeyKind::Galois { element }, basis)?;
    let divided = ring.divide_round(&c1, basis)?;
    let [mut k0, k1] = ring.gadget_product(&divided, key)?;
    ring.add_assign(&mut k0, &c0)?;
    Ok([ring.automorphism(&k0, element)?, ring.automorphism(&k1, element)?])
}
