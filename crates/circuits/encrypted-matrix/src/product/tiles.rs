//! The tiles of a product: sums of products of the tiles of its factors.

use unspoken_ckks::Arithmetic;

use crate::encrypted::EncryptedMatrix;
use crate::error::{EncryptedMatrixError, shape_error};

/// Level and scales of the factors of a product.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Factors {
    pub(crate) level: usize,
    pub(crate) scales: [f64; 2],
}

/// `sum(row, column)` for every tile of the result, in row-major order.
pub(super) fn grid<V, T, E>(
    a: &EncryptedMatrix<V>,
    b: &EncryptedMatrix<V>,
    mut sum: impl FnMut(usize, usize) -> Result<T, E>,
) -> Result<Vec<T>, E> {
    let (rows, columns) = (a.grid().0, b.grid().1);
    (0..rows * columns).map(|tile| sum(tile / columns, tile % columns)).collect()
}

/// `sum + term`, or the term if there is no sum yet.
pub(super) fn accumulate<A: Arithmetic>(
    arithmetic: &A,
    sum: Option<A::Vector>,
    term: A::Vector,
) -> Result<Option<A::Vector>, EncryptedMatrixError> {
    Ok(Some(match sum {
        Some(sum) => arithmetic.add(&sum, &term)?,
        None => term,
    }))
}

/// The error of a sum without terms. It cannot occur, because the shapes were checked.
pub(super) fn nothing() -> EncryptedMatrixError {
    shape_error("matmul", "a sum over no tiles; needed at least one")
}
