//! The server: scores of all clusters of a block, for some queries in one pass.

use std::ops::Range;
use std::sync::atomic::AtomicBool;

use crate::dense::answer::{Words, packed_groups};
use crate::dense::query::RowsQuery;
use crate::dense::rounded::Rounded;
use crate::dense::scores::response::ScoreResponse;
use crate::dense::scores::shape::ScoreShape;
use crate::dense::view::{GroupView, check_plane};
use crate::device::each;
use crate::error::SchemeError;
use crate::expansion;
use crate::parameters::PirParameters;
use crate::server::Watch;

/// Computes the responses to some queries in one pass over these groups of a table: for each query one of each group.
/// Neither time nor memory depend on the vectors or the queries.
///
/// # Errors
/// If a query has another number of rows, a group has another shape, or when `cancel` is set.
pub fn answer(
    parameters: &PirParameters,
    shape: &ScoreShape,
    groups: Range<usize>,
    views: &[GroupView<'_>],
    queries: &[&RowsQuery],
    cancel: &AtomicBool,
) -> Result<Vec<Vec<ScoreResponse>>, SchemeError> {
    let part = shape.part(parameters, groups)?;
    check_plane(parameters, &part, views)?;
    if let Some(other) = queries.iter().find(|query| query.words.len() != shape.rows()) {
        let (found, needed) = (other.words.len(), shape.rows());
        return Err(SchemeError::format("query for scores", format!("{found} words"), format!("{needed} words")));
    }
    expansion::check(cancel)?;
    let words = Words::new(parameters, &part, queries)?;
    let mut ended = |_| ();
    let mut watch = Watch { cancel, ended: &mut ended };
    let packed = packed_groups(parameters, &part, views, &words, &mut watch)?;
    let round = |ciphertext| Ok(ScoreResponse(Rounded::new(parameters, &ciphertext, ScoreShape::rounding())?));
    packed.into_iter().map(|groups| each(parameters.ring(), groups, round)).collect()
}

/// Bytes of memory that answering needs for each query of a pass: its words and keys, and the packed sums of all
/// groups.
pub fn answer_memory_bytes(parameters: &PirParameters, shape: &ScoreShape) -> u64 {
    let ring = parameters.ring();
    // The words twice, the prepared keys with each value twice, sums and packed sums.
    let (words, poly) = (2 * shape.rows() * size_of::<u32>(), ring.poly_bytes(ring.basis()));
    (words + (12 + 2 * shape.groups() + 4) * poly) as u64
}
