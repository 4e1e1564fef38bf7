//! Activations as slots, and back.

use ndarray::{Array2, ArrayView2};
use unspoken_ckks::Complex64;

use crate::layout::Layout;

impl Layout {
    /// The slots of the vectors of activations, a row for each token of a chunk, divided by `unit`: for each vector,
    /// the slots of all parts next to each other. Missing rows are zero.
    pub fn pack(&self, rows: ArrayView2<'_, f32>, unit: f64) -> Vec<Vec<Complex64>> {
        let (width, period) = (rows.ncols(), self.period(rows.ncols()));
        // Divided by the unit once: divisions take longer for some values.
        let inverse = unit.recip();
        let value = |index: usize, slot: usize| {
            let (vector, part) = (index / self.parts, index % self.parts);
            let (token, dimension) = (slot % self.tokens, slot / self.tokens % period);
            let (token, dimension) = (part * self.tokens + token, vector * self.dimensions() + dimension);
            if token < rows.nrows() && dimension < width { f64::from(rows[(token, dimension)]) * inverse } else { 0.0 }
        };
        let vectors = self.activation_vectors(width) * self.parts;
        (0..vectors).map(|index| (0..self.slots).map(|slot| Complex64::from(value(index, slot))).collect()).collect()
    }

    /// The activations of a chunk from the slots of its vectors, times `unit`.
    pub fn unpack(&self, vectors: &[&[Complex64]], width: usize, unit: f64) -> Array2<f32> {
        Array2::from_shape_fn((self.chunk(), width), |(token, dimension)| {
            let (part, token) = (token / self.tokens, token % self.tokens);
            let (vector, dimension) = (dimension / self.dimensions(), dimension % self.dimensions());
            (vectors[vector * self.parts + part][token + self.tokens * dimension].re * unit) as f32
        })
    }
}
