//! How many bits an evaluation loses at each level.
//!
//! # Exactness and stability
//!
//! `exact` is the largest difference between the tree with its stored coefficients and `P`, relative to the largest
//! `|P|`, in exact arithmetic at 129 points. It is 2^-49 or less in every case below, at depths 1 to 5, and for degree
//! 128 at depth 7. The table has the loss: by how many bits random errors of the leaves grow on their way to `P`,
//! relative to the largest `|P|`. A negative number means that they shrink. The paper expects about one bit for each
//! level. Both are printed by `cargo test --release -p unspoken-slim --test integration tree -- --nocapture`.
//!
//! | function, interval, degree | depth 1 | 2 | 3 | 4 | 5 | 7 |
//! | --- | --- | --- | --- | --- | --- | --- |
//! | 1/sqrt, [1/30, 1], 32 | -0.3 | 0.4 | 1.6 | 1.7 | 2.9 | |
//! | 1/sqrt, [1/30, 1], 64 | -0.3 | 1.0 | 1.5 | 1.8 | 2.7 | |
//! | 1/sqrt, [1/100, 1], 32 | -0.6 | 0.3 | 1.4 | 2.9 | 4.3 | |
//! | 1/sqrt, [1/100, 1], 64 | -0.6 | 0.4 | 1.4 | 2.5 | 2.5 | |
//! | 1/sqrt, [1/900, 1], 128 | -1.4 | 0.1 | 1.2 | 2.4 | 3.4 | 6.0 |
//! | exp, [-12, 0], 16 | 1.0 | 2.1 | 2.5 | 2.8 | | |
//! | SiLU, [-16, 16], 64 | -0.6 | | 2.0 | | 2.9 | |

use std::f64::consts::PI;

use fastrand::Rng;

use crate::number::clenshaw;
use crate::tree::{SquareTree, squares};

/// Size of the injected errors. Squares of it are below the precision of `f64` at the values of a tree.
const INJECTED: f64 = 1.0 / (1u64 << 28) as f64;

/// Points of the interval, and draws at each.
const POINTS: usize = 257;
const DRAWS: usize = 16;

/// Seed of the injected errors.
const SEED: u64 = 0x57ab;

/// What the squares of one level of a [`SquareTree`] do to errors.
#[derive(Clone, Debug, PartialEq)]
pub struct LevelStability {
    /// The level `l`, from 1 to the depth: the values of the `2^l` polynomials `U_i^(l)` are squared.
    pub level: usize,
    /// The largest `m_i^(l-1)`.
    pub largest_shift: f64,
    /// The largest `|U_i| + |U_(i + 2^(l-1))|` over the interval and all pairs.
    pub largest_sum: f64,
    /// The paper's estimate of the bits that the squares of this level lose: `1 + log2(largest_sum)`.
    pub bits_lost: f64,
    /// Measured: `log2` of the ratio of the error of `P` to random errors that are added to all polynomials of this
    /// level, in the root mean square over draws, at the worst point of the interval. It contains the losses of this
    /// level and of all levels after it. The error is absolute: subtract `log2` of the largest `|P|` for the relative
    /// loss.
    pub measured: f64,
}

impl SquareTree {
    /// The stability of each level, in the order of the evaluation: first the last level, of the leaves.
    pub fn stability(&self) -> Vec<LevelStability> {
        let mut rng = Rng::with_seed(SEED);
        (1..=self.depth()).rev().map(|level| self.level_stability(level, &mut rng)).collect()
    }

    fn level_stability(&self, level: usize, rng: &mut Rng) -> LevelStability {
        let (mut largest_sum, mut worst) = (0.0f64, 0.0f64);
        for i in 0..POINTS {
            let u = (PI * i as f64 / (POINTS - 1) as f64).cos();
            let leaves = self.leaves.iter().map(|leaf| clenshaw(leaf, u)).collect();
            let values = squares(leaves, &self.shifts[level..]);
            let (first, second) = values.split_at(values.len() / 2);
            largest_sum = first.iter().zip(second).map(|(u, v)| u.abs() + v.abs()).fold(largest_sum, f64::max);
            let exact = squares(values.clone(), &self.shifts[..level])[0];
            let errors = (0..DRAWS).map(|_| {
                let wrong = values.iter().map(|v| v + if rng.bool() { INJECTED } else { -INJECTED }).collect();
                (squares(wrong, &self.shifts[..level])[0] - exact).powi(2)
            });
            worst = worst.max((errors.sum::<f64>() / DRAWS as f64).sqrt());
        }
        LevelStability {
            level,
            largest_shift: self.shifts[level - 1].iter().copied().fold(f64::NEG_INFINITY, f64::max),
            largest_sum,
            bits_lost: 1.0 + largest_sum.log2(),
            measured: (worst / INJECTED).log2(),
        }
    }
}
