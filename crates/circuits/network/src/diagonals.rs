//! Affine maps as diagonals: which ones, by which steps, at which price.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use unspoken_ckks::{
    CkksError, Complex64, Cost, CostModel, Encoder, InnerSum, LinearCosts, Simulator, StepCounts, Steps,
};
use unspoken_rlwe::RlweError;

use crate::error::NetworkError;
use crate::gaps;
use crate::layout::{Arrangement, Layout, Order};
use crate::matrix::SparseMatrix;

/// Numbers of baby steps that are tried: all up to this one, then two for each power of two.
const ALL_BABIES: usize = 8;

/// How much longer a map may take if it needs fewer keys: one for each baby step.
const KEY_SAVING: f64 = 1.1;

const PLAN: &str = "plan a map";

/// Most classes of positions: more diagonals instead of a longer sum are never worth it.
const MOST_CLASSES: usize = 8;

/// Prices of the parts of affine maps of some parameters, by level. Only ratios matter. They are those of one design.
pub(crate) struct Prices {
    encoder: Encoder,
    model: CostModel,
    sums: Mutex<HashMap<(usize, usize), f64>>,
    forms: Arc<Forms>,
}

impl Prices {
    pub(crate) fn new(encoder: &Encoder) -> Self {
        Self::of_forms(encoder, &Arc::default())
    }

    /// Prices of the maps of a design, of which some may be known.
    pub(crate) fn of_forms(encoder: &Encoder, forms: &Arc<Forms>) -> Self {
        let model = CostModel::nominal(encoder.parameters());
        Prices { encoder: encoder.clone(), model, sums: Mutex::default(), forms: Arc::clone(forms) }
    }

    pub(crate) fn encoder(&self) -> &Encoder {
        &self.encoder
    }

    /// Ends a plan if it was cancelled.
    pub(crate) fn check_cancel(&self) -> Result<(), CkksError> {
        if self.forms.cancel.load(Ordering::Relaxed) { Err(RlweError::Interrupted.into()) } else { Ok(()) }
    }

    /// Seconds of a sum of `count` slots of a vector at `level`.
    fn sum(&self, level: usize, count: usize) -> Result<f64, CkksError> {
        // A price that is there is whole, even if a thread panicked.
        let mut known = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&seconds) = known.get(&(level, count)) {
            return Ok(seconds);
        }
        let simulator = Simulator::counting(&self.encoder);
        let vector = simulator.encrypt(&[], level, self.encoder.parameters().scale())?;
        // All strides cost the same.
        InnerSum::new(1, count)?.apply(&simulator, &vector)?;
        let seconds = self.model.seconds(&simulator.cost());
        known.insert((level, count), seconds);
        Ok(seconds)
    }
}

/// One matrix of an affine map and the layout of its argument.
pub(crate) struct Term<'a> {
    pub(crate) matrix: &'a SparseMatrix,
    pub(crate) layout: Layout,
}

/// The places of the entries of a map.
///
/// Interleaved rows: results repeat after `period` positions. Before a sum over `whole / fold` positions that are
/// `fold` apart, they repeat nowhere. The positions below `fold` that are `r` modulo `period` are the classes of row
/// `r`. An entry of row `r` and column `c` is at one position for each of them, in the diagonal below `fold` that
/// brings column `c` there. With `fold = period` this is the hybrid method of Juvekar, Vaikuntanathan and Chandrakasan
/// ("GAZELLE", USENIX Security 2018, section 4.2), and with `fold = whole` the one of Halevi and Shoup; an argument
/// that repeats sooner than the result has as many diagonals as its own period.
///
/// Consecutive rows: nothing repeats, and nothing is summed. An entry is at position `r` in diagonal `c - r`, which may
/// be negative: a rotation brings other rows to the ends of a row, where this diagonal is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Places {
    pub(crate) order: Order,
    pub(crate) period: usize,
    pub(crate) fold: usize,
    pub(crate) whole: usize,
}

impl Places {
    /// The number of a diagonal as [`Places::visit`] counts it.
    fn unsigned(&self, diagonal: i64, repeats: usize) -> i64 {
        match self.order {
            Order::Interleaved => diagonal.rem_euclid(repeats.min(self.fold) as i64),
            Order::Consecutive => diagonal,
        }
    }

    /// Calls `visit(diagonal, position)` for each place of an entry at this row and column of a block, for an argument
    /// that repeats after `repeats` positions.
    fn visit(&self, (row, column): (usize, usize), repeats: usize, mut visit: impl FnMut(i64, usize)) {
        if self.order == Order::Consecutive {
            return visit(column as i64 - row as i64, row);
        }
        let modulus = repeats.min(self.fold);
        for class in (row..self.fold).step_by(self.period) {
            // All are powers of two, so wrapping differences are right modulo them.
            let diagonal = column.wrapping_sub(class) & (modulus - 1);
            let rest = column.wrapping_sub(class).wrapping_sub(diagonal) & (repeats - 1);
            visit(diagonal as i64, class + rest / self.fold * self.fold);
        }
    }
}

/// A block of a map: from one vector of an argument to one vector of the result.
pub(crate) struct Block {
    pub(crate) term: usize,
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// The entries: row and column inside the vectors.
    entries: Vec<(usize, usize, f64)>,
    repeats: usize,
    /// The diagonals that are not zero, in positions.
    pub(crate) diagonals: Vec<i64>,
}

/// A map, planned.
pub(crate) struct Planned {
    pub(crate) layout: Layout,
    pub(crate) places: Places,
    pub(crate) blocks: Vec<Block>,
    /// How the diagonals of all blocks are applied; `None` for main diagonals alone, which need no rotation.
    pub(crate) steps: Option<Steps>,
}

impl Block {
    /// The values of the diagonals by their rotations, each for `places.whole` positions.
    pub(crate) fn values(&self, places: Places, layout: &Layout) -> BTreeMap<usize, Vec<Complex64>> {
        let stride = layout.stride();
        let zero = vec![Complex64::default(); places.whole * stride];
        let mut values: HashMap<i64, Vec<Complex64>> =
            self.diagonals.iter().map(|k| (places.unsigned(*k, self.repeats), zero.clone())).collect();
        for &(row, column, weight) in &self.entries {
            places.visit((row, column), self.repeats, |diagonal, position| {
                if let Some(values) = values.get_mut(&diagonal) {
                    values[position * stride..][..stride].iter_mut().for_each(|slot| *slot += weight);
                }
            });
        }
        let value = |k: &i64| {
            let values = values.remove(&places.unsigned(*k, self.repeats)).unwrap_or_default();
            (rotation(*k, stride, layout.slots()), values)
        };
        self.diagonals.iter().map(value).collect()
    }

    /// The numbers of the diagonals at these places, in ascending order.
    fn numbers(&self, places: Places) -> Vec<i64> {
        // Diagonals of consecutive rows are above `-whole`.
        let least = if places.order == Order::Consecutive { places.whole } else { 0 };
        let mut there = vec![false; places.fold.min(self.repeats) + least];
        for &(row, column, _) in &self.entries {
            places.visit((row, column), self.repeats, |diagonal, _| there[(diagonal + least as i64) as usize] = true);
        }
        let mut numbers: Vec<i64> = (0..there.len()).filter(|&k| there[k]).map(|k| k as i64 - least as i64).collect();
        // A block of zeros has its main diagonal.
        if numbers.is_empty() {
            return vec![0];
        }
        if places.order == Order::Interleaved && self.repeats <= places.fold {
            // Rotations by a whole period change nothing: the numbers begin after their largest gap.
            let period = self.repeats as i64;
            let gap = |k: &usize| {
                let next = numbers.get(k + 1).copied().unwrap_or(numbers[0] + period);
                (next - numbers[*k], *k)
            };
            let after = (0..numbers.len()).max_by_key(gap).map_or(0, |last| last + 1);
            numbers[after..].iter_mut().for_each(|k| *k -= period);
            let count = numbers.len();
            numbers.rotate_left(after % count);
            if numbers[0] == -period {
                numbers = numbers.iter().map(|k| k + period).collect();
            }
        }
        numbers
    }
}

/// The rotation of a diagonal.
pub(crate) fn rotation(diagonal: i64, stride: usize, slots: usize) -> usize {
    (diagonal * stride as i64).rem_euclid(slots as i64) as usize
}

/// What is known of a map before it is planned.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    /// Number of elements of the result.
    pub(crate) size: usize,
    pub(crate) arrangement: Arrangement,
    /// The level of the arguments.
    pub(crate) level: usize,
    /// Whether other steps use the result: they have longer sums if it has a longer period.
    pub(crate) is_used: bool,
    /// Whether elements of the result may be at other places than their numbers.
    pub(crate) may_move: bool,
}

/// What maps look like in the slots, for each way to lay them out: for one design, all presets and all levels.
#[derive(Default)]
pub(crate) struct Forms {
    known: Mutex<HashMap<FormKey, Arc<Vec<Form>>>>,
    /// Ends plans once it is set.
    cancel: Arc<AtomicBool>,
}

impl Forms {
    /// No forms, for plans that end once a flag is set.
    pub(crate) fn with_cancel(cancel: &Arc<AtomicBool>) -> Arc<Self> {
        Arc::new(Forms { cancel: Arc::clone(cancel), ..Forms::default() })
    }
}

/// Number of the map's result, whether its matrices are those of slots, and where its arguments are.
type FormKey = (usize, bool, Arrangement, Vec<Layout>);

/// A map with its results at some places.
struct Form {
    /// The places of the results, if they are not in their order.
    moved: Option<Vec<usize>>,
    /// The shortest period of the result.
    shortest: usize,
    /// Periods and sums that may be taken, the shortest first, with what they need.
    tried: Vec<(Places, Needed)>,
}

/// What a map needs with some places.
enum Needed {
    /// So many products with main diagonals, for so many results.
    Factors(usize, usize),
    /// For each number of baby steps that may be taken.
    Steps(Vec<(Steps, StepCounts)>),
}

impl Form {
    fn new(terms: &[Term<'_>], shape: Shape, slots: usize, moved: Option<Vec<usize>>) -> Result<Self, CkksError> {
        let Shape { size, arrangement, .. } = shape;
        let end = end(size, moved.as_deref());
        let shortest = Layout::new(end, slots, arrangement).map_err(unplanned)?.period();
        let mut blocks = blocks(terms, moved.as_deref(), end, shortest);
        let widest = terms.iter().map(|term| term.layout.period()).max().unwrap_or(1);
        let tried = candidates(arrangement.order, shortest, widest, slots / arrangement.batch).into_iter();
        let tried = tried.map(|places| {
            blocks.iter_mut().for_each(|block| block.diagonals = block.numbers(places));
            (places, needed(&blocks, arrangement, slots))
        });
        let tried = tried.collect();
        Ok(Form { moved, shortest, tried })
    }

    /// The forms of a map: with results in their order, and with results that stay where the arguments are, if there
    /// are any.
    fn all(terms: &[Term<'_>], shape: Shape, slots: usize) -> Result<Vec<Self>, CkksError> {
        let positions = slots / shape.arrangement.batch;
        let mut forms = vec![Form::new(terms, shape, slots, None)?];
        let longest = terms.iter().map(|term| term.layout.vectors() * term.layout.period()).max().unwrap_or(1);
        let limit = longest.max(2 * shape.size).next_multiple_of(positions);
        // Places that are good for one term are often good for the others: the terms of a residual sum have the same
        // gaps.
        for term in terms.iter().filter(|_| shape.may_move) {
            if let Some(moved) = gaps::places(term.matrix, &term.layout, limit) {
                forms.push(Form::new(terms, shape, slots, Some(moved))?);
            }
        }
        Ok(forms)
    }

    /// The cheapest choice, and its price.
    fn cheapest(&self, prices: &Prices, shape: Shape) -> Result<(f64, Choice), CkksError> {
        let Shape { size, arrangement, level, is_used, .. } = shape;
        let slots = prices.encoder.parameters().slots();
        let mut best: Option<(f64, Places, Option<Steps>)> = None;
        for (places, needed) in &self.tried {
            let mut seconds = prices.sum(level - 1, places.whole / places.fold)?;
            if is_used && arrangement.order == Order::Interleaved {
                seconds += prices.sum(level - 1, places.period / size.next_power_of_two().min(places.period))?;
            }
            let period = places.whole * arrangement.stride();
            let costs = LinearCosts::new(prices.encoder.parameters(), level, period)?;
            let (steps, more) = cheapest_steps(prices, &costs, level, needed);
            if best.is_none_or(|(least, ..)| seconds + more < least) {
                best = Some((seconds + more, *places, steps));
            }
        }
        let none = || CkksError::Shape {
            operation: PLAN,
            found: self.shortest,
            needed: "a period up to the positions".into(),
        };
        let (seconds, places, steps) = best.ok_or_else(none)?;
        let layout = Layout::with_period(size, slots, arrangement, places.period).map_err(unplanned)?;
        let layout = self.moved.as_ref().map_or(layout.clone(), |places| layout.placed(places));
        Ok((seconds, Choice { layout, places, steps, moved: self.moved.clone(), shortest: self.shortest }))
    }
}

/// The first place after those of the results.
fn end(size: usize, moved: Option<&[usize]>) -> usize {
    moved.and_then(|places| places.iter().max()).map_or(size, |last| last + 1)
}

/// A plan of a map without its diagonals.
pub(crate) struct Choice {
    pub(crate) layout: Layout,
    places: Places,
    steps: Option<Steps>,
    moved: Option<Vec<usize>>,
    shortest: usize,
}

impl Choice {
    /// The plan with its diagonals.
    pub(crate) fn planned(self, terms: &[Term<'_>]) -> Planned {
        let Choice { layout, places, steps, moved, shortest } = self;
        let mut blocks = blocks(terms, moved.as_deref(), end(layout.size(), moved.as_deref()), shortest);
        blocks.iter_mut().for_each(|block| block.diagonals = block.numbers(places));
        Planned { layout, places, blocks, steps }
    }
}

/// Plans of a map with their prices: the cheapest with results in their order, and the cheapest with results that stay
/// where the arguments are, if there is one. The map is known by the number of its result, and by whether its matrices
/// are those of slots.
pub(crate) fn plans(
    prices: &Prices,
    (value, of_slots): (usize, bool),
    terms: &[Term<'_>],
    shape: Shape,
) -> Result<Vec<(f64, Choice)>, CkksError> {
    let key = (value, of_slots, shape.arrangement, terms.iter().map(|term| term.layout.clone()).collect());
    // A form that is there is whole, even if a thread panicked.
    prices.check_cancel()?;
    let mut known = prices.forms.known.lock().unwrap_or_else(PoisonError::into_inner);
    let forms = match known.get(&key) {
        Some(forms) => Arc::clone(forms),
        None => {
            let forms = Arc::new(Form::all(terms, shape, prices.encoder.parameters().slots())?);
            known.insert(key, Arc::clone(&forms));
            forms
        }
    };
    drop(known);
    forms.iter().map(|form| form.cheapest(prices, shape)).collect()
}

/// A layout that was checked before.
fn unplanned(_: NetworkError) -> CkksError {
    CkksError::Shape { operation: PLAN, found: 0, needed: "a batch that fits the slots".into() }
}

/// Periods of the result and folds, the shortest first.
fn candidates(order: Order, shortest: usize, widest: usize, positions: usize) -> Vec<Places> {
    if order == Order::Consecutive {
        return vec![Places { order, period: positions, fold: positions, whole: positions }];
    }
    let doublings = |from: usize, to: usize| {
        std::iter::successors(Some(from), |x| Some(2 * x)).take_while(move |x| *x <= to).collect::<Vec<_>>()
    };
    let of_period = |period: usize| {
        let whole = period.max(widest);
        let folds = doublings(period, whole.min(period * MOST_CLASSES));
        folds.into_iter().map(move |fold| Places { order, period, fold, whole })
    };
    // A longer period than the argument's saves nothing.
    let longest = shortest.max(widest).min(positions);
    doublings(shortest, longest).into_iter().flat_map(of_period).collect()
}

/// The entries by vectors, with results at these places below `end`. Every vector of the result has a block.
fn blocks(terms: &[Term<'_>], moved: Option<&[usize]>, end: usize, rows: usize) -> Vec<Block> {
    let mut blocks: BTreeMap<(usize, usize, usize), Block> = BTreeMap::new();
    let empty = |(to, term, from): (usize, usize, usize)| {
        let repeats = terms[term].layout.period();
        Block { term, from, to, entries: Vec::new(), repeats, diagonals: Vec::new() }
    };
    for (term, Term { matrix, layout }) in terms.iter().enumerate() {
        for (row, column, weight) in matrix.entries() {
            let (row, column) = (moved.map_or(row, |places| places[row]), layout.linear(column));
            let key = (row / rows, term, column / layout.period());
            let block = blocks.entry(key).or_insert_with(|| empty(key));
            block.entries.push((row % rows, column % layout.period(), weight));
        }
    }
    for to in 0..end.div_ceil(rows) {
        if blocks.range((to, 0, 0)..(to + 1, 0, 0)).next().is_none() {
            blocks.insert((to, 0, 0), empty((to, 0, 0)));
        }
    }
    blocks.into_values().collect()
}

/// What the diagonals of these blocks need.
fn needed(blocks: &[Block], arrangement: Arrangement, slots: usize) -> Needed {
    if blocks.iter().all(|block| block.diagonals == [0]) {
        let results = blocks.iter().map(|block| block.to).max().map_or(0, |last| last + 1);
        return Needed::Factors(blocks.len(), results);
    }
    let stride = arrangement.stride();
    let numbers = || blocks.iter().flat_map(|block| block.diagonals.iter().copied());
    let (first, last) = (numbers().min().unwrap_or(0), numbers().max().unwrap_or(0));
    let range = (last - first) as usize + 1;
    let mut rows: BTreeMap<usize, Vec<(usize, Vec<usize>)>> = BTreeMap::new();
    let mut inputs: HashMap<(usize, usize), usize> = HashMap::new();
    for block in blocks {
        let count = inputs.len();
        let input = *inputs.entry((block.term, block.from)).or_insert(count);
        let indices = block.diagonals.iter().map(|&k| rotation(k, stride, slots)).collect();
        rows.entry(block.to).or_default().push((input, indices));
    }
    let rows: Vec<Vec<(usize, Vec<usize>)>> = rows.into_values().collect();
    let steps = babies(range).into_iter().filter(|babies| babies * stride <= slots);
    // Without a negative diagonal, the first baby step and the first giant step do not rotate.
    let steps = steps.map(|babies| Steps { difference: stride, first: first.min(0), babies });
    Needed::Steps(steps.map(|steps| (steps, steps.counts_of_sums(&rows, slots))).collect())
}

/// The steps with the fewest keys among those that are about as fast as the fastest, and seconds.
fn cheapest_steps(prices: &Prices, costs: &LinearCosts, level: usize, needed: &Needed) -> (Option<Steps>, f64) {
    let parameters = prices.encoder.parameters();
    let all = match needed {
        Needed::Factors(products, results) => {
            let (ring, basis, below) = (parameters.ring(), parameters.basis(level), parameters.basis(level - 1));
            let mut cost = Cost::sum_of_products(ring, basis, *products as u64);
            cost += Cost::rescale(ring, basis, below, 2).times(*results as u64);
            return (None, prices.model.seconds(&cost));
        }
        Needed::Steps(all) => all,
    };
    let priced = all.iter().map(|(steps, counts)| (*steps, costs.seconds(&prices.model, *counts)));
    let priced: Vec<(Steps, f64)> = priced.collect();
    let least = priced.iter().map(|(_, seconds)| *seconds).fold(f64::INFINITY, f64::min);
    let near = priced.into_iter().filter(|(_, seconds)| *seconds <= KEY_SAVING * least);
    let best = near.min_by(|a, b| a.0.babies.cmp(&b.0.babies).then(a.1.total_cmp(&b.1)));
    best.map_or((None, f64::INFINITY), |(steps, seconds)| (Some(steps), seconds))
}

/// Numbers of baby steps that are tried for diagonals in a range of this length.
fn babies(range: usize) -> Vec<usize> {
    let halves = (3..).flat_map(|log2| [2, 3].map(|half| half << (log2 - 1)));
    let larger = halves.skip_while(|babies| *babies <= ALL_BABIES).take_while(|babies| *babies < 2 * range);
    (1..=ALL_BABIES.min(range)).chain(larger).collect()
}
