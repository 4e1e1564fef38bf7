//! Linear maps of whole matrices: transposes, reshapes, selections of rows and columns, products with plaintext
//! matrices.
//!
//! # Products with plaintext matrices
//!
//! `LinearMap::times_left` uses `d` plaintexts, `2 sqrt(d)` rotations by whole rows, one level and no mask. The
//! matrices need no special arrangement. Maps between rows with any terms are `LinearMap::between_rows`;
//! `unspoken-papers` has products of matrices with skewed columns by it, and products without keys, one ciphertext per
//! row.

mod builder;
mod map;
mod reshape;

use std::collections::BTreeMap;

use builder::Builder;
use map::REMEDY;

pub use map::{LinearMap, Operand};
use ndarray::Array2;
pub(crate) use reshape::check_reshape;
use unspoken_ckks::CkksParameters;
use unspoken_permute::Permutation;
use unspoken_permute::factors::{to_depth, transpose};

use crate::error::{EncryptedMatrixError, check_depth};
use crate::indices::check_indices;
use crate::layout::Layout;
use crate::tile::{self, LevelAndScales, Term};

impl LinearMap {
    /// The transpose in `depth` factors, one level each (permutation decomposition paper, section 4.1). All factors but
    /// the last exchange the off-diagonal quarters of smaller and smaller blocks, with three diagonals. The last one
    /// transposes the remaining blocks of size `b`, with `2b - 1` diagonals.
    ///
    /// # Errors
    /// If the depth is 0 or above `max(log2 d, 1)`, or there are too few levels.
    pub fn transpose(
        parameters: &CkksParameters,
        layout: Layout,
        input: Operand,
        depth: usize,
    ) -> Result<Self, EncryptedMatrixError> {
        const OPERATION: &str = "transpose";
        layout.check_square(OPERATION)?;
        let most = Self::transpose_depths(layout);
        if !(1..=most).contains(&depth) {
            let found = format!("depth {depth} for tiles of {}", layout.dim());
            return Err(EncryptedMatrixError::Layout {
                operation: OPERATION,
                found,
                needed: format!("from 1 to {most}"),
            });
        }
        let remedy = if depth > 1 { "depth 1 needs one level" } else { REMEDY };
        check_depth(OPERATION, input.level.min(parameters.max_level()), depth, remedy)?;
        let mut permutations = to_depth(&transpose(layout.dim())?, depth)?;
        if permutations.is_empty() {
            permutations.push(Permutation::identity(1)?);
        }
        let mut scales = LevelAndScales { level: input.level, input: input.scale, output: parameters.scale() };
        let mut factors = Vec::with_capacity(depth);
        for permutation in &permutations {
            factors.push(tile::permutation(parameters, layout, scales, permutation)?);
            scales = LevelAndScales { level: scales.level - 1, input: scales.output, ..scales };
        }
        let transforms = factors.pop().into_iter().collect();
        let (columns, rows) = layout.grid(input.shape);
        let tiles = (0..rows * columns).map(|tile| vec![(0, tile % columns * rows + tile / columns)]).collect();
        let builder = Builder::new(OPERATION, parameters, layout, input)?;
        Ok(LinearMap { factors, ..builder.finish((input.shape.1, input.shape.0), transforms, tiles) })
    }

    /// Maximum number of factors of a transpose.
    pub fn transpose_depths(layout: Layout) -> usize {
        (layout.dim().ilog2() as usize).max(1)
    }

    /// The rows with these indices, in this order, like numpy's `a[rows]`. Rows may be left out or repeated.
    ///
    /// # Errors
    /// If there are no indices, one is out of bounds, or there is no level left.
    pub fn rows(
        parameters: &CkksParameters,
        layout: Layout,
        input: Operand,
        rows: &[usize],
    ) -> Result<Self, EncryptedMatrixError> {
        const OPERATION: &str = "pick rows";
        check_indices(OPERATION, "row", rows, input.shape.0)?;
        let weight = |row: usize, from| if rows[row] == from { 1.0 } else { 0.0 };
        let builder = Builder::new(OPERATION, parameters, layout, input)?;
        Self::left(builder, rows.len(), weight)
    }

    /// The columns with these indices, in this order, like numpy's `a[:, columns]`.
    ///
    /// # Errors
    /// If there are no indices, one is out of bounds, or there is no level left.
    pub fn columns(
        parameters: &CkksParameters,
        layout: Layout,
        input: Operand,
        columns: &[usize],
    ) -> Result<Self, EncryptedMatrixError> {
        const OPERATION: &str = "pick columns";
        check_indices(OPERATION, "column", columns, input.shape.1)?;
        let d = layout.dim();
        // The columns of every pair of tiles that has any.
        let mut pairs: BTreeMap<(usize, usize), Vec<(usize, usize)>> = BTreeMap::new();
        for (to, &from) in columns.iter().enumerate() {
            pairs.entry((to / d, from / d)).or_default().push((to % d, from % d));
        }
        let block = |to: usize, from: usize| {
            let moved = pairs.get(&(to, from)).into_iter().flatten();
            let terms = moved.flat_map(|&(column, k)| {
                let index = k as i64 - column as i64;
                (0..layout.tile().0).map(move |row| Term { row, column, index, weight: 1.0 })
            });
            terms.collect::<Vec<_>>()
        };
        Self::right(Builder::new(OPERATION, parameters, layout, input)?, columns.len(), block)
    }

    /// `weights @ x`, by the diagonals of the weights. With one block it needs `2 sqrt(d)` rotations. The matrices need
    /// no special arrangement, so each product of a chain uses one level.
    ///
    /// # Errors
    /// If shapes do not fit, a weight is not finite, or there is no level left.
    pub fn times_left(
        parameters: &CkksParameters,
        layout: Layout,
        input: Operand,
        weights: &Array2<f64>,
    ) -> Result<Self, EncryptedMatrixError> {
        crate::product::check_shapes(weights.dim(), input.shape)?;
        let builder = Builder::new(TIMES, parameters, layout, input)?;
        Self::left(builder, weights.nrows(), |row, from| weights[(row, from)])
    }

    /// `x @ weights`, by the diagonals of the weights.
    ///
    /// # Errors
    /// Same as [`LinearMap::times_left`].
    pub fn times_right(
        parameters: &CkksParameters,
        layout: Layout,
        input: Operand,
        weights: &Array2<f64>,
    ) -> Result<Self, EncryptedMatrixError> {
        crate::product::check_shapes(input.shape, weights.dim())?;
        let (d, columns, inner) = (layout.dim(), weights.ncols(), input.shape.1);
        let block = |to: usize, from: usize| {
            let (columns, inner) = (d.min(columns - to * d), d.min(inner - from * d));
            let cells = (0..columns * inner).map(|cell| (cell / inner, cell % inner));
            let weighted = cells.map(|(column, k)| (column, k, weights[(from * d + k, to * d + column)]));
            let terms = weighted.filter(|(_, _, weight)| *weight != 0.0).flat_map(|(column, k, weight)| {
                (0..layout.tile().0).map(move |row| Term { row, column, index: k as i64 - column as i64, weight })
            });
            terms.collect::<Vec<_>>()
        };
        Self::right(Builder::new(TIMES, parameters, layout, input)?, columns, block)
    }

    /// The map to a matrix of `rows` rows whose tile in row `to` of the tiles is the sum of `terms(to, from)` of the
    /// operand's tiles in each row `from`, the same in each column of tiles. The index of a [`Term`] counts rows.
    ///
    /// # Errors
    /// If tiles are not square, a weight is not finite, or there is no level left.
    pub fn between_rows(
        parameters: &CkksParameters,
        layout: Layout,
        input: Operand,
        rows: usize,
        terms: impl Fn(usize, usize) -> Vec<Term>,
    ) -> Result<Self, EncryptedMatrixError> {
        Self::by_rows(Builder::new(TIMES, parameters, layout, input)?, rows, terms)
    }

    /// The map whose result has row `r` equal to `sum weight(r, k) * row k`.
    fn left(
        builder: Builder<'_>,
        rows: usize,
        weight: impl Fn(usize, usize) -> f64,
    ) -> Result<Self, EncryptedMatrixError> {
        let (d, all) = (builder.layout().dim(), builder.input().shape.0);
        let block = |to: usize, from: usize| {
            let (rows, inner) = (d.min(rows - to * d), d.min(all - from * d));
            let cells = (0..rows * inner).map(|cell| (cell / inner, cell % inner));
            let weighted = cells.map(|(row, k)| (row, k, weight(to * d + row, from * d + k)));
            let terms = weighted.filter(|(_, _, weight)| *weight != 0.0).flat_map(|(row, k, weight)| {
                (0..d).map(move |column| Term { row, column, index: k as i64 - row as i64, weight })
            });
            terms.collect::<Vec<_>>()
        };
        Self::by_rows(builder, rows, block)
    }

    /// The map to `rows` rows whose blocks of a tile of the result and one of the input have these terms, the same in
    /// each column of tiles.
    fn by_rows(
        builder: Builder<'_>,
        rows: usize,
        block: impl Fn(usize, usize) -> Vec<Term>,
    ) -> Result<Self, EncryptedMatrixError> {
        let (layout, shape) = (builder.layout(), builder.input().shape);
        layout.check_square(builder.operation())?;
        let ((from, columns), (to, _)) = (layout.grid(shape), layout.grid((rows, 1)));
        let grid = (to, from);
        let (transforms, blocks) = builder.blocks(layout.dim(), grid, block)?;
        let of = |(row, column): (usize, usize)| {
            blocks[row].iter().map(|&(transform, from)| (transform, from * columns + column)).collect()
        };
        let tiles = (0..grid.0 * columns).map(|tile| of((tile / columns, tile % columns))).collect();
        Ok(builder.finish((rows, shape.1), transforms, tiles))
    }

    /// The map to `columns` columns whose blocks of a tile of the result and one of the input have these terms, the
    /// same in each row of tiles.
    fn right(
        builder: Builder<'_>,
        columns: usize,
        block: impl Fn(usize, usize) -> Vec<Term>,
    ) -> Result<Self, EncryptedMatrixError> {
        let (layout, shape) = (builder.layout(), builder.input().shape);
        let ((rows, from), (_, to)) = (layout.grid(shape), layout.grid((1, columns)));
        let grid = (to, from);
        let (transforms, blocks) = builder.blocks(1, grid, block)?;
        let of = |(row, column): (usize, usize)| {
            blocks[column].iter().map(|&(transform, from)| (transform, row * grid.1 + from)).collect()
        };
        let tiles = (0..rows * grid.0).map(|tile| of((tile / grid.0, tile % grid.0))).collect();
        Ok(builder.finish((shape.0, columns), transforms, tiles))
    }
}

const TIMES: &str = "multiply by a plaintext";
