//! Checks of shapes, with the words of `unspoken-encrypted-matrix`.

use unspoken_encrypted_matrix::EncryptedMatrixError;

/// A shape as numpy prints it.
pub(crate) fn display_shape((rows, columns): (usize, usize)) -> String {
    format!("({rows}, {columns})")
}

pub(crate) fn shape_error(operation: &'static str, reason: impl Into<String>) -> EncryptedMatrixError {
    EncryptedMatrixError::Shape { operation, reason: reason.into() }
}

/// Checks that shapes can be multiplied.
pub(crate) fn check_inner(a: (usize, usize), b: (usize, usize)) -> Result<(), EncryptedMatrixError> {
    if a.1 == b.0 {
        return Ok(());
    }
    let reason = format!("{} @ {}: inner dimensions {} and {} differ", display_shape(a), display_shape(b), a.1, b.0);
    Err(shape_error("matmul", reason))
}
