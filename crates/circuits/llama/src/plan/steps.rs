//! From the recorded graph to steps that a path runs through.

use std::collections::HashMap;

use unspoken_ckks::{CkksError, CkksParameters};

use super::algorithm::{Algorithm, Attention, OnCoefficients};
use super::degrees::Degrees;
use super::packing::{Grid, Packing};
use super::prices::{Blocks, Prices};
use super::report::Phase;
use super::work::Work;
use crate::arithmetic::Function;
use crate::place::{Place, Quantity};
use crate::placement::{Ladder, Segment, Step, Way};
use crate::record::{Node, Operation};

/// A tensor of a part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tensor {
    pub(super) place: Place,
    pub(super) packing: Packing,
}

/// A step of a part, with the algorithms that can run it.
#[derive(Clone, Debug)]
pub(super) struct Stage {
    pub(super) kind: &'static str,
    pub(super) phase: Phase,
    pub(super) inputs: Vec<usize>,
    pub(super) outputs: Vec<usize>,
    pub(super) algorithms: Vec<Algorithm>,
}

/// A layer, or the last norm with the head: steps from the residual stream to their last result.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) tensors: Vec<Tensor>,
    pub(super) stages: Vec<Stage>,
    /// Scores are the keys of the cache; values the second input of the sums.
    pub(super) caches: Vec<(usize, usize)>,
}

impl Part {
    /// Whether both do the same, at whatever places.
    pub(super) fn same_as(&self, other: &Part) -> bool {
        let packings = |part: &Part| part.tensors.iter().map(|tensor| tensor.packing).collect::<Vec<_>>();
        let same =
            |a: &Stage, b: &Stage| (&a.inputs, &a.outputs, &a.algorithms) == (&b.inputs, &b.outputs, &b.algorithms);
        packings(self) == packings(other)
            && self.stages.len() == other.stages.len()
            && self.stages.iter().zip(&other.stages).all(|(a, b)| same(a, b))
    }

    /// The tensor that the last stage makes.
    pub(super) fn output(&self) -> usize {
        self.stages.last().and_then(|stage| stage.outputs.first().copied()).unwrap_or(0)
    }

    /// Prices of all ways at all levels up to `most`.
    pub(super) fn priced(&self, prices: &mut Prices, most: usize) -> Result<Priced, CkksError> {
        let ladder = ladder(&prices.parameters);
        let mut works = Vec::new();
        for stage in &self.stages {
            let mut of_stage = Vec::new();
            for algorithm in &stage.algorithms {
                let (least, _) = algorithm.levels(ladder.entry, ladder.top);
                let mut by_level = vec![Work::default(); most + 1];
                for (level, work) in by_level.iter_mut().enumerate().skip(least) {
                    *work = algorithm.work(prices, level)?;
                }
                of_stage.push(by_level);
            }
            works.push(of_stage);
        }
        let mut refreshes = Vec::new();
        for tensor in &self.tensors {
            let mut work = prices.first_halves(tensor.packing)?;
            work += prices.second_halves(tensor.packing)?;
            refreshes.push(work);
        }
        Ok(Priced { works, refreshes })
    }

    /// The problem of the path, with results of bootstraps at `top`.
    pub(super) fn segment(&self, priced: &Priced, prices: &Prices, top: usize) -> Segment {
        let ladder = Ladder { top, ..ladder(&prices.parameters) };
        let total = |work: &Work| work.seconds(&prices.model).iter().sum::<f64>();
        let steps = self.stages.iter().zip(&priced.works).map(|(stage, works)| {
            let ways = stage.algorithms.iter().zip(works).map(|(algorithm, works)| {
                let (least, landing) = algorithm.levels(ladder.entry, top);
                let mut above = vec![0; stage.inputs.len()];
                if let Some(second) = above.get_mut(1) {
                    *second = algorithm.second_above();
                }
                Way { least, above, landing, seconds: works[..=top].iter().map(total).collect() }
            });
            Step { inputs: stage.inputs.clone(), outputs: stage.outputs.clone(), ways: ways.collect() }
        });
        let refresh = priced.refreshes.iter().map(total).collect();
        Segment { ladder, refresh, steps: steps.collect(), tolerance: 0.0, input: 0, output: self.output() }
    }
}

/// Work of all ways of a part, by stage, way and working level, and of a bootstrap of each tensor.
pub(super) struct Priced {
    pub(super) works: Vec<Vec<Vec<Work>>>,
    pub(super) refreshes: Vec<Work>,
}

/// Levels of the bootstraps of parameters.
pub(super) fn ladder(parameters: &CkksParameters) -> Ladder {
    let entry = parameters.bootstrap().map_or(0, |literal| literal.slots_to_coeffs);
    Ladder { entry, top: parameters.circuit_level() }
}

/// Divides the nodes of a pass into layers and the head.
pub(super) fn parts(nodes: &[Node], grid: &Grid, degrees: &Degrees, packed: bool) -> Vec<Part> {
    let ends = |node: &Node| node.operation == Operation::Add && node.place.quantity == Quantity::Residual;
    let mut parts = Vec::new();
    let mut begin = 0;
    let bounds = nodes.iter().enumerate().filter(|(_, node)| ends(node)).map(|(number, _)| number + 1);
    for end in bounds.chain([nodes.len()]) {
        parts.push(Builder::new(nodes, begin, grid, degrees, packed).build(begin..end));
        begin = end;
    }
    parts
}

struct Builder<'a> {
    nodes: &'a [Node],
    grid: &'a Grid,
    degrees: &'a Degrees,
    /// Whether factors of softmax are packed for their polynomials.
    packed: bool,
    part: Part,
    /// Tensors of nodes. An append has two: keys and values.
    known: HashMap<usize, Vec<usize>>,
}

impl<'a> Builder<'a> {
    /// The residual stream before node `begin` is the first tensor.
    fn new(nodes: &'a [Node], begin: usize, grid: &'a Grid, degrees: &'a Degrees, packed: bool) -> Self {
        let residual = begin.saturating_sub(1);
        let node = &nodes[residual];
        let first = Tensor { place: node.place, packing: grid.activation(node.shape.width) };
        let part = Part { tensors: vec![first], stages: vec![], caches: vec![] };
        Builder { nodes, grid, degrees, packed, part, known: HashMap::from([(residual, vec![0])]) }
    }

    fn build(mut self, range: std::ops::Range<usize>) -> Part {
        let mut number = range.start;
        while number < range.end {
            let siblings = self.siblings(number, range.end);
            match self.nodes[number].operation {
                Operation::Linear => self.linear(number, siblings),
                _ => self.node(number),
            }
            number += siblings;
        }
        self.part
    }

    /// Number of successive linear maps of one tensor, from `number`.
    fn siblings(&self, number: usize, end: usize) -> usize {
        let first = &self.nodes[number];
        let sibling = |node: &&Node| node.operation == Operation::Linear && node.inputs == first.inputs;
        self.nodes[number..end].iter().take_while(sibling).count().max(1)
    }

    fn tensor(&mut self, place: Place, packing: Packing) -> usize {
        self.part.tensors.push(Tensor { place, packing });
        self.part.tensors.len() - 1
    }

    fn packing(&self, tensor: usize) -> Packing {
        self.part.tensors[tensor].packing
    }

    /// Adds a stage with one result, which it returns.
    fn stage(
        &mut self,
        (kind, phase): (&'static str, Phase),
        inputs: Vec<usize>,
        (place, packing): (Place, Packing),
        algorithms: Vec<Algorithm>,
    ) -> usize {
        let output = self.tensor(place, packing);
        self.part.stages.push(Stage { kind, phase, inputs, outputs: vec![output], algorithms });
        output
    }

    fn linear(&mut self, number: usize, siblings: usize) {
        let nodes = &self.nodes[number..number + siblings];
        let input = self.known[&nodes[0].inputs[0]][0];
        let shape = self.nodes[nodes[0].inputs[0]].shape;
        let (inputs, outputs) = (shape.groups * shape.width, nodes.iter().map(|node| node.shape.width).sum::<usize>());
        let packings: Vec<Packing> = nodes.iter().map(|node| self.linear_packing(node)).collect();
        let ciphertexts = packings.iter().map(|packing| packing.ciphertexts).sum();
        let period = packings.iter().map(|packing| packing.period).max().unwrap_or(self.grid.slots);
        let head = nodes[0].place.quantity == Quantity::Logits;
        let product = OnCoefficients {
            input: self.packing(input),
            output: Packing { ciphertexts, period, copies: 1 },
            matrix: (outputs, inputs),
            tokens: self.grid.tokens,
            refreshed: !head,
        };
        let columns = self.packing(input).ciphertexts;
        let widest = inputs.max(nodes.iter().map(|node| node.shape.width).max().unwrap_or(1));
        let diagonals = widest.next_power_of_two().min(self.grid.slots / self.grid.tokens);
        let products = columns * ciphertexts * diagonals;
        let blocks = Blocks { inputs: columns, outputs: ciphertexts, products, diagonals };
        let slots = Algorithm::Slots { blocks, stride: self.grid.tokens, encodings: products };
        let outputs = nodes.iter().zip(&packings).map(|(node, packing)| (node.place, *packing)).collect::<Vec<_>>();
        let tensors: Vec<usize> = outputs.into_iter().map(|(place, packing)| self.tensor(place, packing)).collect();
        for (sibling, tensor) in tensors.iter().enumerate() {
            self.known.insert(number + sibling, vec![*tensor]);
        }
        let algorithms = vec![Algorithm::Module(product), Algorithm::Polynomials(product), slots];
        let phase = if head { Phase::Head } else { Phase::Linear };
        self.part.stages.push(Stage { kind: "linear", phase, inputs: vec![input], outputs: tensors, algorithms });
    }

    fn linear_packing(&self, node: &Node) -> Packing {
        match node.place.quantity {
            Quantity::Query => self.grid.queries(),
            Quantity::Key | Quantity::Value => self.grid.keys(),
            _ => self.grid.activation(node.shape.width),
        }
    }

    fn node(&mut self, number: usize) {
        let node = &self.nodes[number];
        let inputs: Vec<usize> = match node.operation {
            Operation::Input => vec![],
            // The cache of a part belongs to this pass; earlier chunks are part of the private tiles.
            _ => node
                .inputs
                .iter()
                .filter_map(|input| self.known.get(input))
                .flat_map(|all| all.iter().copied())
                .collect(),
        };
        let result = match node.operation {
            Operation::Input | Operation::Linear => return,
            Operation::Rope => vec![self.rope(node, inputs[0])],
            // Values are arranged where they are used: the order of steps costs nothing, and fewer tensors are live.
            Operation::Append => inputs[..2].to_vec(),
            Operation::Scores => vec![self.scores(node, inputs[0], inputs[1])],
            Operation::Attend => vec![self.attend(node, inputs[0], inputs[2])],
            Operation::Function(Function::InverseSqrt) => vec![self.inverse_sqrt(node, inputs[0])],
            Operation::Function(function) => vec![self.polynomial(node, function, inputs[0])],
            Operation::SumSquares => vec![self.sum_squares(node, inputs[0])],
            Operation::Scale | Operation::Multiply | Operation::Square => vec![self.product(node, inputs)],
            Operation::Add => {
                let packing = self.packing(inputs[0]);
                let algorithm = Algorithm::Sum { ciphertexts: packing.ciphertexts };
                vec![self.stage(("add", Phase::Residual), inputs, (node.place, packing), vec![algorithm])]
            }
        };
        self.known.insert(number, result);
    }

    /// A permutation of the rows of each head, and what else fits its diagonals.
    fn permuted(&mut self, what: (&'static str, Phase), input: usize, place: Place) -> usize {
        let (packing, diagonals) = (self.grid.queries(), self.grid.arrangements());
        let products = packing.ciphertexts * diagonals;
        let blocks =
            Blocks { inputs: self.packing(input).ciphertexts, outputs: packing.ciphertexts, products, diagonals };
        let algorithm = Algorithm::Slots { blocks, stride: self.grid.tokens, encodings: diagonals };
        self.stage(what, vec![input], (place, packing), vec![algorithm])
    }

    /// RoPE and the shift of columns that the scores need.
    fn rope(&mut self, node: &Node, input: usize) -> usize {
        self.permuted(("rope", Phase::Attention), input, node.place)
    }

    /// The transpose and the shifts of the values.
    fn arrange(&mut self, values: usize) -> usize {
        let place = self.part.tensors[values].place;
        self.permuted(("arrange", Phase::Attention), values, place)
    }

    fn attention(&self, public: Blocks, rotated: usize, results: usize, doublings: usize) -> Algorithm {
        let (grid, [of_public, of_private]) = (self.grid, self.grid.scores());
        let shared = (of_public * grid.kv_heads).div_ceil(grid.heads);
        Algorithm::Attention(Attention {
            public,
            encodings: shared,
            rotated,
            cached: of_private,
            results,
            rows: grid.head,
            columns: grid.tokens > 1,
            doublings,
            stride: grid.tokens,
        })
    }

    fn scores(&mut self, node: &Node, queries: usize, keys: usize) -> usize {
        let (grid, [public, private]) = (self.grid, self.grid.scores());
        let inputs = grid.queries().ciphertexts;
        let blocks = Blocks { inputs, outputs: public, products: public * grid.head, diagonals: grid.head };
        let algorithm = self.attention(blocks, inputs, private, 0);
        let packing = Packing { ciphertexts: public + private, period: grid.slots, copies: 1 };
        let what = ("scores", Phase::Attention);
        self.part.caches.push((self.part.stages.len(), 1));
        self.stage(what, vec![queries, keys], (node.place, packing), vec![algorithm])
    }

    fn attend(&mut self, node: &Node, weights: usize, values: usize) -> usize {
        let values = self.arrange(values);
        let (grid, [public, private]) = (self.grid, self.grid.scores());
        let packing = grid.queries();
        let outputs = packing.ciphertexts;
        let blocks = Blocks { inputs: public, outputs, products: public * grid.head, diagonals: grid.head };
        let doublings = grid.tiles_together().ilog2() as usize;
        let algorithm = self.attention(blocks, private, outputs, doublings);
        let what = ("attend", Phase::Attention);
        self.part.caches.push((self.part.stages.len(), 1));
        self.stage(what, vec![weights, values], (node.place, packing), vec![algorithm])
    }

    fn sum_squares(&mut self, node: &Node, input: usize) -> usize {
        let (grid, terms) = (self.grid, self.packing(input).ciphertexts);
        let (phase, packing, doublings) = match node.place.quantity {
            Quantity::SoftmaxSquare(_) => {
                let sums = (grid.head * grid.tiles_together()).ilog2() as usize;
                (Phase::Softmax, grid.head_factors(), sums)
            }
            _ => (Phase::Norm, grid.token_factors(), (self.packing(input).period / grid.tokens).ilog2() as usize),
        };
        let results = packing.ciphertexts.min(terms);
        let algorithm = Algorithm::SumSquares { terms, results, doublings, stride: grid.tokens };
        self.stage(("sum of squares", phase), vec![input], (node.place, packing), vec![algorithm])
    }

    fn inverse_sqrt(&mut self, node: &Node, input: usize) -> usize {
        let spread = self.packing(input);
        let (degree, grid) = (self.degrees.of(Function::InverseSqrt, node.place), self.grid);
        let softmax = matches!(node.place.quantity, Quantity::SoftmaxFactor(_));
        let phase = if softmax { Phase::Softmax } else { Phase::Norm };
        let together = grid.packed_factors();
        let packs = softmax && self.packed && together.ciphertexts < spread.ciphertexts;
        let (argument, packing) = if packs {
            let place = self.part.tensors[input].place;
            let pack = Algorithm::Pack { from: spread.ciphertexts, to: together.ciphertexts };
            (self.stage(("pack", phase), vec![input], (place, together), vec![pack]), together)
        } else {
            (input, spread)
        };
        let ciphertexts = packing.ciphertexts;
        let stride = grid.tokens * if softmax { grid.head / packing.copies.min(grid.head) } else { 1 };
        let mut algorithms = vec![Algorithm::Polynomial { degree, ciphertexts }];
        if packing.copies > 1 {
            algorithms.push(Algorithm::Slim { degree, ciphertexts, copies: packing.copies, stride });
        }
        let factor = self.stage(("inverse square root", phase), vec![argument], (node.place, packing), algorithms);
        if !packs {
            return factor;
        }
        let doublings = (grid.head / packing.copies).ilog2() as usize;
        let unpack = Algorithm::Unpack { to: spread.ciphertexts, doublings, stride: grid.tokens };
        self.stage(("unpack", phase), vec![factor], (node.place, spread), vec![unpack])
    }

    fn polynomial(&mut self, node: &Node, function: Function, input: usize) -> usize {
        let packing = self.packing(input);
        let what = match function {
            Function::Exponential => ("exponential", Phase::Softmax),
            Function::Silu => ("SiLU", Phase::Silu),
            Function::InverseSqrt => ("inverse square root", Phase::Norm),
        };
        let degree = self.degrees.of(function, node.place);
        let algorithm = Algorithm::Polynomial { degree, ciphertexts: packing.ciphertexts };
        self.stage(what, vec![input], (node.place, packing), vec![algorithm])
    }

    fn product(&mut self, node: &Node, inputs: Vec<usize>) -> usize {
        let packing = self.packing(inputs[0]);
        let (kind, phase) = match (node.operation, node.place.quantity) {
            (Operation::Square, _) => ("square", Phase::Softmax),
            (Operation::Scale, Quantity::SoftmaxScaled(_)) => ("scale", Phase::Softmax),
            (Operation::Scale, _) => ("scale", Phase::Norm),
            _ => ("multiply", Phase::Silu),
        };
        let algorithm = Algorithm::Product { ciphertexts: packing.ciphertexts };
        self.stage((kind, phase), inputs, (node.place, packing), vec![algorithm])
    }
}
