//! The server: computation of answers.
//!
//! 1. The bits of the index become RGSW ciphertexts. From a compact query they are extracted one by one, the lowest
//!    first. The rest of the index is shifted so that its lowest bit is the highest bit of the word, switched to a
//!    secret of 768 words and bootstrapped. The blind rotation of a bootstrap has a block of coefficients for each
//!    gadget weight of the result and one spare block. With the bit's place value in the spare block, the same rotation
//!    also gives an encryption of the bit at its place, which is subtracted. A bit therefore needs one rotation, as in
//!    a query with a word for each bit. The published decomposition into digits, with two rotations for each digit and
//!    separate keys, is not needed. The only key under a small secret is the key switch, whose errors are as wide as
//!    its dimension requires. The words of shifted ciphertexts are ties of the switch's rounding. Ties are rounded to
//!    even numbers, because with a binary secret the errors of rounding up would add up. The shift multiplies the noise
//!    of the query and of the rotations before. The lowest bits of an index of more than 23 bits would fail too often,
//!    so they are bootstrapped to a fresh encryption of the bit first. That rotation has one block and tolerates four
//!    times the noise of theirs, which has four.
//! 2. The highest bits are expanded to an encrypted unit vector over rows; the lower bits select the column and the
//!    place. A sum over rows multiplies the errors of the highest bits, so their RGSW ciphertexts have seven digits of
//!    4 bits. The errors of the others only add up, so two digits of 9 bits are enough (`PirLiteral::selection`): most
//!    of the time of a selection is the transforms of digits.
//! 3. The sum over rows reads the table once. Selections of the column and of the place in the ring element follow.
//! 4. The response is switched to 24 bits and to degree 512, and its first component is rounded to 7 bits.
//!
//! The content of records does not change the noise, unless it was chosen with knowledge of the pads. A piece is masked
//! with a public pad in its table, so that its coefficients look random. Each unit is represented by one of two
//! integers: the integer that keeps the sums of coefficients small. The reason: the secret is binary and has mean one
//! half. So an entry with most of its weight at the frequencies of this mean (records of one repeated byte) would
//! multiply the noise of selectors by up to the square root of the ring's degree. The client removes the pad.
//!
//! A record longer than a piece is stored in several tables, the planes. Work that depends on the query alone is done
//! once for all planes.
//!
//! The noise of every step is predicted (`PirParameters::response_noise`, `bit_noise`, `extracted_bit_noise`) and
//! compared with measured noise (`src/noise_tests.rs`). Queries of a mode that would fail more than once in 2^40 are
//! refused. A response whose noise is larger than planned is rejected; this detects responses computed with other keys
//! or from damaged data.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;
use unspoken_gsw::{BinaryRing, Choice, GswError, Rgsw, RlweCiphertext};
use unspoken_ring::{Poly, TableFactors};

use crate::database::{EntryChange, TableView};
use crate::device::is_on_device;
use crate::error::SchemeError;
use crate::expansion;
use crate::keys::PreparedKeys;
use crate::parameters::PirParameters;
use crate::query::Query;
use crate::response::Response;
use crate::shape::DatabaseShape;

/// A phase of an answer. Tables of each kind have some of them, and most of these once for each plane, or more often.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Expansion of the query to RGSW ciphertexts of the index's bits, or only of the bits that select.
    Expansion,
    /// Expansion of the row bits to an encrypted unit vector.
    Selectors,
    /// Sums over all rows.
    Rows,
    /// Packing of the sums over rows of a dense table.
    Packing,
    /// Selection of columns and places; for dense tables with the rounding.
    Selection,
    /// Switch to the ring of responses.
    Compression,
}

/// Computes the responses to a query, one for each plane. Planes are tables of one shape that hold the parts of records
/// longer than a piece (Pirouette, Algorithm 22). Work that depends on the query alone is done once. Neither time nor
/// memory depend on the index.
///
/// # Errors
/// If the keys do not fit the query's mode, if anything has other parameters, or when `cancel` is set.
pub fn answer(
    keys: &PreparedKeys,
    shape: DatabaseShape,
    planes: &[TableView],
    query: &Query,
    cancel: &AtomicBool,
) -> Result<Vec<Response>, SchemeError> {
    answer_in_phases(keys, shape, planes, query, cancel, |_| ())
}

/// As [`answer`], and calls `ended` at the end of each phase.
///
/// # Errors
/// As for [`answer`].
pub fn answer_in_phases(
    keys: &PreparedKeys,
    shape: DatabaseShape,
    planes: &[TableView],
    query: &Query,
    cancel: &AtomicBool,
    mut ended: impl FnMut(Phase),
) -> Result<Vec<Response>, SchemeError> {
    planes.iter().try_for_each(|plane| check_table(&keys.parameters, shape, plane))?;
    expansion::check(cancel)?;
    keys.parameters.check_failure(shape, query.mode())?;
    let mut watch = Watch { cancel, ended: &mut ended };
    let bits = expansion::expand(keys, shape, query, cancel)?;
    watch.ended(Phase::Expansion)?;
    let (places, rest) = bits.split_at(shape.piece_bits as usize);
    let (columns, rows) = rest.split_at(shape.column_bits as usize);
    let inner_bits = shape.column_bits.min(most_inner_bits(keys.parameters.ring()));
    let (inner, outer) = columns.split_at(inner_bits as usize);
    let ring = keys.parameters.ring();
    let rows = Rows::new(&keys.parameters, selectors(&keys.parameters, shape, rows)?)?;
    watch.ended(Phase::Selectors)?;
    let mut responses = Vec::with_capacity(planes.len());
    for plane in planes {
        let mut entries = Vec::new();
        for columns in column_ranges(shape, inner_bits) {
            let sums = row_sums(&keys.parameters, shape, plane, columns, &rows)?;
            watch.ended(Phase::Rows)?;
            entries.push(selected(ring, sums, inner)?);
            watch.ended(Phase::Selection)?;
        }
        let chosen = rotated_to_front(ring, vec![selected(ring, entries, outer)?], &[places])?;
        watch.ended(Phase::Selection)?;
        for ciphertext in &chosen {
            responses.push(Response::compress(keys, ciphertext)?);
        }
        watch.ended(Phase::Compression)?;
    }
    Ok(responses)
}

/// Bytes of memory that computing an answer needs.
pub fn answer_memory_bytes(parameters: &PirParameters, shape: DatabaseShape) -> u64 {
    let ring = parameters.ring();
    let pair = 2 * ring.poly_bytes(ring.basis());
    let most = most_inner_bits(ring);
    let columns = 1usize << shape.column_bits.min(most);
    let outer = 1usize << shape.column_bits.saturating_sub(most);
    let rows_of_bits: usize = parameters.gadgets(shape).iter().map(|gadget| 2 * gadget.levels()).sum();
    // Sums are computed in the order of the table first, then converted to polynomials. Selectors are in the order of
    // the table too.
    ((2 * columns + outer + 3 * shape.rows + rows_of_bits) * pair) as u64
}

/// Most bits of the number of columns that are summed at one time.
const MAX_INNER_BITS: u32 = 9;

/// Most bits of the number of columns that are summed at one time: 32 columns for each thread. The sums stay in the
/// cache until one of them is selected, and in memory that the ring keeps. A device sums the largest number that it
/// may.
fn most_inner_bits(ring: &BinaryRing) -> u32 {
    if is_on_device(ring) {
        return MAX_INNER_BITS;
    }
    (32 * rayon::current_num_threads()).next_power_of_two().ilog2().min(MAX_INNER_BITS)
}

/// The columns, in ranges of `2^inner_bits`.
fn column_ranges(shape: DatabaseShape, inner_bits: u32) -> impl Iterator<Item = Range<usize>> {
    let step = 1usize << inner_bits;
    (0..1usize << shape.column_bits).step_by(step).map(move |start| start..start + step)
}

/// The selectors of rows, also in the order in which sums over a table read them.
pub(crate) struct Rows {
    selectors: Vec<RlweCiphertext>,
    factors: TableFactors,
}

impl Rows {
    pub(crate) fn new(parameters: &PirParameters, selectors: Vec<RlweCiphertext>) -> Result<Self, SchemeError> {
        let (ring, pairs) = (parameters.ring(), selectors.iter().map(RlweCiphertext::components).collect::<Vec<_>>());
        let factors = ring.table_factors(ring.chain().len(), &pairs)?;
        Ok(Rows { selectors, factors })
    }
}

/// Tells of phases that ended, and checks for cancellation between them.
pub(crate) struct Watch<'a> {
    pub(crate) cancel: &'a AtomicBool,
    pub(crate) ended: &'a mut dyn FnMut(Phase),
}

impl Watch<'_> {
    pub(crate) fn ended(&mut self, phase: Phase) -> Result<(), SchemeError> {
        (self.ended)(phase);
        expansion::check(self.cancel)
    }
}

/// For each stored row, an encryption of `delta` if it is the selected row, and of zero otherwise. They are the leaves
/// of a tree: a parent's right child is its product with a bit, the left child is the parent minus the right child
/// (Pirouette, Equation 3).
pub(crate) fn selectors(
    parameters: &PirParameters,
    shape: DatabaseShape,
    bits: &[Rgsw],
) -> Result<Vec<RlweCiphertext>, SchemeError> {
    let ring = parameters.ring();
    let mut delta = ring.zero(ring.basis(), unspoken_ring::Domain::Evaluation);
    ring.add_constant_assign(&mut delta, parameters.delta())?;
    let mut nodes = vec![RlweCiphertext::trivial(ring, &delta)?];
    for (level, bit) in bits.iter().rev().enumerate() {
        // Number of rows below each child.
        let span = 1usize << (bits.len() - 1 - level);
        let choices: Vec<Choice<'_>> = nodes.iter().map(|node| Choice { bit, zero: None, one: Some(node) }).collect();
        let children = |(mut left, right): (RlweCiphertext, RlweCiphertext)| {
            left.sub_assign(ring, &right)?;
            Ok([left, right])
        };
        let rights = chosen(ring, &choices)?;
        let pairs = nodes.into_iter().zip(rights).map(children).collect::<Result<Vec<_>, GswError>>()?;
        nodes = pairs.into_iter().flatten().take(shape.rows.div_ceil(span)).collect();
    }
    Ok(nodes)
}

/// Checks that a table has this shape. A wrong table is an error of the database, not of the client.
fn check_table(parameters: &PirParameters, shape: DatabaseShape, plane: &TableView) -> Result<(), SchemeError> {
    let below = |what, found: usize, needed: usize| match found < needed {
        true => Ok(()),
        false => Err(SchemeError::Table { what, found: found as u64, needed: needed as u64 }),
    };
    let (found, needed) = (plane.words.items.len(), parameters.ring().table_words(shape.table(parameters)));
    if found != needed {
        return Err(SchemeError::Table { what: "words of a table", found: found as u64, needed: needed as u64 });
    }
    plane.changes.iter().try_for_each(|change| {
        below("row of a change, below the rows", change.row, shape.rows)?;
        below("column of a change, below the columns", change.column, 1 << shape.column_bits)
    })
}

/// Sums over rows of selectors times entries: for each of some columns, an encryption of the selected row's entry.
pub(crate) fn row_sums(
    parameters: &PirParameters,
    shape: DatabaseShape,
    plane: &TableView,
    columns: Range<usize>,
    rows: &Rows,
) -> Result<Vec<RlweCiphertext>, SchemeError> {
    let ring = parameters.ring();
    let mut sums = ring.table_sums(shape.table(parameters), plane.words, columns.clone(), &rows.factors)?;
    for change in plane.changes.iter().filter(|change| columns.contains(&change.column)) {
        let EntryChange { row, column, difference } = Arc::as_ref(change);
        let (sum, factor) = (&mut sums[column - columns.start], rows.selectors[*row].components());
        sum.iter_mut().zip(factor).try_for_each(|(sum, factor)| ring.mul_add_assign(sum, factor, difference))?;
    }
    Ok(sums.into_iter().map(RlweCiphertext::from_components).collect())
}

/// The chosen ones of many ciphertexts, by bits of one gadget.
pub(crate) fn chosen(ring: &BinaryRing, choices: &[Choice<'_>]) -> Result<Vec<RlweCiphertext>, SchemeError> {
    if is_on_device(ring) {
        return Ok(Rgsw::choose_each(ring, choices)?);
    }
    let each = choices.par_iter().map(|choice| Rgsw::choose_each(ring, std::slice::from_ref(choice)));
    Ok(each.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

/// Selects the entry whose number the bits encrypt, the lowest bit first.
pub(crate) fn selected(
    ring: &BinaryRing,
    mut entries: Vec<RlweCiphertext>,
    bits: &[Rgsw],
) -> Result<RlweCiphertext, SchemeError> {
    if !is_on_device(ring) {
        return selected_by_halves(ring, entries, bits);
    }
    for bit in bits {
        let choices = entries.chunks(2).map(|pair| Choice { bit, zero: pair.first(), one: pair.get(1) });
        entries = chosen(ring, &choices.collect::<Vec<_>>())?;
    }
    Ok(entries.swap_remove(0))
}

/// Least number of entries for which the halves are selected from by two threads.
const MIN_OF_TWO_THREADS: usize = 32;

/// Selects from each half with the lower bits, then between both with the highest bit. Half by half, what is in use
/// stays in the cache.
fn selected_by_halves(
    ring: &BinaryRing,
    mut entries: Vec<RlweCiphertext>,
    bits: &[Rgsw],
) -> Result<RlweCiphertext, SchemeError> {
    let Some((highest, rest)) = bits.split_last() else { return Ok(entries.swap_remove(0)) };
    let ones = entries.split_off(entries.len() / 2);
    let of = |entries| selected_by_halves(ring, entries, rest);
    let (zero, one) = match entries.len() + ones.len() < MIN_OF_TWO_THREADS {
        true => (of(entries), of(ones)),
        false => rayon::join(|| of(entries), || of(ones)),
    };
    Ok(highest.select(ring, &zero?, &one?)?)
}

/// Rotates entries so that the piece that the bits of each select is at place 0.
pub(crate) fn rotated_to_front(
    ring: &BinaryRing,
    mut entries: Vec<RlweCiphertext>,
    places: &[&[Rgsw]],
) -> Result<Vec<RlweCiphertext>, SchemeError> {
    for place in 0..places.first().map_or(0, |bits| bits.len()) {
        let rotated = rotated_back(ring, &entries, 1 << place)?;
        let pairs = entries.iter().zip(&rotated).zip(places);
        let choices = pairs.map(|((zero, one), bits)| Choice { bit: &bits[place], zero: Some(zero), one: Some(one) });
        entries = chosen(ring, &choices.collect::<Vec<_>>())?;
    }
    Ok(entries)
}

/// Entries times `X^-shift`.
fn rotated_back(
    ring: &BinaryRing,
    entries: &[RlweCiphertext],
    shift: usize,
) -> Result<Vec<RlweCiphertext>, SchemeError> {
    if !is_on_device(ring) {
        let rotate = |entry: &RlweCiphertext| entry.rotated(ring, (2 * ring.degree() - shift) as u32);
        return Ok(entries.par_iter().map(rotate).collect::<Result<_, _>>()?);
    }
    let mut power = vec![0; ring.degree()];
    // X^n = -1.
    power[ring.degree() - shift] = -1;
    let power = ring.evaluate_i32(&power, ring.basis())?;
    let components: Vec<&Poly> = entries.iter().flat_map(RlweCiphertext::components).collect();
    let mut turned = ring.multiples(&power, &components)?.into_iter();
    let pairs = std::iter::from_fn(|| Some([turned.next()?, turned.next()?]));
    Ok(pairs.map(RlweCiphertext::from_components).collect())
}
