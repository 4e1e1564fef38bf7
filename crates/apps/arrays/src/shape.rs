//! Shapes of arrays, and how large they may be.

use unspoken_matrix::{Graph, Layout};

use crate::bytes::{Reader, Writer};
use crate::error::ArraysError;

/// Largest number of rows or columns of a matrix.
pub(crate) const MAX_EXTENT: usize = 1 << 13;
/// Most entries of a matrix.
const MAX_ENTRIES: usize = 1 << 24;
/// Most tiles of a matrix.
const MAX_TILES: usize = 1 << 12;
/// Most matrices of a batch.
pub(crate) const MAX_BATCH: usize = 1 << 20;
/// Most nodes of a graph.
pub(crate) const MAX_NODES: usize = 1 << 12;
/// Longest name of an input, in bytes.
pub(crate) const MAX_NAME_BYTES: usize = 1 << 10;

const ADD: &str = "add to an expression";

/// Which axes an array has. A vector is a matrix of one row or one column without that axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Axes {
    /// Whether the first axis is the batch.
    pub batch: bool,
    /// Whether there is an axis of rows.
    pub rows: bool,
    /// Whether there is an axis of columns.
    pub columns: bool,
}

impl Axes {
    /// Those of one matrix: rows and columns.
    pub const MATRIX: Axes = Axes { batch: false, rows: true, columns: true };
    /// Those of a batch of matrices.
    pub const BATCH: Axes = Axes { batch: true, rows: true, columns: true };
}

/// The shape of an array of matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ArrayShape {
    /// Rows and columns of each matrix.
    pub matrix: (usize, usize),
    /// The axes of the array; those left out have extent 1.
    pub axes: Axes,
}

impl ArrayShape {
    /// The extents of the array, for a batch of this many matrices.
    pub fn extents(&self, batch: usize) -> Vec<usize> {
        let axes = [(self.axes.batch, batch), (self.axes.rows, self.matrix.0), (self.axes.columns, self.matrix.1)];
        axes.into_iter().filter(|(there, _)| *there).map(|(_, extent)| extent).collect()
    }

    /// The shape itself, unless it is too large or an axis of extent above 1 is left out.
    pub(crate) fn check(self, operation: &'static str) -> Result<Self, ArraysError> {
        let (rows, columns) = self.matrix;
        let sized = (1..=MAX_EXTENT).contains(&rows) && (1..=MAX_EXTENT).contains(&columns);
        if !sized || rows * columns > MAX_ENTRIES {
            let needed = format!("1 to {MAX_EXTENT} rows and columns and at most {MAX_ENTRIES} entries");
            return Err(ArraysError::mismatch(operation, format!("shape ({rows}, {columns})"), needed));
        }
        if (!self.axes.rows && rows != 1) || (!self.axes.columns && columns != 1) {
            let found = format!("an axis of extent above 1 left out of shape ({rows}, {columns})");
            return Err(ArraysError::mismatch(operation, found, "axes of extent 1 to leave out"));
        }
        Ok(self)
    }

    pub(crate) fn write(&self, out: &mut Writer) {
        out.u32(self.matrix.0);
        out.u32(self.matrix.1);
        let Axes { batch, rows, columns } = self.axes;
        out.u8(u8::from(batch) | u8::from(rows) << 1 | u8::from(columns) << 2);
    }

    pub(crate) fn read(input: &mut Reader<'_>) -> Result<Self, ArraysError> {
        let matrix = (input.u32()?, input.u32()?);
        let axes = input.u8()?;
        if axes > 7 {
            return Err(input.refuse(format!("axes {axes}"), "three bits"));
        }
        let axes = Axes { batch: axes & 1 != 0, rows: axes & 2 != 0, columns: axes & 4 != 0 };
        ArrayShape { matrix, axes }.check(input.what())
    }
}

/// Whether the number of tiles of a matrix of this shape is within the limit.
pub(crate) fn fits_tiles(layout: Layout, (rows, columns): (usize, usize)) -> bool {
    layout.tiles(rows).saturating_mul(layout.tiles(columns)) <= MAX_TILES
}

/// Refuses graphs with too many nodes or too large matrices.
pub(crate) fn check_graph(graph: &Graph) -> Result<(), ArraysError> {
    if graph.nodes().len() > MAX_NODES {
        let needed = format!("at most {MAX_NODES}: compute in several steps");
        return Err(ArraysError::mismatch(ADD, format!("{} operations", graph.nodes().len()), needed));
    }
    let check = |matrix| ArrayShape { matrix, axes: Axes::MATRIX }.check(ADD).map(drop);
    graph.nodes().iter().try_for_each(|node| check(node.shape()))
}
