//! The private pass, written once.

use crate::arithmetic::{Function, TensorArithmetic};
use crate::circuit::Circuit;
use crate::place::{Place, Quantity};

/// The private tokens of a session: their number, and their keys and values for each layer.
pub struct Session<A: TensorArithmetic> {
    caches: Vec<A::Cache>,
    tokens: usize,
}

impl<A: TensorArithmetic> Session<A> {
    /// Number of tokens, the tokens of the public prefix included.
    pub fn tokens(&self) -> usize {
        self.tokens
    }
}

/// The three values of a norm.
struct Norm {
    square: Quantity,
    factor: Quantity,
    output: Quantity,
}

const ATTENTION_NORM: Norm = Norm {
    square: Quantity::AttentionNormSquare,
    factor: Quantity::AttentionNormFactor,
    output: Quantity::AttentionNorm,
};

const FFN_NORM: Norm =
    Norm { square: Quantity::FfnNormSquare, factor: Quantity::FfnNormFactor, output: Quantity::FfnNorm };

const LAST_NORM: Norm =
    Norm { square: Quantity::LastNormSquare, factor: Quantity::LastNormFactor, output: Quantity::LastNorm };

const QUERY_NORM: Norm =
    Norm { square: Quantity::QueryNormSquare, factor: Quantity::QueryNormFactor, output: Quantity::QueryNorm };

const KEY_NORM: Norm =
    Norm { square: Quantity::KeyNormSquare, factor: Quantity::KeyNormFactor, output: Quantity::KeyNorm };

impl Circuit {
    /// A session after the public prefix of the arithmetic.
    ///
    /// # Errors
    /// The errors of the arithmetic.
    pub fn session<A: TensorArithmetic>(&self, arithmetic: &mut A) -> Result<Session<A>, A::Error> {
        let caches = (0..self.config.layers).map(|layer| arithmetic.cache(layer)).collect::<Result<_, _>>()?;
        Ok(Session { caches, tokens: arithmetic.public_tokens() })
    }

    /// Runs a chunk of embedded tokens, `tokens x 1 x width`, and appends it to the session. Returns the
    /// output of the last norm; [`logits`](Self::logits) continues.
    ///
    /// # Errors
    /// The errors of the arithmetic.
    pub fn pass<A: TensorArithmetic>(
        &self,
        arithmetic: &mut A,
        session: &mut Session<A>,
        input: A::Tensor,
    ) -> Result<A::Tensor, A::Error> {
        let tokens = arithmetic.shape(&input).tokens;
        let mut residual = input;
        for (layer, cache) in session.caches.iter_mut().enumerate() {
            let attended = self.attention(arithmetic, layer, session.tokens, cache, &residual)?;
            let middle = arithmetic.add(&residual, &attended, Place::new(layer, Quantity::MiddleResidual))?;
            let output = self.feed_forward(arithmetic, layer, &middle)?;
            residual = arithmetic.add(&middle, &output, Place::new(layer + 1, Quantity::Residual))?;
        }
        session.tokens += tokens;
        self.norm(arithmetic, self.config.layers, &LAST_NORM, &residual, self.config.width)
    }

    /// Logits of outputs of the last norm: `tokens x 1 x vocabulary`.
    ///
    /// # Errors
    /// The errors of the arithmetic.
    pub fn logits<A: TensorArithmetic>(&self, arithmetic: &mut A, normed: &A::Tensor) -> Result<A::Tensor, A::Error> {
        arithmetic.linear(normed, Place::new(self.config.layers, Quantity::Logits))
    }

    fn norm<A: TensorArithmetic>(
        &self,
        arithmetic: &mut A,
        layer: usize,
        norm: &Norm,
        input: &A::Tensor,
        width: usize,
    ) -> Result<A::Tensor, A::Error> {
        let (mean, epsilon) = (1.0 / width as f64, f64::from(self.config.norm_epsilon));
        let square = arithmetic.sum_squares(input, mean, epsilon, Place::new(layer, norm.square))?;
        let factor = arithmetic.function(Function::InverseSqrt, &square, Place::new(layer, norm.factor))?;
        arithmetic.scale(input, &factor, Place::new(layer, norm.output))
    }

    fn attention<A: TensorArithmetic>(
        &self,
        arithmetic: &mut A,
        layer: usize,
        position: usize,
        cache: &mut A::Cache,
        residual: &A::Tensor,
    ) -> Result<A::Tensor, A::Error> {
        let at = |quantity| Place::new(layer, quantity);
        let normed = self.norm(arithmetic, layer, &ATTENTION_NORM, residual, self.config.width)?;
        let places = [Quantity::Query, Quantity::Key, Quantity::Value].map(at);
        let [mut queries, mut keys, values] = results(arithmetic.linears(&normed, &places)?);
        if self.config.attention.head_norms {
            queries = self.norm(arithmetic, layer, &QUERY_NORM, &queries, self.config.head_width)?;
            keys = self.norm(arithmetic, layer, &KEY_NORM, &keys, self.config.head_width)?;
        }
        let queries = arithmetic.rope(&queries, position, at(Quantity::RotatedQuery))?;
        let keys = arithmetic.rope(&keys, position, at(Quantity::RotatedKey))?;
        arithmetic.append(cache, keys, values)?;
        let sums = arithmetic.heads(self, layer, &queries, cache)?;
        arithmetic.linear(&sums, at(Quantity::AttentionOutput))
    }

    /// What the heads of a layer attend to: scores, softmax, and sums of values, `tokens x 1 x heads * head_width`. No
    /// head depends on another one.
    ///
    /// # Errors
    /// The errors of the arithmetic.
    pub fn heads<A: TensorArithmetic>(
        &self,
        arithmetic: &mut A,
        layer: usize,
        queries: &A::Tensor,
        cache: &A::Cache,
    ) -> Result<A::Tensor, A::Error> {
        let scores = arithmetic.scores(queries, cache, Place::new(layer, Quantity::Score))?;
        let weights = self.softmax(arithmetic, layer, &scores)?;
        arithmetic.attend(&weights, cache, Place::new(layer, Quantity::Attention))
    }

    /// Softmax by `k` rounds of division by the Euclidean norm and squaring (Cho, Hanrot, Kim, Park and Stehlé, "Fast
    /// and accurate homomorphic softmax evaluation", CCS 2024).
    fn softmax<A: TensorArithmetic>(
        &self,
        arithmetic: &mut A,
        layer: usize,
        scores: &A::Tensor,
    ) -> Result<A::Tensor, A::Error> {
        let at = |quantity| Place::new(layer, quantity);
        let mut weights = arithmetic.function(Function::Exponential, scores, at(Quantity::Exponential))?;
        for round in 0..self.rounds {
            let square = arithmetic.sum_squares(&weights, 1.0, 0.0, at(Quantity::SoftmaxSquare(round)))?;
            let factor = arithmetic.function(Function::InverseSqrt, &square, at(Quantity::SoftmaxFactor(round)))?;
            let scaled = arithmetic.scale(&weights, &factor, at(Quantity::SoftmaxScaled(round)))?;
            weights = arithmetic.square(&scaled, at(Quantity::SoftmaxWeight(round)))?;
        }
        Ok(weights)
    }

    fn feed_forward<A: TensorArithmetic>(
        &self,
        arithmetic: &mut A,
        layer: usize,
        residual: &A::Tensor,
    ) -> Result<A::Tensor, A::Error> {
        let at = |quantity| Place::new(layer, quantity);
        let normed = self.norm(arithmetic, layer, &FFN_NORM, residual, self.config.width)?;
        let [gate, up] = results(arithmetic.linears(&normed, &[Quantity::Gate, Quantity::Up].map(at))?);
        let gate = arithmetic.function(Function::Silu, &gate, at(Quantity::Silu))?;
        let hidden = arithmetic.multiply(&gate, &up, at(Quantity::Hidden))?;
        arithmetic.linear(&hidden, at(Quantity::FfnOutput))
    }
}

/// The results of linear maps, one for each place.
fn results<T, const N: usize>(results: Vec<T>) -> [T; N] {
    results.try_into().unwrap_or_else(|found: Vec<T>| panic!("found {} results of {N} linear maps", found.len()))
}
