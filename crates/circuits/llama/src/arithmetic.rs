//! The operations of the circuit.

use crate::circuit::Circuit;
use crate::place::Place;

/// Dimensions of a tensor: for each token, `groups` vectors of `width` values. Activations have one group, scores one
/// for each head, and the result of [`TensorArithmetic::sum_squares`] has width 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Number of tokens of the chunk.
    pub tokens: usize,
    /// Number of groups.
    pub groups: usize,
    /// Number of values of a group.
    pub width: usize,
}

impl Shape {
    /// Number of values.
    pub fn len(&self) -> usize {
        self.tokens * self.groups * self.width
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A function that encrypted arithmetic replaces by polynomials.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Function {
    /// `1 / sqrt(x)`, for `x > 0`.
    InverseSqrt,
    /// `exp((x - shift) / 2^k)`, with a shift for each head and the `k` of [`Circuit`](crate::Circuit); 0 where a score
    /// is masked: where the key's token is later than the query's.
    Exponential,
    /// `x / (1 + exp(-x))`.
    Silu,
}

/// Arithmetic on tensors: 32-bit floating point ([`Clear`](crate::Clear)), simulated ([`Simulated`](crate::Simulated)),
/// or encrypted. An arithmetic holds the weights of its model and the keys
/// and values of the public prefix. Each operation gets the place of its result: it names the weights, the range and
/// the polynomials of the operation.
pub trait TensorArithmetic {
    /// A tensor.
    type Tensor;
    /// Keys and values of the private tokens of one layer, and access to the keys and values of the public prefix.
    type Cache;
    /// An operation failed.
    type Error;

    /// Number of tokens of the public prefix.
    fn public_tokens(&self) -> usize;

    /// Dimensions of a tensor.
    fn shape(&self, tensor: &Self::Tensor) -> Shape;

    /// The cache of a layer before the first private token.
    fn cache(&mut self, layer: usize) -> Result<Self::Cache, Self::Error>;

    /// Appends the rotated keys and the values of a chunk.
    fn append(&mut self, cache: &mut Self::Cache, keys: Self::Tensor, values: Self::Tensor) -> Result<(), Self::Error>;

    /// Products with the weights of a place, plus the bias of the place if it has one: `tokens x 1 x inputs` to
    /// `tokens x 1 x outputs`.
    fn linear(&mut self, input: &Self::Tensor, place: Place) -> Result<Self::Tensor, Self::Error>;

    /// Several linear maps of one tensor, in the order of their places. An arithmetic may share work between them.
    fn linears(&mut self, input: &Self::Tensor, places: &[Place]) -> Result<Vec<Self::Tensor>, Self::Error> {
        places.iter().map(|place| self.linear(input, *place)).collect()
    }

    /// Rotates pairs of coordinates of each head by their position, after it multiplied them by the gains of the norm
    /// of each head if it has one. The first token is at `position` of the context.
    fn rope(&mut self, input: &Self::Tensor, position: usize, place: Place) -> Result<Self::Tensor, Self::Error>;

    /// Products of queries with all keys of the cache, divided by the root of the head's width: `tokens x heads x
    /// keys`, first the public keys. Scores with keys of later tokens than the query's are not defined.
    fn scores(
        &mut self,
        queries: &Self::Tensor,
        cache: &Self::Cache,
        place: Place,
    ) -> Result<Self::Tensor, Self::Error>;

    /// Sums of all values of the cache, weighted by `tokens x heads x keys`: `tokens x 1 x heads * head_width`.
    fn attend(
        &mut self,
        weights: &Self::Tensor,
        cache: &Self::Cache,
        place: Place,
    ) -> Result<Self::Tensor, Self::Error>;

    /// What the heads of a layer attend to: [`Circuit::heads`]. An arithmetic may run heads apart from each other.
    fn heads(
        &mut self,
        circuit: &Circuit,
        layer: usize,
        queries: &Self::Tensor,
        cache: &Self::Cache,
    ) -> Result<Self::Tensor, Self::Error>
    where
        Self: Sized,
    {
        circuit.heads(self, layer, queries, cache)
    }

    /// A function of each value.
    fn function(&mut self, function: Function, input: &Self::Tensor, place: Place)
    -> Result<Self::Tensor, Self::Error>;

    /// `factor` times the sum of the squares of each group, plus `offset`: `tokens x groups x 1`. Where the place
    /// belongs to the norm of each head, the groups are heads of queries or keys.
    fn sum_squares(
        &mut self,
        input: &Self::Tensor,
        factor: f64,
        offset: f64,
        place: Place,
    ) -> Result<Self::Tensor, Self::Error>;

    /// Each group, or each head of queries or keys, times its value of `factors`, which is `tokens x groups x 1`.
    fn scale(
        &mut self,
        input: &Self::Tensor,
        factors: &Self::Tensor,
        place: Place,
    ) -> Result<Self::Tensor, Self::Error>;

    /// Products of values at equal positions.
    fn multiply(&mut self, a: &Self::Tensor, b: &Self::Tensor, place: Place) -> Result<Self::Tensor, Self::Error>;

    /// Squares of values.
    fn square(&mut self, input: &Self::Tensor, place: Place) -> Result<Self::Tensor, Self::Error>;

    /// Sums of values at equal positions.
    fn add(&mut self, a: &Self::Tensor, b: &Self::Tensor, place: Place) -> Result<Self::Tensor, Self::Error>;
}
