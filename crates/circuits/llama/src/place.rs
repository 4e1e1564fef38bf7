//! Names of the values of the circuit.

use std::fmt;

/// A value of the circuit, by the operation that computes it. The order is the order of the pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Quantity {
    /// Residual stream before the layer, or before the last norm.
    Residual,
    /// Mean square of each token's residual, plus epsilon; of the norm before attention.
    AttentionNormSquare,
    /// Inverse square root of [`AttentionNormSquare`](Self::AttentionNormSquare).
    AttentionNormFactor,
    /// Output of the norm before attention.
    AttentionNorm,
    /// Queries before RoPE.
    Query,
    /// Keys before RoPE.
    Key,
    /// Values.
    Value,
    /// Mean square of each head of queries, plus epsilon, in models whose heads have norms.
    QueryNormSquare,
    /// Inverse square root of [`QueryNormSquare`](Self::QueryNormSquare).
    QueryNormFactor,
    /// Queries times [`QueryNormFactor`](Self::QueryNormFactor), without gains.
    QueryNorm,
    /// Mean square of each head of keys, plus epsilon, in models whose heads have norms.
    KeyNormSquare,
    /// Inverse square root of [`KeyNormSquare`](Self::KeyNormSquare).
    KeyNormFactor,
    /// Keys times [`KeyNormFactor`](Self::KeyNormFactor), without gains.
    KeyNorm,
    /// Queries after RoPE, times the gains of the norm of each head if it has one.
    RotatedQuery,
    /// Keys after RoPE, times the gains of the norm of each head if it has one.
    RotatedKey,
    /// Scores before softmax, divided by the root of the head's width.
    Score,
    /// `exp((score - shift) / 2^k)`; 0 where a score is masked.
    Exponential,
    /// Sum of the squares of a round's inputs, for each token and head.
    SoftmaxSquare(u8),
    /// Inverse square root of [`SoftmaxSquare`](Self::SoftmaxSquare).
    SoftmaxFactor(u8),
    /// Inputs of a round times [`SoftmaxFactor`](Self::SoftmaxFactor).
    SoftmaxScaled(u8),
    /// Squares of [`SoftmaxScaled`](Self::SoftmaxScaled): inputs of the next round, or the weights of attention.
    SoftmaxWeight(u8),
    /// Weighted sums of the values, all heads side by side.
    Attention,
    /// What attention adds to the residual stream.
    AttentionOutput,
    /// Residual stream between attention and feed-forward network.
    MiddleResidual,
    /// Mean square of each token's residual, plus epsilon; of the norm before the feed-forward network.
    FfnNormSquare,
    /// Inverse square root of [`FfnNormSquare`](Self::FfnNormSquare).
    FfnNormFactor,
    /// Output of the norm before the feed-forward network.
    FfnNorm,
    /// Gates before SiLU.
    Gate,
    /// Factors of the gates.
    Up,
    /// `SiLU(gate)`.
    Silu,
    /// `SiLU(gate) * up`.
    Hidden,
    /// What the feed-forward network adds to the residual stream.
    FfnOutput,
    /// Mean square of each token's last residual, plus epsilon.
    LastNormSquare,
    /// Inverse square root of [`LastNormSquare`](Self::LastNormSquare).
    LastNormFactor,
    /// Output of the last norm.
    LastNorm,
    /// Logits.
    Logits,
}

impl Quantity {
    /// All quantities of a circuit whose softmax has `rounds` rounds.
    pub fn all(rounds: u8) -> impl Iterator<Item = Quantity> {
        let once = [
            Quantity::Residual,
            Quantity::AttentionNormSquare,
            Quantity::AttentionNormFactor,
            Quantity::AttentionNorm,
            Quantity::Query,
            Quantity::Key,
            Quantity::Value,
            Quantity::QueryNormSquare,
            Quantity::QueryNormFactor,
            Quantity::QueryNorm,
            Quantity::KeyNormSquare,
            Quantity::KeyNormFactor,
            Quantity::KeyNorm,
            Quantity::RotatedQuery,
            Quantity::RotatedKey,
            Quantity::Score,
            Quantity::Exponential,
            Quantity::Attention,
            Quantity::AttentionOutput,
            Quantity::MiddleResidual,
            Quantity::FfnNormSquare,
            Quantity::FfnNormFactor,
            Quantity::FfnNorm,
            Quantity::Gate,
            Quantity::Up,
            Quantity::Silu,
            Quantity::Hidden,
            Quantity::FfnOutput,
            Quantity::LastNormSquare,
            Quantity::LastNormFactor,
            Quantity::LastNorm,
            Quantity::Logits,
        ];
        let of_round = |round| {
            [
                Quantity::SoftmaxSquare(round),
                Quantity::SoftmaxFactor(round),
                Quantity::SoftmaxScaled(round),
                Quantity::SoftmaxWeight(round),
            ]
        };
        once.into_iter().chain((0..rounds).flat_map(of_round))
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, round) = match self {
            Quantity::Residual => ("residual", None),
            Quantity::AttentionNormSquare => ("attention-norm-square", None),
            Quantity::AttentionNormFactor => ("attention-norm-factor", None),
            Quantity::AttentionNorm => ("attention-norm", None),
            Quantity::Query => ("query", None),
            Quantity::Key => ("key", None),
            Quantity::Value => ("value", None),
            Quantity::QueryNormSquare => ("query-norm-square", None),
            Quantity::QueryNormFactor => ("query-norm-factor", None),
            Quantity::QueryNorm => ("query-norm", None),
            Quantity::KeyNormSquare => ("key-norm-square", None),
            Quantity::KeyNormFactor => ("key-norm-factor", None),
            Quantity::KeyNorm => ("key-norm", None),
            Quantity::RotatedQuery => ("rotated-query", None),
            Quantity::RotatedKey => ("rotated-key", None),
            Quantity::Score => ("score", None),
            Quantity::Exponential => ("exponential", None),
            Quantity::SoftmaxSquare(round) => ("softmax-square", Some(round)),
            Quantity::SoftmaxFactor(round) => ("softmax-factor", Some(round)),
            Quantity::SoftmaxScaled(round) => ("softmax-scaled", Some(round)),
            Quantity::SoftmaxWeight(round) => ("softmax-weight", Some(round)),
            Quantity::Attention => ("attention", None),
            Quantity::AttentionOutput => ("attention-output", None),
            Quantity::MiddleResidual => ("middle-residual", None),
            Quantity::FfnNormSquare => ("ffn-norm-square", None),
            Quantity::FfnNormFactor => ("ffn-norm-factor", None),
            Quantity::FfnNorm => ("ffn-norm", None),
            Quantity::Gate => ("gate", None),
            Quantity::Up => ("up", None),
            Quantity::Silu => ("silu", None),
            Quantity::Hidden => ("hidden", None),
            Quantity::FfnOutput => ("ffn-output", None),
            Quantity::LastNormSquare => ("last-norm-square", None),
            Quantity::LastNormFactor => ("last-norm-factor", None),
            Quantity::LastNorm => ("last-norm", None),
            Quantity::Logits => ("logits", None),
        };
        match round {
            None => f.pad(name),
            Some(round) => f.pad(&format!("{name}-{}", round + 1)),
        }
    }
}

/// A value of a layer. The layer after the last one is the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The layer, from 0.
    pub layer: usize,
    /// Which of its values.
    pub quantity: Quantity,
}

impl Place {
    /// A value of a layer.
    pub fn new(layer: usize, quantity: Quantity) -> Self {
        Place { layer, quantity }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "layer {}, {}", self.layer, self.quantity)
    }
}
