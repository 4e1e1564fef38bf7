//! Search for the levels of a Benes network to collapse: the cheapest groups of bits for a depth and a key budget.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::rc::Rc;

use unspoken_ckks::Steps;

use crate::diagonals::Packing;
use crate::error::PermuteError;
use crate::permutation::Permutation;
use crate::prices::Prices;
use crate::windows::{DIAGONALS, MAX_BITS};

/// Composes each factor of a collapsed network with a rotation that makes its smallest shift 0, and appends one
/// rotation that undoes all these rotations. One baby step of each stage is then the input itself and needs no key.
/// Vectors must be repeated through the slots. A factor whose shifts are all multiples of `cyclic` wraps around and
/// gets no such rotation.
pub(crate) fn shifted(factors: &[Permutation], cyclic: usize) -> Result<Vec<Permutation>, PermuteError> {
    let mut result = Vec::with_capacity(factors.len() + 1);
    let mut offset = 0;
    for factor in factors {
        let n = factor.len() as i64;
        let wraps = factor.distances().all(|shift| shift % cyclic as i64 == 0);
        let least = if wraps { 0 } else { factor.distances().min().unwrap_or(0) };
        let moved = offset - least;
        let source = |p: i64| {
            let at = (p + moved).rem_euclid(n);
            (i64::from(factor.source()[at as usize]) - offset).rem_euclid(n) as u32
        };
        result.push(Permutation::trusted((0..n).map(source).collect()));
        offset = moved;
    }
    if let Some(factor) = factors.first() {
        result.push(Permutation::rotation(factor.len(), -offset)?);
    }
    Ok(result)
}

/// Maximum number of bits of a group, which bounds its diagonals by `2^10`.
const MAX_GROUP: usize = 9;

/// Numbers of baby steps to try, in addition to one baby step for each diagonal.
const BABIES: [usize; 24] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 20, 24, 32, 40, 48, 64, 96, 128];

/// The keys of the giant steps of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GiantKeys {
    /// One key for all of them (Horner's rule).
    Shared,
    /// A key for each, as published.
    Separate,
}

/// Prices of collapsed levels, and the search over groups.
pub(crate) struct Groups<'a> {
    prices: Rc<Prices<'a>>,
    slots: usize,
    bits: usize,
    packing: Packing,
    output_level: usize,
    /// Seconds for each number of baby steps, by the number of diagonals and the level.
    stages: BTreeMap<(usize, usize), Vec<(usize, f64)>>,
}

/// An option for the stages of a group: predicted seconds, keys and baby steps.
type GroupOption = (f64, usize, usize);

/// A state of the dynamic program: seconds so far, and the groups chosen so far, each with its bits and baby steps.
type State = (f64, Vec<(u32, usize)>);

impl<'a> Groups<'a> {
    pub(crate) fn new(
        prices: Rc<Prices<'a>>,
        (slots, bits): (usize, usize),
        packing: Packing,
        output_level: usize,
    ) -> Self {
        Groups { prices, slots, bits, packing, output_level, stages: BTreeMap::new() }
    }

    /// The cheapest `count` groups of bits, from the highest bit down, for each key budget. A group has its number of
    /// bits and its limit of baby steps. Both passes of a group share keys. Stages of a windowed network have the
    /// diagonals of their windows only; if vectors are repeated, they are shifted to start at diagonal 0, which needs
    /// no key. The search is a dynamic program over bits and keys used so far, like Halevi and Shoup's over levels.
    pub(crate) fn choose(
        &mut self,
        count: usize,
        budgets: &[usize],
        windows: bool,
        giant_keys: GiantKeys,
    ) -> Result<Vec<Vec<(u32, usize)>>, PermuteError> {
        let depth = 2 * count - 1;
        let most_keys = budgets.iter().copied().max().unwrap_or(0);
        // The cheapest state for each pair of bits taken and keys used.
        let mut states: BTreeMap<(usize, usize), State> = BTreeMap::from([((0, 0), (0.0, vec![]))]);
        for group in 0..count {
            let rest = count - 1 - group;
            let mut next: BTreeMap<(usize, usize), State> = BTreeMap::new();
            let levels = [self.output_level + depth - group, self.output_level + 1 + group];
            let largest = if windows && rest > 0 { MAX_BITS as usize } else { MAX_GROUP };
            let options: Vec<Vec<GroupOption>> = (1..=largest.min(self.bits))
                .map(|bits| match rest {
                    0 => self.options((2 << bits) - 1, &levels[1..], windows, giant_keys),
                    _ => {
                        let diagonals = self.outer_diagonals(bits, group == 0, windows);
                        self.options(diagonals, &levels, windows, giant_keys)
                    }
                })
                .collect::<Result<_, _>>()?;
            for ((taken, keys), (seconds, groups)) in &states {
                let most = self.bits.saturating_sub(taken + rest).min(largest);
                let least = if rest == 0 { self.bits - taken } else { 1 };
                for bits in least..=most {
                    for &(price, more, limit) in &options[bits - 1] {
                        let (at, total) = ((taken + bits, keys + more), seconds + price);
                        if at.1 <= most_keys && next.get(&at).is_none_or(|(least, _)| total < *least) {
                            let mut groups = groups.clone();
                            groups.push((bits as u32, limit));
                            next.insert(at, (total, groups));
                        }
                    }
                }
            }
            states = next;
        }
        let within = |&budget: &usize| {
            let complete = states.iter().filter(|((taken, keys), _)| *taken == self.bits && *keys <= budget);
            complete.min_by(|a, b| a.1.0.total_cmp(&b.1.0)).map(|(_, (_, groups))| groups.clone())
        };
        let mut choices: Vec<_> = budgets.iter().filter_map(within).collect();
        choices.dedup();
        Ok(choices)
    }

    /// Number of diagonals of an outer factor. Shifts of the highest bits wrap around if vectors are repeated.
    fn outer_diagonals(&self, bits: usize, highest: bool, windows: bool) -> usize {
        match (highest && self.packing == Packing::Repeated, windows) {
            (true, _) => 1 << bits,
            (false, true) => DIAGONALS[bits - 1],
            (false, false) => (2 << bits) - 1,
        }
    }

    /// The options for stages of `count` diagonals at these levels: the fastest for each number of keys.
    fn options(
        &mut self,
        count: usize,
        levels: &[usize],
        windows: bool,
        giant_keys: GiantKeys,
    ) -> Result<Vec<GroupOption>, PermuteError> {
        // Number of diagonals before diagonal 0. An even count means that shifts wrap around, so diagonal 0 is the
        // first.
        let shifted = count.is_multiple_of(2) || (windows && self.packing == Packing::Repeated);
        let before = if shifted { 0 } else { (count - 1) / 2 };
        let mut total: BTreeMap<usize, f64> = BTreeMap::new();
        for &level in levels {
            for &(babies, seconds) in self.prices(count, level)? {
                *total.entry(babies).or_default() += seconds;
            }
        }
        let mut options: BTreeMap<usize, GroupOption> = BTreeMap::new();
        for (babies, seconds) in total {
            let giants = match giant_keys {
                GiantKeys::Shared => usize::from(babies < count),
                GiantKeys::Separate => count.div_ceil(babies) - 1,
            };
            let keys = babies - usize::from(before < babies) + giants;
            let option = (seconds, keys, babies);
            let best = options.entry(keys).or_insert(option);
            if seconds < best.0 {
                *best = option;
            }
        }
        Ok(options.into_values().collect())
    }

    /// Seconds of a stage of `count` neighbouring diagonals, for each number of baby steps.
    pub(crate) fn prices(&mut self, count: usize, level: usize) -> Result<&[(usize, f64)], PermuteError> {
        let entry = match self.stages.entry((count, level)) {
            Entry::Occupied(entry) => return Ok(entry.into_mut()),
            Entry::Vacant(entry) => entry,
        };
        let diagonals: Vec<usize> = (0..count.min(self.slots)).collect();
        let choices = BABIES.into_iter().filter(|&babies| babies < count).chain([diagonals.len()]);
        let price = |babies: usize| {
            let counts = Steps::of_babies(babies).counts(&diagonals, self.slots);
            Ok((babies, self.prices.seconds(level, counts)?))
        };
        Ok(entry.insert(choices.map(price).collect::<Result<_, PermuteError>>()?))
    }
}
