//! Lists of indices of rows, columns and entries.

use crate::error::{EncryptedMatrixError, shape_error};

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

/// The selection as a permutation of `length` entries. Other entries stay where they can; the rest follow in their
/// order.
pub(crate) fn completed(indices: &[usize], length: usize) -> Result<Vec<u32>, EncryptedMatrixError> {
    let mut free = vec![true; length];
    for &index in indices {
        if !std::mem::replace(&mut free[index], false) {
            return Err(shape_error("permute a vector", format!("index {index} twice; needed different indices")));
        }
    }
    let stays: Vec<bool> = (0..length).map(|place| place >= indices.len() && free[place]).collect();
    let mut moved = (0..length).filter(|&index| free[index] && !stays[index]);
    let rest = (indices.len()..length).map(|place| if stays[place] { place } else { moved.next().unwrap_or(place) });
    Ok(indices.iter().copied().chain(rest).map(|index| index as u32).collect())
}
