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
}

impl Weights {
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

/// Reads the weights, tensor by tensor, in the order of the layers.
pub(crate) fn read<E>(
    config: &Config,
    tied: bool,
    mut matrix: impl FnMut(Tensor, usize, usize) -> Result<Array2<f32>, E>,
    mut vector: impl FnMut(Tensor, usize) -> Result<Array1<f32>, E>,
) -> Result<Weights, E> {
    let (width, query, kv, ffn) = (config.width, config.query_width(), config.kv_width(), config.ffn_width);
    let embedding = matrix(Tensor::Embedding, config.vocabulary, width)?;
    let layers = (0..config.layers)
        .map(|layer| {
            Ok(LayerWeights {
                attention_norm: vector(Tensor::AttentionNorm(layer), width)?,
                query: matrix(Tensor::Query(layer), query, width)?,
                key: matrix(Tensor::Key(layer), kv, width)?,
                value: matrix(Tensor::Value(layer), kv, width)?,
                output: matrix(Tensor::Output(layer), width, query)?,
                ffn_norm: vector(Tensor::FfnNorm(layer), width)?,
                gate: matrix(Tensor::Gate(layer), ffn, width)?,
                up: matrix(Tensor::Up(layer), ffn, width)?,
                down: matrix(Tensor::Down(layer), width, ffn)?,
            })
        })
        .collect::<Result<_, E>>()?;
    let norm = vector(Tensor::Norm, width)?;
    let head = if tied { None } else { Some(matrix(Tensor::Head, config.vocabulary, width)?) };
    Ok(Weights { embedding, layers, norm, head })
}

/// The tensors of a model; those of a layer with its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tensor {
    Embedding,
    AttentionNorm(usize),
    Query(usize),
    Key(usize),
    Value(usize),
    Output(usize),
    FfnNorm(usize),
    Gate(usize),
    Up(usize),
    Down(usize),
    Norm,
    Head,
}
