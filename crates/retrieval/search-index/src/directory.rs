//! What clients know of an index: the centres of its clusters.

use ndarray::{Array2, ArrayView1};
use zeroize::Zeroizing;

use crate::clusters::nearest_blocks;
use crate::vectors::Quantised;

/// Blocks that a question asks, at most: the service answers its queries in one pass.
pub const MAX_ASKED: usize = 64;

/// The centres of the clusters, by which a client chooses the blocks that it asks.
#[derive(Clone, Debug, PartialEq)]
pub struct Directory {
    /// A centre in each row, in the order of the blocks: coordinates of 8 bits.
    centres: Array2<i8>,
    /// The inner product of a document's coordinates with a vector of length 1 is this many times the cosine.
    scale: f32,
    groups: usize,
    asked: usize,
}

impl Directory {
    /// The directory of an index with these centres of length 1, in the order of the blocks.
    pub(crate) fn new(centres: &Array2<f32>, scale: f32, groups: usize, asked: usize) -> Self {
        let centres = Quantised::new(centres.view()).coordinates().to_owned();
        Directory { centres, scale, groups, asked }
    }

    /// The directory that a service describes.
    ///
    /// The caller checks the numbers: groups, asked blocks and scale are positive, and the centres fill the blocks.
    pub fn described(centres: Array2<i8>, scale: f32, groups: usize, asked: usize) -> Self {
        Directory { centres, scale, groups, asked }
    }

    /// The centres, one in each row, in the order of the blocks.
    pub fn centres(&self) -> &Array2<i8> {
        &self.centres
    }

    /// The inner product of a document's coordinates with a vector of length 1 is this many times the cosine.
    pub fn scale(&self) -> f32 {
        self.scale
    }

    /// Blocks that a question asks.
    pub fn asked(&self) -> usize {
        self.asked
    }

    /// The same directory for questions that ask another number of blocks.
    #[must_use]
    pub fn asking(self, asked: usize) -> Self {
        Directory { asked, ..self }
    }

    /// The `most` blocks of the clusters nearest to a vector, the nearest first. Its length does not matter.
    pub fn blocks(&self, vector: &[f32], most: usize) -> Zeroizing<Vec<usize>> {
        nearest_blocks(&self.similarities(vector), self.groups, most)
    }

    /// The `most` clusters nearest to the vector of a document, the nearest first.
    pub(crate) fn clusters(&self, vector: &[f32], most: usize) -> Zeroizing<Vec<usize>> {
        nearest_blocks(&self.similarities(vector), 1, most)
    }

    /// The inner product of a vector with each centre.
    fn similarities(&self, vector: &[f32]) -> Zeroizing<Vec<f32>> {
        let similarity =
            |centre: ArrayView1<'_, i8>| centre.iter().zip(vector).map(|(&byte, x)| f32::from(byte) * x).sum::<f32>();
        Zeroizing::new(self.centres.outer_iter().map(similarity).collect())
    }
}
