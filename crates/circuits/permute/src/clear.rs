//! Execution of networks in the clear, on entry numbers.

use crate::diagonals::Packing;
use crate::error::PermuteError;
use crate::network::{Edge, Network, Source};
use crate::permutation::Permutation;

/// The entry in a slot: its number, and the offset of the vector it comes from, in vectors to the right.
type Cell = Option<(u32, i32)>;

/// The permutation that a checked network computes.
pub(crate) fn run(network: &Network, packing: Packing, length: usize) -> Result<Permutation, PermuteError> {
    let mut nodes: Vec<Vec<Cell>> = Vec::with_capacity(network.nodes.len());
    for node in &network.nodes {
        let sum = sum(&node.edges, &nodes, length)?;
        nodes.push(rotated(&sum, node.rotation));
    }
    let mut result = vec![None; length];
    for (&multiple, edges) in &network.leaves {
        let leaf = rotated(&sum(edges, &nodes, length)?, network.unit * i64::from(multiple));
        for (slot, cell) in result.iter_mut().zip(leaf) {
            put(slot, cell)?;
        }
    }
    let source = |cell: Cell| match cell {
        Some((source, 0)) => Ok(source),
        Some((source, _)) if packing == Packing::Repeated => Ok(source),
        Some(_) => Err(wrong("an entry of another vector")),
        None => Err(wrong("nothing")),
    };
    Permutation::new(result.into_iter().map(source).collect::<Result<_, _>>()?)
}

fn sum(edges: &[Edge], nodes: &[Vec<Cell>], length: usize) -> Result<Vec<Cell>, PermuteError> {
    let mut sum = vec![None; length];
    for edge in edges {
        let input;
        let from = match edge.from {
            Source::Node(node) => &nodes[node],
            Source::Input(rotation) => {
                let cells: Vec<Cell> = (0..length as u32).map(|source| Some((source, 0))).collect();
                input = rotated(&cells, rotation);
                &input
            }
        };
        match &edge.mask {
            Some(mask) => mask.iter().try_for_each(|&at| put(&mut sum[at as usize], from[at as usize]))?,
            None => sum.iter_mut().zip(from).try_for_each(|(slot, &cell)| put(slot, cell))?,
        }
    }
    Ok(sum)
}

/// Puts an entry into a slot. A second entry is an error, because the network would add the two.
fn put(slot: &mut Cell, cell: Cell) -> Result<(), PermuteError> {
    match (*slot, cell) {
        (Some(_), Some(_)) => Err(wrong("two entries")),
        (None, cell) => {
            *slot = cell;
            Ok(())
        }
        (Some(_), None) => Ok(()),
    }
}

fn rotated(cells: &[Cell], steps: i64) -> Vec<Cell> {
    let length = cells.len() as i64;
    let cell = |position: i64| {
        let from = position + steps;
        let vectors = from.div_euclid(length) as i32;
        cells[from.rem_euclid(length) as usize].map(|(source, right)| (source, right + vectors))
    };
    (0..length).map(cell).collect()
}

fn wrong(found: &str) -> PermuteError {
    PermuteError::PermutationPlan {
        what: "a slot of the network",
        found: found.into(),
        needed: "exactly one entry".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::benes::tests::for_each_permutation;

    #[test]
    fn every_permutation_of_four_and_eight() {
        for n in [4usize, 8] {
            for packing in [Packing::Repeated, Packing::Blocks] {
                for_each_permutation(n, |permutation| {
                    let steps = Network::step_count(permutation, packing);
                    for (top, bottom) in [(0, 0), (1, 1), (0, 2), (2, 0)] {
                        if top + bottom < steps {
                            let network = Network::new(permutation, packing, top, bottom).unwrap();
                            assert_eq!(&run(&network, packing, n).unwrap(), permutation);
                        }
                    }
                });
            }
        }
    }

    #[test]
    fn random_ones_of_real_lengths() {
        for log2 in [9usize, 12, 15] {
            let permutation = Permutation::random(1 << log2, 11).unwrap();
            for (top, bottom) in [(0, 0), (3, 3), (4, 0)] {
                let network = Network::new(&permutation, Packing::Repeated, top, bottom).unwrap();
                assert_eq!(run(&network, Packing::Repeated, 1 << log2).unwrap(), permutation);
                let most = log2 - top - bottom + usize::from(bottom > 0);
                assert!(network.depth() <= most, "{} levels", network.depth());
                println!("2^{log2} {top} {bottom}: {} nodes, {} masks", network.nodes.len(), network.masks());
            }
            let network = Network::new(&permutation, Packing::Blocks, 1, 2).unwrap();
            assert_eq!(run(&network, Packing::Blocks, 1 << log2).unwrap(), permutation);
        }
    }

    #[test]
    fn special_ones_need_few_nodes() {
        let n = 256;
        let nodes = |permutation: Permutation| {
            let network = Network::new(&permutation, Packing::Repeated, 0, 0).unwrap();
            assert_eq!(run(&network, Packing::Repeated, n).unwrap(), permutation);
            network.nodes.len()
        };
        assert_eq!(nodes(Permutation::identity(n).unwrap()), 0);
        assert_eq!(nodes(Permutation::rotation(n, 64).unwrap()), 1);
        assert!(nodes(Permutation::swap(n, 3, 200).unwrap()) <= 8);
        assert!(nodes(Permutation::reversal(n).unwrap()) <= 32);
    }
}
