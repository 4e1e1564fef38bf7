//! Powers and Chebyshev polynomials of an encrypted number by a product tree, and their levels and scales.

use unspoken_ckks::{Arithmetic, CkksError, CkksParameters, Complex64};

/// The level and scale of a vector, for planning. Comments call it the shape of the vector.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LevelScale {
    pub(crate) level: usize,
    pub(crate) scale: f64,
}

impl LevelScale {
    /// The shape of a relinearised and rescaled product, or `None` below level 1.
    pub(crate) fn times(self, other: LevelScale, parameters: &CkksParameters) -> Option<LevelScale> {
        let level = self.level.min(other.level);
        let scale = self.scale * other.scale / parameters.level_modulus(level);
        (level > 0).then(|| LevelScale { level: level - 1, scale })
    }
}

/// The scale of queries at level `level` for which repeated squaring keeps the scale near the default. It is the scale
/// that repeated squaring from the highest level of circuits has at `level`. With any other scale, the deviation
/// doubles with every squaring.
pub fn query_scale(parameters: &CkksParameters, level: usize) -> f64 {
    let levels = (level + 1..=parameters.circuit_level()).rev();
    levels.fold(parameters.scale(), |scale, level| scale * scale / parameters.level_modulus(level))
}

/// Splits `k = i + j`, where `i` is the largest power of two below `k`: the paper's tree (Algorithm 1), of depth
/// `ceil(log2 k)`.
fn split(k: usize) -> (usize, usize) {
    let half = k.next_power_of_two() / 2;
    (half, k - half)
}

/// The shapes of `a^1 .. a^count`; `None` if there are too few levels.
pub(crate) fn power_shapes(a: LevelScale, count: usize, parameters: &CkksParameters) -> Option<Vec<LevelScale>> {
    let mut shapes = vec![a];
    for k in 2..=count {
        let (i, j) = split(k);
        shapes.push(shapes[i - 1].times(shapes[j - 1], parameters)?);
    }
    Some(shapes)
}

/// `a^1 .. a^count`, each relinearised and rescaled: `count - 1` products.
///
/// # Errors
/// If levels or the relinearisation key are missing.
pub(crate) fn powers<A: Arithmetic>(arithmetic: &A, a: &A::Vector, count: usize) -> Result<Vec<A::Vector>, CkksError> {
    let mut powers = vec![a.clone()];
    for k in 2..=count {
        let (i, j) = split(k);
        powers.push(arithmetic.multiply(&powers[i - 1], &powers[j - 1])?);
    }
    Ok(powers)
}

/// `T_1(c) .. T_count(c)`, each relinearised and rescaled: the same number of products as [`powers`], by `T_(a+b) = 2
/// T_a T_b - T_(a-b)`, in the same levels and scales.
///
/// # Errors
/// If levels or the relinearisation key are missing.
pub(crate) fn chebyshev<A: Arithmetic>(
    arithmetic: &A,
    c: &A::Vector,
    count: usize,
) -> Result<Vec<A::Vector>, CkksError> {
    let mut values = vec![c.clone()];
    for k in 2..=count {
        let (i, j) = split(k);
        let product = arithmetic.tensor(&values[i - 1], &values[j - 1])?;
        let twice = arithmetic.add(&product, &product)?;
        let rest = if i == j {
            arithmetic.add_constant(&twice, Complex64::from(-1.0))?
        } else {
            // The third polynomial is subtracted before the rescale, where a product with a constant can match the
            // scale precisely.
            let third = arithmetic.lowered(&values[i - j - 1], arithmetic.level(&twice))?;
            let third = arithmetic.mul_constant(&third, Complex64::from(1.0), arithmetic.scale(&twice))?;
            arithmetic.sub(&twice, &third)?
        };
        values.push(arithmetic.relinearise_rescale(&rest)?);
    }
    Ok(values)
}

/// The last layer of the tree: the powers `a^(i + half)`, `i = 1 ..= half`, as products without relinearisation.
/// `powers` must be `a^1 .. a^half`.
///
/// # Errors
/// If a product fails.
pub(crate) fn last_layer<A: Arithmetic>(arithmetic: &A, powers: &[A::Vector]) -> Result<Vec<A::Vector>, CkksError> {
    let Some(top) = powers.last() else { return Ok(Vec::new()) };
    powers.iter().map(|power| arithmetic.tensor(top, power)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_as_shallow_as_can_be() {
        let mut depth = vec![0, 0];
        for k in 2..=512usize {
            let (i, j) = split(k);
            assert_eq!(i + j, k);
            depth.push(1 + depth[i].max(depth[j]));
            assert_eq!(depth[k], k.next_power_of_two().trailing_zeros());
        }
    }
}
