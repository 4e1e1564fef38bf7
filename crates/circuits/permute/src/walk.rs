//! The operations of a network in order: written once, run on encrypted vectors and counted.

use std::collections::BTreeMap;

use unspoken_ckks::{CkksError, CkksParameters, Cost};
use unspoken_ring::Basis;
use unspoken_rlwe::{KeyKind, KeyPlan, galois};

use crate::estimate::gathered;
use crate::network::{Edge, Network, Source};

/// What a network needs done. Masks are named by their number in the order of the network: nodes first, then leaves.
pub(crate) trait Machine {
    type Vector: Clone;

    fn hoisted(&mut self, a: &Self::Vector, steps: &[i64]) -> Result<Vec<Self::Vector>, CkksError>;

    /// The sum of products with masks prepared for `level`, not rescaled.
    fn products(&mut self, level: usize, products: &[(&Self::Vector, usize)]) -> Result<Self::Vector, CkksError>;

    fn rotate_rescale(&mut self, a: &Self::Vector, steps: i64) -> Result<Self::Vector, CkksError>;

    fn rescale(&mut self, a: &Self::Vector) -> Result<Self::Vector, CkksError>;

    fn rotate(&mut self, a: &Self::Vector, steps: i64) -> Result<Self::Vector, CkksError>;

    fn add(&mut self, a: &Self::Vector, b: &Self::Vector) -> Result<Self::Vector, CkksError>;

    fn drop_to(&mut self, a: &Self::Vector, level: usize) -> Result<Self::Vector, CkksError>;
}

/// The level each mask is multiplied at, if the result is at `level`, in the order of their numbers.
pub(crate) fn mask_levels(network: &Network, level: usize) -> Vec<usize> {
    let masked = |edges: &[Edge]| edges.iter().filter(|edge| edge.mask.is_some()).count();
    let heights = network.heights();
    let nodes = network.nodes.iter().zip(heights);
    let nodes = nodes.flat_map(|(node, height)| std::iter::repeat_n(level + height + 1, masked(&node.edges)));
    let leaves = network.leaves.values().map(|edges| masked(edges)).sum();
    nodes.chain(std::iter::repeat_n(level + 1, leaves)).collect()
}

/// Runs a network on an input at `level` plus its depth, or above; the result is at `level`.
pub(crate) fn walk<M: Machine>(
    network: &Network,
    level: usize,
    machine: &mut M,
    input: &M::Vector,
) -> Result<M::Vector, CkksError> {
    let input = machine.drop_to(input, level + network.depth())?;
    let inputs = rotated_inputs(network, machine, input)?;
    let mut nodes: Vec<M::Vector> = Vec::with_capacity(network.nodes.len());
    let mut mask = 0;
    for (node, height) in network.nodes.iter().zip(network.heights()) {
        let sum = masked_sum(&node.edges, level + height + 1, machine, (&inputs, &nodes), &mut mask)?;
        nodes.push(machine.rotate_rescale(&sum, node.rotation)?);
    }
    // Each leaf, and whether it still has to be rescaled.
    let mut leaves: BTreeMap<u32, (M::Vector, bool)> = BTreeMap::new();
    let mut whole: Option<M::Vector> = None;
    for (&multiple, edges) in &network.leaves {
        if edges.iter().any(|edge| edge.mask.is_some()) {
            let sum = masked_sum(edges, level + 1, machine, (&inputs, &nodes), &mut mask)?;
            leaves.insert(multiple, (sum, true));
        }
        for edge in edges.iter().filter(|edge| edge.mask.is_none()) {
            let vector = machine.drop_to(lookup(edge.from, &inputs, &nodes)?, level)?;
            whole = Some(match whole {
                Some(sum) => machine.add(&sum, &vector)?,
                None => vector,
            });
        }
    }
    let gathered = gather(leaves, network.unit, machine)?;
    match (gathered, whole) {
        (Some(a), Some(b)) => machine.add(&a, &b),
        (Some(a), None) | (None, Some(a)) => Ok(a),
        (None, None) => Err(nothing()),
    }
}

/// Adds up leaves, each rotated by its multiple of the unit: bit after bit, so that the keys of powers of two are enough.
fn gather<M: Machine>(
    mut leaves: BTreeMap<u32, (M::Vector, bool)>,
    unit: i64,
    machine: &mut M,
) -> Result<Option<M::Vector>, CkksError> {
    let bits = leaves.keys().next_back().map_or(0, |last| u32::BITS - last.leading_zeros());
    for bit in 0..bits {
        let multiples: Vec<u32> = leaves.keys().copied().filter(|multiple| multiple >> bit & 1 == 1).collect();
        for multiple in multiples {
            let Some((leaf, fresh)) = leaves.remove(&multiple) else { continue };
            let steps = unit << bit;
            let rotated = if fresh { machine.rotate_rescale(&leaf, steps)? } else { machine.rotate(&leaf, steps)? };
            let sum = match leaves.remove(&(multiple ^ 1 << bit)) {
                Some((other, true)) => {
                    let other = machine.rescale(&other)?;
                    machine.add(&other, &rotated)?
                }
                Some((other, false)) => machine.add(&other, &rotated)?,
                None => rotated,
            };
            leaves.insert(multiple ^ 1 << bit, (sum, false));
        }
    }
    match leaves.remove(&0) {
        Some((leaf, true)) => Ok(Some(machine.rescale(&leaf)?)),
        Some((leaf, false)) => Ok(Some(leaf)),
        None => Ok(None),
    }
}

/// The rotations of the input, each from a shorter sum of steps.
fn rotated_inputs<M: Machine>(
    network: &Network,
    machine: &mut M,
    input: M::Vector,
) -> Result<BTreeMap<i64, M::Vector>, CkksError> {
    let mut paths: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    for rotation in network.inputs() {
        paths.insert(rotation, network.input_path(rotation).ok_or_else(nothing)?);
    }
    let mut reached: BTreeMap<i64, M::Vector> = BTreeMap::from([(0, input)]);
    for part in 0..network.top.len().div_ceil(network.together.max(1)) {
        let mut wanted: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
        for path in paths.values() {
            let (start, step): (i64, i64) = (path[..part].iter().sum(), path[part]);
            if step != 0 && !reached.contains_key(&(start + step)) {
                let steps = wanted.entry(start).or_default();
                if !steps.contains(&step) {
                    steps.push(step);
                }
            }
        }
        for (start, steps) in wanted {
            let from = reached.get(&start).ok_or_else(nothing)?;
            let rotated = machine.hoisted(from, &steps)?;
            reached.extend(steps.into_iter().map(|step| start + step).zip(rotated));
        }
    }
    Ok(reached)
}

fn lookup<'a, V>(from: Source, inputs: &'a BTreeMap<i64, V>, nodes: &'a [V]) -> Result<&'a V, CkksError> {
    match from {
        Source::Input(rotation) => inputs.get(&rotation),
        Source::Node(node) => nodes.get(node),
    }
    .ok_or_else(nothing)
}

fn masked_sum<M: Machine>(
    edges: &[Edge],
    level: usize,
    machine: &mut M,
    (inputs, nodes): (&BTreeMap<i64, M::Vector>, &[M::Vector]),
    mask: &mut usize,
) -> Result<M::Vector, CkksError> {
    let mut products = Vec::with_capacity(edges.len());
    for edge in edges.iter().filter(|edge| edge.mask.is_some()) {
        products.push((lookup(edge.from, inputs, nodes)?, *mask));
        *mask += 1;
    }
    machine.products(level, &products)
}

fn nothing() -> CkksError {
    CkksError::Shape { operation: "run a network", found: 0, needed: "a source for every edge".into() }
}

/// Counts instead of working. A vector is its level.
pub(crate) struct Meter<'a> {
    pub(crate) parameters: &'a CkksParameters,
    pub(crate) cost: Cost,
    pub(crate) keys: KeyPlan,
    pub(crate) mask_bytes: u64,
    /// By level: rotations from shared digits, and whole ones.
    pub(crate) rotations: BTreeMap<usize, [u64; 2]>,
}

impl<'a> Meter<'a> {
    pub(crate) fn new(parameters: &'a CkksParameters) -> Self {
        let (cost, keys) = (Cost::default(), KeyPlan::new());
        Meter { parameters, cost, keys, mask_bytes: 0, rotations: BTreeMap::new() }
    }

    fn key(&mut self, level: usize, steps: i64) {
        let element = galois::rotation(self.parameters.ring(), steps);
        self.keys.require(KeyKind::Galois { element }, self.parameters.chain(level));
    }

    fn elementwise(&mut self, limbs: usize) {
        self.cost += Cost::elementwise(self.parameters.ring(), limbs);
    }
}

impl Machine for Meter<'_> {
    type Vector = usize;

    fn hoisted(&mut self, &level: &usize, steps: &[i64]) -> Result<Vec<usize>, CkksError> {
        let (ring, chain) = (self.parameters.ring(), self.parameters.chain(level));
        let shared = Cost::decomposition(ring, chain);
        let mut each = Cost::key_switch(ring, chain, 0);
        each.limb_transforms -= shared.limb_transforms;
        each.residue_macs -= shared.residue_macs;
        self.cost += shared;
        self.cost += each.times(steps.len() as u64);
        self.cost += gathered(self.parameters, level, steps.len() as u64);
        steps.iter().for_each(|&step| self.key(level, step));
        self.rotations.entry(level).or_default()[0] += steps.len() as u64;
        Ok(vec![level; steps.len()])
    }

    fn products(&mut self, level: usize, products: &[(&usize, usize)]) -> Result<usize, CkksError> {
        let (ring, chain) = (self.parameters.ring(), self.parameters.chain(level));
        // Three vectors from memory, where a stage has one: its inputs stay in the caches.
        let mut each = Cost::elementwise(ring, 12 * chain);
        each.plaintext_products = 1;
        self.cost += each.times(products.len() as u64);
        self.mask_bytes += (products.len() * ring.poly_bytes(Basis::chain(chain))) as u64;
        Ok(level)
    }

    fn rotate_rescale(&mut self, &level: &usize, steps: i64) -> Result<usize, CkksError> {
        let (ring, chain) = (self.parameters.ring(), self.parameters.chain(level));
        self.cost += Cost::key_switch(ring, chain, self.parameters.level_primes(level));
        self.cost.rescales += 1;
        self.key(level, steps);
        self.rotations.entry(level).or_default()[1] += 1;
        Ok(level - 1)
    }

    fn rescale(&mut self, &level: &usize) -> Result<usize, CkksError> {
        let (from, to) = (self.parameters.chain(level), self.parameters.chain(level - 1));
        self.cost += Cost::division(self.parameters.ring(), from, to).times(2);
        self.cost.rescales += 1;
        Ok(level - 1)
    }

    fn rotate(&mut self, &level: &usize, steps: i64) -> Result<usize, CkksError> {
        self.cost += Cost::key_switch(self.parameters.ring(), self.parameters.chain(level), 0);
        self.key(level, steps);
        self.rotations.entry(level).or_default()[1] += 1;
        Ok(level)
    }

    fn add(&mut self, &a: &usize, &b: &usize) -> Result<usize, CkksError> {
        let level = a.min(b);
        self.elementwise(6 * self.parameters.chain(level));
        Ok(level)
    }

    fn drop_to(&mut self, &a: &usize, level: usize) -> Result<usize, CkksError> {
        if level < a {
            self.elementwise(2 * self.parameters.chain(level));
        }
        Ok(level)
    }
}
