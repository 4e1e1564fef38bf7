//! The answering side.

use std::time::{Duration, Instant};

use rayon::prelude::*;
use unspoken_gsw::{Rgsw, RlweCiphertext};
use unspoken_ring::Poly;

use crate::database::Database;
use crate::error::PirError;
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
    /// The sum over all rows.
    pub rows: Duration,
    /// Columns and places.
    pub selection: Duration,
    /// To the ring of responses.
    pub compression: Duration,
}

/// The response to a query (Pirouette, Algorithm 22). Neither time nor memory depend on the index.
///
/// # Errors
/// If the keys do not serve the query's mode, or anything is of other parameters.
pub fn answer(database: &Database, keys: &PreparedKeys, query: &Query) -> Result<(Response, Phases), PirError> {
    let (parameters, shape) = (database.parameters(), database.shape());
    let ring = parameters.ring();
    let mut phases = Phases::default();
    let mut started = Instant::now();
    let mut lap = |phase: &mut Duration| {
        *phase = started.elapsed();
        started = Instant::now();
    };
    let bits = expansion::bits(keys, shape, query)?;
    lap(&mut phases.expansion);
    let (places, rest) = bits.split_at(shape.piece_bits as usize);
    let (columns, rows) = rest.split_at(shape.column_bits as usize);
    let selectors = selectors(parameters, shape, rows)?;
    lap(&mut phases.selectors);
    let factors: Vec<[&Poly; 2]> = selectors.iter().map(RlweCiphertext::components).collect();
    let sums = ring.table_sums(shape.table(parameters), database.words(), &factors)?;
    let mut entries: Vec<RlweCiphertext> = sums.into_iter().map(RlweCiphertext::from_components).collect();
    lap(&mut phases.rows);
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
    lap(&mut phases.selection);
    let response = Response::compress(keys, &chosen)?;
    lap(&mut phases.compression);
    Ok((response, phases))
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
