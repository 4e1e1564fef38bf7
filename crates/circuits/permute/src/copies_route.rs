//! Routes of the entries of a permutation through a network over several copies.
//!
//! A path of an entry is a copy to start from and a multiple of the unit of each layer, which add up to the distance of
//! the entry. Paths must not share a slot after any layer. Entries with the fewest paths are routed first. An entry
//! without a free path takes one that few others block; these are routed again.

use std::collections::{BTreeMap, VecDeque};

use chacha20::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

use crate::copies::{Copies, Layer};
use crate::permutation::Permutation;

/// The shifts of a layer: multiples of `unit` from 0 to below `count` times it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LayerShape {
    pub(crate) unit: usize,
    pub(crate) count: usize,
    pub(crate) babies: usize,
}

/// Steps of one search for a free path, at most.
const SEARCH_STEPS: usize = 1 << 10;

/// Paths among which the least blocked one is chosen.
const TRIALS: usize = 32;

/// Entries that are routed again, at most, in multiples of the length.
const MOST_AGAIN: usize = 1;

const NONE: u32 = u32::MAX;

/// A path: the copy to start from, and the multiple for each layer.
#[derive(Clone, Debug, Default)]
struct Path {
    copy: usize,
    multiples: Vec<usize>,
}

/// The network of a permutation through `copies` copies and layers of these shapes, or `None` if none is found.
pub(crate) fn route(permutation: &Permutation, copies: usize, shapes: &[LayerShape]) -> Option<Copies> {
    let mut router = Router::new(permutation, copies, shapes);
    router.run().then(|| router.network())
}

struct Router<'a> {
    shapes: &'a [LayerShape],
    length: usize,
    copies: usize,
    source: &'a [u32],
    /// For each layer and each distance modulo the length, the number of ways to move by it from that layer on.
    ways: Vec<Vec<f64>>,
    /// Whether there are any, for the distances from which the layers behind each one have to move.
    reachable: Vec<Vec<bool>>,
    /// For each layer but the last, the entry in each slot after it.
    occupied: Vec<Vec<u32>>,
    paths: Vec<Path>,
    rng: ChaCha8Rng,
}

impl<'a> Router<'a> {
    fn new(permutation: &'a Permutation, copies: usize, shapes: &'a [LayerShape]) -> Self {
        let length = permutation.len();
        let ways = ways(shapes, length);
        Router {
            shapes,
            length,
            copies,
            source: permutation.source(),
            reachable: ways.iter().map(|ways| ways.iter().map(|&ways| ways > 0.0).collect()).collect(),
            ways,
            occupied: vec![vec![NONE; length * copies]; shapes.len().saturating_sub(1)],
            paths: vec![Path::default(); length],
            rng: ChaCha8Rng::seed_from_u64(0),
        }
    }

    /// Routes every entry. Entries are numbered by their position in the result.
    fn run(&mut self) -> bool {
        let mut order: Vec<u32> = (0..self.length as u32).collect();
        let ways = |entry: &u32| self.ways[0][self.distance(*entry)];
        order.sort_by(|a, b| ways(a).total_cmp(&ways(b)));
        if order.first().is_none_or(|entry| ways(entry) == 0.0) {
            return false;
        }
        let mut waiting = VecDeque::from(order);
        let mut again = 0;
        while let Some(entry) = waiting.pop_front() {
            let path = self.free_path(entry).unwrap_or_else(|| self.least_blocked(entry));
            for blocking in self.blocking(entry, &path) {
                self.set(blocking, NONE);
                waiting.push_back(blocking);
                again += 1;
            }
            if again > MOST_AGAIN * self.length {
                return false;
            }
            self.paths[entry as usize] = path;
            self.set(entry, entry);
        }
        true
    }

    /// The distance that an entry moves to the left, modulo the length.
    fn distance(&self, entry: u32) -> usize {
        self.after(self.source[entry as usize] as usize, entry as usize)
    }

    /// The rest of a distance modulo the length, which is a power of two, after a move.
    fn after(&self, rest: usize, moved: usize) -> usize {
        rest.wrapping_sub(moved) & (self.length - 1)
    }

    /// The slot of an entry after the first `layers` layers of a path.
    fn slot(&self, entry: u32, path: &Path, layers: usize) -> usize {
        let moved: usize = self.shapes.iter().zip(&path.multiples).take(layers).map(|(s, m)| s.unit * m).sum();
        let period = self.length * self.copies;
        (self.source[entry as usize] as usize + path.copy * self.length).wrapping_sub(moved) & (period - 1)
    }

    /// Marks the slots on the path of an entry.
    fn set(&mut self, entry: u32, mark: u32) {
        for layer in 0..self.occupied.len() {
            let slot = self.slot(entry, &self.paths[entry as usize], layer + 1);
            self.occupied[layer][slot] = mark;
        }
    }

    /// The entries in the slots of a path, each once.
    fn blocking(&self, entry: u32, path: &Path) -> Vec<u32> {
        let slots = self.occupied.iter().enumerate().map(|(i, layer)| layer[self.slot(entry, path, i + 1)]);
        let mut blocking: Vec<u32> = slots.filter(|&other| other != NONE).collect();
        blocking.sort_unstable();
        blocking.dedup();
        blocking
    }

    fn random_below(&mut self, bound: usize) -> usize {
        self.rng.next_u32() as usize % bound
    }

    /// A path through free slots, found depth first; the first choice of each layer is random.
    fn free_path(&mut self, entry: u32) -> Option<Path> {
        let (distance, first) = (self.distance(entry), self.random_below(self.copies));
        let offset = self.rng.next_u32() as usize;
        let mut steps = SEARCH_STEPS;
        for copy in (0..self.copies).map(|i| (first + i) % self.copies) {
            let mut path = Path { copy, multiples: Vec::with_capacity(self.shapes.len()) };
            let slot = self.slot(entry, &path, 0);
            if self.extend(&mut path.multiples, slot, distance, offset, &mut steps) {
                return Some(path);
            }
        }
        None
    }

    /// Extends a path to the last layer through free slots.
    fn extend(&self, path: &mut Vec<usize>, slot: usize, rest: usize, offset: usize, steps: &mut usize) -> bool {
        let (layer, period) = (path.len(), self.length * self.copies);
        let Some(shape) = self.shapes.get(layer) else { return true };
        for multiple in (0..shape.count).map(|i| (i + offset) % shape.count) {
            let Some(left) = steps.checked_sub(1) else { return false };
            *steps = left;
            let moved = shape.unit * multiple;
            let rest = self.after(rest, moved);
            let slot = slot.wrapping_sub(moved) & (period - 1);
            let free = self.occupied.get(layer).is_none_or(|occupied| occupied[slot] == NONE);
            if free && self.reachable[layer + 1][rest] {
                path.push(multiple);
                if self.extend(path, slot, rest, offset / shape.count, steps) {
                    return true;
                }
                path.pop();
            }
        }
        false
    }

    /// Among some random paths, the one that the fewest entries block.
    fn least_blocked(&mut self, entry: u32) -> Path {
        let mut best = (usize::MAX, Path::default());
        for _ in 0..TRIALS {
            let path = self.random_path(entry);
            let blocked = self.blocking(entry, &path).len();
            if blocked < best.0 {
                best = (blocked, path);
            }
        }
        best.1
    }

    fn random_path(&mut self, entry: u32) -> Path {
        let mut rest = self.distance(entry);
        let copy = self.random_below(self.copies);
        let (mut multiples, mut possible) = (Vec::with_capacity(self.shapes.len()), Vec::new());
        for (reachable, shape) in self.reachable[1..].iter().zip(self.shapes) {
            possible.clear();
            let leads = |&multiple: &usize| reachable[self.after(rest, shape.unit * multiple)];
            possible.extend((0..shape.count).filter(leads));
            let multiple = possible[self.rng.next_u32() as usize % possible.len()];
            rest = self.after(rest, shape.unit * multiple);
            multiples.push(multiple);
        }
        Path { copy, multiples }
    }

    /// The layers of the paths.
    fn network(&self) -> Copies {
        let layer = |(number, shape): (usize, &LayerShape)| {
            let mut shifts: BTreeMap<i64, Vec<u32>> = BTreeMap::new();
            for entry in 0..self.length as u32 {
                let path = &self.paths[entry as usize];
                let shift = (shape.unit * path.multiples[number]) as i64;
                shifts.entry(shift).or_default().push(self.slot(entry, path, number + 1) as u32);
            }
            shifts.values_mut().for_each(|slots| slots.sort_unstable());
            Layer { shifts, babies: shape.babies }
        };
        Copies { count: self.copies, layers: self.shapes.iter().enumerate().map(layer).collect() }
    }
}

/// For each layer and each distance, the number of ways to move by it from that layer on; after the last layer, only
/// the distance 0 is left.
fn ways(shapes: &[LayerShape], length: usize) -> Vec<Vec<f64>> {
    let mut all = vec![vec![0.0; length]];
    all[0][0] = 1.0;
    for shape in shapes.iter().rev() {
        let last = &all[all.len() - 1];
        let from = |distance: usize, multiple: usize| distance.wrapping_sub(shape.unit * multiple) & (length - 1);
        let sum = |distance: usize| (0..shape.count).map(|multiple| last[from(distance, multiple)]).sum();
        let ways: Vec<f64> = (0..length).map(sum).collect();
        all.push(ways);
    }
    all.reverse();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shapes(units_and_counts: &[(usize, usize)]) -> Vec<LayerShape> {
        units_and_counts.iter().map(|&(unit, count)| LayerShape { unit, count, babies: 2 }).collect()
    }

    #[test]
    fn routes_do_the_permutation() {
        for (log2, copies, layers) in [
            (6u32, 8, vec![(8, 8), (1, 8)]),
            (9, 8, vec![(64, 8), (8, 8), (1, 8)]),
            (9, 2, vec![(72, 6), (8, 9), (1, 8), (72, 6)]),
            (12, 4, vec![(720, 9), (80, 9), (10, 8), (1, 10)]),
        ] {
            for permutation in [
                Permutation::random(1 << log2, 3).unwrap(),
                Permutation::reversal(1 << log2).unwrap(),
                Permutation::swap(1 << log2, 3, 40).unwrap(),
            ] {
                let network = route(&permutation, copies, &shapes(&layers));
                let network = network.unwrap_or_else(|| panic!("2^{log2} through {copies} copies, {layers:?}"));
                network.check(1 << log2).unwrap();
                assert_eq!(network.permutation(1 << log2).unwrap(), permutation);
                assert!(network.masks() <= layers.iter().map(|layer| layer.1).sum());
            }
        }
    }

    #[test]
    fn distances_out_of_reach_and_crowded_slots_are_not_routed() {
        let permutation = Permutation::random(64, 3).unwrap();
        assert!(route(&permutation, 8, &shapes(&[(8, 7), (1, 8)])).is_none());
        assert!(route(&permutation, 1, &shapes(&[(8, 8), (1, 8)])).is_none());
    }
}
