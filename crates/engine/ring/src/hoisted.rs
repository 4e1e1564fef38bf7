//! Sums of automorphisms, computed limb by limb so that intermediate results stay in the cache.

use rayon::prelude::*;

use crate::automorphism::Permutation;
use crate::basis::Domain;
use crate::error::RingError;
use crate::gadget::RnsDigits;
use crate::gadget_key::GadgetKey;
use crate::poly::Poly;
use crate::product_sums::{Values, block_size, limbs_of_sums};
use crate::ring::Ring;
use crate::subring::SubringPoly;

/// Images of one limb, both components, that a thread of [`Ring::hoisted_product_sums`] holds at a time, at most.
pub const HELD_IMAGES: usize = 32;

/// What images are made of.
#[derive(Clone, Copy)]
pub struct ImageInput<'a> {
    /// Raised digits, which are multiplied by keys.
    pub digits: &'a RnsDigits,
    /// The first one is added to the first component of products with keys. Without a key, both are the image.
    pub added: [&'a Poly; 2],
}

/// The image of `digits * key + (added_0, 0)` under `X -> X^galois`, or `(added_0, added_1)` if there is no key.
#[derive(Clone, Copy)]
pub struct Image<'a> {
    /// What is multiplied and added.
    pub input: ImageInput<'a>,
    /// The key of the automorphism.
    pub key: Option<&'a GadgetKey>,
    /// The exponent.
    pub galois: u64,
}

/// A sum of products of images with factors.
pub struct ImageSum<'a> {
    /// What the products are added to, if the sum has begun.
    pub before: Option<[Poly; 2]>,
    /// The numbers of images, with their factors.
    pub terms: Vec<(usize, &'a SubringPoly)>,
}

impl Image<'_> {
    fn is_secret(&self) -> bool {
        let ImageInput { digits, added } = self.input;
        let is_added = added.iter().any(|added| added.is_secret());
        digits.words.is_secret() || is_added || self.key.is_some_and(GadgetKey::is_secret)
    }
}

impl<'a> ImageSum<'a> {
    fn split(self) -> (Option<[Poly; 2]>, Vec<(usize, Values<'a>)>) {
        let values = |(number, factor)| (number, Values::of_subring(factor));
        (self.before, self.terms.into_iter().map(values).collect())
    }
}

impl<'a> From<Vec<(usize, &'a SubringPoly)>> for ImageSum<'a> {
    fn from(terms: Vec<(usize, &'a SubringPoly)>) -> Self {
        ImageSum { before: None, terms }
    }
}

impl Ring {
    /// `sum_i sigma_i(digits * key_i)` for the automorphisms `sigma_i: X -> X^galois_i`: both components, over the
    /// extended basis, times `P`. The digits are raised once for all terms.
    ///
    /// # Errors
    /// If there are no terms, a key covers fewer chain primes than the digits, or a Galois element does not fit the
    /// ring.
    pub fn hoisted_sum(&self, digits: &RnsDigits, terms: &[(&GadgetKey, u64)]) -> Result<[Poly; 2], RingError> {
        const OPERATION: &str = "hoisted sum";
        if terms.is_empty() {
            return Err(RingError::Length { what: "the terms of a hoisted sum", found: 0, needed: "at least one" });
        }
        for (key, _) in terms {
            self.check_key(OPERATION, (digits.raised, digits.rows), key)?;
        }
        self.check_words(OPERATION, &digits.words)?;
        if let Some(on) = self.on() {
            terms.iter().try_for_each(|&(_, galois)| self.permutation(galois).map(drop))?;
            return on.key_products(self, digits, terms);
        }
        let permutations = terms.iter().map(|&(_, galois)| self.permutation(galois)).collect::<Result<Vec<_>, _>>()?;
        let basis = digits.raised;
        let primes: Vec<usize> = self.prime_indices(basis).collect();
        let (n, stride) = (self.degree(), self.stride());
        let secret = digits.words.is_secret() || terms.iter().any(|(key, _)| key.is_secret());
        let mut out: [Poly; 2] = std::array::from_fn(|_| self.blank(basis, Domain::Evaluation));
        out.iter_mut().for_each(|poly| poly.words.inherit(secret));
        let [out0, out1] = &mut out;
        let outputs = out0.words.par_chunks_mut(stride).zip(out1.words.par_chunks_mut(stride));
        let raised = digits.words.par_chunks_exact(digits.digits * stride);
        let scratch = || [(); 3].map(|()| self.scratch(n, secret));
        outputs.zip(raised).zip(&primes).for_each_init(scratch, |scratch, (((out0, out1), raised), &prime)| {
            let limbs: Vec<&[u32]> = raised.chunks_exact(stride).map(|limb| &limb[..n]).collect();
            let [product0, product1, image] = scratch;
            for (i, ((key, _), permutation)) in terms.iter().zip(&permutations).enumerate() {
                self.multiply_digits(prime, &limbs, key, [product0, product1]);
                for (product, out) in [(&product0, &mut out0[..n]), (&product1, &mut out1[..n])] {
                    if i == 0 {
                        self.kernels().permute(permutation, product, out);
                    } else {
                        self.kernels().permute(permutation, product, image);
                        self.kernels().add_assign(self.modulus(prime), out, image);
                    }
                }
            }
        });
        Ok(out)
    }

    /// Each sum with `sum factor * image_i` over its pairs `(i, factor)` added: both components, over the basis to
    /// which the digits are raised. All operands have this basis, and all factors have the same run. One limb is
    /// computed after the other, with up to [`HELD_IMAGES`] images of it at a time, so that images need not go to
    /// memory. Blocks of these images stay in the cache for all sums.
    ///
    /// # Errors
    /// If there are no images, runs differ, an operand is over another basis, a key covers fewer chain primes than the
    /// digits, a sum names an image that does not exist, or a Galois element does not fit the ring.
    pub fn hoisted_product_sums(
        &self,
        images: &[Image<'_>],
        sums: Vec<ImageSum<'_>>,
    ) -> Result<Vec<[Poly; 2]>, RingError> {
        const OPERATION: &str = "hoisted sums of products";
        let Some(first) = images.first() else {
            return Err(RingError::Length { what: "the images of sums", found: 0, needed: "at least one" });
        };
        let basis = first.input.digits.raised;
        for Image { input: ImageInput { digits, added }, key, .. } in images {
            self.check_words(OPERATION, &digits.words)?;
            added.iter().try_for_each(|poly| self.check_values(OPERATION, poly, digits.raised))?;
            key.map_or(Ok(()), |key| self.check_key(OPERATION, (digits.raised, digits.rows), key))?;
        }
        let operands = images.iter().map(|image| image.input.added[0]);
        let operands = operands.chain(sums.iter().flat_map(|sum| &sum.before).flatten());
        operands.into_iter().try_for_each(|poly| self.check_values(OPERATION, poly, basis))?;
        let permutations = images.iter().map(|image| self.permutation(image.galois)).collect::<Result<Vec<_>, _>>()?;
        let (before, rows): (Vec<_>, Vec<_>) = sums.into_iter().map(ImageSum::split).unzip();
        let run = self.check_factors(basis, images.len(), &rows)?;
        if self.on().is_some() {
            return self.hoisted_product_sums_in_steps(images, before, &rows);
        }
        let begun: Vec<bool> = before.iter().map(Option::is_some).collect();
        let primes: Vec<usize> = self.prime_indices(basis).collect();
        let (n, stride) = (self.degree(), self.stride());
        let secret = images.iter().any(Image::is_secret) || rows.iter().flatten().any(|(_, factor)| factor.is_secret());
        let blank = || std::array::from_fn(|_| self.blank(basis, Domain::Evaluation));
        // New memory is zeroed, which all threads share.
        let mut sums: Vec<[Poly; 2]> = before.into_par_iter().map(|before| before.unwrap_or_else(blank)).collect();
        sums.iter_mut().flatten().for_each(|sum| sum.words.inherit(secret));
        let mut limbs = limbs_of_sums(&mut sums, primes.len(), (n, stride));
        let parts = images.len().div_ceil(HELD_IMAGES);
        let most = images.len().div_ceil(parts);
        let scratch = || (self.scratch(2 * most * n, secret), self.scratch(2 * n, secret));
        let limbs = limbs.par_iter_mut().zip(&primes).enumerate();
        limbs.for_each_init(scratch, |(held, spare), (limb, (outputs, &prime))| {
            let mut begun = begun.clone();
            for first in (0..images.len()).step_by(most) {
                let numbers = first..images.len().min(first + most);
                for (number, held) in numbers.clone().zip(held.chunks_exact_mut(2 * n)) {
                    self.image_limb(&images[number], (limb, prime), &permutations[number], spare, held);
                }
                let held: Vec<&[u32]> = held.chunks_exact(n).collect();
                let is_held = |(number, _): &&(usize, Values<'_>)| numbers.contains(number);
                let terms: Vec<Vec<_>> = rows.iter().map(|row| row.iter().filter(is_held).collect()).collect();
                let mut operands: [Vec<&[u32]>; 2] = Default::default();
                let size = block_size(numbers.len());
                for at in (0..n).step_by(size) {
                    let block = at..n.min(at + size);
                    for ((terms, outputs), begun) in terms.iter().zip(outputs.iter_mut()).zip(&begun) {
                        for (component, output) in outputs.iter_mut().enumerate().filter(|_| !terms.is_empty()) {
                            let [factors, values] = &mut operands;
                            factors.clear();
                            values.clear();
                            factors.extend(terms.iter().map(|(_, values)| values.block(limb, at, block.len())));
                            let image = |number: usize| &held[2 * (number - first) + component][block.clone()];
                            values.extend(terms.iter().map(|(number, _)| image(*number)));
                            self.dot(prime, (factors, run), values, &mut output[block.clone()], *begun);
                        }
                    }
                }
                begun.iter_mut().zip(&terms).for_each(|(begun, terms)| *begun |= !terms.is_empty());
            }
            for (outputs, _) in outputs.iter_mut().zip(begun).filter(|(_, begun)| !begun) {
                outputs.iter_mut().for_each(|output| output.fill(0));
            }
        });
        Ok(sums)
    }

    /// One limb of an image, both components after each other. `spare` has room for two limbs.
    fn image_limb(
        &self,
        image: &Image<'_>,
        (limb, prime): (usize, usize),
        permutation: &Permutation,
        spare: &mut [u32],
        out: &mut [u32],
    ) {
        let (n, stride) = (self.degree(), self.stride());
        let (image0, image1) = out.split_at_mut(n);
        let Image { input: ImageInput { digits, added }, .. } = image;
        let Some(key) = image.key else {
            image0.copy_from_slice(added[0].limb(limb));
            image1.copy_from_slice(added[1].limb(limb));
            return;
        };
        let raised = digits.words[limb * digits.digits * stride..].chunks_exact(stride).take(digits.digits);
        let raised: Vec<&[u32]> = raised.map(|limb| &limb[..n]).collect();
        let (spare0, spare1) = spare.split_at_mut(n);
        self.multiply_digits(prime, &raised, key, [spare0, spare1]);
        self.kernels().add_assign(self.modulus(prime), spare0, added[0].limb(limb));
        self.kernels().permute(permutation, spare0, image0);
        self.kernels().permute(permutation, spare1, image1);
    }

    /// [`Ring::hoisted_product_sums`] by plain operations: on a device, and as the reference of tests.
    fn hoisted_product_sums_in_steps(
        &self,
        images: &[Image<'_>],
        before: Vec<Option<[Poly; 2]>>,
        rows: &[Vec<(usize, Values<'_>)>],
    ) -> Result<Vec<[Poly; 2]>, RingError> {
        let image = |&Image { input: ImageInput { digits, added }, key, galois }: &Image<'_>| {
            let Some(key) = key else { return Ok(added.map(Poly::clone)) };
            let [mut first, second] = self.hoisted_sum(digits, &[(key, galois)])?;
            self.add_assign(&mut first, &self.automorphism(added[0], galois)?)?;
            Ok([first, second])
        };
        let images = images.iter().map(image).collect::<Result<Vec<_>, RingError>>()?;
        let mut sums = self.sums_by_values(&images.iter().map(|image| image.each_ref()).collect::<Vec<_>>(), rows)?;
        for (sum, before) in sums.iter_mut().zip(&before) {
            for (sum, before) in sum.iter_mut().zip(before.iter().flatten()) {
                self.add_assign(sum, before)?;
            }
        }
        Ok(sums)
    }

    /// `sum_i sigma_i(poly)` for the automorphisms `sigma_i: X -> X^galois_i`, in the evaluation domain.
    ///
    /// # Errors
    /// If there are no automorphisms, an element does not fit the ring, or the polynomial is in the coefficient domain
    /// or of another ring.
    pub fn automorphism_sum(&self, poly: &Poly, galois: &[u64]) -> Result<Poly, RingError> {
        self.check_domain("sum of automorphisms", poly, Domain::Evaluation)?;
        if galois.is_empty() {
            return Err(RingError::Length { what: "the automorphisms of a sum", found: 0, needed: "at least one" });
        }
        if let Some(on) = self.on() {
            galois.iter().try_for_each(|&galois| self.permutation(galois).map(drop))?;
            return on.automorphisms(self, poly, galois);
        }
        let permutations = galois.iter().map(|&galois| self.permutation(galois)).collect::<Result<Vec<_>, _>>()?;
        let mut sum = self.blank_from(&[poly], poly.basis, Domain::Evaluation);
        let (n, stride) = (self.degree(), self.stride());
        let primes: Vec<usize> = self.prime_indices(poly.basis).collect();
        let limbs = sum.words.par_chunks_mut(stride).zip(&primes).enumerate();
        limbs.for_each_init(
            || self.scratch(n, poly.is_secret()),
            |image, (i, (out, &prime))| {
                let out = &mut out[..n];
                for (term, permutation) in permutations.iter().enumerate() {
                    if term == 0 {
                        self.kernels().permute(permutation, poly.limb(i), out);
                    } else {
                        self.kernels().permute(permutation, poly.limb(i), image);
                        self.kernels().add_assign(self.modulus(prime), out, image);
                    }
                }
            },
        );
        Ok(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Backend;
    use crate::basis::Basis;
    use crate::gadget_key::KeyRows;
    use crate::kind::RingKind;
    use crate::literal::RingLiteral;
    use crate::modular::primes_descending;
    use crate::sampling::Seed;

    const IMAGES: usize = HELD_IMAGES + 4;

    #[test]
    fn sums_of_products_have_the_bits_of_plain_operations() {
        let mut primes = primes_descending(1 << 29, 1 << 30, 2048);
        let (special, terminal) = (primes.by_ref().take(2).collect(), primes.by_ref().take(1).collect());
        let chain = primes.take(4).collect();
        let kind = RingKind::Standard;
        let literal = RingLiteral { degree: 1024, kind, chain, terminal, special, digit_len: 2 };
        for backend in Backend::ALL.into_iter().filter(|backend| backend.is_available()) {
            let ring = Ring::new(literal.clone(), backend).unwrap();
            let basis = Basis::extended(4).with_terminal(1);
            let uniform = |stream, basis| ring.uniform(&Seed([7; 32]), stream, basis);
            let key = |stream: u32| {
                let mut builder = ring.gadget_key_builder(4, KeyRows::One).unwrap();
                builder.push([&uniform(stream, basis), &uniform(stream + 1, basis)]).unwrap();
                builder.finish().unwrap()
            };
            let seeded = {
                let mut builder = ring.seeded_gadget_key_builder(4, KeyRows::One, Seed([9; 32])).unwrap();
                builder.push(&uniform(30, basis)).unwrap();
                builder.finish().unwrap()
            };
            let one_row = [key(10), key(20), seeded];
            let rows = |stream: u32| (0..ring.digit_count(4) as u32).map(move |d| uniform(stream + d, basis));
            let whole = [100, 200, 300].map(|stream| {
                let (bodies, masks): (Vec<Poly>, Vec<Poly>) = rows(stream).zip(rows(stream + 50)).unzip();
                let rows: Vec<[&Poly; 2]> = bodies.iter().zip(&masks).map(|(body, mask)| [body, mask]).collect();
                ring.gadget_key(4, &rows).unwrap()
            });
            let digit = ring.only_digit(uniform(1, basis)).unwrap();
            // Digits over fewer primes than their keys.
            let fewer = ring.decompose(&uniform(3, Basis::chain(3).with_terminal(1))).unwrap();
            for (digits, keys, run) in [(&digit, &one_row, 1), (&digit, &one_row, 32), (&fewer, &whole, 1)] {
                let raised = digits.raised;
                let factor = |stream: u32| {
                    let mut poly = uniform(stream, raised);
                    (0..poly.limbs).for_each(|i| {
                        poly.limb_mut(i).chunks_exact_mut(run).for_each(|values| values.fill(values[0]));
                    });
                    ring.into_subring(poly, run).unwrap()
                };
                let factors: Vec<SubringPoly> = (40..60).map(factor).collect();
                // More images than are held at a time, one without a key, and rows of all, some and none.
                let added = [&uniform(2, raised), &uniform(4, raised)];
                let input = |i: usize| ImageInput { digits, added: [added[i % 2], added[1]] };
                let image =
                    |i: usize| Image { input: input(i), key: Some(&keys[i % 3]), galois: [1, 5, 2047, 25][i % 4] };
                let images: Vec<Image<'_>> =
                    (1..IMAGES).map(image).chain([Image { input: input(0), key: None, galois: 1 }]).collect();
                let all = (0..IMAGES).map(|i| (i, &factors[i % 20])).collect();
                let few = vec![(33, &factors[12]), (3, &factors[13])];
                let rows = [all, few, vec![(IMAGES - 1, &factors[14])], vec![], vec![(1, &factors[15])], vec![]];
                let values: Vec<_> = rows.iter().map(|row| Values::of_row(row, |f| Values::of_subring(f))).collect();
                // Sums that begin, and sums that have begun.
                let begun = |row: usize| (row > 3).then(|| [uniform(5, raised), uniform(6, raised)]);
                let before = || (0..rows.len()).map(begun).collect::<Vec<_>>();
                let sums = || -> Vec<ImageSum<'_>> {
                    let sum = |(terms, before): (&Vec<_>, _)| ImageSum { before, terms: terms.clone() };
                    rows.iter().zip(before()).map(sum).collect()
                };
                let [found, expected] = [
                    ring.hoisted_product_sums(&images, sums()).unwrap(),
                    ring.hoisted_product_sums_in_steps(&images, before(), &values).unwrap(),
                ];
                let pairs = found.iter().flatten().zip(expected.iter().flatten());
                assert!(pairs.into_iter().all(|(a, b)| a.limbs().eq(b.limbs())), "{backend:?} {run}");
                assert!(ring.hoisted_product_sums(&images[..9], sums()).is_err());
                assert!(ring.hoisted_product_sums(&[], vec![]).is_err());
                let other = ImageSum { before: Some([0, 1].map(|_| uniform(5, Basis::chain(1)))), terms: vec![] };
                assert!(ring.hoisted_product_sums(&images, vec![other]).is_err());
            }
            // Keys and digits that do not fit each other.
            assert!(ring.hoisted_sum(&digit, &[(&whole[0], 5)]).is_err());
            assert!(ring.hoisted_sum(&fewer, &[(&one_row[0], 5)]).is_err());
            assert!(ring.short_gadget_key(&one_row[0]).is_err());
            assert!(ring.only_digit(uniform(3, basis.without_special())).is_err());
        }
    }
}
