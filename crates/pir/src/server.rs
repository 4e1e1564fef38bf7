//! The answering side.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rayon::prelude::*;
use unspoken_gsw::{Rgsw, RlweCiphertext};
use unspoken_ring::Poly;

use crate::database::{EntryChange, TableView};
use crate::error::{PirError, range};
use crate::expansion;
use crate::keys::PreparedKeys;
use crate::parameters::PirParameters;
use crate::query::Query;
use crate::response::Response;
use crate::shape::DatabaseShape;

/// How long the phases of an answer took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Phases {
    /// From the query to RGSW ciphertexts of the index's bits.
    pub expansion: Duration,
    /// From the row bits to an encrypted unit vector.
    pub selectors: Duration,
    /// The sums over all rows, of all planes.
    pub rows: Duration,
    /// Columns and places, of all planes.
    pub selection: Duration,
    /// To the ring of responses, of all planes.
    pub compression: Duration,
}

/// The responses to a query, one for each plane: tables of one shape that hold the parts of records longer than a piece
/// (Pirouette, Algorithm 22). What depends on the query alone is done once. Neither time nor memory depend on the index.
///
/// # Errors
/// If the keys do not serve the query's mode, anything is of other parameters, or when `cancel` is set.
pub fn answer(
    keys: &PreparedKeys,
    shape: DatabaseShape,
    planes: &[TableView],
    query: &Query,
    cancel: &AtomicBool,
) -> Result<(Vec<Response>, Phases), PirError> {
    let mut phases = Phases::default();
    let mut watch = Stopwatch { started: Instant::now(), cancel };
    let bits = expansion::bits(keys, shape, query, cancel)?;
    watch.lap(&mut phases.expansion)?;
    let (places, rest) = bits.split_at(shape.piece_bits as usize);
    let (columns, rows) = rest.split_at(shape.column_bits as usize);
    let selectors = selectors(&keys.parameters, shape, rows)?;
    watch.lap(&mut phases.selectors)?;
    let mut responses = Vec::with_capacity(planes.len());
    for plane in planes {
        let entries = row_sums(&keys.parameters, shape, plane, &selectors)?;
        watch.lap(&mut phases.rows)?;
        let chosen = chosen(&keys.parameters, entries, columns, places)?;
        watch.lap(&mut phases.selection)?;
        responses.push(Response::compress(keys, &chosen)?);
        watch.lap(&mut phases.compression)?;
    }
    Ok((responses, phases))
}

/// Tells the time of phases, and stops between them.
struct Stopwatch<'a> {
    started: Instant,
    cancel: &'a AtomicBool,
}

impl Stopwatch<'_> {
    fn lap(&mut self, phase: &mut Duration) -> Result<(), PirError> {
        *phase += self.started.elapsed();
        self.started = Instant::now();
        if self.cancel.load(Ordering::Relaxed) { Err(PirError::Interrupted) } else { Ok(()) }
    }
}

/// For each stored row an encryption of `delta` if it is the one, and of zero if not: a tree in which a parent's right child
/// is its product with a bit, and the left child what is left of the parent (Pirouette, Equation 3).
fn selectors(parameters: &PirParameters, shape: DatabaseShape, bits: &[Rgsw]) -> Result<Vec<RlweCiphertext>, PirError> {
    let ring = parameters.ring();
    let mut delta = ring.zero(ring.basis(), unspoken_ring::Domain::Evaluation);
    ring.add_constant_assign(&mut delta, parameters.delta())?;
    let mut nodes = vec![RlweCiphertext::trivial(ring, &delta)?];
    for (level, bit) in bits.iter().rev().enumerate() {
        // Rows below here that a node stands for.
        let span = 1usize << (bits.len() - 1 - level);
        let children = |node: &RlweCiphertext| {
            let right = bit.external_product(ring, node)?;
            let mut left = node.clone();
            left.sub_assign(ring, &right)?;
            Ok([left, right])
        };
        let pairs: Vec<[RlweCiphertext; 2]> = nodes.par_iter().map(children).collect::<Result<_, PirError>>()?;
        nodes = pairs.into_iter().flatten().take(shape.rows.div_ceil(span)).collect();
    }
    Ok(nodes)
}

/// The sums over rows of selectors times entries: an encryption of the chosen row's entry for each column.
fn row_sums(
    parameters: &PirParameters,
    shape: DatabaseShape,
    plane: &TableView,
    selectors: &[RlweCiphertext],
) -> Result<Vec<RlweCiphertext>, PirError> {
    let ring = parameters.ring();
    let factors: Vec<[&Poly; 2]> = selectors.iter().map(RlweCiphertext::components).collect();
    let mut sums = ring.table_sums(shape.table(parameters), plane.words, &factors)?;
    for change in plane.changes {
        let EntryChange { row, column, difference } = Arc::as_ref(change);
        let (Some(sum), Some(factor)) = (sums.get_mut(*column), factors.get(*row)) else {
            return Err(range("add a change of an entry", *row as u64, format!("a row below {}", shape.rows)));
        };
        sum.iter_mut().zip(factor).try_for_each(|(sum, factor)| ring.mul_add_assign(sum, factor, difference))?;
    }
    Ok(sums.into_iter().map(RlweCiphertext::from_components).collect())
}

/// The entry of the chosen column, turned so that the chosen piece is at place 0.
fn chosen(
    parameters: &PirParameters,
    mut entries: Vec<RlweCiphertext>,
    columns: &[Rgsw],
    places: &[Rgsw],
) -> Result<RlweCiphertext, PirError> {
    let ring = parameters.ring();
    for bit in columns.iter().rev() {
        let (zeros, ones) = entries.split_at(entries.len() / 2);
        let pairs = zeros.par_iter().zip(ones);
        entries = pairs.map(|(zero, one)| bit.select(ring, zero, one)).collect::<Result<_, _>>()?;
    }
    let mut chosen = entries.swap_remove(0);
    for (place, bit) in places.iter().enumerate() {
        let turned = chosen.rotated(ring, (2 * ring.degree() - (1 << place)) as u32)?;
        chosen = bit.select(ring, &chosen, &turned)?;
    }
    Ok(chosen)
}
