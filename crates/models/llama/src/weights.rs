//! Weights in 32-bit floating point.

use std::io::{BufWriter, Write};

use ndarray::{Array1, Array2};

use crate::config::Config;

/// The weights of a model. A matrix has a row for each output. Heads are pairs of adjacent coordinates for RoPE.
#[derive(Clone, Debug)]
pub struct Weights {
    /// A row for each token: `vocabulary x width`.
    pub embedding: Array2<f32>,
    /// The layers, from the input.
    pub layers: Vec<LayerWeights>,
    /// Gains of the last norm: `width`.
    pub norm: Array1<f32>,
    /// Rows that give the logits, `vocabulary x width`; without them the embedding is used.
    pub head: Option<Array2<f32>>,
}

/// The weights of one layer.
#[derive(Clone, Debug)]
pub struct LayerWeights {
    /// Gains of the norm before attention: `width`.
    pub attention_norm: Array1<f32>,
    /// Queries: `heads * head_width x width`.
    pub query: Array2<f32>,
    /// Keys: `kv_heads * head_width x width`.
    pub key: Array2<f32>,
    /// Values: `kv_heads * head_width x width`.
    pub value: Array2<f32>,
    /// Output of attention: `width x heads * head_width`.
    pub output: Array2<f32>,
    /// Gains of the norm before the feed-forward network: `width`.
    pub ffn_norm: Array1<f32>,
    /// Gate of the feed-forward network: `ffn_width x width`.
    pub gate: Array2<f32>,
    /// Other factor of the feed-forward network: `ffn_width x width`.
    pub up: Array2<f32>,
    /// Output of the feed-forward network: `width x ffn_width`.
    pub down: Array2<f32>,
    /// Vectors of attention that only some families have.
    pub attention: AttentionVectors,
}

/// Vectors of attention that only some families have, as [`Attention`](crate::Attention) says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AttentionVectors {
    /// Added to queries: `heads * head_width`.
    pub query_bias: Option<Array1<f32>>,
    /// Added to keys: `kv_heads * head_width`.
    pub key_bias: Option<Array1<f32>>,
    /// Added to values: `kv_heads * head_width`.
    pub value_bias: Option<Array1<f32>>,
    /// Added to the output of attention: `width`.
    pub output_bias: Option<Array1<f32>>,
    /// Gains of the norm of each head of queries: `head_width`.
    pub query_norm: Option<Array1<f32>>,
    /// Gains of the norm of each head of keys: `head_width`.
    pub key_norm: Option<Array1<f32>>,
}

impl AttentionVectors {
    /// The vectors of a layer that the model has, by their names.
    pub(crate) fn named(&self, layer: usize) -> impl Iterator<Item = (TensorName, &Array1<f32>)> {
        let all = [
            (TensorName::QueryBias(layer), &self.query_bias),
            (TensorName::KeyBias(layer), &self.key_bias),
            (TensorName::ValueBias(layer), &self.value_bias),
            (TensorName::OutputBias(layer), &self.output_bias),
            (TensorName::QueryNorm(layer), &self.query_norm),
            (TensorName::KeyNorm(layer), &self.key_norm),
        ];
        all.into_iter().filter_map(|(name, vector)| Some((name, vector.as_ref()?)))
    }

    /// Those that a model of these dimensions has.
    fn read<E>(
        config: &Config,
        layer: usize,
        mut vector: impl FnMut(TensorName, usize) -> Result<Array1<f32>, E>,
    ) -> Result<Self, E> {
        let (query, kv, has) = (config.query_width(), config.kv_width(), &config.attention);
        let mut vector = |has: bool, name: TensorName, length| has.then(|| vector(name, length)).transpose();
        Ok(AttentionVectors {
            query_bias: vector(has.input_biases, TensorName::QueryBias(layer), query)?,
            key_bias: vector(has.input_biases, TensorName::KeyBias(layer), kv)?,
            value_bias: vector(has.input_biases, TensorName::ValueBias(layer), kv)?,
            output_bias: vector(has.output_bias, TensorName::OutputBias(layer), config.width)?,
            query_norm: vector(has.head_norms, TensorName::QueryNorm(layer), config.head_width)?,
            key_norm: vector(has.head_norms, TensorName::KeyNorm(layer), config.head_width)?,
        })
    }
}

impl Weights {
    /// Weights whose tensors two functions give, in the order of the layers: matrices by rows and columns, vectors by
    /// their length. Without a tensor for the head (`tied`) it is the embedding.
    ///
    /// # Errors
    /// The first one of the functions.
    pub fn read<E>(
        config: &Config,
        tied: bool,
        mut matrix: impl FnMut(TensorName, usize, usize) -> Result<Array2<f32>, E>,
        mut vector: impl FnMut(TensorName, usize) -> Result<Array1<f32>, E>,
    ) -> Result<Self, E> {
        let (width, query, kv, ffn) = (config.width, config.query_width(), config.kv_width(), config.ffn_width);
        let embedding = matrix(TensorName::Embedding, config.vocabulary, width)?;
        let layers = (0..config.layers)
            .map(|layer| {
                Ok(LayerWeights {
                    attention_norm: vector(TensorName::AttentionNorm(layer), width)?,
                    query: matrix(TensorName::Query(layer), query, width)?,
                    key: matrix(TensorName::Key(layer), kv, width)?,
                    value: matrix(TensorName::Value(layer), kv, width)?,
                    output: matrix(TensorName::Output(layer), width, query)?,
                    ffn_norm: vector(TensorName::FfnNorm(layer), width)?,
                    gate: matrix(TensorName::Gate(layer), ffn, width)?,
                    up: matrix(TensorName::Up(layer), ffn, width)?,
                    down: matrix(TensorName::Down(layer), width, ffn)?,
                    attention: AttentionVectors::read(config, layer, &mut vector)?,
                })
            })
            .collect::<Result<_, E>>()?;
        let norm = vector(TensorName::Norm, width)?;
        let head = if tied { None } else { Some(matrix(TensorName::Head, config.vocabulary, width)?) };
        Ok(Weights { embedding, layers, norm, head })
    }

    /// Rows that give the logits: `vocabulary x width`.
    pub fn head(&self) -> &Array2<f32> {
        self.head.as_ref().unwrap_or(&self.embedding)
    }

    /// BLAKE3 sum of all weights, which two models share only if their weights are the same to the last bit.
    pub fn digest(&self) -> [u8; 32] {
        let mut sum = Sum(BufWriter::with_capacity(DIGEST_BYTES, blake3::Hasher::new()));
        sum.add(&self.embedding);
        for layer in &self.layers {
            [&layer.attention_norm, &layer.ffn_norm].into_iter().for_each(|gains| sum.add(gains));
            let attention = [&layer.query, &layer.key, &layer.value, &layer.output];
            attention.into_iter().chain([&layer.gate, &layer.up, &layer.down]).for_each(|matrix| sum.add(matrix));
            layer.attention.named(0).for_each(|(_, vector)| sum.add(vector));
        }
        sum.add(&self.norm);
        self.head.iter().for_each(|head| sum.add(head));
        sum.finish()
    }
}

/// Bytes that are summed together.
const DIGEST_BYTES: usize = 1 << 16;

/// A sum of weights so far.
struct Sum(BufWriter<blake3::Hasher>);

impl Sum {
    fn add<'a>(&mut self, values: impl IntoIterator<Item = &'a f32>) {
        for value in values {
            self.0.write_all(&value.to_le_bytes()).expect("a hash takes all bytes");
        }
    }

    fn finish(self) -> [u8; 32] {
        *self.0.into_inner().expect("a hash takes all bytes").finalize().as_bytes()
    }
}

/// The tensors of a model. A tensor of a layer has the number of the layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TensorName {
    /// [`Weights::embedding`].
    Embedding,
    /// [`LayerWeights::attention_norm`].
    AttentionNorm(usize),
    /// [`LayerWeights::query`].
    Query(usize),
    /// [`LayerWeights::key`].
    Key(usize),
    /// [`LayerWeights::value`].
    Value(usize),
    /// [`LayerWeights::output`].
    Output(usize),
    /// [`LayerWeights::ffn_norm`].
    FfnNorm(usize),
    /// [`LayerWeights::gate`].
    Gate(usize),
    /// [`LayerWeights::up`].
    Up(usize),
    /// [`LayerWeights::down`].
    Down(usize),
    /// [`AttentionVectors::query_bias`].
    QueryBias(usize),
    /// [`AttentionVectors::key_bias`].
    KeyBias(usize),
    /// [`AttentionVectors::value_bias`].
    ValueBias(usize),
    /// [`AttentionVectors::output_bias`].
    OutputBias(usize),
    /// [`AttentionVectors::query_norm`].
    QueryNorm(usize),
    /// [`AttentionVectors::key_norm`].
    KeyNorm(usize),
    /// [`Weights::norm`].
    Norm,
    /// The field [`Weights::head`].
    Head,
}
