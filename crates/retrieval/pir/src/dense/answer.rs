//! The server: answers from dense tables.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rayon::prelude::*;
use unspoken_gsw::{Rgsw, RlweCiphertext, SmallRing};
use unspoken_ring::{BYTE_BLOCK, Domain, Poly, byte_sums};

use crate::dense::packing::PackingKeys;
use crate::dense::part::DensePart;
use crate::dense::partial::PartialResponse;
use crate::dense::query::DenseQuery;
use crate::dense::response::DenseResponse;
use crate::dense::shape::DenseShape;
use crate::dense::view::{GroupView, check_plane};
use crate::dense::{QUERY_BITS, SELECTION, selection_gadgets};
use crate::error::PirError;
use crate::expansion;
use crate::keys::PreparedKeys;
use crate::parameters::PirParameters;
use crate::server::{Stopwatch, rotated_to_front};

/// Durations of the phases of answers, together for all queries of a pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct DensePhaseTimes {
    /// Sums over all rows of bytes times words.
    pub rows: Duration,
    /// Packing of the sums.
    pub packing: Duration,
    /// Expansion of the selecting bits.
    pub expansion: Duration,
    /// Selection of group and place, and rounding.
    pub selection: Duration,
}

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
) -> Result<(Vec<Vec<DenseResponse>>, DensePhaseTimes), PirError> {
    let round = |chosen: RlweCiphertext| DenseResponse::compress(parameters, &chosen, shape.places(parameters));
    responses(parameters, &DensePart::whole(shape), planes, queries, round, cancel)
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
) -> Result<(Vec<Vec<PartialResponse>>, DensePhaseTimes), PirError> {
    responses(parameters, part, planes, queries, |chosen| Ok(PartialResponse::new(chosen)), cancel)
}

/// Selects the cells of some queries from a part of the tables, and makes responses of them.
fn responses<R: Send>(
    parameters: &PirParameters,
    part: &DensePart,
    planes: &[Vec<GroupView<'_>>],
    queries: &[(&PreparedKeys, &DenseQuery)],
    finish: impl Fn(RlweCiphertext) -> Result<R, PirError> + Sync,
    cancel: &AtomicBool,
) -> Result<(Vec<Vec<R>>, DensePhaseTimes), PirError> {
    let shape = part.shape();
    queries.iter().try_for_each(|(keys, query)| check_query(parameters, shape, keys, query))?;
    planes.iter().try_for_each(|groups| check_plane(parameters, part, groups))?;
    expansion::check(cancel)?;
    let mut phases = DensePhaseTimes::default();
    let mut watch = Stopwatch::new(cancel);
    let words = Words::new(parameters, part, queries)?;
    watch.lap(&mut phases.packing)?;
    let gadgets = selection_gadgets(parameters, shape)?;
    let expand = |(keys, query): &(&PreparedKeys, &DenseQuery)| {
        expansion::check(cancel)?;
        let (seed, body) = &query.selection;
        expansion::packed(keys, &gadgets, (seed, body))
    };
    let bits: Vec<Vec<Rgsw>> = queries.par_iter().map(expand).collect::<Result<_, _>>()?;
    watch.lap(&mut phases.expansion)?;
    let mut responses: Vec<Vec<R>> = queries.iter().map(|_| Vec::with_capacity(planes.len())).collect();
    for groups in planes {
        let packed = packed_groups(parameters, part, groups, &words, &mut watch, &mut phases)?;
        let select =
            |(groups, bits): (Vec<RlweCiphertext>, &Vec<Rgsw>)| finish(selected_cell(parameters, part, groups, bits)?);
        let selected: Vec<_> = packed.into_par_iter().zip(&bits).map(select).collect::<Result<_, PirError>>()?;
        responses.iter_mut().zip(selected).for_each(|(all, new)| all.push(new));
        watch.lap(&mut phases.selection)?;
    }
    Ok((responses, phases))
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
    words: Vec<Vec<u32>>,
    keys: PackingKeys<'a>,
}

impl<'a> Words<'a> {
    /// The words are those for the rows of a part.
    pub(crate) fn new(
        parameters: &PirParameters,
        part: &DensePart,
        queries: &[(&PreparedKeys, &'a DenseQuery)],
    ) -> Result<Self, PirError> {
        let only: Vec<&DenseQuery> = queries.iter().map(|(_, query)| *query).collect();
        let words = only.iter().map(|query| shifted(&query.words[part.rows()])).collect();
        Ok(Words { words, keys: PackingKeys::new(parameters, &only)? })
    }
}

/// For each query, the packed sums of each group of a plane. Adds the durations to those of the phases.
pub(crate) fn packed_groups(
    parameters: &PirParameters,
    part: &DensePart,
    groups: &[GroupView<'_>],
    queries: &Words<'_>,
    watch: &mut Stopwatch<'_>,
    phases: &mut DensePhaseTimes,
) -> Result<Vec<Vec<RlweCiphertext>>, PirError> {
    let words: Vec<&[u32]> = queries.words.iter().map(Vec::as_slice).collect();
    let mut packed: Vec<Vec<RlweCiphertext>> = words.iter().map(|_| Vec::with_capacity(groups.len())).collect();
    for group in groups {
        let bodies = group_sums(parameters, part, group, &words)?;
        watch.lap(&mut phases.rows)?;
        let ciphertexts = group.packing.packed(parameters, &queries.keys, bodies)?;
        packed.iter_mut().zip(ciphertexts).for_each(|(all, new)| all.push(RlweCiphertext::from_components(new)));
        watch.lap(&mut phases.packing)?;
    }
    Ok(packed)
}

/// Selects the group and the place of a query. If the group is not one of the part, the result encrypts zero.
fn selected_cell(
    parameters: &PirParameters,
    part: &DensePart,
    groups: Vec<RlweCiphertext>,
    bits: &[Rgsw],
) -> Result<RlweCiphertext, PirError> {
    let (ring, places) = (parameters.ring(), part.shape().places(parameters));
    let (place_bits, group_bits) = bits.split_at(places.ilog2() as usize);
    let mut entries: Vec<Option<RlweCiphertext>> = (0..part.groups().start).map(|_| None).collect();
    entries.extend(groups.into_iter().map(Some));
    entries.resize_with(part.shape().groups(), || None);
    for bit in group_bits.iter().rev() {
        let ones = entries.split_off(entries.len() / 2);
        let pairs = entries.into_par_iter().zip(ones);
        entries = pairs.map(|(zero, one)| selected_of(ring, bit, zero, one)).collect::<Result<_, _>>()?;
    }
    let chosen = match entries.pop().flatten() {
        Some(chosen) => chosen,
        None => RlweCiphertext::trivial(ring, &ring.zero(ring.basis(), Domain::Evaluation))?,
    };
    rotated_to_front(ring, chosen, place_bits)
}

/// Selects by an encrypted bit. A ciphertext that is not there counts as zero.
fn selected_of(
    ring: &SmallRing,
    bit: &Rgsw,
    zero: Option<RlweCiphertext>,
    one: Option<RlweCiphertext>,
) -> Result<Option<RlweCiphertext>, PirError> {
    Ok(match (zero, one) {
        (Some(zero), Some(one)) => Some(bit.select(ring, &zero, &one)?),
        (None, Some(one)) => Some(bit.external_product(ring, &one)?),
        (Some(mut zero), None) => {
            let product = bit.external_product(ring, &zero)?;
            zero.sub_assign(ring, &product)?;
            Some(zero)
        }
        (None, None) => None,
    })
}

fn check_query(
    parameters: &PirParameters,
    shape: DenseShape,
    keys: &PreparedKeys,
    query: &DenseQuery,
) -> Result<(), PirError> {
    if keys.parameters.fingerprint() != parameters.fingerprint() {
        return Err(PirError::OtherParameters { needed: parameters.name() });
    }
    let (found, needed) = (query.words.len(), shape.rows);
    match found == needed {
        true => Ok(()),
        false => Err(PirError::format("dense query", format!("{found} words"), format!("{needed} words"))),
    }
}

/// The words of a query as fractions of 2^32.
fn shifted(words: &[u32]) -> Vec<u32> {
    words.iter().map(|word| word << (u32::BITS - QUERY_BITS)).collect()
}

/// For each query the sums over rows of all columns of a group, modulo the ring's modulus, in the evaluation domain.
fn group_sums(
    parameters: &PirParameters,
    part: &DensePart,
    group: &GroupView<'_>,
    words: &[&[u32]],
) -> Result<Vec<Poly>, PirError> {
    let ring = parameters.ring();
    let blocks = group.bytes.par_chunks(part.rows().len() * BYTE_BLOCK);
    let blocks = blocks.map(|bytes| byte_sums(ring.backend(), bytes, words));
    let blocks: Vec<Vec<[u32; BYTE_BLOCK]>> = blocks.collect::<Result<_, _>>()?;
    let modulus: u64 = ring.chain().iter().map(|&q| u64::from(q)).product();
    let raised = |sum: u32| ((u128::from(sum) * u128::from(modulus) + (1 << 31)) >> 32) as i64;
    let body = |(query, words): (usize, &&[u32])| {
        let mut sums: Vec<u32> = blocks.iter().flat_map(|block| block[query]).collect();
        group.changes.iter().for_each(|change| change.add_to(&mut sums, words));
        let sums: Vec<i64> = sums.into_iter().map(raised).collect();
        Ok(ring.evaluate_i64(&sums, ring.basis())?)
    };
    words.par_iter().enumerate().map(body).collect()
}
