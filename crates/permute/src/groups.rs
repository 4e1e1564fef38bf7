//! Which levels of a Benes network to collapse: the cheapest groups of bits for a depth and a budget of keys.

use std::collections::BTreeMap;

use unspoken_ckks::{CkksParameters, Complex64, CostModel, LinearPlan, Steps};

use crate::diagonals::Packing;
use crate::error::PermuteError;
use crate::permutation::Permutation;

/// The factors of a collapsed network on vectors that are repeated through the slots, each followed by a rotation that
/// makes its smallest shift 0, and at last the rotation that undoes them all: then one baby step of each stage is the
/// input itself and needs no key. Shifts that are multiples of `cyclic` wrap around and need no such rotation.
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

/// Most bits of a group: `2^10` diagonals or fewer.
const MAX_GROUP: usize = 9;

/// Prices of collapsed levels, and the search over groups.
pub(crate) struct Groups<'a> {
    parameters: &'a CkksParameters,
    model: &'a CostModel,
    bits: usize,
    packing: Packing,
    output_level: usize,
    /// Whether stages are shifted to start at diagonal 0, which needs no key.
    shifted: bool,
}

/// One way to run a group: seconds of its stages, keys, baby steps.
type Way = (f64, usize, usize);

impl<'a> Groups<'a> {
    pub(crate) fn new(
        parameters: &'a CkksParameters,
        model: &'a CostModel,
        bits: usize,
        packing: Packing,
        (output_level, shifted): (usize, bool),
    ) -> Self {
        Groups { parameters, model, bits, packing, output_level, shifted }
    }

    /// The cheapest `count` groups of bits, from the highest down, with keys within the budget: bits of each, and the
    /// limit of its baby steps. Both passes of a group share keys, and giant steps share one (Horner's rule). A dynamic
    /// program over bits and keys used so far, as Halevi and Shoup's over levels.
    pub(crate) fn choose(&self, count: usize, budget: usize) -> Result<Option<Vec<(u32, usize)>>, PermuteError> {
        let depth = 2 * count - 1;
        // By bits taken and keys used: seconds so far, and the groups that led there.
        let mut states: BTreeMap<(usize, usize), (f64, Vec<(u32, usize)>)> = BTreeMap::from([((0, 0), (0.0, vec![]))]);
        for group in 0..count {
            let rest = count - 1 - group;
            let mut next: BTreeMap<(usize, usize), (f64, Vec<(u32, usize)>)> = BTreeMap::new();
            let levels = [self.output_level + depth - group, self.output_level + 1 + group];
            let ways: Vec<Vec<Way>> = (1..=MAX_GROUP.min(self.bits))
                .map(|bits| self.ways(bits, &levels[usize::from(rest == 0)..], group == 0))
                .collect::<Result<_, _>>()?;
            for ((taken, keys), (seconds, groups)) in &states {
                let most = self.bits.saturating_sub(taken + rest).min(MAX_GROUP);
                let least = if rest == 0 { self.bits - taken } else { 1 };
                for bits in least..=most {
                    for &(price, more, limit) in &ways[bits - 1] {
                        let (at, total) = ((taken + bits, keys + more), seconds + price);
                        if at.1 <= budget && next.get(&at).is_none_or(|(least, _)| total < *least) {
                            let mut groups = groups.clone();
                            groups.push((bits as u32, limit));
                            next.insert(at, (total, groups));
                        }
                    }
                }
            }
            states = next;
        }
        let complete = states.into_iter().filter(|((taken, _), _)| *taken == self.bits).map(|(_, state)| state);
        Ok(complete.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, groups)| groups))
    }

    /// The ways to run both passes of a group of so many bits, or its one pass in the middle: of those with equally many
    /// keys, the fastest.
    fn ways(&self, bits: usize, levels: &[usize], highest: bool) -> Result<Vec<Way>, PermuteError> {
        // Shifts of the highest bits wrap around.
        let cyclic = highest && self.packing == Packing::Repeated;
        let count = if cyclic { 1usize << bits } else { (2 << bits) - 1 };
        let first = if cyclic || self.shifted { 0 } else { -(((count - 1) / 2) as i64) };
        let slots = self.parameters.slots() as i64;
        let index = |i: usize| ((first + i as i64).rem_euclid(slots) as usize, vec![Complex64::from(1.0)]);
        let diagonals: BTreeMap<usize, Vec<Complex64>> = (0..count).map(index).collect();
        let scale = self.parameters.scale();
        let plans: Vec<LinearPlan> = levels
            .iter()
            .map(|&level| LinearPlan::new(self.parameters, diagonals.clone(), level, scale, scale))
            .collect::<Result<_, _>>()?;
        let mut ways: BTreeMap<usize, Way> = BTreeMap::new();
        for babies in (1..=16).chain([20, 24, 28, 32, 40, 48, 64, 96, 128]).chain([count]).filter(|&b| b <= count) {
            let steps = Steps { difference: 1, first, babies };
            let mut seconds = 0.0;
            for plan in &plans {
                seconds += self.model.seconds(&plan.clone().with_steps(steps)?.cost());
            }
            let nontrivial = babies - usize::from((0..babies as i64).contains(&-first));
            let giant_steps = count.div_ceil(babies) - 1;
            let way = (seconds, nontrivial + giant_steps.min(1), babies);
            let best = ways.entry(way.1).or_insert(way);
            if way.0 < best.0 {
                *best = way;
            }
        }
        Ok(ways.into_values().collect())
    }
}
