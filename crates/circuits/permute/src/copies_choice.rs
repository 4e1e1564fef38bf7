//! The choice of layers for networks over several copies: the cheapest for a depth and a key budget.
//!
//! Layers come in pairs with the same unit on both sides of single layers, so that both layers of a pair share keys.
//! The single layers have the smallest units. Together, the shifts have to reach every distance.

use std::collections::BTreeMap;
use std::rc::Rc;

use unspoken_ckks::{CkksParameters, Cost, CostModel};

use crate::copies_route::LayerShape;
use crate::error::PermuteError;
use crate::groups::Groups;

/// Numbers of copies to try, each a power of two. After each, the bits by which the number of paths of an entry within
/// one copy has to exceed the number of distances: for all layers, and in addition for each layer after the first. With
/// eight copies, hardly ever do more than eight entries want a slot.
const COPIES: [(usize, f64, f64); 3] = [(2, 0.25, 0.5), (4, 0.6, 0.0), (8, 0.0, 0.0)];

/// Maximum numbers of pairs of layers and of single layers.
const MAX_PAIRS: usize = 2;
const MAX_SINGLES: usize = 5;

/// Numbers of shifts of a layer to try.
const SHIFTS: [usize; 24] = [2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 15, 16, 18, 20, 21, 24, 25, 28, 30, 32, 36, 40, 48];

/// Maximum number of keys of a choice.
const MAX_KEYS: usize = 64;

/// Parts of a bit in which the reach of shifts is counted.
const PARTS: f64 = 8.0;

/// Bits by which the reach of shifts is increased until there are enough paths.
const STEP: f64 = 0.25;
const MAX_STEPS: usize = 16;

/// Factor by which a limit of seconds is raised before sums are compared to it that round otherwise.
const ROUNDING: f64 = 1.0 + 1e-9;

/// The structure of a network: numbers of copies, of pairs of layers and of single layers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Structure {
    pub(crate) copies: usize,
    pairs: usize,
    singles: usize,
    /// Bits by which the number of paths within one copy exceeds the number of distances.
    spare_bits: f64,
}

/// Layers of a structure, with the predicted seconds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Choice {
    pub(crate) structure: Structure,
    pub(crate) shapes: Vec<LayerShape>,
    pub(crate) seconds: f64,
}

/// An option for a layer or a pair of layers.
#[derive(Clone, Copy, Debug)]
struct LayerOption {
    seconds: f64,
    keys: usize,
    shifts: usize,
    babies: usize,
    /// Reach of its shifts, as a logarithm in parts of a bit.
    reach: usize,
}

/// The cheapest way to a state of the dynamic program: the option taken last, and the state before it.
#[derive(Clone, Copy)]
struct Arrival {
    /// Infinite if there is no way.
    seconds: f64,
    option: u32,
    before: u32,
}

const NO_ARRIVAL: Arrival = Arrival { seconds: f64::INFINITY, option: 0, before: 0 };

impl Structure {
    /// Every structure of a depth for vectors of `length` that fits the slots.
    pub(crate) fn of_depth(depth: usize, length: usize, slots: usize) -> Vec<Self> {
        let copies = COPIES.into_iter().filter(|(copies, ..)| copies * length <= slots);
        let fits = |&pairs: &usize| 2 * pairs < depth && depth - 2 * pairs <= MAX_SINGLES;
        copies
            .flat_map(|(copies, spare, spare_per_layer)| {
                let spare_bits = spare + spare_per_layer * (depth - 1) as f64;
                let structure = move |pairs| Structure { copies, pairs, singles: depth - 2 * pairs, spare_bits };
                (0..=MAX_PAIRS).filter(fits).map(structure)
            })
            .collect()
    }

    /// The structure with more paths.
    pub(crate) fn with_more_paths(self, bits: f64) -> Self {
        Structure { spare_bits: self.spare_bits + bits, ..self }
    }

    /// Number of layers.
    pub(crate) fn depth(&self) -> usize {
        2 * self.pairs + self.singles
    }

    /// The levels of the inputs of a group of layers, a pair or a single one, if the result is at `output_level`.
    fn levels(&self, group: usize, output_level: usize) -> Vec<usize> {
        let first = output_level + self.depth() - group;
        if group < self.pairs { vec![first, output_level + 1 + group] } else { vec![first] }
    }
}

impl Choice {
    /// Whether there are enough paths for vectors of `length`.
    fn has_enough_paths(&self, length: usize) -> bool {
        let paths: f64 = self.shapes.iter().map(|shape| (shape.count as f64).log2()).sum();
        paths >= f64::from(length.ilog2()) + self.structure.spare_bits - 1e-9
    }
}

/// The search for layers for vectors of one length.
pub(crate) struct LayerSearch<'a, 'b> {
    parameters: &'a CkksParameters,
    model: &'a CostModel,
    groups: &'b mut Groups<'a>,
    length: usize,
    output_level: usize,
    /// The options for layers at each level, and for pairs of them at each two levels.
    options: BTreeMap<Vec<usize>, Rc<[LayerOption]>>,
}

impl<'a, 'b> LayerSearch<'a, 'b> {
    pub(crate) fn new(
        parameters: &'a CkksParameters,
        model: &'a CostModel,
        groups: &'b mut Groups<'a>,
        length: usize,
        output_level: usize,
    ) -> Self {
        LayerSearch { parameters, model, groups, length, output_level, options: BTreeMap::new() }
    }

    /// The cheapest layers of a structure for each key budget that reach every distance with enough paths, if they take
    /// at most the seconds of its limit.
    ///
    /// # Errors
    /// If the parameters have too few levels.
    pub(crate) fn choose(
        &mut self,
        structure: Structure,
        budgets: &[usize],
        limits: &[f64],
    ) -> Result<Vec<Option<Choice>>, PermuteError> {
        let mut found: Vec<Option<Choice>> = vec![None; budgets.len()];
        // The budgets without a choice yet. Layers that reach further are not faster, so a limit closes a budget.
        let mut open: Vec<usize> = (0..budgets.len()).collect();
        for step in 0..MAX_STEPS {
            let wanted: Vec<(usize, f64)> = open.iter().map(|&index| (budgets[index], limits[index])).collect();
            let reach = self.reach(structure, &wanted, step as f64 * STEP)?;
            let mut still = Vec::with_capacity(open.len());
            for (index, choice) in open.into_iter().zip(reach) {
                match choice {
                    Some(choice) if choice.has_enough_paths(self.length) => found[index] = Some(choice),
                    Some(_) => still.push(index),
                    None => {}
                }
            }
            open = still;
            if open.is_empty() {
                break;
            }
        }
        Ok(found)
    }

    /// The cheapest layers of a structure for each key budget whose shifts reach `slack` bits further than every
    /// distance, if they take at most the seconds that come with the budget.
    fn reach(
        &mut self,
        structure: Structure,
        budgets: &[(usize, f64)],
        slack: f64,
    ) -> Result<Vec<Option<Choice>>, PermuteError> {
        let doublings = structure.copies.trailing_zeros() as usize;
        let most_keys = budgets.iter().map(|&(keys, _)| keys).max().unwrap_or(0).min(MAX_KEYS);
        let bits = f64::from(self.length.ilog2()) + slack;
        let (needed, width) = ((bits * PARTS).ceil() as usize, most_keys + 1);
        let groups = structure.pairs + structure.singles;
        let options: Vec<Rc<[LayerOption]>> = (0..groups)
            .map(|group| self.options(structure.levels(group, self.output_level)))
            .collect::<Result<_, _>>()?;
        let sums = self.doubling_seconds() * doublings as f64;
        // A way to a state is dropped if even the cheapest options for the other groups make it slower than all limits.
        let limit = budgets.iter().map(|&(_, limit)| limit).fold(0.0, f64::max) * ROUNDING - sums;
        // A state is a reach, at most the needed one, and a number of keys.
        let mut arrivals: Vec<Vec<Arrival>> = vec![vec![NO_ARRIVAL; (needed + 1) * width]; groups + 1];
        if let Some(start) = arrivals[0].get_mut(doublings) {
            *start = Arrival { seconds: 0.0, ..NO_ARRIVAL };
        }
        for (group, these) in options.iter().enumerate() {
            // Options are in the order of their seconds.
            let rest: f64 = options[group + 1..].iter().filter_map(|later| later.first()).map(|o| o.seconds).sum();
            let (done, next) = arrivals.split_at_mut(group + 1);
            for (before, state) in done[group].iter().enumerate().filter(|(_, state)| state.seconds.is_finite()) {
                let (reached, used) = (before / width, before % width);
                for (option, LayerOption { seconds, keys, reach, .. }) in these.iter().enumerate() {
                    let seconds = state.seconds + seconds;
                    if seconds + rest > limit {
                        break;
                    }
                    let keys = used + keys;
                    if keys > most_keys {
                        continue;
                    }
                    let at = &mut next[0][(reached + reach).min(needed) * width + keys];
                    if seconds < at.seconds {
                        *at = Arrival { seconds, option: option as u32, before: before as u32 };
                    }
                }
            }
        }
        let cheapest = |&(budget, limit): &(usize, f64)| {
            let seconds = |keys: usize| arrivals[groups][needed * width + keys].seconds;
            let states = (0..=budget.min(most_keys)).map(|keys| (keys, seconds(keys)));
            let (keys, seconds) = states.min_by(|a, b| a.1.total_cmp(&b.1))?;
            if !seconds.is_finite() || seconds + sums > limit {
                return None;
            }
            let mut state = needed * width + keys;
            let mut taken: Vec<LayerOption> = Vec::with_capacity(groups);
            for group in (0..groups).rev() {
                let arrival = arrivals[group + 1][state];
                taken.push(options[group][arrival.option as usize]);
                state = arrival.before as usize;
            }
            taken.reverse();
            let shapes = shapes(structure, &taken);
            Some(Choice { structure, shapes, seconds: seconds + sums })
        };
        Ok(budgets.iter().map(cheapest).collect())
    }

    /// Seconds of one doubling of the sum of copies.
    fn doubling_seconds(&self) -> f64 {
        let basis = self.parameters.basis(self.output_level);
        self.model.seconds(&Cost::sum_of_rotations(self.parameters.ring(), basis, 1, 1, basis))
    }

    /// The options for a layer at one level, or for a pair at two levels, the fastest first, without options that
    /// another option beats.
    fn options(&mut self, levels: Vec<usize>) -> Result<Rc<[LayerOption]>, PermuteError> {
        if let Some(options) = self.options.get(&levels) {
            return Ok(Rc::clone(options));
        }
        let pair = levels.len() > 1;
        let mut all: Vec<LayerOption> = Vec::new();
        for shifts in SHIFTS.into_iter().filter(|&shifts| shifts <= self.length) {
            let reach = if pair { 2 * shifts - 1 } else { shifts };
            let reach = ((reach as f64).log2() * PARTS) as usize;
            let mut total: Vec<(usize, f64)> = Vec::new();
            for &level in &levels {
                let prices = self.groups.prices(shifts, level)?;
                match total.is_empty() {
                    true => total.extend(prices),
                    false => total.iter_mut().zip(prices).for_each(|(sum, (_, seconds))| sum.1 += seconds),
                }
            }
            all.extend(total.into_iter().map(|(babies, seconds)| {
                let keys = babies - 1 + usize::from(babies < shifts);
                LayerOption { seconds, keys, shifts, babies, reach }
            }));
        }
        all.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        let mut kept: Vec<LayerOption> = Vec::new();
        for option in all {
            if !kept.iter().any(|better| better.keys <= option.keys && better.reach >= option.reach) {
                kept.push(option);
            }
        }
        let kept: Rc<[LayerOption]> = kept.into();
        self.options.insert(levels, Rc::clone(&kept));
        Ok(kept)
    }
}

/// The layers of a structure whose groups take these options: units grow from the last single layer to the outermost
/// pair.
fn shapes(structure: Structure, taken: &[LayerOption]) -> Vec<LayerShape> {
    let mut shapes = vec![LayerShape { unit: 1, count: 1, babies: 1 }; structure.depth()];
    let mut unit = 1;
    for (group, option) in taken.iter().enumerate().rev() {
        let shape = LayerShape { unit, count: option.shifts, babies: option.babies };
        shapes[group] = shape;
        unit *= option.shifts;
        if group < structure.pairs {
            shapes[structure.depth() - 1 - group] = shape;
            unit = shape.unit * (2 * option.shifts - 1);
        }
    }
    shapes
}
