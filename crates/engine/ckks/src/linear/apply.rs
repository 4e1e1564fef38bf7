//! Linear transformations of encrypted vectors.

use std::collections::BTreeMap;

use unspoken_ring::{ImageSum, Poly, SubringPoly};
use unspoken_rlwe::{self as rlwe, ExtendedCiphertext, KeyKind, Lifted, galois};

use crate::arithmetic::Arithmetic;
use crate::ciphertext::Ciphertext;
use crate::error::CkksError;
use crate::evaluator::Evaluator;
use crate::linear::plan::OPERATION;
use crate::linear::sums::{LinearSums, STREAMED_IMAGES, horner};
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

/// The sums of results by their numbers and giant numbers, not divided by `P`.
type Sums = BTreeMap<(usize, usize), [Poly; 2]>;

/// A transformation with the numbers of its result and its input.
#[derive(Clone, Copy)]
struct Term<'a> {
    result: usize,
    input: usize,
    transform: &'a LinearTransform,
}

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
        for numbers in group.parts(planned.is_streamed(&group)) {
            let of_row = |result: usize| {
                let own = rows[result].iter().filter(|(input, _)| numbers.contains(input));
                own.map(move |&(input, transform)| Term { result, input, transform })
            };
            let terms: Vec<Term<'_>> = group.rows.clone().flat_map(of_row).collect();
            let babies = numbers.iter().flat_map(|&input| group.babies[&input].iter().map(move |&baby| (input, baby)));
            let images: Vec<(usize, usize)> = babies.collect();
            let lift = |&input: &usize| Ok((input, evaluator.lowered(inputs[input], level + 1)?.inner().lift(ring)?));
            let lifted = numbers.iter().map(lift).collect::<Result<BTreeMap<_, _>, CkksError>>()?;
            add_products(evaluator, &terms, &lifted, &images, &mut sums)?;
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

/// Adds the products of some inputs with the diagonals of their transformations. The images are those that they need,
/// as pairs of the number of an input and a baby number, in ascending order.
fn add_products(
    evaluator: &Evaluator<'_>,
    terms: &[Term<'_>],
    inputs: &BTreeMap<usize, Lifted>,
    images: &[(usize, usize)],
    sums: &mut Sums,
) -> Result<(), CkksError> {
    let Some(steps) = terms.first().map(|term| term.transform.plan.steps) else { return Ok(()) };
    let (ring, slots, encoder) = (evaluator.parameters().ring(), evaluator.parameters().slots(), evaluator.encoder());
    let is_streamed = terms.iter().any(|term| term.transform.plan.streamed);
    for part in images.chunks(if is_streamed { STREAMED_IMAGES } else { images.len().max(1) }) {
        evaluator.check_cancel()?;
        let encode = |&Term { input, transform, .. }: &Term<'_>| {
            let is_wanted = |baby| part.binary_search(&(input, baby)).is_ok();
            transform.plan.streamed.then(|| transform.encode_rows(encoder, is_wanted)).transpose()
        };
        let own = terms.iter().map(encode).collect::<Result<Vec<Option<EncodedRows>>, _>>()?;
        let mut products: BTreeMap<(usize, usize), Vec<(usize, &SubringPoly)>> = BTreeMap::new();
        for (&Term { result, input, transform }, own) in terms.iter().zip(&own) {
            let encoded = match own {
                Some(own) => own,
                None => transform.encoded(encoder)?,
            };
            for (giant, diagonals) in encoded {
                for (baby, diagonal) in diagonals {
                    if let Ok(image) = part.binary_search(&(input, *baby)) {
                        products.entry((result, *giant)).or_default().push((image, diagonal));
                    }
                }
            }
        }
        let (places, products): (Vec<_>, Vec<_>) = products.into_iter().unzip();
        let begun = places.iter().map(|place| sums.remove(place)).zip(products);
        let begun = begun.map(|(before, terms)| ImageSum { before, terms }).collect();
        let element = |baby| galois::rotation(ring, steps.baby(baby, slots) as i64);
        let images: Vec<_> = part.iter().map(|(input, baby)| (&inputs[input], element(*baby))).collect();
        let added = Lifted::product_sums(ring, &images, begun, evaluator.keys())?;
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
