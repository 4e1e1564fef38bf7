//! The forward pass in 32-bit floating point.

use ndarray::{Array1, Array2, ArrayView1, ArrayView2, Axis};

use crate::attention::{attend, rotate_positions};
use crate::cache::KvCache;
use crate::config::Config;
use crate::error::InputError;
use crate::linear::{in_pool, linear, with_bias};
use crate::observe::{Observer, Step};
use crate::weights::{LayerWeights, Weights};

/// A model in the clear.
#[derive(Clone, Debug)]
pub struct Model {
    /// Dimensions and constants.
    pub config: Config,
    /// The weights.
    pub weights: Weights,
}

impl Model {
    /// Runs new tokens after the tokens of the cache, and appends them to the cache. Returns the output of the last
    /// norm, a row for each new token; [`logits`](Self::logits) continues.
    ///
    /// # Errors
    /// [`InputError`] if there are no tokens, a token is outside the vocabulary, or all do not fit the context.
    pub fn forward(
        &self,
        tokens: &[u32],
        cache: &mut KvCache,
        observer: &mut impl Observer,
    ) -> Result<Array2<f32>, InputError> {
        self.check(tokens, cache)?;
        Ok(in_pool(|| self.pass(tokens, cache, observer)))
    }

    /// Runs tokens that were checked.
    fn pass(&self, tokens: &[u32], cache: &mut KvCache, observer: &mut impl Observer) -> Array2<f32> {
        let first = cache.len();
        let mut residual = self.embed(tokens);
        for (layer, weights) in self.weights.layers.iter().enumerate() {
            let mut see = |step: Step, values: ArrayView2<f32>| observer.observe(layer, step, values);
            self.attention(weights, layer, first, &mut residual, cache, &mut see);
            self.feed_forward(weights, &mut residual, &mut see);
        }
        cache.advance(tokens.len());
        let last = self.config.layers;
        observer.observe(last, Step::Residual, residual.view());
        let normed = rms_norm(residual.view(), self.weights.norm.view(), self.config.norm_epsilon);
        observer.observe(last, Step::LastNorm, normed.view());
        normed
    }

    /// A cache that holds a prefix. Without tokens it is empty.
    ///
    /// # Errors
    /// [`InputError`] as for [`forward`](Self::forward).
    pub fn prefix_cache(&self, prefix: &[u32]) -> Result<KvCache, InputError> {
        let mut cache = KvCache::new(&self.config);
        if !prefix.is_empty() {
            self.forward(prefix, &mut cache, &mut ())?;
        }
        Ok(cache)
    }

    /// Logits of outputs of the last norm: a row for each, a column for each token of the vocabulary.
    pub fn logits(&self, normed: ArrayView2<f32>) -> Array2<f32> {
        in_pool(|| linear(normed, self.weights.head()))
    }

    /// Rows of the embedding, one for each token: the input of the first layer.
    ///
    /// # Panics
    /// If a token is outside the vocabulary.
    pub fn embed(&self, tokens: &[u32]) -> Array2<f32> {
        let rows: Vec<usize> = tokens.iter().map(|token| *token as usize).collect();
        self.weights.embedding.select(ndarray::Axis(0), &rows)
    }

    /// Checks tokens that follow the tokens of a cache.
    ///
    /// # Errors
    /// [`InputError`] as for [`forward`](Self::forward).
    pub fn check(&self, tokens: &[u32], cache: &KvCache) -> Result<(), InputError> {
        if tokens.is_empty() {
            return Err(InputError::Empty);
        }
        if cache.layers() != self.config.layers {
            return Err(InputError::Cache { found: cache.layers(), needed: self.config.layers });
        }
        let vocabulary = self.config.vocabulary;
        if let Some((position, id)) = tokens.iter().enumerate().find(|(_, id)| **id as usize >= vocabulary) {
            return Err(InputError::Token { position, id: *id, vocabulary });
        }
        let found = cache.len() + tokens.len();
        if found > self.config.context {
            return Err(InputError::Context { found, cached: cache.len(), context: self.config.context });
        }
        Ok(())
    }

    fn attention(
        &self,
        weights: &LayerWeights,
        layer: usize,
        first: usize,
        residual: &mut Array2<f32>,
        cache: &mut KvCache,
        see: &mut impl FnMut(Step, ArrayView2<f32>),
    ) {
        see(Step::Residual, residual.view());
        let normed = rms_norm(residual.view(), weights.attention_norm.view(), self.config.norm_epsilon);
        see(Step::AttentionNorm, normed.view());
        let own = &weights.attention;
        let mut queries = with_bias(linear(normed.view(), &weights.query), own.query_bias.as_ref());
        let mut keys = with_bias(linear(normed.view(), &weights.key), own.key_bias.as_ref());
        let values = with_bias(linear(normed.view(), &weights.value), own.value_bias.as_ref());
        for (vectors, gains) in [(&mut queries, &own.query_norm), (&mut keys, &own.key_norm)] {
            if let Some(gains) = gains {
                norm_heads(vectors, gains, self.config.norm_epsilon);
            }
        }
        rotate_positions(&self.config, layer, first, &mut queries);
        rotate_positions(&self.config, layer, first, &mut keys);
        see(Step::Query, queries.view());
        see(Step::Key, keys.view());
        see(Step::Value, values.view());
        cache.extend(layer, &keys, &values);
        let (sums, scores) = attend(&self.config, queries.view(), cache.layer(layer));
        for scores in &scores {
            see(Step::Score, scores.view());
        }
        see(Step::Attention, sums.view());
        let output = with_bias(linear(sums.view(), &weights.output), own.output_bias.as_ref());
        see(Step::AttentionOutput, output.view());
        *residual += &output;
    }

    fn feed_forward(
        &self,
        weights: &LayerWeights,
        residual: &mut Array2<f32>,
        see: &mut impl FnMut(Step, ArrayView2<f32>),
    ) {
        see(Step::MiddleResidual, residual.view());
        let normed = rms_norm(residual.view(), weights.ffn_norm.view(), self.config.norm_epsilon);
        see(Step::FfnNorm, normed.view());
        let gate = linear(normed.view(), &weights.gate);
        let up = linear(normed.view(), &weights.up);
        see(Step::Gate, gate.view());
        see(Step::Up, up.view());
        let hidden = gate.mapv(silu) * up;
        see(Step::Hidden, hidden.view());
        let output = linear(hidden.view(), &weights.down);
        see(Step::FfnOutput, output.view());
        *residual += &output;
    }
}

/// `x / (1 + exp(-x))`.
fn silu(x: f32) -> f32 {
    x / (1.0 + (-x).exp())
}

/// Divides each head by its root mean square, and multiplies it by gains.
fn norm_heads(vectors: &mut Array2<f32>, gains: &Array1<f32>, epsilon: f32) {
    for mut heads in vectors.axis_chunks_iter_mut(Axis(1), gains.len()) {
        let normed = rms_norm(heads.view(), gains.view(), epsilon);
        heads.assign(&normed);
    }
}

/// Rows divided by their root mean square, times gains.
fn rms_norm(rows: ArrayView2<f32>, gains: ArrayView1<f32>, epsilon: f32) -> Array2<f32> {
    let scales: Array1<f32> = rows
        .rows()
        .into_iter()
        .map(|row| (row.iter().map(|x| x * x).sum::<f32>() / row.len() as f32 + epsilon).sqrt().recip())
        .collect();
    &rows * &scales.insert_axis(ndarray::Axis(1)) * gains
}
