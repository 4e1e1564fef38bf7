//! The maps between coefficients and slots, as products of a few sparse matrices.
//!
//! The slots `z` of a polynomial with `n` complex coefficients `w` are `z = F P w`, with `P` the bit reversal of
//! indices and `F` a product of `log2 n` butterfly stages, each with three diagonals (Cheon, Han, Kim, Kim and Song,
//! "Bootstrapping for approximate homomorphic encryption", EUROCRYPT 2018; the stages are grouped as in Chen, Chillotti
//! and Song, "Improved bootstrapping for approximate homomorphic encryption", EUROCRYPT 2019). `P` is omitted, so the
//! first map leaves the coefficients in bit-reversed order; the inverse map restores the order.

use std::collections::BTreeMap;
use std::f64::consts::PI;

use num_complex::Complex64;

/// A matrix given by its diagonals: `out[j] = sum_k diagonals[k][j] in[j + k]`, indices modulo the length.
pub(super) type Diagonals = BTreeMap<usize, Vec<Complex64>>;

/// Factors of `F` for `slots` slots, in the order of application.
pub(super) fn slots_to_coeffs(slots: usize, factors: usize) -> Vec<Diagonals> {
    let groups = groups(stages(slots.trailing_zeros() as usize, factors).into_iter());
    let mut result: Vec<Diagonals> = Vec::new();
    // The rotation of the output of the previous factor.
    let mut pending = 0;
    for (index, halves) in groups.iter().enumerate() {
        let mut factor = product(halves.iter().map(|&half| butterflies(slots, half)));
        factor = with_input_rotated_right(factor, pending, slots);
        pending = groups.get(index + 1).map_or(0, |next| next[0]);
        result.push(with_output_rotated_left(factor, pending, slots));
    }
    result
}

/// Factors of a multiple of the inverse of `F` for `slots` slots, in the order of application: for each factor its
/// number of stages, which may be 0, and a constant by which it is multiplied.
pub(super) fn coeffs_to_slots(slots: usize, factors: &[(usize, f64)]) -> Vec<Diagonals> {
    let groups = groups(factors.iter().rev().map(|(stages, _)| *stages));
    let mut result: Vec<Diagonals> = Vec::new();
    let mut pending = 0;
    for ((index, halves), &(_, constant)) in groups.iter().enumerate().zip(factors.iter().rev()) {
        let mut factor = product(halves.iter().rev().map(|&half| inverse_butterflies(slots, half)));
        if halves.is_empty() {
            factor = Diagonals::from([(0, vec![Complex64::from(1.0)])]);
        }
        factor.values_mut().flatten().for_each(|z| *z *= constant);
        factor = with_output_rotated_left(factor, slots - pending, slots);
        pending = groups.get(index + 1).and_then(|next| next.first().copied()).unwrap_or(0);
        result.push(with_input_rotated_right(factor, slots - pending, slots));
    }
    result.reverse();
    result
}

/// The matrix, for inputs whose slots repeat, with twice the slots in its output: after the outputs come the same times
/// `-i`. So the sum of an output and its conjugate has the real parts and then the imaginary parts.
pub(super) fn with_parts(matrix: Diagonals) -> Diagonals {
    let double = |(k, diagonal): (usize, Vec<Complex64>)| {
        let turned: Vec<Complex64> = diagonal.iter().map(|z| Complex64::new(z.im, -z.re)).collect();
        (k, [diagonal, turned].concat())
    };
    matrix.into_iter().map(double).collect()
}

/// Number of stages of each factor, that of the smallest strides first. If the stages do not divide evenly, the factors
/// with larger strides get one stage more, because the factor of the largest strides wraps around and so has half the
/// diagonals.
pub(super) fn stages(stages: usize, factors: usize) -> Vec<usize> {
    let factors = factors.clamp(1, stages.max(1));
    let (size, more) = (stages / factors, stages % factors);
    (0..factors).map(|index| size + usize::from(index >= factors - more)).collect()
}

/// Half lengths of the butterflies of each factor, smallest first.
fn groups(stages: impl Iterator<Item = usize>) -> Vec<Vec<usize>> {
    let mut first = 0;
    let group = |count: usize| {
        first += count;
        (first - count..first).map(|stage| 1 << stage).collect()
    };
    stages.map(group).collect()
}

/// The stage of butterflies between positions that are `half` apart: `(u, v) -> (u + w v, u - w v)`.
fn butterflies(slots: usize, half: usize) -> Diagonals {
    stage(slots, half, |w| [[1.0.into(), w], [1.0.into(), -w]])
}

/// The inverse of [`butterflies`]: `(a, b) -> ((a + b) / 2, (a - b) / (2 w))`.
fn inverse_butterflies(slots: usize, half: usize) -> Diagonals {
    let w_half = |w: Complex64| w.conj() / 2.0;
    stage(slots, half, |w| [[0.5.into(), 0.5.into()], [w_half(w), -w_half(w)]])
}

/// The stage that applies a two by two matrix, a function of the twiddle factor, to every pair.
fn stage(slots: usize, half: usize, matrix: impl Fn(Complex64) -> [[Complex64; 2]; 2]) -> Diagonals {
    let order = 8 * half;
    let twiddles: Vec<Complex64> = std::iter::successors(Some(1), |&g| Some(g * 5 % order))
        .take(half)
        .map(|g| Complex64::cis(2.0 * PI * g as f64 / order as f64))
        .collect();
    let mut diagonals = Diagonals::new();
    let mut add = |k: usize, j: usize, value: Complex64| {
        diagonals.entry(k % slots).or_insert_with(|| vec![Complex64::default(); slots])[j] += value;
    };
    for j in 0..slots {
        let [upper, lower] = matrix(twiddles[j % half]);
        if j % (2 * half) < half {
            add(0, j, upper[0]);
            add(half, j, upper[1]);
        } else {
            add(slots - half, j, lower[0]);
            add(0, j, lower[1]);
        }
    }
    diagonals
}

/// The product of matrices, in the order of application.
fn product(matrices: impl Iterator<Item = Diagonals>) -> Diagonals {
    matrices.reduce(|inner, outer| compose(&outer, &inner)).unwrap_or_default()
}

/// The product of two matrices: `inner` is applied first, then `outer`.
fn compose(outer: &Diagonals, inner: &Diagonals) -> Diagonals {
    let mut result = Diagonals::new();
    for (&a, x) in outer {
        for (&b, y) in inner {
            let slots = x.len();
            let sum = result.entry((a + b) % slots).or_insert_with(|| vec![Complex64::default(); slots]);
            for (j, sum) in sum.iter_mut().enumerate() {
                *sum += x[j] * y[(j + a) % slots];
            }
        }
    }
    result
}

/// The matrix followed by a rotation of its output to the left: diagonal `k` becomes `k + steps`.
fn with_output_rotated_left(matrix: Diagonals, steps: usize, slots: usize) -> Diagonals {
    let turn = |(k, mut diagonal): (usize, Vec<Complex64>)| {
        diagonal.rotate_left(steps % slots);
        ((k + steps) % slots, diagonal)
    };
    matrix.into_iter().map(turn).collect()
}

/// The matrix applied to an input that is rotated to the right: diagonal `k` becomes `k - steps`.
fn with_input_rotated_right(matrix: Diagonals, steps: usize, slots: usize) -> Diagonals {
    matrix.into_iter().map(|(k, diagonal)| ((k + slots - steps % slots) % slots, diagonal)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(matrix: &Diagonals, input: &[Complex64]) -> Vec<Complex64> {
        let at = |j: usize| matrix.iter().map(|(k, d)| d[j % d.len()] * input[(j + k) % input.len()]).sum();
        (0..input.len()).map(at).collect()
    }

    fn bit_reversed(values: &[Complex64]) -> Vec<Complex64> {
        let bits = values.len().trailing_zeros();
        (0..values.len()).map(|j| values[j.reverse_bits() >> (usize::BITS - bits)]).collect()
    }

    #[test]
    fn the_maps_are_the_canonical_embedding_and_its_inverse() {
        for (slots, factors) in [(64usize, 3), (128, 4), (64, 1), (16, 2), (256, 3)] {
            let w: Vec<Complex64> =
                (0..slots).map(|k| Complex64::new((k as f64).sin(), (2.0 * k as f64).cos())).collect();
            // z_j = sum_k w_k zeta^(5^j k), zeta of order 4 slots.
            let z: Vec<Complex64> = (0..slots as u32)
                .map(|j| {
                    let g = (0..j).fold(1, |g, _| g * 5 % (4 * slots));
                    let root = |k: usize| Complex64::cis(2.0 * PI * (g * k % (4 * slots)) as f64 / (4 * slots) as f64);
                    w.iter().enumerate().map(|(k, w)| w * root(k)).sum()
                })
                .collect();
            let forward = slots_to_coeffs(slots, factors);
            let found = forward.iter().fold(bit_reversed(&w), |v, factor| apply(factor, &v));
            let constant = 0.25f64.powf(1.0 / (factors + 1) as f64);
            let mut parts: Vec<(usize, f64)> =
                stages(slots.trailing_zeros() as usize, factors).into_iter().rev().map(|n| (n, constant)).collect();
            parts.insert(0, (0, constant));
            let backward = coeffs_to_slots(slots, &parts);
            let again = backward.iter().fold(z.clone(), |v, factor| apply(factor, &v));
            for j in 0..slots {
                assert!((found[j] - z[j]).norm() < 1e-9, "{slots} {factors}");
                assert!((again[j] - bit_reversed(&w)[j] * 0.25).norm() < 1e-10, "{slots} {factors}");
            }
        }
    }

    #[test]
    fn diagonals_are_few_and_evenly_spaced_from_zero() {
        for (maps, counts) in [
            (slots_to_coeffs(1 << 15, 3), [63, 63, 32].as_slice()),
            (coeffs_to_slots(1 << 15, &[4, 4, 4, 3].map(|stages| (stages, 1.0))), &[16, 31, 31, 15]),
        ] {
            let found: Vec<usize> = maps.iter().map(BTreeMap::len).collect();
            assert_eq!(found, counts);
            for map in maps {
                let indices: Vec<usize> = map.keys().copied().collect();
                let stride = indices[1] - indices[0];
                assert!(indices.windows(2).all(|pair| pair[1] - pair[0] == stride) && indices[0] <= stride);
            }
        }
    }
}
