//! Limits of what a file may ask for, and products of dimensions that cannot overflow.

use crate::error::Refusal;

/// Bytes of a model's file; the format of protobuf allows no more.
pub(crate) const MAX_FILE_BYTES: u64 = (1 << 31) - 1;
/// Nodes, initializers, inputs and outputs of a graph, each.
pub(crate) const MAX_ITEMS: usize = 1 << 16;
/// Axes of a tensor.
pub(crate) const MAX_RANK: usize = 8;
/// Numbers of a tensor of the file.
pub(crate) const MAX_ELEMENTS: usize = 1 << 29;
/// Numbers of one row of a batch, in any tensor.
pub(crate) const MAX_ROW: usize = 1 << 24;
/// Bytes of all constants together that are computed while the model is read.
pub(crate) const MAX_FOLDED_BYTES: usize = 1 << 28;
/// Bytes of a name of the model.
pub(crate) const MAX_NAME_BYTES: usize = 1 << 10;

/// Bytes of the outputs of a network.
pub(crate) const MAX_OUTPUT_BYTES: usize = 1 << 20;
/// Outputs in bytes.
pub(crate) const MAX_OUTPUTS: usize = 64;
/// Steps of all outputs in bytes.
pub(crate) const MAX_FINISH_STEPS: usize = 1 << 10;
/// Numbers of a row of one result, step or constant of outputs in bytes.
pub(crate) const MAX_FINISH_ROW: usize = 1 << 20;
/// Numbers of 32 bits that all steps of outputs in bytes read and write for a row, results and outputs included.
pub(crate) const MAX_FINISH_NUMBERS: usize = 1 << 24;

/// The product of dimensions.
///
/// # Errors
/// If there are more than [`MAX_RANK`] dimensions, or their product is above `most`.
pub(crate) fn product(dimensions: &[usize], most: usize) -> Result<usize, Refusal> {
    let empty = dimensions.contains(&0);
    // Other dimensions of an empty tensor are limited, too.
    let size = dimensions.iter().try_fold(1usize, |size, &dimension| size.checked_mul(dimension.max(1)));
    match size.filter(|&size| size <= most && dimensions.len() <= MAX_RANK) {
        Some(size) => Ok(if empty { 0 } else { size }),
        None => Err(Refusal::new(
            format!("a tensor of shape {:?}", &dimensions[..dimensions.len().min(MAX_RANK + 1)]),
            format!("at most {MAX_RANK} axes and {most} numbers"),
            "use a smaller model",
        )),
    }
}

/// The dimensions of a tensor of the file, and their product.
///
/// # Errors
/// If a dimension is negative, or as for [`product`].
pub(crate) fn shape_of(dimensions: &[i64], most: usize) -> Result<(Vec<usize>, usize), Refusal> {
    let shape: Option<Vec<usize>> = dimensions.iter().map(|&dimension| usize::try_from(dimension).ok()).collect();
    let shape = shape.ok_or_else(|| Refusal::broken("a negative dimension", "dimensions of 0 or more"))?;
    let size = product(&shape, most)?;
    Ok((shape, size))
}
