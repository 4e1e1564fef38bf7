//! What all ways to compute the products of attention share: parameters, model, values, and the allowed error.

use ndarray::{Array2, Array3};
use unspoken_ckks::{CkksParameters, Encoder};
use unspoken_encrypted_llama::{Layout, PassProgram};
use unspoken_llama_model::KvCache;
use unspoken_rlwe::KeyPlan;

use super::super::random::Draws;
use crate::error::wrong;

/// Largest allowed error of a score or sum, relative to the largest one.
pub(super) const TOLERANCE: f64 = 1e-2;

#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Case {
    pub(super) preset: &'static str,
    pub(super) small_degree: usize,
    /// Width of activations, query heads, key heads, and width of a head.
    pub(super) model: [usize; 4],
    /// Tokens of the private chunk.
    pub(super) chunk: usize,
    /// Tokens of the public cache.
    pub(super) public: usize,
}

/// The values of one product: heads x tokens x width.
pub(super) type Heads = Array3<f64>;

/// Queries, keys and values of a chunk, divided by their units, and weights of all keys.
pub(super) struct Values {
    pub(super) queries: Heads,
    pub(super) keys: Heads,
    pub(super) values: Heads,
    /// Public tokens first; 0 for later ones than the query.
    pub(super) weights: Heads,
}

impl Values {
    pub(super) fn new(case: &Case) -> Self {
        let [_, heads, kv_heads, head_width] = case.model;
        let mut draws = Draws::new(5);
        let mut draw = |heads: usize, width: usize| {
            Array3::from_shape_simple_fn((heads, case.chunk, width), || draws.draw() / 2.0)
        };
        let [queries, keys, values] = [heads, kv_heads, kv_heads].map(|heads| draw(heads, head_width));
        let mut weights = draw(heads, case.public + case.chunk);
        for ((_, token, key), weight) in weights.indexed_iter_mut() {
            *weight = if key <= case.public + token { weight.abs() } else { 0.0 };
        }
        Values { queries, keys, values, weights }
    }

    /// The matrices of each query head, from the matrices of all heads or of all key heads.
    pub(super) fn matrices(heads: &Heads, count: usize) -> Vec<Array2<f64>> {
        let group = count / heads.dim().0;
        (0..count).map(|head| heads.index_axis(ndarray::Axis(0), head / group).to_owned()).collect()
    }
}

pub(super) struct Setting {
    pub(super) encoder: Encoder,
    pub(super) program: PassProgram,
    /// Without public tokens, and with the public tokens of the case.
    pub(super) caches: [KvCache; 2],
    pub(super) values: Values,
    pub(super) case: Case,
}

/// What a way to compute the products of all heads takes.
pub(super) struct Counted {
    pub(super) keys: KeyPlan,
    pub(super) key_switches: u64,
    pub(super) levels: usize,
}

impl Setting {
    pub(super) fn parameters(&self) -> &CkksParameters {
        self.encoder.parameters()
    }

    pub(super) fn layout(&self) -> &Layout {
        self.program.layout()
    }

    /// Level of the inputs of ours. Results are three levels below: keys and values take one to be arranged, and one
    /// for their rows.
    pub(super) fn level(&self) -> usize {
        self.program.bootstrap().output_level() - 1
    }

    pub(super) fn output_level(&self) -> usize {
        self.level() - 3
    }
}

pub(super) fn within(case: &str, found: f64) -> anyhow::Result<()> {
    if found <= TOLERANCE { Ok(()) } else { Err(wrong(case, found, TOLERANCE)) }
}
