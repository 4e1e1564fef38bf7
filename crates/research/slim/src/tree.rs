//! Polynomials as trees of sums of squares.
//!
//! `P + m = U^2 + V^2` for a real polynomial of even degree whose leading coefficient is positive, with `m` slightly
//! more than the largest `-P` on the whole real line. `U` and `V` have half the degree and are decomposed in the same
//! way. After `depth` levels there are `2^depth` leaves.
//!
//! - The roots of `P + m` come in conjugate pairs. `U + iV` is a constant times `prod (X - z)` with one root of each
//!   pair, turned by an angle. All choices have the same `U^2 + V^2`. They are found by the method of Aberth and
//!   Ehrlich, in `f64` and then with `256 + 2 degree` bits (`dashu-float`).
//! - A local search takes one root of each pair and the angle such that `U` and `V` have small values on the interval
//!   and need small `m`, which the whole line decides. The four best results are examined one level further. The search
//!   is seeded: the same polynomial has the same tree in every run. Before leaves, it makes the derivatives small
//!   instead.
//! - A negative leading coefficient is no obstacle: `-P` is decomposed, and the result negated.
//! - A degree that is not a power of two is raised to the next one. `SquareTree::added` reports the leading coefficient
//!   that this takes. It is the smallest of a series with which the tree has usable values, and changes values on the
//!   interval by no more than its size: 2^-26 for the exponential on [-12, 0] at degree 15. Choose a power of two as
//!   the degree, and nothing is added, unless the coefficient is below the precision of `f64`.
//!
//! Leaves are stored as `f64` coefficients of Chebyshev polynomials on the interval. Their sum is close to the largest
//! value, so that rounding them costs no more than rounding values; monomial coefficients are far larger and cancel.

use std::f64::consts::PI;

use fastrand::Rng;
use unspoken_ckks::{Polynomial, PolynomialBasis};

use crate::dickson::Dickson;
use crate::error::{SlimError, shape};
use crate::number::{Real, clenshaw, real, to_f64};
use crate::split::{Poly, Positive};

const OPERATION: &str = "decompose a polynomial";

/// Seed of the searches, so that the same polynomial has the same tree in every run.
const SEED: u64 = 0x51_1b;

/// Largest degree: monomial coefficients and searches grow with it.
const MAX_DEGREE: usize = 256;

/// The smallest coefficient that is added to a leading coefficient, relative to the size of the polynomial, the number
/// of sizes that are tried, and the factor between them.
const MIN_ADDED: f64 = 1.0 / (1u64 << 48) as f64;
const ADDITIONS: i32 = 20;
const GROWTH: f64 = 4.0;

/// Largest sum of absolute coefficients of a leaf in its basis, in which the leading coefficient is 1. Errors are
/// multiplied by the coefficients.
const LARGEST_LEAF: f64 = 1024.0;

/// A real polynomial `P` of degree `2^k` as a binary tree of sums of squares (Lemma 4.3 and equation 5 of the paper).
///
/// `U_i^(l-1) = U_i^(l)^2 + U_(i + 2^(l-1))^(l)^2 - m_i^(l-1)` for levels `l = 1 .. depth`, where `U_0^(0)` is `P`, or
/// `-P` if its leading coefficient is negative. The polynomials of the last level, the leaves, have degree `2^(k -
/// depth)`. They are stored as `f64` coefficients of Chebyshev polynomials on the interval: there the sum of the
/// absolute coefficients is close to the largest value, so that rounding them changes values by no more than rounding
/// the values would. Monomial coefficients of the same leaf are larger and cancel.
#[derive(Clone, Debug, PartialEq)]
pub struct SquareTree {
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// Whether the root of the tree is `-P`.
    pub(crate) negative: bool,
    pub(crate) added: f64,
    /// The Chebyshev coefficients of `P`.
    pub(crate) coefficients: Vec<f64>,
    /// `shifts[l][i]` is `m_i^(l)`, for `l` below the depth.
    pub(crate) shifts: Vec<Vec<f64>>,
    /// The Chebyshev coefficients of the leaves.
    pub(crate) leaves: Vec<Vec<f64>>,
}

impl SquareTree {
    /// Decomposes a polynomial given by real Chebyshev coefficients `depth` times. The result is deterministic.
    ///
    /// Its degree becomes the next power of two: 128 stays 128, and 127 or 100 become 128. Where a leading coefficient
    /// is missing, or so small that the polynomial falls far below zero outside the interval, the smallest sufficient
    /// coefficient is added: see [`SquareTree::added`].
    ///
    /// # Errors
    /// [`SlimError::Shape`] if the basis is not Chebyshev's, a coefficient is not real, the degree is below 2 or above
    /// 256, or the depth is not between 1 and `log2` of the degree. [`SlimError::NoDecomposition`] if the roots of a
    /// polynomial of the tree are not found, or its values are too large, with every leading coefficient that is tried.
    pub fn new(polynomial: &Polynomial, depth: usize) -> Result<Self, SlimError> {
        let PolynomialBasis::Chebyshev { low, high } = polynomial.basis() else {
            return Err(shape(OPERATION, "monomial coefficients", "Chebyshev coefficients on an interval"));
        };
        if let Some(index) = polynomial.coefficients().iter().position(|c| c.im != 0.0) {
            return Err(shape(OPERATION, format!("a complex coefficient {index}"), "real coefficients"));
        }
        let degree = polynomial.degree().next_power_of_two();
        if !(2..=MAX_DEGREE).contains(&degree) {
            return Err(shape(OPERATION, format!("degree {degree}"), format!("a degree from 2 to {MAX_DEGREE}")));
        }
        let most = degree.trailing_zeros() as usize;
        if !(1..=most).contains(&depth) {
            return Err(shape(OPERATION, format!("depth {depth}"), format!("a depth from 1 to {most}")));
        }
        let mut coefficients: Vec<f64> = polynomial.coefficients().iter().map(|c| c.re).collect();
        coefficients.resize(degree + 1, 0.0);
        let (given, size) = (coefficients[degree], largest_value(&coefficients));
        let mut failure = None;
        for added in additions(size) {
            coefficients[degree] = given + added;
            let negative = coefficients[degree] < 0.0;
            let root = coefficients.iter().map(|c| if negative { -c } else { *c }).collect();
            match decompose(root, depth) {
                Ok((shifts, leaves)) => {
                    return Ok(SquareTree { low, high, negative, added, coefficients, shifts, leaves });
                }
                // Of several failures, the failure of the attempt that came farthest says most.
                Err(error) => failure = Some(failure.map_or(error, |before: Failure| before.max(error))),
            }
        }
        let Failure { depth, index } = failure.unwrap_or_default();
        Err(SlimError::NoDecomposition { depth, index, degree: degree >> depth })
    }

    /// Number of levels of squares.
    pub fn depth(&self) -> usize {
        self.shifts.len()
    }

    /// Degree of `P`, a power of two.
    pub fn degree(&self) -> usize {
        self.coefficients.len() - 1
    }

    /// Degree of the leaves.
    pub fn leaf_degree(&self) -> usize {
        self.degree() >> self.depth()
    }

    /// What was added to the coefficient of the highest Chebyshev polynomial: it changes values on the interval by at
    /// most its absolute value, so it is part of the approximation error. 0 if the polynomial was decomposed as it was.
    pub fn added(&self) -> f64 {
        self.added
    }

    /// The Chebyshev coefficients of `P`, with [`SquareTree::added`].
    pub fn coefficients(&self) -> &[f64] {
        &self.coefficients
    }

    /// The shifts `m_i^(level)` of the polynomials at a level below the depth, level 0 being that of `P`.
    pub fn shifts(&self, level: usize) -> &[f64] {
        self.shifts.get(level).map_or(&[], Vec::as_slice)
    }

    /// `P(x)`, evaluated by the tree.
    pub fn at(&self, x: f64) -> f64 {
        let u = (2.0 * x - self.low - self.high) / (self.high - self.low);
        let leaves = self.leaves.iter().map(|leaf| clenshaw(leaf, u)).collect();
        let value = squares(leaves, &self.shifts)[0];
        if self.negative { -value } else { value }
    }

    /// `log2` of the largest difference between the tree with its stored coefficients and `P` at `points` points of the
    /// interval, both ends included, relative to the largest `|P|` at these points. All values are computed exactly, as
    /// integers times powers of two. The points are the extremal points of a Chebyshev polynomial, rounded to `f64`.
    pub fn log2_exactness(&self, points: usize) -> f64 {
        let sign = real(if self.negative { -1.0 } else { 1.0 }, 0);
        let last = points.max(2) - 1;
        let (mut difference, mut size) = (0.0f64, 0.0f64);
        for i in 0..=last {
            let u = real((PI * i as f64 / last as f64).cos(), 0);
            let values: Vec<Real> = self.leaves.iter().map(|leaf| exact(leaf, &u)).collect();
            let value = self.shifts.iter().rev().fold(values, |values, shifts| {
                let (first, second) = values.split_at(shifts.len());
                let pairs = first.iter().zip(second).zip(shifts);
                pairs.map(|((u, v), &m)| u * u + v * v - real(m, 0)).collect()
            });
            let expected = exact(&self.coefficients, &u);
            difference = difference.max(to_f64(&(&value[0] * &sign - &expected)).abs());
            size = size.max(to_f64(&expected).abs());
        }
        (difference / size).log2()
    }
}

/// Squares, adds in pairs and shifts, from the last of these levels to the first.
pub(crate) fn squares(values: Vec<f64>, shifts: &[Vec<f64>]) -> Vec<f64> {
    shifts.iter().rev().fold(values, |values, shifts| {
        let (first, second) = values.split_at(shifts.len());
        first.iter().zip(second).zip(shifts).map(|((u, v), m)| u * u + v * v - m).collect()
    })
}

/// The exact value of a Chebyshev series.
fn exact(coefficients: &[f64], u: &Real) -> Real {
    let (mut b1, mut b2) = (real(0.0, 0), real(0.0, 0));
    for &c in coefficients[1..].iter().rev() {
        let next = (u * &b1) * real(2.0, 0) - &b2 + real(c, 0);
        b2 = std::mem::replace(&mut b1, next);
    }
    u * b1 - b2 + real(coefficients[0], 0)
}

/// What is added to the leading coefficient of a polynomial of this size, in the order of the attempts.
fn additions(size: f64) -> impl Iterator<Item = f64> {
    let sizes = (0..ADDITIONS).map(move |i| size * MIN_ADDED * GROWTH.powi(i));
    std::iter::once(0.0).chain(sizes.flat_map(|a| [a, -a]))
}

/// The largest absolute value on the interval.
fn largest_value(coefficients: &[f64]) -> f64 {
    let points = 8 * coefficients.len();
    let value = |i: usize| clenshaw(coefficients, (PI * i as f64 / points as f64).cos()).abs();
    (0..=points).map(value).fold(0.0, f64::max)
}

/// The polynomial of a tree that could not be decomposed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Failure {
    depth: usize,
    index: usize,
}

/// Shifts by level, and leaves.
type Levels = (Vec<Vec<f64>>, Vec<Vec<f64>>);

fn decompose(root: Vec<f64>, depth: usize) -> Result<Levels, Failure> {
    let mut rng = Rng::with_seed(SEED);
    let mut level = vec![Positive::new(&Poly::new(root)).ok_or_else(Failure::default)?];
    let mut shifts = Vec::with_capacity(depth);
    for above in 1..depth {
        shifts.push(level.iter().map(|positive| positive.shift).collect());
        let (mut first, mut second) = (Vec::new(), Vec::new());
        for (index, positive) in level.iter().enumerate() {
            let [u, v] = positive.split(depth - above, &mut rng).ok_or(Failure { depth: above, index })?;
            first.push(u);
            second.push(v);
        }
        first.append(&mut second);
        level = first;
    }
    shifts.push(level.iter().map(|positive| positive.shift).collect());
    let halves = level.iter().map(|positive| positive.leaves(&mut rng));
    let (mut leaves, mut second): (Vec<_>, Vec<_>) = halves.map(|[u, v]| (u.chebyshev, v.chebyshev)).unzip();
    leaves.append(&mut second);
    let usable = |leaf: &Vec<f64>| Dickson::new(leaf).is_some_and(|leaf| leaf.size() <= LARGEST_LEAF);
    match leaves.iter().position(|leaf| !usable(leaf)) {
        Some(index) => Err(Failure { depth, index }),
        None => Ok((shifts, leaves)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_leaves_and_shifts_are_not_exact() {
        let polynomial = Polynomial::chebyshev_approximation(f64::exp, -4.0, 0.0, 8).unwrap();
        let tree = SquareTree::new(&polynomial, 2).unwrap();
        assert!(tree.log2_exactness(33) < -48.0);
        let mut wrong = tree.clone();
        wrong.leaves[3][1] += 2f64.powi(-20);
        assert!((-24.0..-17.0).contains(&wrong.log2_exactness(33)));
        let mut wrong = tree.clone();
        wrong.shifts[0][0] += 2f64.powi(-20);
        // The shift of the root is a constant error, and the largest value is 1.
        assert!((wrong.log2_exactness(33) + 20.0).abs() < 0.01);
        let wrong = SquareTree { negative: true, ..tree };
        assert!((wrong.log2_exactness(33) - 1.0).abs() < 0.01);
    }
}
