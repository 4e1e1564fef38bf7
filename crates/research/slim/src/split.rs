//! One step of the decomposition: `P + m = U^2 + V^2`.

use fastrand::Rng;
use unspoken_ckks::Complex64;

use crate::choice::{Choice, choices, smoothest};
use crate::minimum::{Range, range};
use crate::number::{Complex, Real, chebyshev, monomial, real, to_f64};
use crate::roots::upper_roots;

/// What is added to the negative minimum, relative to the size of the polynomial. It keeps the roots away from the real
/// line, where they would be double.
const SLACK: f64 = 1e-3;

/// How often the slack is enlarged if the roots are not found, and the factor.
const ATTEMPTS: u32 = 4;
const SLACK_GROWTH: f64 = 8.0;

/// Largest shift relative to the size of the polynomial on the interval. A larger one means that the polynomial falls
/// far below zero outside the interval, and that the squares of the halves cancel inside.
const LARGEST_SHIFT: f64 = 8.0;

/// Local searches per polynomial, and choices whose halves are examined.
const STARTS: usize = 10;
const LOOK_AHEAD: usize = 4;

/// A polynomial in both bases, on `[-1, 1]`.
pub(crate) struct Poly {
    pub(crate) chebyshev: Vec<f64>,
    monomial: Vec<Real>,
}

impl Poly {
    /// The polynomial with these Chebyshev coefficients, for arithmetic with enough bits for its degree: monomial
    /// coefficients are up to `(1 + sqrt 2)^degree` times larger than the values on the interval.
    pub(crate) fn new(chebyshev: Vec<f64>) -> Self {
        let precision = 256 + 2 * chebyshev.len();
        Poly { monomial: monomial(&chebyshev, precision), chebyshev }
    }

    fn of(monomial: Vec<Real>, precision: usize) -> Self {
        Poly { chebyshev: chebyshev(&monomial, precision), monomial }
    }
}

/// A polynomial of degree 2 or more, shifted so that it has no real root, and its roots.
pub(crate) struct Positive {
    /// The shift `m`.
    pub(crate) shift: f64,
    /// The largest value of `P + m` on the interval.
    pub(crate) largest: f64,
    precision: usize,
    leading: Real,
    /// The roots in the upper half-plane, and their nearest `f64`.
    roots: Vec<Complex>,
    near: Vec<Complex64>,
}

impl Positive {
    /// Shifts a polynomial by a little more than its negative minimum. None if it is not bounded below, falls too far
    /// below zero outside the interval, or its roots are not found.
    pub(crate) fn new(polynomial: &Poly) -> Option<Self> {
        let Range { least, largest, size } = range(&polynomial.chebyshev)?;
        if -least > LARGEST_SHIFT * size {
            return None;
        }
        let precision = polynomial.monomial.first()?.precision();
        (0..ATTEMPTS).find_map(|attempt| {
            let slack = SLACK * SLACK_GROWTH.powi(attempt as i32) * size.max(least.abs());
            let shift = slack - least;
            let (mut chebyshev, mut monomial) = (polynomial.chebyshev.clone(), polynomial.monomial.clone());
            chebyshev[0] += shift;
            monomial[0] += real(shift, precision);
            let roots = upper_roots(&chebyshev, &monomial, precision)?;
            let near = roots.iter().map(Complex::nearest).collect();
            let leading = monomial.pop()?;
            Some(Positive { shift, largest: largest + shift, precision, leading, roots, near })
        })
    }

    /// `U` and `V` of a choice: real and imaginary part of `sqrt(p0) e^(i theta) prod (X - z)`.
    fn halves(&self, choice: &Choice) -> [Poly; 2] {
        let zero = || Complex { re: real(0.0, self.precision), im: real(0.0, self.precision) };
        let cosine = real(choice.angle.cos(), self.precision);
        let sine = (real(1.0, self.precision) - &cosine * &cosine).sqrt();
        let root = self.leading.sqrt();
        let mut product = vec![Complex { re: &root * cosine, im: root * sine }];
        for (z, &lower) in self.roots.iter().zip(&choice.lower) {
            let z = if lower { z.conjugate() } else { z.clone() };
            let mut next = vec![zero()];
            next.append(&mut product.clone());
            next.iter_mut().zip(&product).for_each(|(n, c)| *n = &*n - &(c * &z));
            product = next;
        }
        let (re, im) = product.into_iter().map(|c| (c.re, c.im)).unzip();
        [re, im].map(|part| Poly::of(part, self.precision))
    }

    /// The halves if both are leaves.
    pub(crate) fn leaves(&self, rng: &mut Rng) -> [Poly; 2] {
        self.halves(&smoothest(&self.near, to_f64(&self.leading), rng))
    }

    /// The halves if both are decomposed `levels >= 1` times, with their own roots. Several choices are examined, and
    /// the one is taken whose halves are expected to have the smallest values at the next level and the level after it.
    /// None if no choice has halves whose roots are found.
    pub(crate) fn split(&self, levels: usize, rng: &mut Rng) -> Option<[Positive; 2]> {
        let found = choices(&self.near, to_f64(&self.leading), STARTS, rng);
        let examined = found.iter().take(LOOK_AHEAD).filter_map(|choice| {
            let [u, v] = self.halves(choice);
            let halves = [Positive::new(&u)?, Positive::new(&v)?];
            let outlook = halves.iter().map(|half| half.outlook(levels, rng)).fold(0.0, f64::max);
            Some((outlook, halves))
        });
        examined.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, halves)| halves)
    }

    /// The bits that the next levels are expected to lose.
    fn outlook(&self, levels: usize, rng: &mut Rng) -> f64 {
        let next = if levels < 2 {
            1.0
        } else {
            choices(&self.near, to_f64(&self.leading), STARTS / 2, rng).first().map_or(f64::INFINITY, |c| c.score)
        };
        (self.largest.log2() + next.log2()) / 2.0
    }
}
