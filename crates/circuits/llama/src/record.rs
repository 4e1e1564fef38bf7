//! The circuit as a graph of operations, for planning.

use std::convert::Infallible;

use unspoken_llama_model::Config;

use crate::arithmetic::{Function, Shape, TensorArithmetic};
use crate::place::{Place, Quantity};

/// An operation of the circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// An input of the pass.
    Input,
    /// [`TensorArithmetic::linear`].
    Linear,
    /// [`TensorArithmetic::rope`].
    Rope,
    /// [`TensorArithmetic::append`], with keys and values as inputs.
    Append,
    /// [`TensorArithmetic::scores`], with the queries and the cache's last append as inputs.
    Scores,
    /// [`TensorArithmetic::attend`], with the weights and the cache's last append as inputs.
    Attend,
    /// [`TensorArithmetic::function`].
    Function(Function),
    /// [`TensorArithmetic::sum_squares`].
    SumSquares,
    /// [`TensorArithmetic::scale`], with the factors as second input.
    Scale,
    /// [`TensorArithmetic::multiply`].
    Multiply,
    /// [`TensorArithmetic::square`].
    Square,
    /// [`TensorArithmetic::add`].
    Add,
}

/// An operation with its inputs.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// What it computes. An append has the place of its keys.
    pub place: Place,
    /// The operation.
    pub operation: Operation,
    /// Nodes whose results it takes.
    pub inputs: Vec<usize>,
    /// Dimensions of the result; for an append, dimensions of the keys.
    pub shape: Shape,
}

/// Records the operations of passes. Tensors are numbers of nodes.
#[derive(Clone, Debug)]
pub struct Recorder {
    config: Config,
    public: usize,
    nodes: Vec<Node>,
}

/// A cache of a recorded session.
#[derive(Clone, Debug)]
pub struct RecordedCache {
    private: usize,
    last: Option<usize>,
}

impl Recorder {
    /// Records passes after `public` tokens.
    pub fn new(config: &Config, public: usize) -> Self {
        Recorder { config: config.clone(), public, nodes: Vec::new() }
    }

    /// An input of `tokens x 1 x width`.
    pub fn input(&mut self, tokens: usize) -> usize {
        let shape = Shape { tokens, groups: 1, width: self.config.width };
        self.push(Operation::Input, Place::new(0, Quantity::Residual), vec![], shape)
    }

    /// The operations, in the order of the pass: inputs come before the nodes that take them.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    fn push(&mut self, operation: Operation, place: Place, inputs: Vec<usize>, shape: Shape) -> usize {
        self.nodes.push(Node { place, operation, inputs, shape });
        self.nodes.len() - 1
    }

    /// An operation whose result has the dimensions of its first input.
    fn same(&mut self, operation: Operation, place: Place, inputs: Vec<usize>) -> Result<usize, Infallible> {
        let shape = self.nodes[inputs[0]].shape;
        Ok(self.push(operation, place, inputs, shape))
    }

    fn outputs(&self, quantity: Quantity) -> usize {
        match quantity {
            Quantity::Query => self.config.query_width(),
            Quantity::Key | Quantity::Value => self.config.kv_width(),
            Quantity::Gate | Quantity::Up => self.config.ffn_width,
            Quantity::Logits => self.config.vocabulary,
            _ => self.config.width,
        }
    }
}

impl TensorArithmetic for Recorder {
    type Tensor = usize;
    type Cache = RecordedCache;
    type Error = Infallible;

    fn public_tokens(&self) -> usize {
        self.public
    }

    fn shape(&self, tensor: &usize) -> Shape {
        self.nodes[*tensor].shape
    }

    fn cache(&mut self, _: usize) -> Result<RecordedCache, Infallible> {
        Ok(RecordedCache { private: 0, last: None })
    }

    fn append(&mut self, cache: &mut RecordedCache, keys: usize, values: usize) -> Result<(), Infallible> {
        let (place, shape) = (self.nodes[keys].place, self.nodes[keys].shape);
        cache.private += shape.tokens;
        let inputs = [Some(keys), Some(values), cache.last].into_iter().flatten().collect();
        cache.last = Some(self.push(Operation::Append, place, inputs, shape));
        Ok(())
    }

    fn linear(&mut self, input: &usize, place: Place) -> Result<usize, Infallible> {
        let shape = Shape { width: self.outputs(place.quantity), ..self.nodes[*input].shape };
        Ok(self.push(Operation::Linear, place, vec![*input], shape))
    }

    fn rope(&mut self, input: &usize, _: usize, place: Place) -> Result<usize, Infallible> {
        self.same(Operation::Rope, place, vec![*input])
    }

    fn scores(&mut self, queries: &usize, cache: &RecordedCache, place: Place) -> Result<usize, Infallible> {
        let tokens = self.nodes[*queries].shape.tokens;
        let shape = Shape { tokens, groups: self.config.heads, width: self.public + cache.private };
        let inputs = std::iter::once(*queries).chain(cache.last).collect();
        Ok(self.push(Operation::Scores, place, inputs, shape))
    }

    fn attend(&mut self, weights: &usize, cache: &RecordedCache, place: Place) -> Result<usize, Infallible> {
        let tokens = self.nodes[*weights].shape.tokens;
        let shape = Shape { tokens, groups: 1, width: self.config.query_width() };
        let inputs = std::iter::once(*weights).chain(cache.last).collect();
        Ok(self.push(Operation::Attend, place, inputs, shape))
    }

    fn function(&mut self, function: Function, input: &usize, place: Place) -> Result<usize, Infallible> {
        self.same(Operation::Function(function), place, vec![*input])
    }

    fn sum_squares(&mut self, input: &usize, _: f64, _: f64, place: Place) -> Result<usize, Infallible> {
        let shape = Shape { width: 1, ..self.nodes[*input].shape };
        Ok(self.push(Operation::SumSquares, place, vec![*input], shape))
    }

    fn scale(&mut self, input: &usize, factors: &usize, place: Place) -> Result<usize, Infallible> {
        self.same(Operation::Scale, place, vec![*input, *factors])
    }

    fn multiply(&mut self, a: &usize, b: &usize, place: Place) -> Result<usize, Infallible> {
        self.same(Operation::Multiply, place, vec![*a, *b])
    }

    fn square(&mut self, input: &usize, place: Place) -> Result<usize, Infallible> {
        self.same(Operation::Square, place, vec![*input])
    }

    fn add(&mut self, a: &usize, b: &usize, place: Place) -> Result<usize, Infallible> {
        self.same(Operation::Add, place, vec![*a, *b])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::circuit::Circuit;

    fn config() -> Config {
        Config {
            width: 8,
            layers: 2,
            heads: 4,
            kv_heads: 2,
            head_width: 2,
            ffn_width: 12,
            vocabulary: 20,
            context: 64,
            norm_epsilon: 1e-5,
            rope_frequencies: vec![1.0],
        }
    }

    #[test]
    fn a_pass_is_a_graph_with_the_dimensions_of_the_model() {
        let circuit = Circuit::new(&config());
        let mut recorder = Recorder::new(&config(), 10);
        let mut session = circuit.session(&mut recorder).unwrap();
        for _ in 0..2 {
            let input = recorder.input(3);
            let normed = circuit.pass(&mut recorder, &mut session, input).unwrap();
            circuit.logits(&mut recorder, &normed).unwrap();
        }
        assert_eq!(session.tokens(), 16);
        let nodes = recorder.nodes();
        assert!(nodes.iter().enumerate().all(|(place, node)| node.inputs.iter().all(|input| *input < place)));
        let of = |operation, quantity| -> Vec<Shape> {
            let found = nodes.iter().filter(|node| node.operation == operation && node.place.quantity == quantity);
            found.map(|node| node.shape).collect()
        };
        let scores = of(Operation::Scores, Quantity::Score);
        assert_eq!(scores.len(), 4);
        assert_eq!(scores[0], Shape { tokens: 3, groups: 4, width: 13 });
        assert_eq!(scores[3], Shape { tokens: 3, groups: 4, width: 16 });
        assert_eq!(of(Operation::SumSquares, Quantity::SoftmaxSquare(1))[0], Shape { tokens: 3, groups: 4, width: 1 });
        assert_eq!(of(Operation::Linear, Quantity::Up)[0], Shape { tokens: 3, groups: 1, width: 12 });
        assert_eq!(of(Operation::Linear, Quantity::Logits)[1], Shape { tokens: 3, groups: 1, width: 20 });
        assert_eq!(of(Operation::Append, Quantity::RotatedKey)[0], Shape { tokens: 3, groups: 1, width: 4 });
    }
}
