//! The search among decompositions into two squares.
//!
//! A polynomial that is positive on the real line is `|A|^2` with `A = sqrt(p0) e^(i theta) prod (X - z)`, where `z` is
//! one root of each conjugate pair. All choices of roots have the same `|A|` on the real line. They differ in the phase
//! of `A`, and so in the way in which `A = U + iV` divides it between `U` and `V`. The search works on a grid of
//! points.

use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, PI};

use fastrand::Rng;
use unspoken_ckks::Complex64;

/// One root of each conjugate pair, and the angle.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    /// For each root in the upper half-plane, whether its conjugate is taken instead.
    pub(crate) lower: Vec<bool>,
    /// The angle `theta`, strictly between 0 and a right angle, so that both leading coefficients are positive.
    pub(crate) angle: f64,
    /// The larger of the ranges of the halves: the largest value on the interval plus the shift that makes the half
    /// non-negative on the real line. Small is good, because the next level has the square root of it.
    pub(crate) score: f64,
}

/// Points of the grid per degree inside the interval, and points on each side outside.
const INSIDE: usize = 6;
const OUTSIDE: usize = 160;

/// The farthest point of the grid, relative to the farthest root.
const FARTHEST: f64 = 64.0;

/// Angles that are tried for a choice.
const ANGLES: usize = 31;

/// Relative gain below which a search ends.
const GAIN: f64 = 1e-3;

/// Good and different choices for a polynomial with these roots in the upper half-plane and this leading coefficient,
/// best first, for halves that are decomposed again. Each is the result of one of `starts` local searches.
pub(crate) fn choices(roots: &[Complex64], leading: f64, starts: usize, rng: &mut Rng) -> Vec<Choice> {
    let grid = Grid::new(roots, leading);
    let mut found: Vec<Choice> =
        (0..starts).map(|start| smallest_range(&grid, beginning(roots, start, rng), rng)).collect();
    found.sort_by(|a, b| a.score.total_cmp(&b.score));
    found.dedup_by(|a, b| a.lower == b.lower);
    found
}

/// A choice for halves that are leaves: their derivatives are small on the interval, because an error of the argument
/// is multiplied by them.
pub(crate) fn smoothest(roots: &[Complex64], leading: f64, rng: &mut Rng) -> Choice {
    let grid = Grid::new(roots, leading);
    let mut search = Slopes::new(&grid, roots, beginning(roots, 0, rng));
    let score = improve(&mut search, f64::INFINITY, rng);
    Choice { lower: search.lower, angle: FRAC_PI_4, score }
}

/// Where a local search begins: roots taken alternately above and below from left to right, other patterns with small
/// phases far from the roots, then random ones.
fn beginning(roots: &[Complex64], start: usize, rng: &mut Rng) -> Vec<bool> {
    let mut order: Vec<usize> = (0..roots.len()).collect();
    order.sort_by(|&a, &b| roots[a].re.total_cmp(&roots[b].re));
    let mut lower = vec![false; roots.len()];
    for (place, &root) in order.iter().enumerate() {
        lower[root] = match start {
            0 => place % 2 == 1,
            1 => place.count_ones() % 2 == 1,
            2 => place % 4 == 1 || place % 4 == 2,
            _ => rng.bool(),
        };
    }
    lower
}

/// Changes choices and angle in turn.
fn smallest_range(grid: &Grid, lower: Vec<bool>, rng: &mut Rng) -> Choice {
    let mut search = Phases::new(grid, lower, FRAC_PI_4);
    let mut score = f64::INFINITY;
    loop {
        let before = score;
        let improved = improve(&mut search, score, rng);
        score = search.best_angle(improved);
        if score >= before * (1.0 - GAIN) {
            return Choice { lower: search.lower, angle: search.angle, score };
        }
    }
}

/// A state of a local search.
trait Search {
    /// Number of roots.
    fn roots(&self) -> usize;

    /// The score if the choice for roots `i` and `j` is changed, or that for `i` alone if they are equal. Any number of
    /// at least `limit` may be returned instead of one that is larger.
    fn score(&self, change: Option<(usize, usize)>, limit: f64) -> f64;

    /// Changes the choice for a root.
    fn change(&mut self, root: usize);
}

/// Changes one or two choices as long as the score falls. Returns the score.
fn improve(search: &mut impl Search, score: f64, rng: &mut Rng) -> f64 {
    let count = search.roots();
    let mut moves: Vec<(usize, usize)> = (0..count).flat_map(|i| (i..count).map(move |j| (i, j))).collect();
    rng.shuffle(&mut moves);
    let mut score = search.score(None, f64::INFINITY).min(score);
    let mut unchanged = 0;
    for &(i, j) in moves.iter().cycle() {
        let found = search.score(Some((i, j)), score);
        if found < score * (1.0 - GAIN) {
            search.change(i);
            if i != j {
                search.change(j);
            }
            (score, unchanged) = (found, 0);
        } else {
            unchanged += 1;
        }
        if unchanged >= moves.len() {
            break;
        }
    }
    score
}

/// The grid and `|A|` on it.
struct Grid {
    /// Those inside the interval come first.
    points: Vec<f64>,
    inside: usize,
    size: Vec<f64>,
    /// For each root in the upper half-plane, `(x - z) / |x - z|` at the points.
    directions: Vec<Vec<Complex64>>,
}

impl Grid {
    fn new(roots: &[Complex64], leading: f64) -> Self {
        let degree = 2 * roots.len();
        let count = (INSIDE * degree).max(64);
        let mut points: Vec<f64> = (0..=count).map(|i| (PI * i as f64 / count as f64).cos()).collect();
        let inside = points.len();
        let farthest = roots.iter().map(|z| z.norm()).fold(1.0, f64::max) * FARTHEST;
        // x = cosh t; the first t is a fraction of the distance of the points inside.
        let (first, last) = (0.1 / degree as f64, farthest.acosh());
        for i in 0..OUTSIDE {
            let x = (first * (last / first).powf(i as f64 / (OUTSIDE - 1) as f64)).cosh();
            points.extend([x, -x]);
        }
        let log_size = |x: f64| roots.iter().map(|z| (x - z).norm().ln()).sum::<f64>() + leading.ln() / 2.0;
        let size = points.iter().map(|&x| log_size(x).exp().min(f64::MAX.sqrt())).collect();
        let direction = |difference: Complex64| difference / difference.norm();
        let directions = roots.iter().map(|z| points.iter().map(|x| direction(x - z)).collect()).collect();
        Grid { points, inside, size, directions }
    }
}

/// The search for halves with small ranges.
struct Phases<'a> {
    grid: &'a Grid,
    lower: Vec<bool>,
    angle: f64,
    /// `A / |A|` at the points.
    phases: Vec<Complex64>,
}

impl<'a> Phases<'a> {
    fn new(grid: &'a Grid, lower: Vec<bool>, angle: f64) -> Self {
        let mut phases = vec![Complex64::from_polar(1.0, angle); grid.points.len()];
        for (directions, &lower) in grid.directions.iter().zip(&lower) {
            phases.iter_mut().zip(directions).for_each(|(p, z)| *p *= if lower { z.conj() } else { *z });
        }
        Phases { grid, lower, angle, phases }
    }

    /// The factor of the phase at a point if the choice for a root is changed.
    fn turn(&self, root: usize, point: usize) -> Complex64 {
        let z = self.grid.directions[root][point];
        let back = if self.lower[root] { z } else { z.conj() };
        back * back
    }

    /// The score with phases multiplied by `turn`. Stops beyond `limit`.
    fn range(&self, turn: impl Fn(usize) -> Complex64, limit: f64) -> f64 {
        let (mut low, mut high) = ([0.0f64; 2], [0.0f64; 2]);
        for (point, (size, phase)) in self.grid.size.iter().zip(&self.phases).enumerate() {
            let value = phase * turn(point) * size;
            for (side, part) in [value.re, value.im].into_iter().enumerate() {
                low[side] = low[side].max(-part);
                if point < self.grid.inside {
                    high[side] = high[side].max(part);
                }
            }
            if low[0] + high[0] >= limit || low[1] + high[1] >= limit {
                return limit;
            }
        }
        (low[0] + high[0]).max(low[1] + high[1])
    }

    /// Takes the best of several angles if it is better than `score`. Returns the new score.
    fn best_angle(&mut self, mut score: f64) -> f64 {
        let mut best = self.angle;
        for i in 1..=ANGLES {
            let angle = FRAC_PI_2 * i as f64 / (ANGLES + 1) as f64;
            let turn = Complex64::from_polar(1.0, angle - self.angle);
            let found = self.range(|_| turn, score);
            if found < score {
                (score, best) = (found, angle);
            }
        }
        let turn = Complex64::from_polar(1.0, best - self.angle);
        self.phases.iter_mut().for_each(|p| *p *= turn);
        self.angle = best;
        score
    }
}

impl Search for Phases<'_> {
    fn roots(&self) -> usize {
        self.lower.len()
    }

    fn score(&self, change: Option<(usize, usize)>, limit: f64) -> f64 {
        match change {
            None => self.range(|_| Complex64::from(1.0), limit),
            Some((i, j)) if i == j => self.range(|point| self.turn(i, point), limit),
            Some((i, j)) => self.range(|point| self.turn(i, point) * self.turn(j, point), limit),
        }
    }

    fn change(&mut self, root: usize) {
        for point in 0..self.phases.len() {
            let turn = self.turn(root, point);
            self.phases[point] *= turn;
        }
        self.lower[root] = !self.lower[root];
    }
}

/// The search for halves with small derivatives on the interval. All angles have the same `|A'|`.
struct Slopes<'a> {
    grid: &'a Grid,
    lower: Vec<bool>,
    /// For each root in the upper half-plane, `1 / (x - z)` at the points inside.
    inverses: Vec<Vec<Complex64>>,
    /// `A' / A` at these points.
    sums: Vec<Complex64>,
}

impl<'a> Slopes<'a> {
    fn new(grid: &'a Grid, roots: &[Complex64], lower: Vec<bool>) -> Self {
        let points = &grid.points[..grid.inside];
        let inverses: Vec<Vec<Complex64>> =
            roots.iter().map(|z| points.iter().map(|x| (x - z).inv()).collect()).collect();
        let mut sums = vec![Complex64::default(); points.len()];
        for (inverses, &lower) in inverses.iter().zip(&lower) {
            sums.iter_mut().zip(inverses).for_each(|(s, z)| *s += if lower { z.conj() } else { *z });
        }
        Slopes { grid, lower, inverses, sums }
    }

    /// What is added to the sum at a point if the choice for a root is changed.
    fn shift(&self, root: usize, point: usize) -> Complex64 {
        let z = self.inverses[root][point];
        let z = if self.lower[root] { z.conj() } else { z };
        z.conj() - z
    }

    fn slope(&self, shift: impl Fn(usize) -> Complex64) -> f64 {
        let sums = self.sums.iter().zip(&self.grid.size).enumerate();
        sums.map(|(point, (sum, size))| (sum + shift(point)).norm() * size).fold(0.0, f64::max)
    }
}

impl Search for Slopes<'_> {
    fn roots(&self) -> usize {
        self.lower.len()
    }

    fn score(&self, change: Option<(usize, usize)>, _limit: f64) -> f64 {
        match change {
            None => self.slope(|_| Complex64::default()),
            Some((i, j)) if i == j => self.slope(|point| self.shift(i, point)),
            Some((i, j)) => self.slope(|point| self.shift(i, point) + self.shift(j, point)),
        }
    }

    fn change(&mut self, root: usize) {
        for point in 0..self.sums.len() {
            let shift = self.shift(root, point);
            self.sums[point] += shift;
        }
        self.lower[root] = !self.lower[root];
    }
}
