//! The evaluator: arithmetic on encrypted vectors.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};

use num_complex::Complex64;
use rayon::prelude::*;
use unspoken_ring::{Basis, Domain, Poly, RingKind};
use unspoken_rlwe::{self as rlwe, EvaluationKeys, ExtendedCiphertext, KeyKind, KeyPlan, Lifted, RlweError, galois};

use crate::arithmetic::{Arithmetic, lowest_level, sum_multiples_by_parts};
use crate::ciphertext::Ciphertext;
use crate::encoding::Encoder;
use crate::error::CkksError;
use crate::linear::{LinearTransform, apply_sums};
use crate::matrix::PreparedMatrix;
use crate::parameters::{CkksParameters, Drop};
use crate::prepared::{PreparedVector, RotationProducts};
use crate::scale::{check_scales, round_constant};

/// Evaluator of circuits on encrypted vectors with a client's switching keys.
#[derive(Clone, Copy)]
pub struct Evaluator<'a> {
    encoder: &'a Encoder,
    keys: &'a EvaluationKeys,
    cancel: Option<&'a AtomicBool>,
}

/// The components of a ciphertext that is no product.
fn two_components<'a>(operation: &'static str, a: &'a Ciphertext) -> Result<[&'a Poly; 2], RlweError> {
    match a.inner.components() {
        [c0, c1] => Ok([c0, c1]),
        more => Err(RlweError::Components { operation, found: more.len(), needed: 2 }),
    }
}

impl<'a> Evaluator<'a> {
    /// An evaluator with these keys.
    pub fn new(encoder: &'a Encoder, keys: &'a EvaluationKeys) -> Self {
        Evaluator { encoder, keys, cancel: None }
    }

    /// Adds a cancellation flag: once `cancel` is set, the next key switch fails with [`RlweError::Interrupted`].
    pub fn with_cancel(self, cancel: &'a AtomicBool) -> Self {
        Evaluator { cancel: Some(cancel), ..self }
    }

    pub(crate) fn check_cancel(&self) -> Result<(), CkksError> {
        let cancelled = self.cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed));
        if cancelled { Err(RlweError::Interrupted.into()) } else { Ok(()) }
    }

    /// The keys.
    pub fn keys(&self) -> &'a EvaluationKeys {
        self.keys
    }

    /// The encoder.
    pub fn encoder(&self) -> &'a Encoder {
        self.encoder
    }

    /// The sum of rotations over the extended basis, divided by `P` and rescaled to `to`.
    fn sum_of_rotations(&self, a: &Ciphertext, steps: &[i64], to: Basis) -> Result<rlwe::Ciphertext, CkksError> {
        if steps.is_empty() {
            let needed = "at least one rotation".into();
            return Err(CkksError::Shape { operation: "sum rotations", found: 0, needed });
        }
        self.check_cancel()?;
        let ring = self.parameters().ring();
        let elements: Vec<u64> = steps.iter().map(|&steps| galois::rotation(ring, steps)).collect();
        Ok(a.inner.hoist(ring)?.sum_automorphisms(ring, &elements, self.keys, to)?)
    }

    /// Checks that the keys of these automorphisms exist. The error names all missing keys.
    fn check_rotations(&self, operation: &'static str, elements: &[u64], chain: usize) -> Result<(), CkksError> {
        let mut needed = KeyPlan::new();
        for &element in elements.iter().filter(|&&element| element != 1) {
            needed.require(KeyKind::Galois { element }, chain);
        }
        Ok(self.keys.check(operation, &needed)?)
    }

    fn require_level(operation: &'static str, a: &Ciphertext, needed: usize) -> Result<(), CkksError> {
        if a.level >= needed { Ok(()) } else { Err(CkksError::Level { operation, found: a.level, needed }) }
    }

    /// `a op b` component by component at the lower level; a missing third component counts as zero.
    fn combine(
        &self,
        operation: &'static str,
        a: &Ciphertext,
        b: &Ciphertext,
        negate_b: bool,
    ) -> Result<Ciphertext, CkksError> {
        let ring = self.parameters().ring();
        let level = a.level.min(b.level);
        let (a, b) = (self.lowered(a, level)?, self.aligned(b, level)?);
        check_scales(operation, a.scale, b.scale)?;
        let (ours, theirs) = (a.inner.components(), b.inner.components());
        let basis = a.inner.basis();
        let combine = |i: usize| match (ours.get(i), theirs.get(i)) {
            (Some(x), Some(y)) if negate_b => ring.sub(x, y),
            (Some(x), Some(y)) => ring.add(x, y),
            (Some(x), None) => Ok(x.clone()),
            (None, Some(y)) => {
                let mut extra = ring.restricted(y, basis)?;
                if negate_b {
                    ring.neg_assign(&mut extra)?;
                }
                Ok(extra)
            }
            (None, None) => Ok(ring.zero(basis, Domain::Evaluation)),
        };
        let components = (0..ours.len().max(theirs.len())).map(combine).collect::<Result<Vec<_>, _>>()?;
        Ok(Ciphertext { inner: rlwe::Ciphertext::new(components)?, level, scale: a.scale })
    }

    /// The vector as an operand of an operation at a lower level: itself, unless its primes lack some of that level.
    fn aligned<'v>(&self, a: &'v Ciphertext, level: usize) -> Result<Cow<'v, Ciphertext>, CkksError> {
        match self.parameters().drop(a.level, level) {
            Drop::Nested => Ok(Cow::Borrowed(a)),
            Drop::Rescaled { .. } => self.drop_to(a, level).map(Cow::Owned),
        }
    }

    fn map(
        &self,
        a: &Ciphertext,
        mut change: impl FnMut(&mut Poly) -> Result<(), CkksError>,
    ) -> Result<Ciphertext, CkksError> {
        let mut result = a.clone();
        result.inner.components_mut().iter_mut().try_for_each(&mut change)?;
        Ok(result)
    }

    fn is_real(&self) -> bool {
        self.parameters().ring().kind() == RingKind::ConjugateInvariant
    }
}

impl Arithmetic for Evaluator<'_> {
    type Vector = Ciphertext;

    fn parameters(&self) -> &CkksParameters {
        self.encoder.parameters()
    }

    fn level(&self, a: &Ciphertext) -> usize {
        a.level
    }

    fn scale(&self, a: &Ciphertext) -> f64 {
        a.scale
    }

    fn require_keys(&self, operation: &'static str, plan: &KeyPlan) -> Result<(), CkksError> {
        Ok(self.keys.check(operation, plan)?)
    }

    fn add(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext, CkksError> {
        self.combine("add", a, b, false)
    }

    fn sub(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext, CkksError> {
        self.combine("subtract", a, b, true)
    }

    fn tensor(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext, CkksError> {
        const OPERATION: &str = "multiply";
        let level = a.level.min(b.level);
        let (a, b) = (self.aligned(a, level)?, self.aligned(b, level)?);
        let ([a0, a1], [b0, b1]) = (a.inner.components(), b.inner.components()) else {
            let found = a.inner.components().len().max(b.inner.components().len());
            return Err(RlweError::Components { operation: OPERATION, found, needed: 2 }.into());
        };
        let product = self.parameters().ring().tensor([a0, a1], [b0, b1], self.parameters().basis(level))?;
        Ok(Ciphertext { inner: rlwe::Ciphertext::new(product.into())?, level, scale: a.scale * b.scale })
    }

    /// All operands are read once, and nothing but the sum is written.
    fn sum_tensors(&self, pairs: &[(&Ciphertext, &Ciphertext)]) -> Result<Ciphertext, CkksError> {
        const OPERATION: &str = "sum products";
        let level = lowest_level(self, pairs)?;
        let scale = pairs[0].0.scale * pairs[0].1.scale;
        pairs.iter().try_for_each(|(a, b)| check_scales(OPERATION, scale, a.scale * b.scale))?;
        let lowered = pairs.iter().map(|(a, b)| Ok((self.lowered(a, level)?, self.lowered(b, level)?)));
        let lowered: Vec<(Cow<'_, Ciphertext>, Cow<'_, Ciphertext>)> = lowered.collect::<Result<_, CkksError>>()?;
        let (mut inputs, mut first, mut second) = (Vec::new(), Vec::new(), Vec::new());
        for (index, (a, b)) in lowered.iter().enumerate() {
            let [b0, b1] = two_components(OPERATION, b)?;
            inputs.push(two_components(OPERATION, a)?);
            first.push((index, b0));
            second.push((index, b1));
        }
        let ring = self.parameters().ring();
        let sums = <[[Poly; 2]; 2]>::try_from(ring.product_sums(&inputs, &[&first, &second])?);
        let [[c0, mut c1], [other, c2]] = sums.map_err(|sums| {
            let needed = "a sum for each component".into();
            CkksError::Shape { operation: OPERATION, found: sums.len(), needed }
        })?;
        ring.add_assign(&mut c1, &other)?;
        Ok(Ciphertext { inner: rlwe::Ciphertext::new(vec![c0, c1, c2])?, level, scale })
    }

    fn relinearise_rescale(&self, a: &Ciphertext) -> Result<Ciphertext, CkksError> {
        if a.inner.components().len() == 2 {
            return self.rescale(a);
        }
        self.check_cancel()?;
        Self::require_level("relinearise and rescale", a, 1)?;
        let parameters = self.parameters();
        let inner = a.inner.relinearise(parameters.ring(), self.keys, parameters.basis(a.level - 1))?;
        Ok(Ciphertext { inner, level: a.level - 1, scale: a.scale / parameters.level_modulus(a.level) })
    }

    fn relinearise(&self, a: &Ciphertext) -> Result<Ciphertext, CkksError> {
        if a.inner.components().len() == 2 {
            return Ok(a.clone());
        }
        self.check_cancel()?;
        Ok(Ciphertext { inner: a.inner.relinearise(self.parameters().ring(), self.keys, a.inner.basis())?, ..*a })
    }

    fn rescale(&self, a: &Ciphertext) -> Result<Ciphertext, CkksError> {
        Self::require_level("rescale", a, 1)?;
        let parameters = self.parameters();
        let inner = a.inner.rescale(parameters.ring(), parameters.basis(a.level - 1))?;
        Ok(Ciphertext { inner, level: a.level - 1, scale: a.scale / parameters.level_modulus(a.level) })
    }

    fn drop_to(&self, a: &Ciphertext, level: usize) -> Result<Ciphertext, CkksError> {
        Self::require_level("drop to a level", a, level)?;
        if a.level == level {
            return Ok(a.clone());
        }
        let (parameters, ring) = (self.parameters(), self.parameters().ring());
        match parameters.drop(a.level, level) {
            Drop::Nested => {
                let inner = a.inner.restricted(ring, parameters.basis(level))?;
                Ok(Ciphertext { inner, level, scale: a.scale })
            }
            Drop::Rescaled { by, reached, factor, .. } => {
                let mut inner = a.inner.restricted(ring, parameters.basis(by))?;
                inner.components_mut().iter_mut().try_for_each(|c| ring.scale_assign(c, factor))?;
                let inner = inner.rescale(ring, parameters.basis(reached))?;
                self.drop_to(&Ciphertext { inner, level: reached, scale: a.scale }, level)
            }
        }
    }

    fn rotate(&self, a: &Ciphertext, steps: i64) -> Result<Ciphertext, CkksError> {
        self.check_cancel()?;
        let ring = self.parameters().ring();
        let inner = a.inner.automorphism(ring, galois::rotation(ring, steps), self.keys)?;
        Ok(Ciphertext { inner, ..*a })
    }

    fn rotate_hoisted(&self, a: &Ciphertext, steps: &[i64]) -> Result<Vec<Ciphertext>, CkksError> {
        self.check_cancel()?;
        let ring = self.parameters().ring();
        let hoisted = a.inner.hoist(ring)?;
        let rotate = |&steps: &i64| {
            let inner = hoisted.automorphism(ring, galois::rotation(ring, steps), self.keys)?;
            Ok(Ciphertext { inner, ..*a })
        };
        steps.iter().map(rotate).collect()
    }

    fn sum_rotations(&self, a: &Ciphertext, steps: &[i64]) -> Result<Ciphertext, CkksError> {
        Ok(Ciphertext { inner: self.sum_of_rotations(a, steps, a.inner.basis())?, ..*a })
    }

    fn sum_rotations_rescale(&self, a: &Ciphertext, steps: &[i64]) -> Result<Ciphertext, CkksError> {
        Self::require_level("sum rotations and rescale", a, 1)?;
        let parameters = self.parameters();
        let inner = self.sum_of_rotations(a, steps, parameters.basis(a.level - 1))?;
        Ok(Ciphertext { inner, level: a.level - 1, scale: a.scale / parameters.level_modulus(a.level) })
    }

    fn linear(&self, transform: &LinearTransform, a: &Ciphertext) -> Result<Ciphertext, CkksError> {
        transform.apply(self, a)
    }

    fn linear_sums(
        &self,
        rows: &[Vec<(usize, &LinearTransform)>],
        inputs: &[&Ciphertext],
    ) -> Result<Vec<Ciphertext>, CkksError> {
        apply_sums(self, rows, inputs)
    }

    fn conjugate(&self, a: &Ciphertext) -> Result<Ciphertext, CkksError> {
        if self.is_real() {
            return Err(CkksError::RealRing { operation: "conjugate" });
        }
        self.check_cancel()?;
        let ring = self.parameters().ring();
        let inner = a.inner.automorphism(ring, galois::conjugation(ring), self.keys)?;
        Ok(Ciphertext { inner, ..*a })
    }

    fn mul_imaginary(&self, a: &Ciphertext) -> Result<Ciphertext, CkksError> {
        if self.is_real() {
            return Err(CkksError::RealRing { operation: "multiply by i" });
        }
        self.map(a, |c| Ok(self.parameters().ring().mul_imaginary_assign(c)?))
    }

    fn mul_monomial(&self, a: &Ciphertext, exponent: usize) -> Result<Ciphertext, CkksError> {
        if self.is_real() {
            return Err(CkksError::RealRing { operation: "multiply by a monomial" });
        }
        let ring = self.parameters().ring();
        let (mut coefficients, degree) = (vec![0; ring.degree()], ring.degree());
        coefficients[exponent % degree] = if (exponent / degree).is_multiple_of(2) { 1 } else { -1 };
        let mut monomial = ring.from_i32(&coefficients, a.inner.basis())?;
        ring.to_evaluation(&mut monomial)?;
        self.map(a, |c| Ok(ring.mul_assign(c, &monomial)?))
    }

    fn mul_constant(&self, a: &Ciphertext, constant: Complex64, scale: f64) -> Result<Ciphertext, CkksError> {
        let (re, im) = round_constant("multiply by a constant", constant, scale / a.scale, self.is_real())?;
        let ring = self.parameters().ring();
        let mut result = self.map(a, |c| {
            if im == 0 {
                return Ok(ring.scale_assign(c, re)?);
            }
            let mut imaginary = c.clone();
            ring.mul_imaginary_assign(&mut imaginary)?;
            ring.scale_assign(&mut imaginary, im)?;
            ring.scale_assign(c, re)?;
            Ok(ring.add_assign(c, &imaginary)?)
        })?;
        result.scale = scale;
        Ok(result)
    }

    fn add_constant(&self, a: &Ciphertext, constant: Complex64) -> Result<Ciphertext, CkksError> {
        self.plus_constant(a.clone(), constant)
    }

    fn sum_multiples(
        &self,
        terms: &[(&Ciphertext, Complex64)],
        level: usize,
        scale: f64,
    ) -> Result<Ciphertext, CkksError> {
        let simple = |(a, constant): &(&Ciphertext, Complex64)| {
            a.level >= level
                && constant.im == 0.0
                && a.inner.components().len() == 2
                && matches!(self.parameters().drop(a.level, level), Drop::Nested)
        };
        if terms.is_empty() || !terms.iter().all(simple) {
            return sum_multiples_by_parts(self, terms, level, scale);
        }
        let factor = |(a, constant): &(&Ciphertext, Complex64)| {
            round_constant("sum multiples", *constant, scale / a.scale, true).map(|(re, _)| re)
        };
        let factors = terms.iter().map(factor).collect::<Result<Vec<_>, _>>()?;
        let (ring, basis) = (self.parameters().ring(), self.parameters().basis(level));
        let sum = |component: usize| {
            let parts = terms.iter().zip(&factors).map(|((a, _), &factor)| (&a.inner.components()[component], factor));
            ring.sum_of_multiples(&parts.collect::<Vec<_>>(), basis)
        };
        Ok(Ciphertext { inner: rlwe::Ciphertext::new(vec![sum(0)?, sum(1)?])?, level, scale })
    }

    fn plus_constant(&self, mut result: Ciphertext, constant: Complex64) -> Result<Ciphertext, CkksError> {
        let a = &result;
        let (re, im) = round_constant("add a constant", constant, a.scale, self.is_real())?;
        let ring = self.parameters().ring();
        if let Some(c0) = result.inner.components_mut().first_mut() {
            ring.add_constant_assign(c0, re)?;
            if im != 0 {
                // c0 + i b = i (c0 / i + b), and 1/i = i^3.
                for _ in 0..3 {
                    ring.mul_imaginary_assign(c0)?;
                }
                ring.add_constant_assign(c0, im)?;
                ring.mul_imaginary_assign(c0)?;
            }
        }
        Ok(result)
    }

    fn mul_values(&self, a: &Ciphertext, values: &[Complex64], scale: f64) -> Result<Ciphertext, CkksError> {
        let factor = self.encoder.encode_public(values, a.level, scale)?;
        let ring = self.parameters().ring();
        let products = a.inner.components().iter().map(|c| ring.mul(c, &factor)).collect::<Result<_, _>>()?;
        Ok(Ciphertext { inner: rlwe::Ciphertext::new(products)?, level: a.level, scale: a.scale * scale })
    }

    fn sum_products(&self, products: &[(&Ciphertext, &PreparedVector)]) -> Result<Ciphertext, CkksError> {
        const OPERATION: &str = "sum products";
        let level = PreparedVector::common_level(products.iter().map(|(a, prepared)| (a.level, *prepared)))?;
        let scale = products.first().map_or(1.0, |(a, prepared)| a.scale * prepared.scale());
        products.iter().try_for_each(|(a, prepared)| check_scales(OPERATION, scale, a.scale * prepared.scale()))?;
        // Encodings take longer than their products: all threads share them.
        let operands = products
            .par_iter()
            .map(|(a, prepared)| Ok::<_, CkksError>((self.lowered(a, level)?, prepared.encoded(self.encoder)?)));
        let (inputs, factors): (Vec<_>, Vec<&Poly>) = operands.collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
        let row: Vec<(usize, &Poly)> = factors.into_iter().enumerate().collect();
        let pairs = inputs.iter().map(|a| two_components(OPERATION, a));
        let pairs: Vec<[&Poly; 2]> = pairs.collect::<Result<_, _>>()?;
        let sums = self.parameters().ring().product_sums(&pairs, &[&row])?;
        let components = sums.into_iter().flatten().collect();
        Ok(Ciphertext { inner: rlwe::Ciphertext::new(components)?, level, scale })
    }

    fn rotation_products(
        &self,
        a: &Ciphertext,
        steps: &[i64],
        rows: &[Vec<(usize, &PreparedVector)>],
    ) -> Result<Vec<Ciphertext>, CkksError> {
        const OPERATION: &str = "products of rotations";
        let RotationProducts { level, scale, .. } = RotationProducts::new(steps, rows)?;
        Self::require_level(OPERATION, a, level.max(1))?;
        self.check_cancel()?;
        let (parameters, ring) = (self.parameters(), self.parameters().ring());
        let elements: Vec<u64> = steps.iter().map(|&steps| galois::rotation(ring, steps)).collect();
        self.check_rotations(OPERATION, &elements, parameters.basis(level).chain)?;
        let encoded = rows.iter().map(|row| {
            // Rows may share factors: one row after the other, so that no factor is encoded twice.
            let pairs = row.par_iter().map(|&(index, factor)| Ok((index, factor.encoded_extended(self.encoder)?)));
            pairs.collect::<Result<Vec<_>, CkksError>>()
        });
        let rows = encoded.collect::<Result<Vec<_>, _>>()?;
        let input = self.lowered(a, level)?;
        let sums = rows.into_iter().map(Into::into).collect();
        let lifted = input.inner.lift(ring)?;
        let images: Vec<_> = elements.into_iter().map(|element| (&lifted, element)).collect();
        let sums = Lifted::product_sums(ring, &images, sums, self.keys)?;
        let to = parameters.basis(level - 1);
        let scale = a.scale * scale / parameters.level_modulus(level);
        let divide = |sum: ExtendedCiphertext| Ok(Ciphertext { inner: sum.divide(ring, to)?, level: level - 1, scale });
        sums.into_iter().map(divide).collect()
    }

    fn add_values(&self, a: &Ciphertext, values: &[Complex64]) -> Result<Ciphertext, CkksError> {
        let summand = self.encoder.encode_public(values, a.level, a.scale)?;
        let mut result = a.clone();
        if let Some(c0) = result.inner.components_mut().first_mut() {
            self.parameters().ring().add_assign(c0, &summand)?;
        }
        Ok(result)
    }

    fn matrix(&self, matrix: &PreparedMatrix, inputs: &[&Ciphertext]) -> Result<Vec<Ciphertext>, CkksError> {
        matrix.check(inputs.iter().map(|a| (a.level, a.scale)))?;
        let aligned = inputs.iter().map(|a| self.lowered(a, matrix.level())).collect::<Result<Vec<_>, _>>()?;
        // Products that are not relinearised have three components. All inputs must have the same number.
        let count = aligned.first().map_or(2, |a| a.inner.components().len());
        let mut rows: Vec<Vec<Poly>> = matrix.output_scales().iter().map(|_| Vec::with_capacity(count)).collect();
        for component in 0..count {
            let polys = aligned.iter().map(|a| match a.inner.components() {
                same if same.len() == count => Ok(&same[component]),
                other => Err(RlweError::Components { operation: "matrix product", found: other.len(), needed: count }),
            });
            let products = matrix.multiply(self.parameters(), &polys.collect::<Result<Vec<&Poly>, _>>()?)?;
            rows.iter_mut().zip(products).for_each(|(row, product)| row.push(product));
        }
        let wrap = |(components, &scale)| {
            Ok(Ciphertext { inner: rlwe::Ciphertext::new(components)?, level: matrix.level(), scale })
        };
        rows.into_iter().zip(matrix.output_scales()).map(wrap).collect()
    }
}
