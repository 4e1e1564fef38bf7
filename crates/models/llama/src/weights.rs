//! Weights in 32-bit floating point.

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
        let mut hasher = blake3::Hasher::new();
        let mut add = |values: &mut dyn Iterator<Item = &f32>| {
            let mut bytes = Vec::with_capacity(DIGEST_BYTES);
            for value in values {
                bytes.extend(value.to_le_bytes());
                if bytes.len() == DIGEST_BYTES {
                    hasher.update(&bytes);
                    bytes.clear();
                }
            }
            hasher.update(&bytes);
        };
        add(&mut self.embedding.iter());
        for layer in &self.layers {
            add(&mut layer.attention_norm.iter());
            for matrix in [&layer.query, &layer.key, &layer.value, &layer.output] {
                add(&mut matrix.iter());
            }
            add(&mut layer.ffn_norm.iter());
            for matrix in [&layer.gate, &layer.up, &layer.down] {
                add(&mut matrix.iter());
            }
        }
        add(&mut self.norm.iter());
        add(&mut self.head().iter());
        *hasher.finalize().as_bytes()
    }
}

/// Bytes that are summed together.
const DIGEST_BYTES: usize = 1 << 16;

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
