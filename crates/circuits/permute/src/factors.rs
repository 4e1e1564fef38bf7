//! Structured permutations of matrices as products of sparse factors.
//!
//! Source: "New Permutation Decomposition Techniques For Efficient Homomorphic Permutation", section 4 and appendices
//! B.1 and C. Factors are listed in the order they are applied; [`to_depth`] merges the last ones.

use crate::error::{PermuteError, shape};
use crate::permutation::{MAX_LENGTH, Permutation};

/// Maximum dimension of a square matrix.
const MAX_DIMENSION: usize = 1 << 12;

/// Merges factors to at most `depth`: the first `depth - 1` stay as they are, the others are replaced by their product.
/// For the factors of a transpose, the merged factor transposes blocks, and its diagonals are an arithmetic
/// progression.
///
/// # Errors
/// If the depth is zero, or the factors differ in length.
pub fn to_depth(factors: &[Permutation], depth: usize) -> Result<Vec<Permutation>, PermuteError> {
    if depth == 0 {
        return Err(shape("merge factors", "depth 0", "at least 1"));
    }
    let (first, rest) = factors.split_at(factors.len().min(depth - 1));
    let mut merged = first.to_vec();
    if let Some((start, rest)) = rest.split_first() {
        merged.push(rest.iter().try_fold(start.clone(), |product, factor| product.then(factor))?);
    }
    Ok(merged)
}

/// The factors of the transpose of a `dimension` by `dimension` matrix in row-major order (section 4.1). Each has three
/// diagonals if the dimension is a power of two, and at most five otherwise.
///
/// # Errors
/// If the dimension is zero or above 4096.
pub fn transpose(dimension: usize) -> Result<Vec<Permutation>, PermuteError> {
    check_dimension("transpose", dimension)?;
    swap_axes(dimension * dimension, dimension, dimension, 1)
}

/// The factors that move column `k` of a matrix, stored at the front of `dimension^3` slots, to the front of block `k`:
/// entry `(i, k)` moves to slot `k d^2 + i d` (section 4.2, the left operand of a product). The other slots are
/// permuted as well; they are zero, or masked out afterwards.
///
/// # Errors
/// If the dimension is zero or the cube is above [`MAX_LENGTH`].
pub fn expand_columns(dimension: usize) -> Result<Vec<Permutation>, PermuteError> {
    let length = cube("expand columns", dimension)?;
    swap_axes(length, dimension, dimension * dimension, 1)
}

/// The factors that move row `k` of such a matrix to the front of block `k`: entry `(k, j)` moves to slot `k d^2 + j`
/// (the right operand).
///
/// # Errors
/// Same as [`expand_columns`].
pub fn expand_rows(dimension: usize) -> Result<Vec<Permutation>, PermuteError> {
    let length = cube("expand rows", dimension)?;
    swap_axes(length, dimension, dimension * dimension, dimension)
}

/// The factors that exchange two coordinates of every position `p`: `(p / first) mod dimension` and `(p / second) mod
/// dimension`. Each factor exchanges the two off-diagonal quarters of every block. A block of odd size is split into
/// two diagonal blocks of half its size, rounded up, that overlap in one entry, and two off-diagonal blocks smaller by
/// one (equation 11).
///
/// # Errors
/// If the dimension is zero or above 4096, the strides are equal, or the coordinates overlap or do not divide the
/// length.
pub fn swap_axes(
    length: usize,
    dimension: usize,
    first: usize,
    second: usize,
) -> Result<Vec<Permutation>, PermuteError> {
    const OPERATION: &str = "exchange two coordinates";
    let (outer, inner) = (first.max(second), first.min(second));
    let fits = (1..=MAX_DIMENSION).contains(&dimension) && inner > 0;
    if !fits || outer < inner * dimension || !outer.is_multiple_of(inner) || !length.is_multiple_of(outer * dimension) {
        let found = format!("dimension {dimension}, strides {first} and {second} in {length} slots");
        return Err(shape(OPERATION, found, "coordinates that do not overlap and divide the slots"));
    }
    let coordinates = |p: usize| ((p / outer) % dimension, (p / inner) % dimension);
    // For the entry at each position: the first coordinates of its block, and the size of that block.
    let mut blocks = vec![(0, 0, dimension); length];
    let mut factors = Vec::new();
    while blocks.iter().any(|&(_, _, size)| size > 1) {
        let mut source: Vec<u32> = vec![0; length];
        let mut next = vec![(0, 0, 0); length];
        for (p, &(row, column, size)) in blocks.iter().enumerate() {
            let (a, b) = coordinates(p);
            let (a, b) = (a - row, b - column);
            let (half, small) = (size.div_ceil(2), size / 2);
            let (to, block) = if a < small && b >= half {
                (p + half * outer - half * inner, (row + half, column, small))
            } else if a >= half && b < small {
                (p + half * inner - half * outer, (row, column + half, small))
            } else if a < half && b < half {
                (p, (row, column, half))
            } else {
                (p, (row + small, column + small, half))
            };
            source[to] = p as u32;
            next[to] = if size == 1 { (row, column, 1) } else { block };
        }
        factors.push(Permutation::trusted(source));
        blocks = next;
    }
    Ok(factors)
}

/// The factors of the diagonal-to-column permutation of Jiang et al.: entry `(i, j)` of the result is entry `(i, i + j
/// mod d)` (appendix C.1). While the dimension of a block is even, halves of rows are exchanged. In an odd block, row
/// `i` is rotated by `2^k` for each set bit `k` of `i`. Each factor has three diagonals, also if the dimension is not a
/// power of two, where the paper has five.
///
/// # Errors
/// If the dimension is zero or above 4096.
pub fn diagonals_to_columns(dimension: usize) -> Result<Vec<Permutation>, PermuteError> {
    check_dimension("diagonals to columns", dimension)?;
    let mut factors = Vec::new();
    let mut size = dimension;
    while size > 1 && size.is_multiple_of(2) {
        let half = size / 2;
        factors.push(rows_permuted(dimension, |i, j| {
            let (i, part) = (i % size, j % size);
            let exchanged = (i >= half) != (part % half < i % half);
            if exchanged { j - part + (part + half) % size } else { j }
        }));
        size = half;
    }
    for step in powers_below(size) {
        factors.push(rows_permuted(dimension, |i, j| {
            let (i, part) = (i % size, j % size);
            if i & step != 0 { j - part + (part + step) % size } else { j }
        }));
    }
    Ok(factors)
}

/// The factors of the diagonal-to-row permutation: entry `(i, j)` of the result is entry `(i + j mod d, j)` (appendix
/// C.2). Column `j` is rotated by `2^k` for each set bit `k` of `j`. Each factor has two diagonals if shifts count
/// modulo `dimension^2`, and three otherwise.
///
/// # Errors
/// If the dimension is zero or above 4096.
pub fn diagonals_to_rows(dimension: usize) -> Result<Vec<Permutation>, PermuteError> {
    check_dimension("diagonals to rows", dimension)?;
    let factor = |step: usize| {
        let source = |p: usize| {
            let (i, j) = (p / dimension, p % dimension);
            let from = if j & step != 0 { (i + step) % dimension } else { i };
            (from * dimension + j) as u32
        };
        Permutation::trusted((0..dimension * dimension).map(source).collect())
    };
    Ok(powers_below(dimension).map(factor).collect())
}

/// The permutation of a square matrix where entry `(i, j)` of the result is entry `(i, from(i, j))` of the input.
fn rows_permuted(dimension: usize, from: impl Fn(usize, usize) -> usize) -> Permutation {
    let source = |p: usize| (p - p % dimension + from(p / dimension, p % dimension)) as u32;
    Permutation::trusted((0..dimension * dimension).map(source).collect())
}

/// The powers of two below `limit`, the largest first.
fn powers_below(limit: usize) -> impl Iterator<Item = usize> {
    let bits = limit.saturating_sub(1).checked_ilog2().map_or(0, |log2| log2 + 1);
    (0..bits).rev().map(|bit| 1 << bit)
}

fn check_dimension(operation: &'static str, dimension: usize) -> Result<(), PermuteError> {
    if (1..=MAX_DIMENSION).contains(&dimension) {
        return Ok(());
    }
    Err(shape(operation, format!("dimension {dimension}"), format!("from 1 to {MAX_DIMENSION}")))
}

fn cube(operation: &'static str, dimension: usize) -> Result<usize, PermuteError> {
    let length = dimension.checked_pow(3).filter(|length| (1..=MAX_LENGTH).contains(length));
    length.ok_or_else(|| {
        shape(operation, format!("dimension {dimension}"), format!("a cube from 1 to {MAX_LENGTH} slots"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagonals::{Diagonals, Shifts};

    fn product(factors: &[Permutation]) -> Permutation {
        to_depth(factors, 1).unwrap().remove(0)
    }

    fn widest(factors: &[Permutation], shifts: Shifts) -> usize {
        factors.iter().map(|factor| Diagonals::new(factor, shifts).len()).max().unwrap()
    }

    #[test]
    fn transposes_of_any_dimension() {
        for d in 2..=40usize {
            let factors = transpose(d).unwrap();
            assert_eq!(factors.len(), d.next_power_of_two().ilog2() as usize, "d = {d}");
            assert_eq!(product(&factors), Permutation::transpose(d, d).unwrap(), "d = {d}");
            let most = if d.is_power_of_two() { 3 } else { 5 };
            assert!(widest(&factors, Shifts::Exact) <= most, "d = {d}");
        }
        assert!(transpose(1).unwrap().is_empty());
        assert!(transpose(0).is_err());
    }

    #[test]
    fn what_a_shallow_transpose_leaves_is_a_short_progression() {
        let factors = transpose(32).unwrap();
        for depth in 1..=5 {
            let merged = to_depth(&factors, depth).unwrap();
            assert_eq!(merged.len(), depth);
            assert_eq!(product(&merged), product(&factors));
            let progression = Diagonals::new(&merged[depth - 1], Shifts::Exact).progression();
            assert_eq!((progression.difference, progression.count), (31, 2 * (32 >> (depth - 1)) - 1));
        }
        assert!(to_depth(&factors, 0).is_err());
    }

    #[test]
    fn diagonals_to_columns_and_rows_of_any_dimension() {
        for d in 2..=33usize {
            let sigma: Vec<u32> = (0..d * d).map(|p| (p / d * d + (p / d + p % d) % d) as u32).collect();
            let factors = diagonals_to_columns(d).unwrap();
            assert_eq!(product(&factors).source(), sigma, "d = {d}");
            assert!(widest(&factors, Shifts::Exact) <= 3, "d = {d}");

            let tau: Vec<u32> = (0..d * d).map(|p| ((p / d + p % d) % d * d + p % d) as u32).collect();
            let factors = diagonals_to_rows(d).unwrap();
            assert_eq!(product(&factors).source(), tau, "d = {d}");
            assert_eq!(widest(&factors, Shifts::Forward), 2, "d = {d}");
            assert!(widest(&factors, Shifts::Exact) <= 3, "d = {d}");
        }
    }

    #[test]
    fn expansions_bring_columns_and_rows_to_their_blocks() {
        for d in [2usize, 3, 4, 6] {
            let (columns, rows) = (product(&expand_columns(d).unwrap()), product(&expand_rows(d).unwrap()));
            for i in 0..d {
                for k in 0..d {
                    assert_eq!(columns.source()[k * d * d + i * d] as usize, i * d + k);
                    assert_eq!(rows.source()[k * d * d + i] as usize, k * d + i);
                }
            }
        }
        assert!(expand_rows(1 << 9).is_err());
        assert!(swap_axes(16, 4, 4, 2).is_err());
        assert!(swap_axes(15, 4, 4, 1).is_err());
    }
}
