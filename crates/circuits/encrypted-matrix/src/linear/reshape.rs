//! Reshapes: the entries in row-major order, in rows of another length.

use std::collections::BTreeMap;

use unspoken_ckks::CkksParameters;

use super::builder::Builder;
use super::map::{LinearMap, Operand};
use crate::error::{EncryptedMatrixError, display_shape, shape_error};
use crate::layout::Layout;
use crate::tile::Term;

const OPERATION: &str = "reshape";

/// Row and column of an entry of a tile of the result, and the distance in positions to its source.
type Move = (usize, usize, i64);

impl LinearMap {
    /// The entries in row-major order as a matrix of another shape, like numpy's `a.reshape(to)`.
    ///
    /// One level, and for each pair of tiles at most one diagonal for each row of them. Pairs whose entries move alike
    /// share their diagonals.
    ///
    /// # Errors
    /// If the numbers of entries differ, or there is no level left.
    pub fn reshape(
        parameters: &CkksParameters,
        layout: Layout,
        input: Operand,
        to: (usize, usize),
    ) -> Result<Self, EncryptedMatrixError> {
        check_reshape(input.shape, to)?;
        let builder = Builder::new(OPERATION, parameters, layout, input)?;
        let grid = layout.grid(to);
        let (mut transforms, mut numbers) = (Vec::new(), BTreeMap::new());
        let mut tiles = Vec::with_capacity(grid.0 * grid.1);
        for tile in 0..grid.0 * grid.1 {
            let mut pairs = Vec::new();
            for (source, moves) in moves(layout, input.shape, to, (tile / grid.1, tile % grid.1)) {
                let number = match numbers.get(&moves) {
                    Some(&number) => number,
                    None => {
                        let (unit, terms) = terms(layout, &moves);
                        transforms.push(builder.transform(unit, terms)?);
                        numbers.insert(moves, transforms.len() - 1);
                        transforms.len() - 1
                    }
                };
                pairs.push((number, source));
            }
            tiles.push(pairs);
        }
        Ok(builder.finish(to, transforms, tiles))
    }
}

/// Refuses shapes with different numbers of entries.
pub(crate) fn check_reshape(from: (usize, usize), to: (usize, usize)) -> Result<(), EncryptedMatrixError> {
    let entries = |(rows, columns): (usize, usize)| rows.checked_mul(columns);
    if entries(from).is_some_and(|count| entries(to) == Some(count)) {
        return Ok(());
    }
    let reason = format!(
        "{} to {}; needed a shape with as many entries: choose the number of rows, and let the entries determine the \
         columns",
        display_shape(from),
        display_shape(to)
    );
    Err(shape_error(OPERATION, reason))
}

/// The moves into one tile of the result, by the number of their source tile.
fn moves(
    layout: Layout,
    from: (usize, usize),
    to: (usize, usize),
    (tile_row, tile_column): (usize, usize),
) -> BTreeMap<usize, Vec<Move>> {
    let (tile, across) = (layout.tile(), layout.grid(from).1);
    let (first_row, first_column) = (tile_row * tile.0, tile_column * tile.1);
    let (rows, columns) = (tile.0.min(to.0 - first_row), tile.1.min(to.1 - first_column));
    let mut moves: BTreeMap<usize, Vec<Move>> = BTreeMap::new();
    for (row, column) in (0..rows * columns).map(|cell| (cell / columns, cell % columns)) {
        let entry = (first_row + row) * to.1 + first_column + column;
        let (source_row, source_column) = (entry / from.1, entry % from.1);
        let source = source_row / tile.0 * across + source_column / tile.1;
        let position = (source_row % tile.0 * tile.1 + source_column % tile.1) as i64;
        moves.entry(source).or_default().push((row, column, position - (row * tile.1 + column) as i64));
    }
    moves
}

/// The terms of moves, and the unit of their indices: the greatest common divisor of the distances. In tiles of one row
/// the unit is the greatest power of two that divides the distances, because it must divide the row, which is cyclic.
fn terms(layout: Layout, moves: &[Move]) -> (usize, impl Iterator<Item = Term> + '_) {
    let divisor = moves.iter().fold(0, |divisor, &(_, _, distance)| gcd(divisor, distance.unsigned_abs() as usize));
    let unit = match layout.tile() {
        _ if divisor == 0 => 1,
        (1, _) => 1 << divisor.trailing_zeros(),
        _ => divisor,
    };
    let term = move |&(row, column, distance): &Move| Term { row, column, index: distance / unit as i64, weight: 1.0 };
    (unit, moves.iter().map(term))
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}
