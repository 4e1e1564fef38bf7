//! Values on the way through a model.

use std::fmt;

use ndarray::ArrayView2;

/// A place in the forward pass whose values an observer may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step {
    /// Residual stream before the layer, or before the last norm: a row for each token.
    Residual,
    /// Output of the norm before attention.
    AttentionNorm,
    /// Queries after RoPE.
    Query,
    /// Keys after RoPE.
    Key,
    /// Values.
    Value,
    /// Scores of one head before softmax, divided by the root of the head's width; masked ones are missing: they are
    /// `-inf`. The observer sees a matrix for each head, in the order of the heads.
    Score,
    /// Weighted sums of the values, all heads side by side.
    Attention,
    /// What attention adds to the residual stream.
    AttentionOutput,
    /// Residual stream between attention and feed-forward network.
    MiddleResidual,
    /// Output of the norm before the feed-forward network.
    FfnNorm,
    /// Gates before SiLU.
    Gate,
    /// Factors of the gates.
    Up,
    /// `SiLU(gate) * up`.
    Hidden,
    /// What the feed-forward network adds to the residual stream.
    FfnOutput,
    /// Output of the last norm.
    LastNorm,
    /// Logits.
    Logits,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Step::Residual => "residual",
            Step::AttentionNorm => "attention-norm",
            Step::Query => "query",
            Step::Key => "key",
            Step::Value => "value",
            Step::Score => "score",
            Step::Attention => "attention",
            Step::AttentionOutput => "attention-output",
            Step::MiddleResidual => "middle-residual",
            Step::FfnNorm => "ffn-norm",
            Step::Gate => "gate",
            Step::Up => "up",
            Step::Hidden => "hidden",
            Step::FfnOutput => "ffn-output",
            Step::LastNorm => "last-norm",
            Step::Logits => "logits",
        })
    }
}

/// Sees the values of a forward pass, on the thread that runs it.
pub trait Observer: Send {
    /// Called with the values at a step: a row for each new token. The layer after the last one is the head.
    fn observe(&mut self, layer: usize, step: Step, values: ArrayView2<f32>);
}

/// Sees nothing.
impl Observer for () {
    fn observe(&mut self, _: usize, _: Step, _: ArrayView2<f32>) {}
}

impl<F: FnMut(usize, Step, ArrayView2<f32>) + Send> Observer for F {
    fn observe(&mut self, layer: usize, step: Step, values: ArrayView2<f32>) {
        self(layer, step, values);
    }
}

/// Both see the values.
impl<A: Observer, B: Observer> Observer for (A, B) {
    fn observe(&mut self, layer: usize, step: Step, values: ArrayView2<f32>) {
        self.0.observe(layer, step, values);
        self.1.observe(layer, step, values);
    }
}
