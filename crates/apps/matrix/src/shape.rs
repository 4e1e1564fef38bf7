//! Shapes of arrays, and limits on their size.

use ndarray::{Array3, ArrayD};
use unspoken_encrypted_matrix::{Graph, Layout};

use crate::bytes::{Reader, Writer};
use crate::error::MatrixError;

/// Maximum number of rows or columns of a matrix.
pub(crate) const MAX_EXTENT: usize = 1 << 20;
/// Maximum number of entries of a matrix.
const MAX_ENTRIES: usize = 1 << 24;
/// Maximum number of tiles of a matrix.
const MAX_TILES: usize = 1 << 12;
/// Maximum number of matrices in a batch.
pub(crate) const MAX_BATCH: usize = 1 << 20;
/// Maximum number of nodes in a graph.
pub(crate) const MAX_NODES: usize = 1 << 12;
/// Longest name of an input, in bytes.
pub(crate) const MAX_NAME_BYTES: usize = 1 << 10;

const ADD: &str = "add to an expression";

/// The axes of an array. A vector is a matrix of one row or one column without that axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Axes {
    /// Whether the first axis is the batch.
    pub batch: bool,
    /// Whether there is an axis of rows.
    pub rows: bool,
    /// Whether there is an axis of columns.
    pub columns: bool,
}

impl Axes {
    /// The axes of one matrix: rows and columns.
    pub const MATRIX: Axes = Axes { batch: false, rows: true, columns: true };
    /// The axes of a batch of matrices.
    pub const BATCH: Axes = Axes { batch: true, rows: true, columns: true };
}

/// The shape of an array of matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ArrayShape {
    /// Rows and columns of each matrix.
    pub matrix: (usize, usize),
    /// The axes of the array; missing axes have extent 1.
    pub axes: Axes,
}

impl ArrayShape {
    /// Extents of the array, for a batch of `batch` matrices.
    pub fn extents(&self, batch: usize) -> Vec<usize> {
        let axes = [(self.axes.batch, batch), (self.axes.rows, self.matrix.0), (self.axes.columns, self.matrix.1)];
        axes.into_iter().filter(|(there, _)| *there).map(|(_, extent)| extent).collect()
    }

    /// Rows and columns of the encrypted matrices: in tiles of one row, a matrix is the row of its entries in row-major
    /// order.
    pub(crate) fn stored(&self, layout: Layout) -> (usize, usize) {
        let (rows, columns) = self.matrix;
        if is_flat(layout) { (1, rows.saturating_mul(columns)) } else { (rows, columns) }
    }

    /// Converts an array of this shape to matrices of shape (batch, rows, columns), for a batch of `batch` matrices.
    /// The batch is 1 without that axis.
    ///
    /// # Errors
    /// If the array has another shape.
    pub fn to_matrices(&self, array: ArrayD<f64>, batch: usize) -> Result<Array3<f64>, MatrixError> {
        let (found, needed) = (array.shape().to_vec(), self.extents(batch));
        let refuse = || MatrixError::mismatch("read an array", format!("shape {found:?}"), format!("{needed:?}"));
        if found != needed {
            return Err(refuse());
        }
        let batch = if self.axes.batch { batch } else { 1 };
        array.to_shape((batch, self.matrix.0, self.matrix.1)).map(|array| array.to_owned()).map_err(|_| refuse())
    }

    /// Converts matrices of shape (batch, rows, columns) to an array of this shape.
    ///
    /// # Errors
    /// If the matrices have another shape.
    pub fn to_array(&self, matrices: Array3<f64>) -> Result<ArrayD<f64>, MatrixError> {
        let (batch, rows, columns) = matrices.dim();
        let needed = self.extents(batch);
        let refuse = || {
            MatrixError::mismatch(
                "make an array",
                format!("matrices ({batch}, {rows}, {columns})"),
                format!("{needed:?}"),
            )
        };
        matrices.to_shape(needed.as_slice()).map(|array| array.to_owned()).map_err(|_| refuse())
    }

    /// The index in an array of this shape of an entry of its matrices, given as (batch, row, column).
    pub(crate) fn index(&self, (batch, row, column): (usize, usize, usize)) -> Vec<usize> {
        let axes = [(self.axes.batch, batch), (self.axes.rows, row), (self.axes.columns, column)];
        axes.into_iter().filter(|(there, _)| *there).map(|(_, index)| index).collect()
    }

    /// Returns the shape unchanged, or an error if it is too large or lacks an axis of extent above 1.
    pub(crate) fn check(self, operation: &'static str) -> Result<Self, MatrixError> {
        let (rows, columns) = self.matrix;
        let sized = (1..=MAX_EXTENT).contains(&rows) && (1..=MAX_EXTENT).contains(&columns);
        if !sized || rows * columns > MAX_ENTRIES {
            let needed = format!("1 to {MAX_EXTENT} rows and columns and at most {MAX_ENTRIES} entries");
            return Err(MatrixError::mismatch(operation, format!("shape ({rows}, {columns})"), needed));
        }
        if (!self.axes.rows && rows != 1) || (!self.axes.columns && columns != 1) {
            let found = format!("an axis of extent above 1 left out of shape ({rows}, {columns})");
            return Err(MatrixError::mismatch(operation, found, "axes of extent 1 to leave out"));
        }
        Ok(self)
    }

    pub(crate) fn write(&self, out: &mut Writer) {
        out.u32(self.matrix.0);
        out.u32(self.matrix.1);
        let Axes { batch, rows, columns } = self.axes;
        out.u8(u8::from(batch) | u8::from(rows) << 1 | u8::from(columns) << 2);
    }

    pub(crate) fn read(input: &mut Reader<'_>) -> Result<Self, MatrixError> {
        let matrix = (input.u32()?, input.u32()?);
        let axes = input.u8()?;
        if axes > 7 {
            return Err(input.refuse(format!("axes {axes}"), "three bits"));
        }
        let axes = Axes { batch: axes & 1 != 0, rows: axes & 2 != 0, columns: axes & 4 != 0 };
        ArrayShape { matrix, axes }.check(input.what())
    }
}

/// Whether matrices are stored as rows: see [`ArrayShape::stored`].
pub(crate) fn is_flat(layout: Layout) -> bool {
    let (rows, columns) = layout.tile();
    rows < columns
}

/// Whether the number of tiles of an encrypted matrix of this shape is within the limit.
pub(crate) fn fits_tiles(layout: Layout, shape: (usize, usize)) -> bool {
    layout.tiles(shape) <= MAX_TILES
}

/// Refuses graphs with too many nodes or too large matrices.
pub(crate) fn check_graph(graph: &Graph) -> Result<(), MatrixError> {
    if graph.nodes().len() > MAX_NODES {
        let needed = format!("at most {MAX_NODES}: compute in several steps");
        return Err(MatrixError::mismatch(ADD, format!("{} operations", graph.nodes().len()), needed));
    }
    let check = |matrix| ArrayShape { matrix, axes: Axes::MATRIX }.check(ADD).map(drop);
    graph.nodes().iter().try_for_each(|node| check(node.shape()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_have_the_axes_of_their_shape() {
        let row = ArrayShape { matrix: (1, 3), axes: Axes { rows: false, ..Axes::MATRIX } };
        let vector = ArrayD::from_shape_vec(vec![3], vec![1.0, 2.0, 3.0]).unwrap();
        let matrices = row.to_matrices(vector.clone(), 1).unwrap();
        assert_eq!((matrices.dim(), matrices[[0, 0, 2]]), ((1, 1, 3), 3.0));
        assert_eq!(row.to_array(matrices).unwrap(), vector);
        let error = row.to_matrices(ArrayD::zeros(vec![1, 3]), 1).unwrap_err().to_string();
        assert!(error.contains("shape [1, 3]; needed [3]"), "{error}");
        let batch = ArrayShape { matrix: (2, 3), axes: Axes::BATCH };
        let array = ArrayD::from_shape_fn(vec![4, 2, 3], |index| (index[0] + 10 * index[1] + 100 * index[2]) as f64);
        // An array with another memory order.
        let columns = array.clone().reversed_axes().as_standard_layout().to_owned().reversed_axes();
        assert_eq!(batch.to_array(batch.to_matrices(columns, 4).unwrap()).unwrap(), array);
        assert!(batch.to_array(Array3::zeros((4, 3, 3))).is_err());
    }
}
