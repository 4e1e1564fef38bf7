//! The multi-group network of any permutation.
//!
//! Source: the permutation decomposition paper, section 5. An entry that has to move `r` slots to the left takes the
//! steps that add up to `r`, the largest first. A rotation node collects, under masks, the entries that take one step
//! together. If the slot of an entry is already occupied there, the entry waits for the node of that step in the next
//! group. Entries that do not take a step stay where they are, without a mask, a copy or any other cost. The first and
//! the last steps may be collapsed: all sums of the first steps are rotations of the input, and entries with the same
//! remaining sum of last steps leave the network together.
//!
//! The paper's network has standby nodes. Here an edge may start at any earlier node instead, which costs nothing and
//! gives most masks the lowest possible level.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::diagonals::{Packing, Shifts};
use crate::error::{PermuteError, shape};
use crate::permutation::Permutation;

/// The start of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Source {
    /// The input, rotated to the left by this many slots.
    Input(i64),
    /// The output of a node.
    Node(usize),
}

/// An edge: entries taken from one source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edge {
    /// The source.
    pub from: Source,
    /// Positions of the entries, where the mask is 1. `None` if all non-zero entries are taken, so that no mask is
    /// needed.
    pub mask: Option<Vec<u32>>,
}

/// A rotation node: the sum of masked vectors, rotated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// The incoming edges, all with masks.
    pub edges: Vec<Edge>,
    /// The rotation, in slots to the left.
    pub rotation: i64,
}

/// A network: rotation nodes in topological order (edges start at earlier nodes only), and its leaves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    /// The rotation nodes.
    pub nodes: Vec<Node>,
    /// For each multiple of [`Network::unit`], the edges whose sum is rotated by it and added to the result.
    pub leaves: BTreeMap<u32, Vec<Edge>>,
    /// The smallest of the collapsed last steps.
    pub unit: i64,
    /// The collapsed first steps, the largest first: rotations of the input are sums of them.
    pub top: Vec<i64>,
    /// Number of collapsed first steps taken at once, from one digit decomposition: more need more keys and less time.
    pub together: usize,
}

/// The state of an entry while the network is built.
#[derive(Clone, Copy)]
struct Entry {
    /// The steps it takes, one bit for each step number.
    takes: u32,
    /// The next step to look at.
    next: u32,
    from: SourceKey,
    position: u32,
}

/// A source as a number, in the order of sources. The rotations of the input come first, which are up to twice the
/// largest length either way; then the nodes.
#[derive(Clone, Copy, PartialEq, Eq)]
struct SourceKey(u32);

const FIRST_NODE: u32 = 1 << 31;
const UNROTATED: u32 = 1 << 30;

impl SourceKey {
    fn input(rotation: i64) -> Self {
        SourceKey((i64::from(UNROTATED) + rotation) as u32)
    }

    fn node(number: usize) -> Self {
        SourceKey(FIRST_NODE + number as u32)
    }

    fn source(self) -> Source {
        match self.0.checked_sub(FIRST_NODE) {
            Some(number) => Source::Node(number as usize),
            None => Source::Input(i64::from(self.0) - i64::from(UNROTATED)),
        }
    }

    /// The source together with a position, in the order of sources and then of positions.
    fn at(self, position: u32) -> u64 {
        u64::from(self.0) << 32 | u64::from(position)
    }
}

impl Network {
    /// The network of a permutation with `top` first steps and `bottom` last steps collapsed.
    ///
    /// # Errors
    /// If more steps are to be collapsed than exist. A first step to the right does not count as a last step.
    pub fn new(permutation: &Permutation, packing: Packing, top: usize, bottom: usize) -> Result<Self, PermuteError> {
        let n = permutation.len();
        let distances = distances(permutation, packing);
        let steps = steps(n, &distances);
        let last = steps.iter().filter(|&&step| step > 0).count();
        if bottom > last || top + bottom > steps.len() {
            let found = format!("{top} first and {bottom} last steps of {}", steps.len());
            return Err(shape("collapse a network", found, "no more than there are"));
        }
        let entries = permutation.source().iter().zip(&distances);
        let entries = entries.map(|(&source, &distance)| start(&steps, &steps[..top], source as usize, distance, n));
        let mut builder = Builder { steps: &steps, middle: top..steps.len() - bottom, n, nodes: Vec::new() };
        let leaves = builder.run(entries.collect());
        let unit = if bottom > 0 { steps[steps.len() - 1] } else { 1 };
        let mut network =
            Network { nodes: builder.nodes, leaves, unit, top: steps[..top].to_vec(), together: top.max(1) };
        network.drop_masks();
        Ok(network)
    }

    /// Number of distinct steps that the distances of a permutation are sums of.
    pub fn step_count(permutation: &Permutation, packing: Packing) -> usize {
        steps(permutation.len(), &distances(permutation, packing)).len()
    }

    /// Number of consecutive products with masks, which is the number of levels.
    pub fn depth(&self) -> usize {
        let depths = self.depths();
        let depth = |edge: &Edge| match edge.from {
            Source::Input(_) => usize::from(edge.mask.is_some()),
            Source::Node(node) => depths[node] + usize::from(edge.mask.is_some()),
        };
        self.leaves.values().flatten().map(depth).max().unwrap_or(0)
    }

    fn depths(&self) -> Vec<usize> {
        let mut depths: Vec<usize> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let before = node.edges.iter().map(|edge| match edge.from {
                Source::Input(_) => 0,
                Source::Node(from) => depths.get(from).copied().unwrap_or(0),
            });
            depths.push(1 + before.max().unwrap_or(0));
        }
        depths
    }

    /// For each node, the number of products with masks between it and the result: the level at which its output is
    /// needed, counted from the level of the result.
    pub(crate) fn heights(&self) -> Vec<usize> {
        let mut heights = vec![0; self.nodes.len()];
        let raise = |heights: &mut Vec<usize>, edge: &Edge, height: usize| {
            if let Source::Node(node) = edge.from {
                heights[node] = heights[node].max(height);
            }
        };
        for edge in self.leaves.values().flatten() {
            raise(&mut heights, edge, usize::from(edge.mask.is_some()));
        }
        for (index, node) in self.nodes.iter().enumerate().rev() {
            let height = heights[index] + 1;
            node.edges.iter().for_each(|edge| raise(&mut heights, edge, height));
        }
        heights
    }

    /// Number of masks.
    pub fn masks(&self) -> usize {
        let edges = self.nodes.iter().flat_map(|node| &node.edges).chain(self.leaves.values().flatten());
        edges.filter(|edge| edge.mask.is_some()).count()
    }

    /// The rotations of the input that edges use, including 0 if an edge uses it.
    pub fn inputs(&self) -> Vec<i64> {
        let edges = self.nodes.iter().flat_map(|node| &node.edges).chain(self.leaves.values().flatten());
        let mut inputs: Vec<i64> = edges
            .filter_map(|edge| match edge.from {
                Source::Input(rotation) => Some(rotation),
                Source::Node(_) => None,
            })
            .collect();
        inputs.sort_unstable();
        inputs.dedup();
        inputs
    }

    /// A rotation of the input as successive sums of collapsed first steps, [`Network::together`] at a time; `None` if
    /// the rotation is not such a sum. The steps are chosen greedily from the largest, since each step is larger than
    /// the rest together.
    pub fn input_path(&self, rotation: i64) -> Option<Vec<i64>> {
        let mut rest = rotation;
        let mut path = Vec::new();
        for part in self.top.chunks(self.together.max(1)) {
            let mut sum = 0;
            for &step in part {
                // A step to the right comes first; only negative rotations take it.
                if (step < 0 && rest < 0) || (step > 0 && rest >= step) {
                    sum += step;
                    rest -= step;
                }
            }
            path.push(sum);
        }
        (rest == 0).then_some(path)
    }

    /// Removes the mask of an edge if the whole content of a node leaves the network unrotated.
    fn drop_masks(&mut self) {
        let count = |edge: &Edge| edge.mask.as_ref().map_or(0, Vec::len);
        let contents: Vec<usize> = self.nodes.iter().map(|node| node.edges.iter().map(count).sum()).collect();
        for edge in self.leaves.get_mut(&0).into_iter().flatten() {
            let whole = |node: usize| edge.mask.as_ref().is_some_and(|mask| mask.len() == contents[node]);
            if matches!(edge.from, Source::Node(node) if whole(node)) {
                edge.mask = None;
            }
        }
    }
}

fn distances(permutation: &Permutation, packing: Packing) -> Vec<i64> {
    let n = permutation.len();
    match packing {
        Packing::Repeated => permutation.distances().map(|d| Shifts::Forward.read(d, n)).collect(),
        Packing::Blocks => permutation.distances().collect(),
    }
}

/// The steps that distances are sums of, the largest first: the powers of two that some entry takes. If some entries
/// move to the right, a step of the whole length to the right comes before them.
fn steps(n: usize, distances: &[i64]) -> Vec<i64> {
    let length = n as i64;
    let taken = distances.iter().fold(0, |taken, &distance| taken | distance.rem_euclid(length));
    let bits = (0..n.next_power_of_two().ilog2()).rev().map(|bit| 1i64 << bit).filter(|bit| taken & bit != 0);
    let right = distances.iter().any(|&distance| distance < 0).then_some(-length);
    right.into_iter().chain(bits).collect()
}

/// The state of an entry after the collapsed first steps.
fn start(steps: &[i64], top: &[i64], source: usize, distance: i64, n: usize) -> Entry {
    let forward = distance.rem_euclid(n as i64);
    let taken = |step: i64| if step < 0 { distance < 0 } else { forward & step != 0 };
    let takes = steps.iter().enumerate().fold(0, |takes, (i, &step)| takes | u32::from(taken(step)) << i);
    let first: i64 = top.iter().filter(|&&step| taken(step)).sum();
    let position = (source as i64 - first).rem_euclid(n as i64) as u32;
    Entry { takes, next: top.len() as u32, from: SourceKey::input(first), position }
}

struct Builder<'a> {
    steps: &'a [i64],
    /// The steps that are not collapsed.
    middle: std::ops::Range<usize>,
    n: usize,
    nodes: Vec<Node>,
}

impl Builder<'_> {
    /// Builds groups until no entry waits.
    fn run(&mut self, mut entries: Vec<Entry>) -> BTreeMap<u32, Vec<Edge>> {
        let unit = self.steps.last().map_or(1, |&step| step.max(1));
        let mut leaves: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        while !entries.is_empty() {
            let (arrived, waiting) = self.group(entries);
            for entry in arrived {
                let last = self.middle.end..self.steps.len();
                let rest: i64 = last.filter(|&i| entry.takes >> i & 1 == 1).map(|i| self.steps[i]).sum();
                leaves.entry((rest / unit) as u32).or_default().push(entry.from.at(entry.position));
            }
            entries = waiting;
        }
        leaves.into_iter().map(|(multiple, taken)| (multiple, into_edges(taken))).collect()
    }

    /// Builds one group, at most one node per step. Returns the entries that passed and the entries that wait.
    fn group(&mut self, mut entries: Vec<Entry>) -> (Vec<Entry>, Vec<Entry>) {
        let mut waiting = Vec::new();
        let mut taken = vec![false; self.n];
        for number in self.middle.clone() {
            let (step, id) = (self.steps[number], self.nodes.len());
            let mut collected: Vec<u64> = Vec::new();
            taken.fill(false);
            entries.retain_mut(|entry| {
                if entry.next != number as u32 {
                    return true;
                }
                if entry.takes >> number & 1 == 1 {
                    if std::mem::replace(&mut taken[entry.position as usize], true) {
                        waiting.push(*entry);
                        return false;
                    }
                    collected.push(entry.from.at(entry.position));
                    entry.from = SourceKey::node(id);
                    entry.position = (i64::from(entry.position) - step).rem_euclid(self.n as i64) as u32;
                }
                entry.next += 1;
                true
            });
            if !collected.is_empty() {
                self.nodes.push(Node { edges: into_edges(collected), rotation: step });
            }
        }
        (entries, waiting)
    }
}

/// The edges that take entries with these sources and positions.
fn into_edges(mut taken: Vec<u64>) -> Vec<Edge> {
    taken.sort_unstable();
    let source = |taken: u64| SourceKey((taken >> 32) as u32);
    let edge = |part: &[u64]| {
        part.first().map(|&first| Edge {
            from: source(first).source(),
            mask: Some(part.iter().map(|&taken| taken as u32).collect()),
        })
    };
    taken.chunk_by(|&a, &b| source(a) == source(b)).filter_map(edge).collect()
}
