//! Routes of the entries of a permutation through a network over several copies.
//!
//! A path of an entry is a copy to start from and a multiple of the unit of each layer, which add up to the distance of
//! the entry. Paths must not share a slot after any layer. Entries with the fewest paths are routed first. An entry
//! without a free path takes a path that few other entries block; the blocking entries are routed again.

use std::collections::VecDeque;

use chacha20::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

use crate::copies::{Copies, Layer};
use crate::permutation::Permutation;

/// The shifts of a layer: multiples of `unit` from 0 to below `count` times it, at most 64.
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
const MAX_AGAIN: usize = 1;

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
    /// For each distance modulo the length, the number of ways to move by it.
    ways: Vec<f64>,
    /// For each layer, and each distance that it and the later layers have to move an entry by: the multiples of the
    /// layer, as bits, after which the later layers can move by the rest.
    leading: Vec<Vec<u64>>,
    /// For each layer but the last, the entry in each slot after it.
    occupied: Vec<Vec<u32>>,
    paths: Vec<Path>,
    rng: ChaCha8Rng,
}

impl<'a> Router<'a> {
    fn new(permutation: &'a Permutation, copies: usize, shapes: &'a [LayerShape]) -> Self {
        let length = permutation.len();
        let mut ways = ways(shapes, length);
        let leading = shapes.iter().zip(&ways[1..]).map(|(shape, rest)| leading(shape, rest)).collect();
        Router {
            shapes,
            length,
            copies,
            source: permutation.source(),
            ways: ways.swap_remove(0),
            leading,
            occupied: vec![vec![NONE; length * copies]; shapes.len().saturating_sub(1)],
            paths: vec![Path::default(); length],
            rng: ChaCha8Rng::seed_from_u64(0),
        }
    }

    /// Routes every entry. Entries are numbered by their position in the result.
    fn run(&mut self) -> bool {
        let mut order: Vec<u32> = (0..self.length as u32).collect();
        let ways = |entry: &u32| self.ways[self.distance(*entry)];
        order.sort_by(|a, b| ways(a).total_cmp(&ways(b)));
        if order.first().is_none_or(|entry| ways(entry) == 0.0) {
            return false;
        }
        let mut waiting = VecDeque::from(order);
        let (mut again, mut blocking) = (0, Vec::new());
        while let Some(entry) = waiting.pop_front() {
            let path = self.free_path(entry).unwrap_or_else(|| self.least_blocked(entry));
            self.blocking(entry, &path, &mut blocking);
            for &other in &blocking {
                self.set(other, NONE);
                waiting.push_back(other);
            }
            again += blocking.len();
            if again > MAX_AGAIN * self.length {
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

    /// The slot in which an entry starts.
    fn start(&self, entry: u32, copy: usize) -> usize {
        self.source[entry as usize] as usize + copy * self.length
    }

    /// The slot to the left of another one by a distance.
    fn left_of(&self, slot: usize, moved: usize) -> usize {
        slot.wrapping_sub(moved) & (self.length * self.copies - 1)
    }

    /// The slots of an entry on a path, after each layer.
    fn slots<'p>(&'p self, entry: u32, path: &'p Path) -> impl Iterator<Item = usize> + 'p {
        let moves = self.shapes.iter().zip(&path.multiples).map(|(shape, multiple)| shape.unit * multiple);
        moves.scan(self.start(entry, path.copy), |slot, moved| {
            *slot = self.left_of(*slot, moved);
            Some(*slot)
        })
    }

    /// Marks the slots on the path of an entry.
    fn set(&mut self, entry: u32, mark: u32) {
        let path = std::mem::take(&mut self.paths[entry as usize]);
        let mut slot = self.start(entry, path.copy);
        for ((layer, shape), multiple) in (0..self.occupied.len()).zip(self.shapes).zip(&path.multiples) {
            slot = self.left_of(slot, shape.unit * multiple);
            self.occupied[layer][slot] = mark;
        }
        self.paths[entry as usize] = path;
    }

    /// Collects the entries in the slots of a path, each once, in ascending order.
    fn blocking(&self, entry: u32, path: &Path, blocking: &mut Vec<u32>) {
        blocking.clear();
        let slots = self.occupied.iter().zip(self.slots(entry, path)).map(|(layer, slot)| layer[slot]);
        blocking.extend(slots.filter(|&other| other != NONE));
        blocking.sort_unstable();
        blocking.dedup();
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
            let slot = self.start(entry, copy);
            if self.extend(&mut path.multiples, slot, distance, offset, &mut steps) {
                return Some(path);
            }
        }
        None
    }

    /// Extends a path to the last layer through free slots.
    fn extend(&self, path: &mut Vec<usize>, slot: usize, rest: usize, offset: usize, steps: &mut usize) -> bool {
        let layer = path.len();
        let Some(shape) = self.shapes.get(layer) else { return true };
        let (leading, first) = (self.leading[layer][rest], offset % shape.count);
        for multiple in (first..shape.count).chain(0..first) {
            let Some(left) = steps.checked_sub(1) else { return false };
            *steps = left;
            if leading >> multiple & 1 == 0 {
                continue;
            }
            let moved = shape.unit * multiple;
            let slot = self.left_of(slot, moved);
            if self.occupied.get(layer).is_none_or(|occupied| occupied[slot] == NONE) {
                path.push(multiple);
                if self.extend(path, slot, self.after(rest, moved), offset / shape.count, steps) {
                    return true;
                }
                path.pop();
            }
        }
        false
    }

    /// Of some random paths, the path that the fewest entries block.
    fn least_blocked(&mut self, entry: u32) -> Path {
        let (mut least, mut best) = (usize::MAX, Path::default());
        let (mut path, mut blocking) = (Path::default(), Vec::with_capacity(self.shapes.len()));
        for _ in 0..TRIALS {
            self.random_path(entry, &mut path);
            self.blocking(entry, &path, &mut blocking);
            if blocking.len() < least {
                least = blocking.len();
                best.clone_from(&path);
            }
        }
        best
    }

    /// Replaces a path by a random one of an entry.
    fn random_path(&mut self, entry: u32, path: &mut Path) {
        let mut rest = self.distance(entry);
        path.copy = self.random_below(self.copies);
        path.multiples.clear();
        for layer in 0..self.shapes.len() {
            let leading = self.leading[layer][rest];
            let multiple = bit(leading, self.random_below(leading.count_ones() as usize));
            rest = self.after(rest, self.shapes[layer].unit * multiple);
            path.multiples.push(multiple);
        }
    }

    /// The layers of the paths.
    fn network(&self) -> Copies {
        let layer = |(number, shape): (usize, &LayerShape)| {
            let mut slots: Vec<Vec<u32>> = vec![Vec::new(); shape.count];
            for entry in 0..self.length as u32 {
                let path = &self.paths[entry as usize];
                let slot = self.slots(entry, path).nth(number).unwrap_or_default();
                slots[path.multiples[number]].push(slot as u32);
            }
            slots.iter_mut().for_each(|slots| slots.sort_unstable());
            let used = slots.into_iter().enumerate().filter(|(_, slots)| !slots.is_empty());
            let shifts = used.map(|(multiple, slots)| ((shape.unit * multiple) as i64, slots)).collect();
            Layer { shifts, babies: shape.babies }
        };
        Copies { count: self.copies, layers: self.shapes.iter().enumerate().map(layer).collect() }
    }
}

/// For each distance, the multiples of a layer, as bits, after which the later layers can move by the rest.
fn leading(shape: &LayerShape, rest: &[f64]) -> Vec<u64> {
    let mask = rest.len() - 1;
    let reachable: Vec<u64> = rest.iter().map(|&ways| u64::from(ways > 0.0)).collect();
    let mut leading = vec![0; rest.len()];
    for multiple in 0..shape.count {
        let moved = shape.unit * multiple;
        for (distance, leading) in leading.iter_mut().enumerate() {
            *leading |= reachable[distance.wrapping_sub(moved) & mask] << multiple;
        }
    }
    leading
}

/// The position of the set bit with this number, from the lowest.
fn bit(mut bits: u64, number: usize) -> usize {
    (0..number).for_each(|_| bits &= bits.wrapping_sub(1));
    bits.trailing_zeros() as usize
}

/// For each layer and each distance, the number of ways to move by it from that layer on; after the last layer, only
/// the distance 0 is left.
fn ways(shapes: &[LayerShape], length: usize) -> Vec<Vec<f64>> {
    let mut all = vec![vec![0.0; length]];
    all[0][0] = 1.0;
    for shape in shapes.iter().rev() {
        let last = &all[all.len() - 1];
        let mut ways = vec![0.0; length];
        for multiple in 0..shape.count {
            let moved = (shape.unit * multiple) & (length - 1);
            // The distances from `moved` up, and the distances below.
            let (low, high) = last.split_at(length - moved);
            ways[moved..].iter_mut().zip(low).for_each(|(sum, ways)| *sum += ways);
            ways[..moved].iter_mut().zip(high).for_each(|(sum, ways)| *sum += ways);
        }
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
