//! The operations circuits are written in, for encrypted vectors and for the simulator alike.

use std::borrow::Cow;

use num_complex::Complex64;
use unspoken_rlwe::KeyPlan;

use crate::error::CkksError;
use crate::inner_sum::InnerSum;
use crate::linear::LinearTransform;
use crate::matrix::PreparedMatrix;
use crate::parameters::CkksParameters;
use crate::prepared::PreparedVector;

/// Relative difference up to which two scales count as equal: the noise it hides is far below any encryption's.
pub const SCALE_TOLERANCE: f64 = 1e-12;

/// Arithmetic on vectors of slots, with levels and scales.
///
/// A circuit written against this trait runs encrypted with an [`Evaluator`](crate::Evaluator) and in the clear, with
/// predicted noise and cost, with a [`Simulator`](crate::Simulator). Levels are aligned by dropping primes; scales are
/// never changed silently: products multiply them, a rescale divides by the level's primes, sums need equal ones.
pub trait Arithmetic {
    /// A vector of slots.
    type Vector: Clone + Send + Sync;

    /// The parameters.
    fn parameters(&self) -> &CkksParameters;

    /// The level of a vector.
    fn level(&self, a: &Self::Vector) -> usize;

    /// The scale of a vector.
    fn scale(&self, a: &Self::Vector) -> f64;

    /// Checks that all keys of a plan are there, before anything is spent on a circuit that needs them.
    ///
    /// # Errors
    /// [`RlweError::MissingKeys`](unspoken_rlwe::RlweError::MissingKeys), which names all that are not.
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

    /// The product at the lower of the two levels, neither relinearised nor rescaled; scales multiply.
    ///
    /// # Errors
    /// If an operand is such a product itself.
    fn tensor(&self, a: &Self::Vector, b: &Self::Vector) -> Result<Self::Vector, CkksError>;

    /// Back to two components, then one level down: scale divided by the level's primes.
    ///
    /// # Errors
    /// At level 0, or if the relinearisation key is missing.
    fn relinearise_rescale(&self, a: &Self::Vector) -> Result<Self::Vector, CkksError>;

    /// Back to two components at the same level and scale.
    ///
    /// # Errors
    /// If the relinearisation key is missing.
    fn relinearise(&self, a: &Self::Vector) -> Result<Self::Vector, CkksError>;

    /// One level down: scale divided by the level's primes.
    ///
    /// # Errors
    /// At level 0.
    fn rescale(&self, a: &Self::Vector) -> Result<Self::Vector, CkksError>;

    /// The same values at a lower level.
    ///
    /// # Errors
    /// If the level is below `level` already.
    fn drop_to(&self, a: &Self::Vector, level: usize) -> Result<Self::Vector, CkksError>;

    /// As [`Arithmetic::drop_to`], without a copy of a vector that is at that level already.
    ///
    /// # Errors
    /// If the level is below `level` already.
    fn lowered<'v>(&self, a: &'v Self::Vector, level: usize) -> Result<Cow<'v, Self::Vector>, CkksError> {
        if self.level(a) == level { Ok(Cow::Borrowed(a)) } else { self.drop_to(a, level).map(Cow::Owned) }
    }

    /// Rotates the slots to the left.
    ///
    /// # Errors
    /// If the key is missing.
    fn rotate(&self, a: &Self::Vector, steps: i64) -> Result<Self::Vector, CkksError>;

    /// Several rotations of one vector, its digits raised once (hoisting).
    ///
    /// # Errors
    /// If a key is missing.
    fn rotate_hoisted(&self, a: &Self::Vector, steps: &[i64]) -> Result<Vec<Self::Vector>, CkksError>;

    /// The sum of several rotations of one vector (0 is the vector itself): its digits raised once, the sum divided
    /// once.
    ///
    /// # Errors
    /// If there are no steps, or keys are missing: all of them are named.
    fn sum_rotations(&self, a: &Self::Vector, steps: &[i64]) -> Result<Self::Vector, CkksError>;

    /// As [`Arithmetic::sum_rotations`], one level down: the rescale is part of the sum's division.
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

    /// A linear transformation of the slots, one level below its plan's.
    ///
    /// # Errors
    /// If the level is below the plan's, the scale is not the one planned for, or keys are missing.
    fn linear(&self, transform: &LinearTransform, a: &Self::Vector) -> Result<Self::Vector, CkksError>;

    /// Conjugates the slots.
    ///
    /// # Errors
    /// In the conjugate-invariant ring, or if the key is missing.
    fn conjugate(&self, a: &Self::Vector) -> Result<Self::Vector, CkksError>;

    /// Multiplies the slots by `i`, exactly and for free.
    ///
    /// # Errors
    /// In the conjugate-invariant ring.
    fn mul_imaginary(&self, a: &Self::Vector) -> Result<Self::Vector, CkksError>;

    /// `constant * a` with scale exactly `scale`: multiplies by the integer nearest to `constant * scale / scale(a)`
    /// and does not rescale. A factor far from zero is what makes it precise.
    ///
    /// # Errors
    /// If the constant is not finite, or complex in the conjugate-invariant ring, or `scale` is out of range.
    fn mul_constant(&self, a: &Self::Vector, constant: Complex64, scale: f64) -> Result<Self::Vector, CkksError>;

    /// `a + constant` in every slot.
    ///
    /// # Errors
    /// As for [`Arithmetic::mul_constant`].
    fn add_constant(&self, a: &Self::Vector, constant: Complex64) -> Result<Self::Vector, CkksError>;

    /// Slot-wise product with a plaintext vector encoded at scale `scale`; scales multiply, no rescale.
    ///
    /// # Errors
    /// If the values do not encode.
    fn mul_values(&self, a: &Self::Vector, values: &[Complex64], scale: f64) -> Result<Self::Vector, CkksError>;

    /// The sum of slot-wise products with prepared vectors, at their level; scales multiply, no rescale.
    ///
    /// # Errors
    /// If there are none, levels do not fit, or the scales of the products differ.
    fn sum_products(&self, products: &[(&Self::Vector, &PreparedVector)]) -> Result<Self::Vector, CkksError>;

    /// Slot-wise product with a prepared vector, at its level; scales multiply, no rescale.
    ///
    /// # Errors
    /// If the level is below that of the prepared vector, or its values do not encode.
    fn mul_prepared(&self, a: &Self::Vector, factor: &PreparedVector) -> Result<Self::Vector, CkksError> {
        self.sum_products(&[(a, factor)])
    }

    /// Several sums of slot-wise products of prepared vectors with rotations of one vector, each one level down: row
    /// `r` is `sum factor * rotate(a, steps[i])` over its pairs `(i, factor)`, rescaled. The digits of `a` are raised
    /// once, the rotations are not divided, and each sum is divided once, its rescale included.
    ///
    /// # Errors
    /// If there are no rows, or one is empty or names a step that is not there, factors differ in level or scale, the
    /// level of `a` is below theirs or 0, or keys are missing: all of them are named.
    fn rotation_products(
        &self,
        a: &Self::Vector,
        steps: &[i64],
        rows: &[Vec<(usize, &PreparedVector)>],
    ) -> Result<Vec<Self::Vector>, CkksError>;

    /// Slot-wise sum with a plaintext vector.
    ///
    /// # Errors
    /// If the values do not encode.
    fn add_values(&self, a: &Self::Vector, values: &[Complex64]) -> Result<Self::Vector, CkksError>;

    /// One vector per row of the matrix: row `r` is `sum_c M[r][c] inputs[c]`, at the matrix's level and output scale.
    ///
    /// # Errors
    /// If number, scale or level of the inputs is not what the matrix was prepared for.
    fn matrix(&self, matrix: &PreparedMatrix, inputs: &[&Self::Vector]) -> Result<Vec<Self::Vector>, CkksError>;

    /// `a * b`, relinearised and rescaled.
    ///
    /// # Errors
    /// At level 0, or if the relinearisation key is missing.
    fn multiply(&self, a: &Self::Vector, b: &Self::Vector) -> Result<Self::Vector, CkksError> {
        self.relinearise_rescale(&self.tensor(a, b)?)
    }

    /// Sums `count` (a power of two) slots that are `stride` apart, into every slot: [`InnerSum::new`], applied.
    ///
    /// # Errors
    /// If `count` is no power of two, or keys of [`InnerSum::key_plan`] are missing.
    fn sum_slots(&self, a: &Self::Vector, stride: usize, count: usize) -> Result<Self::Vector, CkksError> {
        InnerSum::new(stride as i64, count)?.apply(self, a)
    }
}

/// Whether two scales are the same.
pub(crate) fn check_scales(operation: &'static str, needed: f64, found: f64) -> Result<(), CkksError> {
    if (found / needed - 1.0).abs() < SCALE_TOLERANCE {
        Ok(())
    } else {
        Err(CkksError::Scale { operation, found, needed })
    }
}

/// Whether a scale is a positive, finite number.
pub(crate) fn check_scale(operation: &'static str, scale: f64) -> Result<(), CkksError> {
    if scale > 0.0 && scale.is_finite() {
        return Ok(());
    }
    Err(CkksError::Value { operation, index: 0, needed: "a positive, finite scale" })
}

/// The Gaussian integer nearest to `constant * factor`.
pub(crate) fn round_constant(
    operation: &'static str,
    constant: Complex64,
    factor: f64,
    real: bool,
) -> Result<(i128, i128), CkksError> {
    let scaled = constant * factor;
    let fits = |x: f64| x.is_finite() && x.abs() < 2f64.powi(126);
    if !fits(scaled.re) || !fits(scaled.im) || (real && constant.im != 0.0) {
        let needed = "a finite number that fits its scale, real in the conjugate-invariant ring";
        return Err(CkksError::Value { operation, index: 0, needed });
    }
    Ok((scaled.re.round() as i128, scaled.im.round() as i128))
}
