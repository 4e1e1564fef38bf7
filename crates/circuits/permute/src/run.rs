//! Encrypted execution of a network.

use std::borrow::Cow;
use std::collections::BTreeMap;

use unspoken_ckks::{Arithmetic, CkksError, PreparedVector};

use crate::network::{Edge, Network, Source};

/// The rotations of the input that a network uses.
type Rotations<'v, V> = BTreeMap<i64, Cow<'v, V>>;

/// The level at which each mask is multiplied if the result is at `level`: masks of the nodes first, then of the
/// leaves.
pub(crate) fn mask_levels(network: &Network, level: usize) -> Vec<usize> {
    let masked = |edges: &[Edge]| edges.iter().filter(|edge| edge.mask.is_some()).count();
    let heights = network.heights();
    let nodes = network.nodes.iter().zip(heights);
    let nodes = nodes.flat_map(|(node, height)| std::iter::repeat_n(level + height + 1, masked(&node.edges)));
    let leaves = network.leaves.values().map(|edges| masked(edges)).sum();
    nodes.chain(std::iter::repeat_n(level + 1, leaves)).collect()
}

/// Runs a network on an input at level `level` plus its depth or above; the result is at `level`. `masks` are in the
/// order of the network, nodes first, then leaves, and prepared for the levels of [`mask_levels`].
pub(crate) fn run_network<A: Arithmetic>(
    network: &Network,
    level: usize,
    arithmetic: &A,
    masks: &[PreparedVector],
    input: &A::Vector,
) -> Result<A::Vector, CkksError> {
    let input = arithmetic.lowered(input, level + network.depth())?;
    let inputs = rotated_inputs(network, arithmetic, input)?;
    let mut nodes: Vec<A::Vector> = Vec::with_capacity(network.nodes.len());
    let mut masks = masks.iter();
    for node in &network.nodes {
        let sum = masked_sum(&node.edges, arithmetic, (&inputs, &nodes), &mut masks)?;
        nodes.push(arithmetic.rotate_rescale(&sum, node.rotation)?);
    }
    // For each multiple: the leaf, and whether it still has to be rescaled.
    let mut leaves: BTreeMap<u32, (A::Vector, bool)> = BTreeMap::new();
    let mut whole: Option<A::Vector> = None;
    for (&multiple, edges) in &network.leaves {
        if edges.iter().any(|edge| edge.mask.is_some()) {
            let sum = masked_sum(edges, arithmetic, (&inputs, &nodes), &mut masks)?;
            leaves.insert(multiple, (sum, true));
        }
        for edge in edges.iter().filter(|edge| edge.mask.is_none()) {
            let vector = arithmetic.lowered(lookup(edge.from, &inputs, &nodes)?, level)?;
            whole = Some(match whole {
                Some(sum) => arithmetic.add(&sum, &vector)?,
                None => vector.into_owned(),
            });
        }
    }
    let gathered = gather(leaves, network.unit, arithmetic)?;
    match (gathered, whole) {
        (Some(a), Some(b)) => arithmetic.add(&a, &b),
        (Some(a), None) | (None, Some(a)) => Ok(a),
        (None, None) => Err(nothing()),
    }
}

/// Adds up leaves, each rotated by its multiple of the unit. It goes bit by bit, so that keys for `unit` times powers
/// of two are sufficient.
fn gather<A: Arithmetic>(
    mut leaves: BTreeMap<u32, (A::Vector, bool)>,
    unit: i64,
    arithmetic: &A,
) -> Result<Option<A::Vector>, CkksError> {
    let bits = leaves.keys().next_back().map_or(0, |last| u32::BITS - last.leading_zeros());
    for bit in 0..bits {
        let multiples: Vec<u32> = leaves.keys().copied().filter(|multiple| multiple >> bit & 1 == 1).collect();
        for multiple in multiples {
            let Some((leaf, fresh)) = leaves.remove(&multiple) else { continue };
            let steps = unit << bit;
            let rotated =
                if fresh { arithmetic.rotate_rescale(&leaf, steps)? } else { arithmetic.rotate(&leaf, steps)? };
            let sum = match leaves.remove(&(multiple ^ 1 << bit)) {
                Some((other, true)) => {
                    let other = arithmetic.rescale(&other)?;
                    arithmetic.add(&other, &rotated)?
                }
                Some((other, false)) => arithmetic.add(&other, &rotated)?,
                None => rotated,
            };
            leaves.insert(multiple ^ 1 << bit, (sum, false));
        }
    }
    match leaves.remove(&0) {
        Some((leaf, true)) => Ok(Some(arithmetic.rescale(&leaf)?)),
        Some((leaf, false)) => Ok(Some(leaf)),
        None => Ok(None),
    }
}

/// The rotations of the input that the network uses, each computed from a rotation by fewer steps.
fn rotated_inputs<'v, A: Arithmetic>(
    network: &Network,
    arithmetic: &A,
    input: Cow<'v, A::Vector>,
) -> Result<Rotations<'v, A::Vector>, CkksError> {
    let mut paths: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    for rotation in network.inputs() {
        paths.insert(rotation, network.input_path(rotation).ok_or_else(nothing)?);
    }
    let mut reached = BTreeMap::from([(0, input)]);
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
            let rotated = arithmetic.rotate_hoisted(from, &steps)?;
            reached.extend(steps.into_iter().map(|step| start + step).zip(rotated.into_iter().map(Cow::Owned)));
        }
    }
    Ok(reached)
}

fn lookup<'a, V: Clone>(from: Source, inputs: &'a Rotations<'_, V>, nodes: &'a [V]) -> Result<&'a V, CkksError> {
    match from {
        Source::Input(rotation) => inputs.get(&rotation).map(Cow::as_ref),
        Source::Node(node) => nodes.get(node),
    }
    .ok_or_else(nothing)
}

/// The sum of the products of edges with their masks, which are the next ones in `masks`, without a rescale.
fn masked_sum<'m, A: Arithmetic>(
    edges: &[Edge],
    arithmetic: &A,
    (inputs, nodes): (&Rotations<'_, A::Vector>, &[A::Vector]),
    masks: &mut impl Iterator<Item = &'m PreparedVector>,
) -> Result<A::Vector, CkksError> {
    let mut products = Vec::with_capacity(edges.len());
    for edge in edges.iter().filter(|edge| edge.mask.is_some()) {
        products.push((lookup(edge.from, inputs, nodes)?, masks.next().ok_or_else(nothing)?));
    }
    arithmetic.sum_products(&products)
}

fn nothing() -> CkksError {
    CkksError::Shape { operation: "run a network", found: 0, needed: "a source and a mask for every edge".into() }
}
