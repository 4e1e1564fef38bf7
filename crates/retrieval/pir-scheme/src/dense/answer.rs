//! The server: answers from dense tables.

use std::sync::atomic::AtomicBool;

use unspoken_gsw::{Choice, Rgsw, RlweCiphertext};
use unspoken_ring::{ByteFactors, Domain};

use crate::dense::packing::PackingKeys;
use crate::dense::part::DensePart;
use crate::dense::partial::PartialResponse;
use crate::dense::query::{DenseQuery, RowsQuery};
use crate::dense::response::DenseResponse;
use crate::dense::shape::DenseShape;
use crate::dense::view::{GroupView, check_plane};
use crate::dense::{QUERY_BITS, SELECTION, selection_gadgets};
use crate::device::each;
use crate::error::SchemeError;
use crate::expansion;
use crate::keys::PreparedKeys;
use crate::parameters::PirParameters;
use crate::server::{Phase, Watch, chosen, rotated_to_front};

/// Computes the responses to some queries in one pass over the tables, for each query one of each plane. Planes are
/// tables of one shape that hold the parts of records longer than a cell. Each query comes with the keys of its client,
/// for any kind of queries. Neither time nor memory depend on the cells.
///
/// # Errors
/// If keys or a query have other parameters or another shape, a table has another shape, or when `cancel` is set.
pub fn answer(
    parameters: &PirParameters,
    shape: DenseShape,
    planes: &[Vec<GroupView<'_>>],
    queries: &[(&PreparedKeys, &DenseQuery)],
    cancel: &AtomicBool,
) -> Result<Vec<Vec<DenseResponse>>, SchemeError> {
    answer_in_phases(parameters, shape, planes, queries, cancel, |_| ())
}

/// As [`answer`], and calls `ended` at the end of each phase, which is one of all queries of the pass.
///
/// # Errors
/// As for [`answer`].
pub fn answer_in_phases(
    parameters: &PirParameters,
    shape: DenseShape,
    planes: &[Vec<GroupView<'_>>],
    queries: &[(&PreparedKeys, &DenseQuery)],
    cancel: &AtomicBool,
    mut ended: impl FnMut(Phase),
) -> Result<Vec<Vec<DenseResponse>>, SchemeError> {
    let round = |chosen: RlweCiphertext| DenseResponse::compress(parameters, shape, &chosen);
    let watch = Watch { cancel, ended: &mut ended };
    responses(parameters, &DensePart::whole(shape), planes, queries, round, watch)
}

/// As [`answer`], from a part of the tables: each plane has the groups of the part. The partial responses from all
/// parts of a table give the response ([`DenseResponse::merged`]).
///
/// # Errors
/// As for [`answer`].
pub fn partial_answer(
    parameters: &PirParameters,
    part: &DensePart,
    planes: &[Vec<GroupView<'_>>],
    queries: &[(&PreparedKeys, &DenseQuery)],
    cancel: &AtomicBool,
) -> Result<Vec<Vec<PartialResponse>>, SchemeError> {
    let watch = Watch { cancel, ended: &mut |_| () };
    responses(parameters, part, planes, queries, |chosen| PartialResponse::new(parameters, chosen), watch)
}

/// Selects the cells of some queries from a part of the tables, and makes responses of them.
fn responses<R: Send>(
    parameters: &PirParameters,
    part: &DensePart,
    planes: &[Vec<GroupView<'_>>],
    queries: &[(&PreparedKeys, &DenseQuery)],
    finish: impl Fn(RlweCiphertext) -> Result<R, SchemeError> + Sync,
    mut watch: Watch<'_>,
) -> Result<Vec<Vec<R>>, SchemeError> {
    let cancel = watch.cancel;
    let shape = part.shape();
    queries.iter().try_for_each(|(keys, query)| check_query(parameters, shape, keys, query))?;
    planes.iter().try_for_each(|groups| check_plane(parameters, part, groups))?;
    expansion::check(cancel)?;
    let rows: Vec<&RowsQuery> = queries.iter().map(|(_, query)| &query.rows).collect();
    let words = Words::new(parameters, part, &rows)?;
    watch.ended(Phase::Packing)?;
    let gadgets = selection_gadgets(parameters, shape)?;
    let expand = |&(keys, query): &(&PreparedKeys, &DenseQuery)| {
        expansion::check(cancel)?;
        query.selection.expand(keys, &gadgets)
    };
    let bits: Vec<Vec<Rgsw>> = each(parameters.ring(), queries.iter().collect(), expand)?;
    watch.ended(Phase::Expansion)?;
    let mut responses: Vec<Vec<R>> = queries.iter().map(|_| Vec::with_capacity(planes.len())).collect();
    for groups in planes {
        let packed = packed_groups(parameters, part, groups, &words, &mut watch)?;
        let selected = each(parameters.ring(), selected_cells(parameters, part, packed, &bits)?, &finish)?;
        responses.iter_mut().zip(selected).for_each(|(all, new)| all.push(new));
        watch.ended(Phase::Selection)?;
    }
    Ok(responses)
}

/// Bytes of memory that answering needs for each query of a pass: its words and keys, the packed sums of a plane, and
/// the encrypted bits.
pub fn answer_memory_bytes(parameters: &PirParameters, shape: DenseShape) -> u64 {
    let ring = parameters.ring();
    let poly = ring.poly_bytes(ring.basis());
    // The words twice, the prepared keys with each value twice, sums and packed sums, and their pairs of components.
    let words = 2 * shape.rows * size_of::<u32>();
    let keys = 12 * poly;
    let packed = (2 * shape.groups() + 4) * poly;
    let rgsw = 4 * SELECTION.levels * poly;
    (words + keys + packed + shape.selection_bits(parameters) as usize * rgsw) as u64
}

/// What a pass needs of its queries.
pub(crate) struct Words<'a> {
    words: ByteFactors,
    keys: PackingKeys<'a>,
}

impl<'a> Words<'a> {
    /// The words of `queries` for the rows of a part.
    pub(crate) fn new(
        parameters: &PirParameters,
        part: &DensePart,
        queries: &[&'a RowsQuery],
    ) -> Result<Self, SchemeError> {
        let words: Vec<&[u32]> = queries.iter().map(|query| &query.words[part.rows()]).collect();
        let words = parameters.ring().byte_factors(&words, QUERY_BITS)?;
        Ok(Words { words, keys: PackingKeys::new(parameters, queries)? })
    }
}

/// For each query, the packed sums of each group of a plane.
pub(crate) fn packed_groups(
    parameters: &PirParameters,
    part: &DensePart,
    groups: &[GroupView<'_>],
    queries: &Words<'_>,
    watch: &mut Watch<'_>,
) -> Result<Vec<Vec<RlweCiphertext>>, SchemeError> {
    let mut packed: Vec<Vec<RlweCiphertext>> =
        (0..queries.words.queries()).map(|_| Vec::with_capacity(groups.len())).collect();
    for group in groups {
        let changes = group.byte_changes(parameters, part.shape())?;
        let bodies = parameters.ring().byte_sums(group.bytes, &queries.words, &changes)?;
        watch.ended(Phase::Rows)?;
        let ciphertexts = group.packing.packed(parameters, &queries.keys, bodies)?;
        packed.iter_mut().zip(ciphertexts).for_each(|(all, new)| all.push(RlweCiphertext::from_components(new)));
        watch.ended(Phase::Packing)?;
    }
    Ok(packed)
}

/// Selects the group and the place of each query. If a group is not one of the part, the result encrypts zero.
fn selected_cells(
    parameters: &PirParameters,
    part: &DensePart,
    groups: Vec<Vec<RlweCiphertext>>,
    bits: &[Vec<Rgsw>],
) -> Result<Vec<RlweCiphertext>, SchemeError> {
    let (ring, places) = (parameters.ring(), part.shape().places(parameters).ilog2() as usize);
    let entries = |groups: Vec<RlweCiphertext>| {
        let mut entries: Vec<Option<RlweCiphertext>> = (0..part.groups().start).map(|_| None).collect();
        entries.extend(groups.into_iter().map(Some));
        entries.resize_with(part.shape().groups(), || None);
        entries
    };
    let mut entries: Vec<Vec<Option<RlweCiphertext>>> = groups.into_iter().map(entries).collect();
    for number in (places..places + part.shape().group_bits as usize).rev() {
        let pairs = entries.iter().zip(bits).flat_map(|(entries, bits)| {
            let (zeros, ones) = entries.split_at(entries.len() / 2);
            let pairs = zeros.iter().zip(ones);
            pairs.map(move |(zero, one)| Choice { bit: &bits[number], zero: zero.as_ref(), one: one.as_ref() })
        });
        // There is nothing to choose between groups of which the part has none.
        let pairs: Vec<Choice<'_>> = pairs.collect();
        let is_some = |choice: &Choice<'_>| choice.zero.or(choice.one).is_some();
        let mut results = chosen(ring, &pairs.iter().copied().filter(is_some).collect::<Vec<_>>())?.into_iter();
        let mut results = pairs.iter().map(|choice| if is_some(choice) { results.next() } else { None });
        entries = entries.iter().map(|entries| results.by_ref().take(entries.len() / 2).collect()).collect();
    }
    let only = |mut entries: Vec<Option<RlweCiphertext>>| match entries.pop().flatten() {
        Some(chosen) => Ok(chosen),
        None => RlweCiphertext::trivial(ring, &ring.zero(ring.basis(), Domain::Evaluation)),
    };
    let cells = entries.into_iter().map(only).collect::<Result<_, _>>()?;
    rotated_to_front(ring, cells, &bits.iter().map(|bits| &bits[..places]).collect::<Vec<_>>())
}

fn check_query(
    parameters: &PirParameters,
    shape: DenseShape,
    keys: &PreparedKeys,
    query: &DenseQuery,
) -> Result<(), SchemeError> {
    if keys.parameters.fingerprint() != parameters.fingerprint() {
        return Err(SchemeError::OtherParameters { needed: parameters.name() });
    }
    let (found, needed) = (query.rows.words.len(), shape.rows);
    match found == needed {
        true => Ok(()),
        false => Err(SchemeError::format("dense query", format!("{found} words"), format!("{needed} words"))),
    }
}
