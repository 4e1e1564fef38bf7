//! Keys and values of earlier tokens.

use ndarray::{Array2, ArrayView2, Axis, s};

use crate::config::Config;

/// Keys (after RoPE) and values of the tokens of a context, for each layer and key head.
#[derive(Clone, Debug)]
pub struct KvCache {
    layers: Vec<LayerCache>,
    tokens: usize,
}

/// Keys and values of one layer: for each key head `tokens x head_width`.
#[derive(Clone, Debug)]
pub(crate) struct LayerCache {
    pub keys: Vec<Array2<f32>>,
    pub values: Vec<Array2<f32>>,
}

impl KvCache {
    /// An empty cache for a model.
    pub fn new(config: &Config) -> Self {
        let heads = || vec![Array2::zeros((0, config.head_width)); config.kv_heads];
        let layers = (0..config.layers).map(|_| LayerCache { keys: heads(), values: heads() }).collect();
        KvCache { layers, tokens: 0 }
    }

    /// Number of tokens.
    pub fn len(&self) -> usize {
        self.tokens
    }

    /// Whether there are no tokens.
    pub fn is_empty(&self) -> bool {
        self.tokens == 0
    }

    /// Forgets all tokens but the first `tokens`.
    pub fn truncate(&mut self, tokens: usize) {
        if tokens >= self.tokens {
            return;
        }
        self.tokens = tokens;
        for matrix in self.layers.iter_mut().flat_map(|layer| layer.keys.iter_mut().chain(&mut layer.values)) {
            *matrix = matrix.slice(s![..tokens, ..]).to_owned();
        }
    }

    /// Keys of a layer and key head: `tokens x head_width`, after RoPE.
    ///
    /// # Panics
    /// If the model has no such layer or head.
    pub fn keys(&self, layer: usize, head: usize) -> ArrayView2<'_, f32> {
        self.layers[layer].keys[head].view()
    }

    /// Values of a layer and key head: `tokens x head_width`.
    ///
    /// # Panics
    /// If the model has no such layer or head.
    pub fn values(&self, layer: usize, head: usize) -> ArrayView2<'_, f32> {
        self.layers[layer].values[head].view()
    }

    pub(crate) fn layers(&self) -> usize {
        self.layers.len()
    }

    pub(crate) fn layer(&self, layer: usize) -> &LayerCache {
        &self.layers[layer]
    }

    /// Appends keys and values of new tokens to a layer, all heads side by side.
    pub(crate) fn extend(&mut self, layer: usize, keys: &Array2<f32>, values: &Array2<f32>) {
        let cache = &mut self.layers[layer];
        for (heads, new) in [(&mut cache.keys, keys), (&mut cache.values, values)] {
            let width = new.ncols() / heads.len();
            for (head, new) in heads.iter_mut().zip(new.axis_chunks_iter(Axis(1), width)) {
                head.append(Axis(0), new).expect("a head has one width");
            }
        }
    }

    /// Counts tokens that were appended to all layers.
    pub(crate) fn advance(&mut self, tokens: usize) {
        self.tokens += tokens;
    }
}
