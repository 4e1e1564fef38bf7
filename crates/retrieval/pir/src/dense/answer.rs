//! The server: answers from dense tables.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rayon::prelude::*;
use unspoken_gsw::RlweCiphertext;
use unspoken_ring::{BYTE_BLOCK, Poly, byte_sums};

use crate::dense::QUERY_BITS;
use crate::dense::packing::PackingKeys;
use crate::dense::query::DenseQuery;
use crate::dense::response::DenseResponse;
use crate::dense::table::DenseTable;
use crate::error::PirError;
use crate::expansion;
use crate::keys::PreparedKeys;
use crate::parameters::PirParameters;
use crate::server::{Stopwatch, rotated_to_front, selected};

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

/// Computes the responses to some queries in one pass over the table. Each query comes with the keys of its client, for
/// any kind of queries. Neither time nor memory depend on the cells.
///
/// # Errors
/// If keys or a query have other parameters or another shape, or when `cancel` is set.
pub fn answer(
    table: &DenseTable,
    queries: &[(&PreparedKeys, &DenseQuery)],
    cancel: &AtomicBool,
) -> Result<(Vec<DenseResponse>, DensePhaseTimes), PirError> {
    let (parameters, shape) = (table.parameters(), table.shape());
    queries.iter().try_for_each(|(keys, query)| check(table, keys, query))?;
    expansion::check(cancel)?;
    let mut phases = DensePhaseTimes::default();
    let mut watch = Stopwatch::new(cancel);
    let only: Vec<&DenseQuery> = queries.iter().map(|(_, query)| *query).collect();
    let packed = packed_groups(table, &only, &mut watch, &mut phases)?;
    let (ring, places) = (parameters.ring(), shape.places(parameters));
    let mut responses = Vec::with_capacity(queries.len());
    for ((keys, query), groups) in queries.iter().zip(packed) {
        let (seed, body) = &query.selection;
        let bits = expansion::packed(keys, shape.selection_bits(parameters), (seed, body))?;
        watch.lap(&mut phases.expansion)?;
        let (place_bits, group_bits) = bits.split_at(places.ilog2() as usize);
        let chosen = rotated_to_front(ring, selected(ring, groups, group_bits)?, place_bits)?;
        responses.push(DenseResponse::compress(parameters, &chosen, places)?);
        watch.lap(&mut phases.selection)?;
    }
    Ok((responses, phases))
}

/// For each query, the packed sums of each group. Adds the durations to those of the phases.
pub(crate) fn packed_groups(
    table: &DenseTable,
    queries: &[&DenseQuery],
    watch: &mut Stopwatch<'_>,
    phases: &mut DensePhaseTimes,
) -> Result<Vec<Vec<RlweCiphertext>>, PirError> {
    let (parameters, shape) = (table.parameters(), table.shape());
    let words: Vec<Vec<u32>> = queries.iter().map(|query| shifted(&query.words)).collect();
    let words: Vec<&[u32]> = words.iter().map(Vec::as_slice).collect();
    let keys = PackingKeys::new(parameters, queries)?;
    watch.lap(&mut phases.packing)?;
    let mut packed: Vec<Vec<RlweCiphertext>> = queries.iter().map(|_| Vec::with_capacity(shape.groups())).collect();
    for group in 0..shape.groups() {
        let bodies = group_sums(parameters, table.group(group), shape.rows, &words)?;
        watch.lap(&mut phases.rows)?;
        let ciphertexts = table.packing(group).packed(parameters, &keys, bodies)?;
        packed.iter_mut().zip(ciphertexts).for_each(|(all, new)| all.push(RlweCiphertext::from_components(new)));
        watch.lap(&mut phases.packing)?;
    }
    Ok(packed)
}

fn check(table: &DenseTable, keys: &PreparedKeys, query: &DenseQuery) -> Result<(), PirError> {
    if keys.parameters.fingerprint() != table.parameters().fingerprint() {
        return Err(PirError::OtherParameters { needed: table.parameters().name() });
    }
    let (found, needed) = (query.words.len(), table.shape().rows);
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
fn group_sums(parameters: &PirParameters, bytes: &[u8], rows: usize, words: &[&[u32]]) -> Result<Vec<Poly>, PirError> {
    let ring = parameters.ring();
    let blocks = bytes.par_chunks(rows * BYTE_BLOCK).map(|bytes| byte_sums(ring.backend(), bytes, words));
    let blocks: Vec<Vec<[u32; BYTE_BLOCK]>> = blocks.collect::<Result<_, _>>()?;
    let modulus: u64 = ring.chain().iter().map(|&q| u64::from(q)).product();
    let raised = |sum: u32| ((u128::from(sum) * u128::from(modulus) + (1 << 31)) >> 32) as i64;
    let body = |query: usize| {
        let sums: Vec<i64> = blocks.iter().flat_map(|block| block[query]).map(raised).collect();
        Ok(ring.evaluate_i64(&sums, ring.basis())?)
    };
    (0..words.len()).map(body).collect()
}
