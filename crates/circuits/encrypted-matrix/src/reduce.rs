//! Masks of tiles, sums over rows and columns, and products of a matrix with a vector.

use unspoken_ckks::{Arithmetic, CkksParameters, Complex64, InnerSum, PreparedVector};

use crate::encrypted::{EncryptedMatrix, check_match};
use crate::error::{EncryptedMatrixError, check_depth, display_shape, shape_error};
use crate::layout::{Layout, indicator};
use crate::linear::Operand;

const REMEDY: &str = "start at a higher level, or use a deeper preset";

/// Maximum number of rotations of a stage of a sum. A stage has one division; doublings would have one per factor of 2.
const RADIX: usize = InnerSum::RADIX;

/// A prepared mask that sets all slots outside the tiles to zero. It uses one level. The result has the parameters'
/// scale.
pub struct TileMask {
    mask: PreparedVector,
    level: usize,
}

impl TileMask {
    /// Prepares the mask for matrices of this level (or above) and scale, of any shape.
    ///
    /// # Errors
    /// If there is no level left.
    pub fn new(
        parameters: &CkksParameters,
        layout: Layout,
        level: usize,
        scale: f64,
    ) -> Result<Self, EncryptedMatrixError> {
        let mask = layout.fill(|block, _, _| indicator(block == 0));
        Ok(TileMask { mask: prepare("clean", parameters, mask, level, scale)?, level })
    }

    /// Masks a matrix. The result is clean.
    ///
    /// # Errors
    /// If the level of the matrix is too low.
    pub fn apply<A: Arithmetic>(
        &self,
        arithmetic: &A,
        a: &EncryptedMatrix<A::Vector>,
    ) -> Result<EncryptedMatrix<A::Vector>, EncryptedMatrixError> {
        let tiles = a.try_map(|tile| {
            let tile = arithmetic.drop_to(tile, self.level)?;
            Ok::<_, EncryptedMatrixError>(arithmetic.rescale(&arithmetic.mul_prepared(&tile, &self.mask)?)?)
        })?;
        let clean = tiles.tiles().to_vec();
        Ok(a.result(a.shape(), clean, true))
    }
}

/// A plaintext factor for a vector of `scale`, whose product has the parameters' scale after the rescale.
fn prepare(
    operation: &'static str,
    parameters: &CkksParameters,
    values: Vec<Complex64>,
    level: usize,
    scale: f64,
) -> Result<PreparedVector, EncryptedMatrixError> {
    check_depth(operation, level.min(parameters.max_level()), 1, REMEDY)?;
    let factor = parameters.level_modulus(level) * (parameters.scale() / scale);
    Ok(PreparedVector::new(values, level, factor)?)
}

/// The extent that a sum runs over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Axis {
    /// All rows: numpy's `sum(axis=0, keepdims=True)`, a row.
    Rows,
    /// All columns: numpy's `sum(axis=1, keepdims=True)`, a column.
    Columns,
    /// All entries: one number.
    Both,
}

impl Axis {
    /// The shape of the sum.
    pub fn output_shape(self, (rows, columns): (usize, usize)) -> (usize, usize) {
        match self {
            Axis::Rows => (1, columns),
            Axis::Columns => (rows, 1),
            Axis::Both => (1, 1),
        }
    }
}

/// A prepared sum over rows or columns. It uses one level, for the mask that keeps only the sum. The result is clean.
pub struct Sum {
    axis: Axis,
    level: usize,
    sums: Vec<InnerSum>,
    mask: PreparedVector,
}

impl Sum {
    /// Prepares a sum for matrices of this level (or above) and scale, of any shape.
    ///
    /// # Errors
    /// If there is no level left.
    pub fn new(
        parameters: &CkksParameters,
        layout: Layout,
        axis: Axis,
        level: usize,
        scale: f64,
    ) -> Result<Self, EncryptedMatrixError> {
        let rows = InnerSum::with_radix(layout.row_step() as i64, layout.tile().0, 0, RADIX)?;
        let columns = InnerSum::with_radix(layout.column_step() as i64, layout.dim(), 0, RADIX)?;
        let (over_rows, over_columns) = (axis != Axis::Columns, axis != Axis::Rows);
        let kept = |block, row, column| block == 0 && !(over_rows && row > 0) && !(over_columns && column > 0);
        let mask = layout.fill(|block, row, column| indicator(kept(block, row, column)));
        let sums = [(over_rows, rows), (over_columns, columns)];
        let sums = sums.into_iter().filter(|(wanted, _)| *wanted).map(|(_, inner_sum)| inner_sum).collect();
        Ok(Sum { axis, level, sums, mask: prepare("sum", parameters, mask, level, scale)? })
    }

    /// The sum of every matrix of the batch, one level below the prepared level.
    ///
    /// # Errors
    /// If the level is too low, the scale is not the prepared one, or keys are missing.
    pub fn apply<A: Arithmetic>(
        &self,
        arithmetic: &A,
        a: &EncryptedMatrix<A::Vector>,
    ) -> Result<EncryptedMatrix<A::Vector>, EncryptedMatrixError> {
        let (rows, columns) = a.grid();
        let (to_rows, to_columns) = self.axis.output_shape((rows, columns));
        let mut tiles = Vec::with_capacity(to_rows * to_columns);
        for target in 0..to_rows * to_columns {
            let (row, column) = (target / to_columns, target % to_columns);
            let mut sum: Option<A::Vector> = None;
            for from in (row..rows).step_by(to_rows) {
                for from_column in (column..columns).step_by(to_columns) {
                    let tile = arithmetic.drop_to(a.tile(from, from_column), self.level)?;
                    sum = Some(match sum {
                        Some(sum) => arithmetic.add(&sum, &tile)?,
                        None => tile,
                    });
                }
            }
            let mut sum = sum.ok_or_else(|| shape_error("sum", "no tiles; needed at least one"))?;
            for inner_sum in &self.sums {
                sum = inner_sum.apply(arithmetic, &sum)?;
            }
            tiles.push(arithmetic.rescale(&arithmetic.mul_prepared(&sum, &self.mask)?)?);
        }
        Ok(a.result(self.axis.output_shape(a.shape()), tiles, true))
    }
}

/// A prepared product of a matrix with a vector. It uses two levels and `2 log2 d` rotations, and a product of matrices
/// `5 log2 d`. The result is clean.
pub struct MatrixVector {
    level: usize,
    replicate: InnerSum,
    sum: Sum,
}

impl MatrixVector {
    /// Prepares the product for a matrix and a vector of these levels (or above) and scales.
    ///
    /// # Errors
    /// If there are fewer than two levels.
    pub fn new(
        parameters: &CkksParameters,
        layout: Layout,
        matrix: Operand,
        vector: Operand,
    ) -> Result<Self, EncryptedMatrixError> {
        layout.check_square(VECTOR)?;
        let level = matrix.level.min(vector.level);
        check_depth(VECTOR, level.min(parameters.max_level()), 2, REMEDY)?;
        let scale = matrix.scale * vector.scale / parameters.level_modulus(level);
        let replicate = InnerSum::with_radix(-(layout.row_step() as i64), layout.dim(), 0, RADIX)?;
        Ok(MatrixVector { level, replicate, sum: Sum::new(parameters, layout, Axis::Columns, level - 1, scale)? })
    }

    /// `a @ x` for a matrix of shape `(r, c)` and a vector stored as a row, shape `(1, c)`. The result is a column,
    /// shape `(r, 1)`.
    ///
    /// # Errors
    /// If shapes, layouts or batches do not fit, the vector is not clean, levels are too low, or keys are missing.
    pub fn apply<A: Arithmetic>(
        &self,
        arithmetic: &A,
        a: &EncryptedMatrix<A::Vector>,
        x: &EncryptedMatrix<A::Vector>,
    ) -> Result<EncryptedMatrix<A::Vector>, EncryptedMatrixError> {
        check_vector(a.shape(), x.shape())?;
        check_match(VECTOR, a, x)?;
        if !x.is_clean() {
            let needed = "a clean vector: mask it with TileMask, one level".into();
            return Err(EncryptedMatrixError::Layout {
                operation: VECTOR,
                found: "a vector that is not clean".into(),
                needed,
            });
        }
        let replicated = x.try_map(|tile| {
            let tile = arithmetic.drop_to(tile, self.level)?;
            Ok::<_, EncryptedMatrixError>(self.replicate.apply(arithmetic, &tile)?)
        })?;
        let (rows, columns) = a.grid();
        let mut tiles = Vec::with_capacity(rows);
        for row in 0..rows {
            let mut sum: Option<A::Vector> = None;
            for column in 0..columns {
                let product = arithmetic.tensor(a.tile(row, column), replicated.tile(0, column))?;
                sum = Some(match sum {
                    Some(sum) => arithmetic.add(&sum, &product)?,
                    None => product,
                });
            }
            let sum = sum.ok_or_else(|| shape_error(VECTOR, "no tiles; needed at least one"))?;
            tiles.push(arithmetic.relinearise_rescale(&sum)?);
        }
        // One column of tiles remains: the sum over its columns is the sum over all columns.
        let inner = (a.shape().0, a.layout().dim().min(a.shape().1));
        self.sum.apply(arithmetic, &a.result(inner, tiles, true))
    }
}

const VECTOR: &str = "matrix times vector";

/// Checks that a matrix and a vector stored as a row can be multiplied.
pub(crate) fn check_vector(a: (usize, usize), x: (usize, usize)) -> Result<(), EncryptedMatrixError> {
    if x.0 == 1 && x.1 == a.1 {
        return Ok(());
    }
    let reason =
        format!("matrix {} and vector {}; needed a row, shape (1, {})", display_shape(a), display_shape(x), a.1);
    Err(shape_error(VECTOR, reason))
}
