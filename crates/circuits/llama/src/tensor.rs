//! Tensors in 32-bit floating point.

use ndarray::{Array2, Array3, ArrayView2, ArrayView3, Axis};

use crate::arithmetic::Shape;

/// A tensor in the clear: an axis for the groups, one for the tokens, one for the values of a group. Masked scores are
/// `-inf`.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor(pub(crate) Array3<f32>);

impl Tensor {
    /// Activations: a row for each token.
    pub fn activations(rows: Array2<f32>) -> Self {
        Tensor(rows.insert_axis(Axis(0)))
    }

    /// Its dimensions.
    pub fn shape(&self) -> Shape {
        let (groups, tokens, width) = self.0.dim();
        Shape { tokens, groups, width }
    }

    /// Rows of the first group: all values of activations, a row for each token.
    pub fn rows(&self) -> ArrayView2<'_, f32> {
        self.0.index_axis(Axis(0), 0)
    }

    /// All values: `groups x tokens x width`.
    pub fn values(&self) -> ArrayView3<'_, f32> {
        self.0.view()
    }

    /// Activations as so many groups of equal width: `groups x tokens x width`.
    pub(crate) fn split(&self, groups: usize) -> Array3<f32> {
        let rows = self.rows();
        let width = rows.ncols() / groups;
        Array3::from_shape_fn((groups, rows.nrows(), width), |(group, token, i)| rows[(token, group * width + i)])
    }

    /// The values of a group, a row for each token.
    pub(crate) fn group(&self, group: usize) -> ArrayView2<'_, f32> {
        self.0.index_axis(Axis(0), group)
    }
}
