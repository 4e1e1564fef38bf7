//! Permutations of vectors longer than the slots, split into blocks of one ciphertext each.
//!
//! A permutation has three stages (Clos, "A study of non-blocking switching networks", 1953): a permutation inside
//! every block, an exchange between blocks slot by slot, which needs masks but no rotation, and again a permutation
//! inside every block. The entries that pass through one slot come from different blocks and go to different blocks. So
//! the slots are the colours of an edge colouring of the graph of blocks. The colouring is found by splitting the graph
//! in halves along Eulerian circuits.

use rayon::prelude::*;
use unspoken_ckks::{Arithmetic, CkksError, CkksParameters, Complex64, CostModel, Encoder, PreparedVector, Simulator};
use unspoken_rlwe::KeyPlan;

use crate::cache::PlanCache;
use crate::diagonals::Packing;
use crate::error::{PermuteError, shape};
use crate::permutation::Permutation;
use crate::plan::PermutationPlan;
use crate::prepared::PreparedPermutation;
use crate::task::PermutationTask;

const OPERATION: &str = "permute blocks";

/// The three stages of a permutation of several blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockedRoute {
    /// The permutation inside every block before the exchange.
    pub first: Vec<Permutation>,
    /// For every block after the exchange and every block before it: the slots copied from the block before to the
    /// block after.
    pub exchange: Vec<Vec<Vec<u32>>>,
    /// The permutation inside every block after the exchange.
    pub last: Vec<Permutation>,
}

impl BlockedRoute {
    /// The route of a permutation over blocks of `slots` (a power of two), padded with entries that stay.
    ///
    /// # Errors
    /// If `slots` is not a power of two, or the padded permutation is longer than [`MAX_LENGTH`](crate::MAX_LENGTH).
    pub fn new(permutation: &Permutation, slots: usize) -> Result<Self, PermuteError> {
        if !slots.is_power_of_two() {
            return Err(shape(OPERATION, format!("blocks of {slots}"), "a power of two"));
        }
        let blocks = permutation.len().div_ceil(slots);
        let permutation = permutation.padded(blocks * slots)?;
        let source = permutation.source();
        let together = |block: &[u32]| block.iter().all(|&from| from as usize / slots == block[0] as usize / slots);
        let through = if source.chunks(slots).all(together) {
            // Blocks move as wholes: the first stage does the rest of the permutation, and the last is the identity.
            (0..source.len()).map(|to| to % slots).collect()
        } else {
            colour(source, slots, blocks)
        };
        let mut first = vec![vec![0; slots]; blocks];
        let mut last = vec![vec![0; slots]; blocks];
        let mut exchange = vec![vec![Vec::new(); blocks]; blocks];
        for (to, (&from, &slot)) in source.iter().zip(&through).enumerate() {
            let from = from as usize;
            first[from / slots][slot] = (from % slots) as u32;
            exchange[to / slots][from / slots].push(slot as u32);
            last[to / slots][to % slots] = slot as u32;
        }
        exchange.iter_mut().flatten().for_each(|positions| positions.sort_unstable());
        let trusted = |sources: Vec<Vec<u32>>| sources.into_iter().map(Permutation::trusted).collect();
        Ok(BlockedRoute { first: trusted(first), exchange, last: trusted(last) })
    }

    /// For every block after the exchange, the block before it whose slots all go there; `None` if the slots of a block
    /// go to several blocks.
    fn moved_blocks(&self) -> Option<Vec<usize>> {
        let single = |from: &Vec<Vec<u32>>| {
            let mut used = from.iter().enumerate().filter(|(_, positions)| !positions.is_empty());
            used.next().filter(|_| used.next().is_none()).map(|(block, _)| block)
        };
        self.exchange.iter().map(single).collect()
    }
}

/// The plans of the permutations inside the blocks of a route.
#[derive(Clone, Debug)]
pub struct BlockedPlan {
    route: BlockedRoute,
    first: Vec<PermutationPlan>,
    last: Vec<PermutationPlan>,
}

impl BlockedPlan {
    /// Plans a permutation of more entries than there are slots, from `input_level` to `output_level` at most. Each
    /// permutation inside a block is planned separately, with at most `max_keys` keys. Their plans are kept in `cache`.
    ///
    /// # Errors
    /// If no plan is possible with the given levels and keys.
    pub fn new(
        parameters: &CkksParameters,
        model: &CostModel,
        permutation: &Permutation,
        (input_level, output_level): (usize, usize),
        max_keys: Option<usize>,
        cache: Option<&PlanCache>,
    ) -> Result<Self, PermuteError> {
        let route = BlockedRoute::new(permutation, parameters.slots())?;
        let middle = usize::from(route.moved_blocks().is_none());
        let plans = |stage: &[Permutation], input_level: usize, output_level: usize| {
            let plan = |permutation: &Permutation| {
                let free = PermutationTask::new(permutation, Packing::Repeated, parameters, output_level);
                PermutationTask { input_level, max_keys, cache, ..free }
                    .plan(parameters, model)
                    .map(|candidate| candidate.plan)
            };
            stage.par_iter().map(plan).collect::<Result<Vec<_>, _>>()
        };
        // The first and the last stage get half of the levels each, or the first gets all.
        let levels = input_level.saturating_sub(output_level + middle);
        let idle = |stage: &[Permutation]| stage.iter().all(Permutation::is_identity);
        let half = output_level + if idle(&route.last) { 0 } else { levels / 2 };
        let last = plans(&route.last, half, output_level)?;
        let after = output_level + depth(&last);
        let first = plans(&route.first, input_level, after + middle)?;
        Ok(BlockedPlan { route, first, last })
    }

    /// The same plan for the first `blocks` blocks of the result only.
    pub fn with_results(mut self, blocks: usize) -> Self {
        self.route.exchange.truncate(blocks);
        self.route.last.truncate(blocks);
        self.last.truncate(blocks);
        self
    }

    /// Number of levels it uses.
    pub fn depth(&self) -> usize {
        depth(&self.first) + usize::from(self.route.moved_blocks().is_none()) + depth(&self.last)
    }
}

/// Number of levels of a stage: the depth of its deepest plan.
fn depth(stage: &[PermutationPlan]) -> usize {
    stage.iter().map(PermutationPlan::depth).max().unwrap_or(0)
}

/// For each position of the result, the slot its entry passes through. Two entries from the same block, or two entries
/// to the same block, pass through different slots.
fn colour(source: &[u32], slots: usize, blocks: usize) -> Vec<usize> {
    let mut slot_of = vec![0; source.len()];
    let mut parts = vec![(0..source.len()).collect::<Vec<usize>>()];
    let mut bit = slots;
    while bit > 1 {
        bit /= 2;
        let mut halves = Vec::with_capacity(2 * parts.len());
        for part in parts {
            let (lower, upper) = split(&part, source, slots, blocks);
            upper.iter().for_each(|&edge| slot_of[edge] |= bit);
            halves.extend([lower, upper]);
        }
        parts = halves;
    }
    slot_of
}

/// Splits edges into two halves so that every block, as a source and as a target, has half of its edges in each. Edges
/// of one source are paired, edges of one target are paired, and the cycles that these pairs form are coloured
/// alternately.
fn split(edges: &[usize], source: &[u32], slots: usize, blocks: usize) -> (Vec<usize>, Vec<usize>) {
    let pairs = |end: &dyn Fn(usize) -> usize| {
        let mut partner = vec![usize::MAX; edges.len()];
        let mut open = vec![usize::MAX; blocks];
        for (index, &edge) in edges.iter().enumerate() {
            let open = &mut open[end(edge)];
            if *open == usize::MAX {
                *open = index;
            } else {
                (partner[index], partner[*open]) = (*open, index);
                *open = usize::MAX;
            }
        }
        partner
    };
    let at_source = pairs(&|edge| source[edge] as usize / slots);
    let at_target = pairs(&|edge| edge / slots);
    let mut side: Vec<Option<bool>> = vec![None; edges.len()];
    for start in 0..edges.len() {
        let mut index = start;
        while side[index].is_none() {
            side[index] = Some(false);
            let other = at_source[index];
            side[other] = Some(true);
            index = at_target[other];
        }
    }
    let (upper, lower): (Vec<_>, Vec<_>) = edges.iter().zip(side).partition(|(_, side)| *side == Some(true));
    let plain = |half: Vec<(&usize, Option<bool>)>| half.into_iter().map(|(&edge, _)| edge).collect();
    (plain(lower), plain(upper))
}

/// A prepared permutation of several encrypted blocks. The result has the scale of the input.
pub struct PreparedBlocks {
    first: Vec<PreparedPermutation>,
    exchange: Exchange,
    last: Vec<PreparedPermutation>,
    keys: KeyPlan,
    input_level: usize,
    prepared_bytes: u64,
    working_bytes: u64,
}

enum Exchange {
    /// For every block after the exchange, the block before it.
    Moves(Vec<usize>),
    /// For every block after the exchange, blocks before it and the masks of their slots. One level.
    Masks(Vec<Vec<(usize, PreparedVector)>>),
}

impl Exchange {
    fn new(parameters: &CkksParameters, route: &BlockedRoute, level: usize) -> Result<Self, CkksError> {
        if let Some(moves) = route.moved_blocks() {
            return Ok(Exchange::Moves(moves));
        }
        let mask = |positions: &[u32]| {
            let mut values = vec![Complex64::default(); parameters.slots()];
            positions.iter().for_each(|&position| values[position as usize] = Complex64::from(1.0));
            PreparedVector::new(values, level, parameters.level_modulus(level))
        };
        let row = |from: &Vec<Vec<u32>>| {
            let used = from.iter().enumerate().filter(|(_, positions)| !positions.is_empty());
            used.map(|(block, positions)| Ok((block, mask(positions)?))).collect()
        };
        Ok(Exchange::Masks(route.exchange.iter().map(row).collect::<Result<_, CkksError>>()?))
    }

    fn prepared_bytes(&self, parameters: &CkksParameters) -> u64 {
        match self {
            Exchange::Moves(_) => 0,
            Exchange::Masks(rows) => rows.iter().flatten().map(|(_, mask)| mask.prepared_bytes(parameters)).sum(),
        }
    }

    fn apply<A: Arithmetic>(&self, arithmetic: &A, blocks: &[A::Vector]) -> Result<Vec<A::Vector>, CkksError> {
        match self {
            Exchange::Moves(from) => Ok(from.iter().map(|&block| blocks[block].clone()).collect()),
            Exchange::Masks(rows) => rows
                .iter()
                .map(|row| {
                    let products: Vec<_> = row.iter().map(|(from, mask)| (&blocks[*from], mask)).collect();
                    arithmetic.rescale(&arithmetic.sum_products(&products)?)
                })
                .collect(),
        }
    }
}

impl PreparedBlocks {
    /// Prepares a plan for inputs of scale `scale` and results at `output_level`. Inputs must be at
    /// [`PreparedBlocks::input_level`] or above.
    ///
    /// # Errors
    /// If the plan is for another number of slots, or the parameters have too few levels.
    pub fn new(
        parameters: &CkksParameters,
        plan: &BlockedPlan,
        output_level: usize,
        scale: f64,
    ) -> Result<Self, PermuteError> {
        let input_level = output_level + plan.depth();
        let before = input_level - depth(&plan.first);
        let prepare = |stage: &[PermutationPlan], level: usize| -> Result<Vec<PreparedPermutation>, PermuteError> {
            stage.iter().map(|plan| PreparedPermutation::new(parameters, plan, level, scale)).collect()
        };
        let (first, last) = (prepare(&plan.first, before)?, prepare(&plan.last, output_level)?);
        let exchange = Exchange::new(parameters, &plan.route, before)?;
        let mut keys = KeyPlan::new();
        first.iter().chain(&last).for_each(|prepared| keys.extend(prepared.key_plan()));
        let inside: u64 = first.iter().chain(&last).map(PreparedPermutation::prepared_bytes).sum();
        let prepared_bytes = exchange.prepared_bytes(parameters) + inside;
        let mut prepared =
            PreparedBlocks { first, exchange, last, keys, input_level, prepared_bytes, working_bytes: 0 };
        let simulator = Simulator::counting(&Encoder::new(parameters));
        let block = |_| simulator.encrypt(&[], input_level, scale);
        let blocks = (0..prepared.first.len()).map(block).collect::<Result<Vec<_>, _>>()?;
        prepared.working_bytes = simulator.working_bytes(|simulator| prepared.apply(simulator, &blocks))?;
        Ok(prepared)
    }

    /// Bytes of memory of the masks and their values. Masks that are not yet encoded count as encoded.
    pub fn prepared_bytes(&self) -> u64 {
        self.prepared_bytes
    }

    /// Peak memory of [`PreparedBlocks::apply`] in bytes. It includes the results, but not the inputs, the keys and
    /// [`PreparedBlocks::prepared_bytes`].
    pub fn working_bytes(&self) -> u64 {
        self.working_bytes
    }

    /// The keys it needs.
    pub fn key_plan(&self) -> &KeyPlan {
        &self.keys
    }

    /// The level that inputs must have at least.
    pub fn input_level(&self) -> usize {
        self.input_level
    }

    /// Permutes encrypted blocks.
    ///
    /// # Errors
    /// If the number of blocks does not fit the permutation, a level is too low, or keys are missing. The error names
    /// all missing keys, before any computation starts.
    pub fn apply<A: Arithmetic>(&self, arithmetic: &A, blocks: &[A::Vector]) -> Result<Vec<A::Vector>, PermuteError> {
        if blocks.len() != self.first.len() {
            return Err(shape(OPERATION, format!("{} blocks", blocks.len()), self.first.len()));
        }
        arithmetic.require_keys(OPERATION, &self.keys)?;
        let inside = |stage: &[PreparedPermutation], blocks: &[A::Vector]| {
            let both = stage.iter().zip(blocks);
            both.map(|(permutation, block)| permutation.apply(arithmetic, block)).collect::<Result<Vec<_>, _>>()
        };
        let blocks = self.exchange.apply(arithmetic, &inside(&self.first, blocks)?)?;
        inside(&self.last, &blocks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(route: &BlockedRoute, entries: &[u32], slots: usize) -> Vec<u32> {
        let blocks: Vec<Vec<u32>> =
            entries.chunks(slots).zip(&route.first).map(|(block, inside)| inside.apply(block).unwrap()).collect();
        let exchanged = route.exchange.iter().map(|row| {
            let mut block = vec![None; slots];
            for (from, positions) in row.iter().enumerate() {
                for &p in positions {
                    assert!(block[p as usize].replace(blocks[from][p as usize]).is_none());
                }
            }
            block.into_iter().map(|entry| entry.unwrap()).collect::<Vec<u32>>()
        });
        exchanged.zip(&route.last).flat_map(|(block, inside)| inside.apply(&block).unwrap()).collect()
    }

    #[test]
    fn routes_do_the_permutation() {
        for (length, slots) in [(8, 2), (24, 8), (100, 16), (3 << 12, 1 << 12), (1 << 14, 1 << 10), (5, 8)] {
            for seed in 0..3 {
                let permutation = Permutation::random(length, seed).unwrap();
                let route = BlockedRoute::new(&permutation, slots).unwrap();
                let padded = permutation.padded(length.div_ceil(slots) * slots).unwrap();
                let entries: Vec<u32> = (0..padded.len() as u32).collect();
                assert_eq!(run(&route, &entries, slots), padded.source(), "{length} in blocks of {slots}");
            }
        }
        assert!(BlockedRoute::new(&Permutation::identity(4).unwrap(), 3).is_err());
    }

    #[test]
    fn what_stays_in_its_block_is_permuted_once() {
        let permutation = Permutation::random(64, 1).unwrap().batch(3).unwrap();
        let route = BlockedRoute::new(&permutation, 64).unwrap();
        assert_eq!(route.moved_blocks(), Some(vec![0, 1, 2]));
        assert!(route.last.iter().all(Permutation::is_identity));
        assert_eq!(route.first[1], Permutation::random(64, 1).unwrap());
    }

    #[test]
    fn blocks_that_move_as_wholes_are_permuted_once() {
        let reversed = Permutation::new((0..192).rev().collect()).unwrap();
        let route = BlockedRoute::new(&reversed, 64).unwrap();
        assert_eq!(route.moved_blocks(), Some(vec![2, 1, 0]));
        assert!(route.last.iter().all(Permutation::is_identity));
        let rotated = Permutation::new((0..192).map(|to| (to + 1) % 192).collect()).unwrap();
        assert_eq!(BlockedRoute::new(&rotated, 64).unwrap().moved_blocks(), None);
    }
}
