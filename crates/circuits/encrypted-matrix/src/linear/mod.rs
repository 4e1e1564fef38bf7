//! Linear maps of whole matrices: transposes, reshapes, selections of rows and columns, products with plaintext
//! matrices.

mod builder;
mod reshape;

use std::collections::BTreeMap;

use builder::Builder;
use ndarray::Array2;
pub(crate) use reshape::check_reshape;
use unspoken_ckks::{Arithmetic, CkksParameters, Cost, LinearTransform};
use unspoken_permute::Permutation;
use unspoken_permute::factors::{to_depth, transpose};
use unspoken_rlwe::KeyPlan;

use crate::encrypted::{EncryptedMatrix, check_prepared};
use crate::error::{EncryptedMatrixError, check_depth, shape_error};
use crate::layout::Layout;
use crate::tile::{self, LevelAndScales, Term};

/// A prepared linear map of the entries of a matrix. Its diagonals are encoded once, at their first encrypted use.
///
/// It uses one level; a transpose uses one per factor. The result has the parameters' scale. It is clean, also if the
/// input is not.
pub struct LinearMap {
    operation: &'static str,
    layout: Layout,
    from: (usize, usize),
    to: (usize, usize),
    level: usize,
    /// Transforms that are applied to every tile first, one level each.
    factors: Vec<LinearTransform>,
    transforms: Vec<LinearTransform>,
    /// For every tile of the result, row-major: the pairs of a transform and a source tile, whose results are added.
    tiles: Vec<Vec<(usize, usize)>>,
}

/// The operand that a linear map is prepared for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Operand {
    /// Rows and columns.
    pub shape: (usize, usize),
    /// Its minimum level; the result is one level below.
    pub level: usize,
    /// Its scale.
    pub scale: f64,
}

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

    /// The name of its operation.
    pub(crate) fn operation(&self) -> &'static str {
        self.operation
    }

    /// Number of levels it uses.
    pub fn depth(&self) -> usize {
        self.factors.len() + 1
    }

    /// Cost of one term of one tile of the result. For a transpose this is the whole cost of a tile.
    pub(crate) fn tile_cost(&self) -> Cost {
        let mut cost = Cost::default();
        self.factors.iter().chain(self.transforms.first()).for_each(|factor| cost += factor.plan().cost());
        cost
    }

    /// Bytes of its encoded diagonals.
    pub(crate) fn prepared_bytes(&self) -> usize {
        self.factors.iter().chain(&self.transforms).map(|transform| transform.plan().prepared_bytes() as usize).sum()
    }

    /// Number of ciphertexts it holds at the same time, besides operand and result: lowered tiles, and the rotations of
    /// one transform.
    pub(crate) fn working_ciphertexts(&self) -> usize {
        let transforms = self.factors.iter().chain(&self.transforms);
        let rotations = transforms.map(|transform| transform.plan().rotations().len()).max().unwrap_or(0);
        self.layout.tiles(self.from) + rotations + 2
    }

    /// The keys it needs.
    pub fn key_plan(&self) -> KeyPlan {
        let mut plan = KeyPlan::new();
        self.factors.iter().chain(&self.transforms).for_each(|transform| plan.extend(&transform.plan().key_plan()));
        plan
    }

    /// The shape of its result.
    pub fn output_shape(&self) -> (usize, usize) {
        self.to
    }

    /// Applies the map to every matrix of the batch.
    ///
    /// # Errors
    /// If the shape, layout or scale of the matrix is not the prepared one, its level is too low, or keys are missing.
    /// The error names all missing keys, before any computation starts.
    pub fn apply<A: Arithmetic>(
        &self,
        arithmetic: &A,
        a: &EncryptedMatrix<A::Vector>,
    ) -> Result<EncryptedMatrix<A::Vector>, EncryptedMatrixError> {
        check_prepared(self.operation, a, self.from, self.layout)?;
        arithmetic.require_keys(self.operation, &self.key_plan())?;
        let lowered = a.try_map(|tile| {
            let tile = arithmetic.drop_to(tile, self.level)?;
            self.factors.iter().try_fold(tile, |tile, factor| arithmetic.linear(factor, &tile))
        })?;
        let tile = |terms: &Vec<(usize, usize)>| {
            let mut sum: Option<A::Vector> = None;
            for &(transform, from) in terms {
                let term = arithmetic.linear(&self.transforms[transform], &lowered.tiles()[from])?;
                sum = Some(match sum {
                    Some(sum) => arithmetic.add(&sum, &term)?,
                    None => term,
                });
            }
            sum.ok_or_else(|| shape_error(self.operation, "a tile that is a sum of nothing; needed at least one term"))
        };
        let tiles = self.tiles.iter().map(tile).collect::<Result<_, _>>()?;
        Ok(lowered.result(self.to, tiles, true))
    }
}

pub(crate) fn check_indices(
    operation: &'static str,
    what: &str,
    indices: &[usize],
    extent: usize,
) -> Result<(), EncryptedMatrixError> {
    if indices.is_empty() {
        return Err(shape_error(operation, format!("no {what}s; needed at least one")));
    }
    match indices.iter().find(|&&index| index >= extent) {
        None => Ok(()),
        Some(index) => {
            Err(shape_error(operation, format!("index {index} is out of bounds for a matrix of {extent} {what}s")))
        }
    }
}

const REMEDY: &str = "start at a higher level, or use a deeper preset";

const TIMES: &str = "multiply by a plaintext";
