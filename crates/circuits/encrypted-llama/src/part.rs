//! Parts of a pass: what one process computes while others compute other parts.

use std::ops::Range;

use unspoken_llama::Place;

use crate::layout::Layout;
use crate::program::PassProgram;
use crate::public::Public;

/// A part of a pass, with its own copies of vectors.
#[derive(Clone, Debug, PartialEq)]
pub struct Part<V> {
    /// What is computed.
    pub task: PartTask,
    /// Of which vectors.
    pub vectors: Vec<V>,
}

/// What is computed of the vectors of a [`Part`].
#[derive(Clone, Debug, PartialEq)]
pub enum PartTask {
    /// A bootstrap of one or two vectors.
    Refresh,
    /// The first half of a bootstrap of one or two vectors, for a product: one vector of coefficients.
    Coefficients,
    /// A product with the vectors of coefficients of all inputs, and the second halves of its bootstraps.
    Product {
        /// The linear maps, which have one input.
        places: Vec<Place>,
        /// The vectors of the outputs.
        outputs: Range<usize>,
        /// The scale that the inputs had before the first half.
        scale: f64,
    },
    /// The function of a place, of one vector of a tensor. The results are its values, and a vector for the check of
    /// the pass.
    Function {
        /// The place of its results.
        place: Place,
        /// Number of the vector in its tensor.
        index: usize,
    },
    /// What the heads of one vector attend to, for each part of the chunk. The vectors are queries, then keys, then
    /// values. The results are a vector for each part of the chunk, and sums of the check for each of them.
    Heads {
        /// The layer.
        layer: usize,
        /// The block of heads.
        block: usize,
        /// Number of the first of these steps in the pass.
        step: usize,
    },
}

impl<V> Part<V> {
    /// Number of vectors that it computes.
    pub(crate) fn results(&self, layout: &Layout) -> usize {
        match &self.task {
            PartTask::Refresh => self.vectors.len(),
            PartTask::Function { .. } => 2 * self.vectors.len(),
            PartTask::Coefficients => 1,
            PartTask::Product { outputs, .. } => outputs.len() * layout.parts,
            PartTask::Heads { .. } => 2 * layout.parts,
        }
    }
}

/// The pass that parts belong to.
#[derive(Clone, Copy)]
pub struct PassPlace<'a> {
    /// The program.
    pub program: &'a PassProgram,
    /// Keys and values of the prefix and the public tokens.
    pub public: Public<'a>,
    /// The chunk of the pass.
    pub chunk: usize,
    /// Chunks that the session has room for.
    pub chunks: usize,
}
