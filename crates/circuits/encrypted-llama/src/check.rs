//! The check of a pass: whether all arguments of its polynomials were in their intervals.
//!
//! A polynomial is right on its interval only, and a value outside often gives a result that looks like any other one.
//! Its evaluation makes `T_n` of the argument, where `n` is more than half of the degree, or all of it.
//! `T_2n = 2 T_n^2 - 1` is at most 1 on the interval, and outside it grows as fast as the error of the polynomial. The
//! sum of the squares of all `T_2n` of a pass, slot by slot, is therefore at most their number if all arguments were
//! inside, and more if one was far enough outside: no term is negative, so none hides another one. The sum, times
//! [`RESULT_BOUND`] over a limit, is the imaginary part of the first vector of the result: it costs the answer no
//! bytes, and whoever refuses results beyond the bound refuses it.
//!
//! The limit is 1,024, or the number of terms if there are more. An argument outside passes unnoticed only if its
//! `T_2n` is at most the root of it. The error of its polynomial is then at most about 32 times that on the interval:
//! designs have two bits more than the precision of the circuit, so the polynomial has three bits less. Slots without
//! a polynomial have the argument 0: masked scores, and the padding of heads and of coordinates.

use unspoken_ckks::{Arithmetic, CkksError, Complex64};

use crate::error::PassError;
use crate::evaluator::PassEvaluator;
use crate::ops::Context;
use crate::program::PassProgram;

/// Real parts of results are at most this in their unit, in text like that of the preparation. Imaginary parts are at
/// most this if all arguments of polynomials were in their intervals.
pub const RESULT_BOUND: f64 = 2.0;

/// Levels below the entry of bootstraps that the check takes: for a doubling, a square, and a factor.
const LEVELS: usize = 3;

/// Bits of the scale of the sums.
const SCALE_BITS: f64 = 30.0;

/// The least limit of the sums. A lower one would refuse more texts with a right result.
const LEAST_LIMIT: usize = 1 << 10;

/// Values of functions, and what the check has of their arguments: a vector for each of them.
pub(crate) struct Evaluated<V> {
    pub values: Vec<V>,
    /// `T_2n` of the arguments.
    pub doubled: Vec<V>,
}

impl<V> FromIterator<(V, V)> for Evaluated<V> {
    fn from_iter<I: IntoIterator<Item = (V, V)>>(pairs: I) -> Self {
        let (values, doubled) = pairs.into_iter().unzip();
        Evaluated { values, doubled }
    }
}

/// The sums so far.
pub(crate) struct Check<V> {
    /// For each part of the chunk; none before the first function.
    sums: Vec<V>,
    /// Terms of each of them.
    terms: usize,
}

impl<V> Check<V> {
    pub fn new() -> Self {
        Check { sums: Vec::new(), terms: 0 }
    }

    /// Terms of each slot.
    pub fn terms(&self) -> usize {
        self.terms
    }

    /// What the sum of no slot may exceed.
    pub fn limit(&self) -> f64 {
        self.terms.max(LEAST_LIMIT) as f64
    }

    pub fn into_sums(self) -> Vec<V> {
        self.sums
    }
}

impl PassProgram {
    /// Refuses bootstraps whose first level has too few levels below it.
    pub(crate) fn check_levels(&self) -> Result<(), PassError> {
        let found = self.bootstrap.input_level();
        if found >= LEVELS {
            return Ok(());
        }
        let found = format!("{found} levels below bootstraps");
        Err(PassError::Session { found, needed: format!("{LEVELS} for the check of a pass") })
    }

    /// Terms of the check for a block of heads: of the exponentials, and of the factors of each round.
    fn terms_of_heads(&self, score_vectors: usize) -> usize {
        score_vectors + usize::from(self.circuit.rounds())
    }
}

impl<M> Context<'_, M>
where
    M: PassEvaluator + Sync,
    M::Arithmetic: Sync,
{
    /// `T_2n` from the `T_n` that an evaluation made, one level below the entry of bootstraps.
    pub fn doubled(&self, power: &M::Vector) -> Result<M::Vector, CkksError> {
        let (a, entry) = (self.arithmetic(), self.program.bootstrap.input_level());
        let modulus = |level| a.parameters().level_modulus(level);
        // Each square takes the scale to the next one.
        let after = (SCALE_BITS.exp2() * modulus(entry - 1)).sqrt();
        let before = (after * modulus(entry)).sqrt();
        let power = a.lowered(power, entry + 1)?;
        let power = a.rescale(&a.mul_constant(&power, Complex64::from(1.0), before * modulus(entry + 1))?)?;
        let square = a.tensor(&power, &power)?;
        a.relinearise_rescale(&a.plus_constant(a.add(&square, &square)?, Complex64::from(-1.0))?)
    }

    /// The sums of squares of vectors, for each part of the chunk.
    fn check_sums(&self, doubled: &[M::Vector]) -> Result<Vec<M::Vector>, CkksError> {
        let (a, parts) = (self.arithmetic(), self.parts());
        let sum = |part: usize| {
            let pairs: Vec<_> = doubled.iter().skip(part).step_by(parts).map(|term| (term, term)).collect();
            a.relinearise_rescale(&a.sum_tensors(&pairs)?)
        };
        (0..parts).map(sum).collect()
    }

    /// Adds the arguments of a function to the check.
    pub fn check(&self, check: &mut Check<M::Vector>, doubled: &[M::Vector]) -> Result<(), CkksError> {
        check.terms += doubled.len() / self.parts();
        self.plus_into(&mut check.sums, self.check_sums(doubled)?)
    }

    /// Adds the checks of the heads of all blocks that others ran.
    pub fn check_of_heads(&self, check: &mut Check<M::Vector>, sums: Vec<Vec<M::Vector>>) -> Result<(), CkksError> {
        check.terms += sums.len() * self.program.terms_of_heads(self.columns.vectors);
        sums.into_iter().try_for_each(|sums| self.plus_into(&mut check.sums, sums))
    }

    /// The vectors of a result, the first one of each part with the check in its imaginary parts.
    pub fn checked(&self, result: Vec<M::Vector>, check: &Check<M::Vector>) -> Result<Vec<M::Vector>, CkksError> {
        let a = self.arithmetic();
        let factor = Complex64::new(0.0, RESULT_BOUND / check.limit());
        let with_check = |(index, vector): (usize, M::Vector)| {
            let Some(sum) = check.sums.get(index) else { return Ok(vector) };
            let scale = a.scale(&vector) * a.parameters().level_modulus(a.level(sum));
            a.add(&vector, &a.rescale(&a.mul_constant(sum, factor, scale)?)?)
        };
        result.into_iter().enumerate().map(with_check).collect()
    }
}
