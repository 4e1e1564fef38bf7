//! The operations of circuits: a trait that the evaluator and the simulator implement.

use std::borrow::Cow;

use num_complex::Complex64;
use unspoken_rlwe::KeyPlan;

use crate::error::CkksError;
use crate::inner_sum::InnerSum;
use crate::linear::{LinearSums, LinearTransform};
use crate::matrix::PreparedMatrix;
use crate::parameters::CkksParameters;
use crate::prepared::PreparedVector;

/// Arithmetic on vectors of slots, with levels and scales.
///
/// A circuit written against this trait runs encrypted with an [`Evaluator`](crate::Evaluator) and in the clear, with
/// predicted noise and cost, with a [`Simulator`](crate::Simulator). Operations align levels by dropping primes. They
/// never change scales silently: products multiply scales, a rescale divides the scale by the level's primes, and sums
/// need equal scales.
pub trait Arithmetic {
    /// A vector of slots.
    type Vector: Clone + Send + Sync;

    /// The parameters.
    fn parameters(&self) -> &CkksParameters;

    /// The level of a vector.
    fn level(&self, a: &Self::Vector) -> usize;

    /// The scale of a vector.
    fn scale(&self, a: &Self::Vector) -> f64;

    /// Checks that all keys of a plan exist. Call it before a circuit, so that a missing key costs no work.
    ///
    /// # Errors
    /// [`RlweError::MissingKeys`](unspoken_rlwe::RlweError::MissingKeys), which names all missing keys.
    fn require_keys(&self, operation: &'static str, plan: &KeyPlan) -> Result<(), CkksError>;

    /// `a + b`, at the lower of the two levels.
    ///
    /// # Errors
    /// [`CkksError::Scale`] if the scales differ.
    fn add(&self, a: &Self::Vector, b: &Self::Vector) -> Result<Self::Vector, CkksError>;

    /// `a - b`, at the lower of the two levels.
    ///
    /// # Errors
    /// [`CkksError::Scale`] if the scales differ.
    fn sub(&self, a: &Self::Vector, b: &Self::Vector) -> Result<Self::Vector, CkksError>;

    /// The product at the lower of the two levels, neither relinearised nor rescaled. Its scale is the product of the
    /// scales.
    ///
    /// # Errors
    /// If an operand is itself a product that is not relinearised.
    fn tensor(&self, a: &Self::Vector, b: &Self::Vector) -> Result<Self::Vector, CkksError>;

    /// The sum of products of pairs at the lowest of all levels, neither relinearised nor rescaled. Its scale is the
    /// scale of each product.
    ///
    /// # Errors
    /// If there are no pairs, the scales of the products differ, or as for [`Arithmetic::tensor`].
    fn sum_tensors(&self, pairs: &[(&Self::Vector, &Self::Vector)]) -> Result<Self::Vector, CkksError> {
        let level = lowest_level(self, pairs)?;
        let product = |&(a, b): &(&Self::Vector, &Self::Vector)| {
            self.tensor(self.lowered(a, level)?.as_ref(), self.lowered(b, level)?.as_ref())
        };
        pairs[1..].iter().try_fold(product(&pairs[0])?, |sum, pair| self.add(&sum, &product(pair)?))
    }

    /// Relinearises to two components and goes one level down: the scale is divided by the level's primes.
    ///
    /// # Errors
    /// At level 0, or if the relinearisation key is missing.
    fn relinearise_rescale(&self, a: &Self::Vector) -> Result<Self::Vector, CkksError>;

    /// Relinearises to two components at the same level and scale.
    ///
    /// # Errors
    /// If the relinearisation key is missing.
    fn relinearise(&self, a: &Self::Vector) -> Result<Self::Vector, CkksError>;

    /// Goes one level down: the scale is divided by the level's primes.
    ///
    /// # Errors
    /// At level 0.
    fn rescale(&self, a: &Self::Vector) -> Result<Self::Vector, CkksError>;

    /// The same values at a lower level. This is exact if the vector has all primes of the lower level. Otherwise it
    /// adds the noise of a rescale.
    ///
    /// # Errors
    /// If the level of `a` is already below `level`.
    fn drop_to(&self, a: &Self::Vector, level: usize) -> Result<Self::Vector, CkksError>;

    /// As [`Arithmetic::drop_to`], but borrows a vector that is already at that level.
    ///
    /// # Errors
    /// If the level of `a` is already below `level`.
    fn lowered<'v>(&self, a: &'v Self::Vector, level: usize) -> Result<Cow<'v, Self::Vector>, CkksError> {
        if self.level(a) == level { Ok(Cow::Borrowed(a)) } else { self.drop_to(a, level).map(Cow::Owned) }
    }

    /// Rotates the slots to the left.
    ///
    /// # Errors
    /// If the key is missing.
    fn rotate(&self, a: &Self::Vector, steps: i64) -> Result<Self::Vector, CkksError>;

    /// Several rotations of one vector with one digit decomposition (hoisting).
    ///
    /// # Errors
    /// If a key is missing.
    fn rotate_hoisted(&self, a: &Self::Vector, steps: &[i64]) -> Result<Vec<Self::Vector>, CkksError>;

    /// The sum of several rotations of one vector (0 is the vector itself), with one digit decomposition and one
    /// division.
    ///
    /// # Errors
    /// If there are no steps, or keys are missing; the error names all missing keys.
    fn sum_rotations(&self, a: &Self::Vector, steps: &[i64]) -> Result<Self::Vector, CkksError>;

    /// As [`Arithmetic::sum_rotations`], but goes one level down: the rescale is part of the sum's division.
    ///
    /// # Errors
    /// At level 0, or as for [`Arithmetic::sum_rotations`].
    fn sum_rotations_rescale(&self, a: &Self::Vector, steps: &[i64]) -> Result<Self::Vector, CkksError>;

    /// Rotates to the left and goes one level down, in one division (Permutation decomposition paper, section 5.2.3).
    ///
    /// # Errors
    /// At level 0, or if the key is missing.
    fn rotate_rescale(&self, a: &Self::Vector, steps: i64) -> Result<Self::Vector, CkksError> {
        self.sum_rotations_rescale(a, &[steps])
    }

    /// Applies a linear transformation to the slots. The result is one level below the level of its plan.
    ///
    /// # Errors
    /// If the level is below the plan's, the scale is not the planned one, or keys are missing.
    fn linear(&self, transform: &LinearTransform, a: &Self::Vector) -> Result<Self::Vector, CkksError>;

    /// Sums of linear transformations of several vectors: result `r` is the sum over the pairs `(i, transform)` of row
    /// `r` of `transform` applied to `inputs[i]`, each one level down, as for [`Arithmetic::linear`]. These are the
    /// blocks of a matrix that is too large for one transformation. All have the same level, steps, period
    /// ([`LinearPlan::with_period`](crate::LinearPlan::with_period)) and output scale: so an input is rotated by its
    /// baby steps once for all results, and a result by its giant steps once for all inputs.
    ///
    /// # Errors
    /// If there are no rows, one is empty or has an input that does not exist, transformations differ as said, an input
    /// does not fit, or keys are missing; the error names all missing keys.
    fn linear_sums(
        &self,
        rows: &[Vec<(usize, &LinearTransform)>],
        inputs: &[&Self::Vector],
    ) -> Result<Vec<Self::Vector>, CkksError> {
        LinearSums::new(rows)?.evaluate(self, inputs)
    }

    /// Conjugates the slots.
    ///
    /// # Errors
    /// In the conjugate-invariant ring, or if the key is missing.
    fn conjugate(&self, a: &Self::Vector) -> Result<Self::Vector, CkksError>;

    /// Multiplies the slots by `i`, exactly, without a level and without noise.
    ///
    /// # Errors
    /// In the conjugate-invariant ring.
    fn mul_imaginary(&self, a: &Self::Vector) -> Result<Self::Vector, CkksError>;

    /// Multiplies the polynomial by `X^exponent`, exactly, without a level and without noise. Slot `j` is multiplied by
    /// `zeta^(5^j exponent)` for a primitive root of unity `zeta` of order `2n`; so `n/2` multiplies by `i`.
    ///
    /// # Errors
    /// In the conjugate-invariant ring.
    fn mul_monomial(&self, a: &Self::Vector, exponent: usize) -> Result<Self::Vector, CkksError>;

    /// `constant * a` with scale exactly `scale`: multiplies by the integer nearest to `constant * scale / scale(a)`
    /// and does not rescale. The product is precise only if that integer is far from zero.
    ///
    /// # Errors
    /// If the constant is not finite, or complex in the conjugate-invariant ring, or `scale` is out of range.
    fn mul_constant(&self, a: &Self::Vector, constant: Complex64, scale: f64) -> Result<Self::Vector, CkksError>;

    /// `a + constant` in every slot.
    ///
    /// # Errors
    /// As for [`Arithmetic::mul_constant`].
    fn add_constant(&self, a: &Self::Vector, constant: Complex64) -> Result<Self::Vector, CkksError>;

    /// As [`Arithmetic::add_constant`], for a vector that is not needed any more.
    ///
    /// # Errors
    /// As for [`Arithmetic::mul_constant`].
    fn plus_constant(&self, a: Self::Vector, constant: Complex64) -> Result<Self::Vector, CkksError> {
        self.add_constant(&a, constant)
    }

    /// `sum constant * a` over the pairs, at `level` and with scale exactly `scale`, see [`Arithmetic::mul_constant`].
    ///
    /// # Errors
    /// If there are no pairs or the level of one is below `level`, or as for [`Arithmetic::mul_constant`].
    fn sum_multiples(
        &self,
        terms: &[(&Self::Vector, Complex64)],
        level: usize,
        scale: f64,
    ) -> Result<Self::Vector, CkksError> {
        sum_multiples_by_parts(self, terms, level, scale)
    }

    /// Slot-wise product with a plaintext vector encoded at scale `scale`. Scales multiply; there is no rescale.
    ///
    /// # Errors
    /// If the values cannot be encoded.
    fn mul_values(&self, a: &Self::Vector, values: &[Complex64], scale: f64) -> Result<Self::Vector, CkksError>;

    /// The sum of slot-wise products with prepared vectors, at their level. Scales multiply; there is no rescale.
    ///
    /// # Errors
    /// If there are no products, levels do not fit, or the scales of the products differ.
    fn sum_products(&self, products: &[(&Self::Vector, &PreparedVector)]) -> Result<Self::Vector, CkksError>;

    /// Slot-wise product with a prepared vector, at its level. Scales multiply; there is no rescale.
    ///
    /// # Errors
    /// If `a` has a lower level than the prepared vector, or the values of the prepared vector cannot be encoded.
    fn mul_prepared(&self, a: &Self::Vector, factor: &PreparedVector) -> Result<Self::Vector, CkksError> {
        self.sum_products(&[(a, factor)])
    }

    /// Several sums of slot-wise products of prepared vectors with rotations of one vector, each one level down: row
    /// `r` is `sum factor * rotate(a, steps[i])` over its pairs `(i, factor)`, rescaled. There is one digit
    /// decomposition of `a`, the rotations are not divided, and each sum is divided once, including its rescale.
    ///
    /// # Errors
    /// If there are no rows, a row is empty or contains an index outside `steps`, factors differ in level or scale, the
    /// level of `a` is below theirs or 0, or keys are missing; the error names all missing keys.
    fn rotation_products(
        &self,
        a: &Self::Vector,
        steps: &[i64],
        rows: &[Vec<(usize, &PreparedVector)>],
    ) -> Result<Vec<Self::Vector>, CkksError>;

    /// Slot-wise sum with a plaintext vector.
    ///
    /// # Errors
    /// If the values cannot be encoded.
    fn add_values(&self, a: &Self::Vector, values: &[Complex64]) -> Result<Self::Vector, CkksError>;

    /// One vector per row of the matrix: row `r` is `sum_c M[r][c] inputs[c]`, at the matrix's level and output scale.
    ///
    /// # Errors
    /// If the number, scale or level of the inputs does not fit the prepared matrix.
    fn matrix(&self, matrix: &PreparedMatrix, inputs: &[&Self::Vector]) -> Result<Vec<Self::Vector>, CkksError>;

    /// `a * b`, relinearised and rescaled.
    ///
    /// # Errors
    /// At level 0, or if the relinearisation key is missing.
    fn multiply(&self, a: &Self::Vector, b: &Self::Vector) -> Result<Self::Vector, CkksError> {
        self.relinearise_rescale(&self.tensor(a, b)?)
    }

    /// Sums `count` (a power of two) slots that are `stride` apart into every slot, as [`InnerSum::new`] does.
    ///
    /// # Errors
    /// If `count` is not a power of two, or keys of [`InnerSum::key_plan`] are missing.
    fn sum_slots(&self, a: &Self::Vector, stride: usize, count: usize) -> Result<Self::Vector, CkksError> {
        InnerSum::new(stride as i64, count)?.apply(self, a)
    }
}

impl InnerSum {
    /// Computes the sum at the level of `a`.
    ///
    /// # Errors
    /// If keys are missing.
    pub fn apply<A: Arithmetic + ?Sized>(&self, arithmetic: &A, a: &A::Vector) -> Result<A::Vector, CkksError> {
        run(arithmetic, a.clone(), &self.stages)
    }

    /// Computes the sum one level below `a`: the rescale is part of the first stage.
    ///
    /// # Errors
    /// At level 0, or if keys are missing.
    pub fn apply_rescale<A: Arithmetic + ?Sized>(&self, arithmetic: &A, a: &A::Vector) -> Result<A::Vector, CkksError> {
        match self.stages.split_first() {
            Some((first, rest)) => run(arithmetic, arithmetic.sum_rotations_rescale(a, first)?, rest),
            None => arithmetic.rescale(a),
        }
    }
}

fn run<A: Arithmetic + ?Sized>(arithmetic: &A, a: A::Vector, stages: &[Vec<i64>]) -> Result<A::Vector, CkksError> {
    stages.iter().try_fold(a, |sum, steps| arithmetic.sum_rotations(&sum, steps))
}

/// The lowest level of pairs.
pub(crate) fn lowest_level<A: Arithmetic + ?Sized>(
    arithmetic: &A,
    pairs: &[(&A::Vector, &A::Vector)],
) -> Result<usize, CkksError> {
    let levels = pairs.iter().map(|(a, b)| arithmetic.level(a).min(arithmetic.level(b)));
    let none = || CkksError::Shape { operation: "sum products", found: 0, needed: "at least one product".into() };
    levels.min().ok_or_else(none)
}

/// [`Arithmetic::sum_multiples`] as products and sums.
pub(crate) fn sum_multiples_by_parts<A: Arithmetic + ?Sized>(
    arithmetic: &A,
    terms: &[(&A::Vector, Complex64)],
    level: usize,
    scale: f64,
) -> Result<A::Vector, CkksError> {
    let multiple = |(a, constant): &(&A::Vector, Complex64)| {
        arithmetic.mul_constant(arithmetic.lowered(a, level)?.as_ref(), *constant, scale)
    };
    let none = || CkksError::Shape { operation: "sum multiples", found: 0, needed: "at least one".into() };
    let (first, others) = terms.split_first().ok_or_else(none)?;
    others.iter().try_fold(multiple(first)?, |sum, term| arithmetic.add(&sum, &multiple(term)?))
}
