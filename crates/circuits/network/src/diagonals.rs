//! Affine maps as diagonals: which ones, by which steps, at which price.

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;

use unspoken_ckks::{
    CkksError, Complex64, Cost, CostModel, Encoder, InnerSum, LinearCosts, Simulator, StepCounts, Steps,
};

use crate::layout::Layout;
use crate::matrix::SparseMatrix;
use crate::placement;

/// Most numbers of baby steps that are tried beside the powers of two.
const MOST_BABIES: usize = 64;

/// How much longer a map may take if it needs fewer keys: one for each baby step.
const KEY_SAVING: f64 = 1.1;

/// Most classes of positions: more diagonals instead of a longer sum are never worth it.
const MOST_CLASSES: usize = 8;

/// Prices of the parts of affine maps of some parameters, by level. Only ratios matter.
pub(crate) struct Prices {
    encoder: Encoder,
    model: CostModel,
    sums: Mutex<HashMap<(usize, usize), f64>>,
}

impl Prices {
    pub(crate) fn new(encoder: &Encoder) -> Self {
        let model = CostModel::nominal(encoder.parameters());
        Prices { encoder: encoder.clone(), model, sums: Mutex::default() }
    }

    pub(crate) fn encoder(&self) -> &Encoder {
        &self.encoder
    }

    /// Seconds of a sum of `count` slots of a vector at `level`.
    fn sum(&self, level: usize, count: usize) -> Result<f64, CkksError> {
        // A price that is there is whole, even if a thread panicked.
        let mut known = self.sums.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
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
/// Results repeat after `period` positions. Before a sum over `whole / fold` positions that are `fold` apart, they
/// repeat nowhere: an entry of row `r` and column `c` is at one position for each class of positions below `fold` that
/// are `r` modulo `period`, in the diagonal whose number is below `fold` and which brings column `c` there. With
/// `fold = period` this is the hybrid method of Juvekar, Vaikuntanathan and Chandrakasan ("GAZELLE", USENIX Security
/// 2018, section 4.2), and with `fold = whole` the one of Halevi and Shoup; an argument that repeats sooner than the
/// result has as many diagonals as its own period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Places {
    pub(crate) period: usize,
    pub(crate) fold: usize,
    pub(crate) whole: usize,
}

impl Places {
    /// Calls `visit(diagonal, position)` for each place of an entry at this row and column of a block, for an argument
    /// that repeats after `repeats` positions.
    fn visit(&self, (row, column): (usize, usize), repeats: usize, mut visit: impl FnMut(usize, usize)) {
        let modulus = repeats.min(self.fold);
        for class in (row..self.fold).step_by(self.period) {
            // All are powers of two, so wrapping differences are right modulo them.
            let diagonal = column.wrapping_sub(class) & (modulus - 1);
            let rest = column.wrapping_sub(class).wrapping_sub(diagonal) & (repeats - 1);
            visit(diagonal, class + rest / self.fold * self.fold);
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
    pub(crate) diagonals: Vec<usize>,
    /// How they are applied; `None` for the main diagonal alone, which needs no rotation.
    pub(crate) steps: Option<Steps>,
}

/// A map, planned.
pub(crate) struct Planned {
    pub(crate) layout: Layout,
    pub(crate) places: Places,
    pub(crate) blocks: Vec<Block>,
}

impl Block {
    /// The values of the diagonals, in slots: each repeats after `whole` positions.
    pub(crate) fn values(&self, places: Places, batch: usize) -> BTreeMap<usize, Vec<Complex64>> {
        let zero = vec![Complex64::default(); places.whole * batch];
        let mut values: BTreeMap<usize, Vec<Complex64>> = self.diagonals.iter().map(|&k| (k, zero.clone())).collect();
        for &(row, column, weight) in &self.entries {
            places.visit((row, column), self.repeats, |diagonal, position| {
                if let Some(values) = values.get_mut(&diagonal) {
                    values[position * batch..][..batch].iter_mut().for_each(|slot| *slot += weight);
                }
            });
        }
        values.into_iter().map(|(k, values)| (k * batch, values)).collect()
    }

    /// The numbers of the diagonals at these places.
    fn numbers(&self, places: Places) -> Vec<usize> {
        let mut there = vec![false; places.fold.min(self.repeats)];
        for &(row, column, _) in &self.entries {
            places.visit((row, column), self.repeats, |diagonal, _| there[diagonal] = true);
        }
        let numbers: Vec<usize> = (0..there.len()).filter(|&k| there[k]).collect();
        // A block of zeros has its main diagonal.
        if numbers.is_empty() { vec![0] } else { numbers }
    }
}

/// What is known of a map before it is planned.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    /// Number of elements of the result, and of rows.
    pub(crate) size: usize,
    pub(crate) batch: usize,
    /// The level of the arguments.
    pub(crate) level: usize,
    /// Whether other steps use the result: they have longer sums if it has a longer period.
    pub(crate) is_used: bool,
    /// Whether elements of the result may be at other places than their numbers.
    pub(crate) may_move: bool,
}

/// The cheapest plan of a map.
pub(crate) fn plan(prices: &Prices, terms: &[Term<'_>], shape: Shape) -> Result<Planned, CkksError> {
    let slots = prices.encoder.parameters().slots();
    let positions = slots / shape.batch;
    let (mut least, mut planned) = cheapest(prices, terms, shape, None)?;
    let longest = terms.iter().map(|term| term.layout.vectors() * term.layout.period()).max().unwrap_or(1);
    let limit = longest.max(2 * shape.size).next_multiple_of(positions);
    // Places that are good for one term are often good for the others: the terms of a residual sum have the same gaps.
    for term in terms.iter().filter(|_| shape.may_move) {
        let Some(moved) = placement::places(term.matrix, &term.layout, limit) else { continue };
        let (seconds, moved) = cheapest(prices, terms, shape, Some(&moved))?;
        if seconds < least {
            (least, planned) = (seconds, moved);
        }
    }
    Ok(planned)
}

/// The cheapest plan with these places of the elements of the result, and its price.
fn cheapest(
    prices: &Prices,
    terms: &[Term<'_>],
    shape: Shape,
    moved: Option<&[usize]>,
) -> Result<(f64, Planned), CkksError> {
    let Shape { size, batch, level, is_used, .. } = shape;
    let slots = prices.encoder.parameters().slots();
    let costs = LinearCosts::new(prices.encoder.parameters(), level)?;
    let end = moved.and_then(|places| places.iter().max()).map_or(size, |last| last + 1);
    let shortest = end.next_power_of_two().min(slots / batch);
    let mut blocks = blocks(terms, moved, end, shortest);
    let widest = terms.iter().map(|term| term.layout.period()).max().unwrap_or(1);
    let mut best = (f64::INFINITY, Places { period: shortest, fold: shortest, whole: shortest.max(widest) });
    for places in candidates(shortest, widest, slots / batch) {
        let mut seconds = prices.sum(level - 1, places.whole / places.fold)?;
        if is_used {
            seconds += prices.sum(level - 1, places.period / size.next_power_of_two().min(places.period))?;
        }
        for block in &blocks {
            seconds += cheapest_steps(prices, &costs, level, &block.numbers(places), batch).1;
            if seconds >= best.0 {
                break;
            }
        }
        if seconds < best.0 {
            best = (seconds, places);
        }
    }
    let (seconds, places) = best;
    for block in &mut blocks {
        block.diagonals = block.numbers(places);
        block.steps = cheapest_steps(prices, &costs, level, &block.diagonals, batch).0;
    }
    // The period was chosen among the valid ones.
    let layout = Layout::with_period(size, slots, batch, places.period);
    let layout =
        layout.map_err(|_| CkksError::Shape { operation: "plan a map", found: size, needed: "slots".into() })?;
    let layout = moved.map_or(layout.clone(), |places| layout.placed(places));
    Ok((seconds, Planned { layout, places, blocks }))
}

/// Periods of the result and folds, the shortest first.
fn candidates(shortest: usize, widest: usize, positions: usize) -> Vec<Places> {
    let doublings = |from: usize, to: usize| {
        std::iter::successors(Some(from), |x| Some(2 * x)).take_while(move |x| *x <= to).collect::<Vec<_>>()
    };
    let of_period = |period: usize| {
        let whole = period.max(widest);
        let folds = doublings(period, whole.min(period * MOST_CLASSES));
        folds.into_iter().map(move |fold| Places { period, fold, whole })
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
        Block { term, from, to, entries: Vec::new(), repeats, diagonals: Vec::new(), steps: None }
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

/// The steps with the fewest keys among those that are about as fast as the fastest, and seconds.
fn cheapest_steps(
    prices: &Prices,
    costs: &LinearCosts,
    level: usize,
    diagonals: &[usize],
    batch: usize,
) -> (Option<Steps>, f64) {
    let parameters = prices.encoder.parameters();
    if diagonals == [0] {
        let (ring, basis, below) = (parameters.ring(), parameters.basis(level), parameters.basis(level - 1));
        let mut cost = Cost::sum_of_products(ring, basis, 1);
        cost += Cost::rescale(ring, basis, below, 2);
        return (None, prices.model.seconds(&cost));
    }
    let indices: Vec<usize> = diagonals.iter().map(|k| k * batch).collect();
    let last = diagonals.last().map_or(1, |last| last + 1);
    let babies = (1..=MOST_BABIES.min(last)).chain((7..).map(|log2| 1 << log2).take_while(|b| *b < 2 * last));
    let slots = parameters.slots();
    let mut known: HashMap<(usize, usize), f64> = HashMap::new();
    let priced: Vec<(Steps, StepCounts, f64)> = babies
        .filter(|babies| babies * batch <= slots)
        .map(|babies| {
            let steps = Steps { difference: batch, first: 0, babies };
            let counts = steps.counts(&indices, slots);
            let of_counts = known.entry((counts.babies, counts.giants));
            (steps, counts, *of_counts.or_insert_with(|| costs.seconds(&prices.model, counts)))
        })
        .collect();
    let least = priced.iter().map(|(.., seconds)| *seconds).fold(f64::INFINITY, f64::min);
    let near = priced.into_iter().filter(|(.., seconds)| *seconds <= KEY_SAVING * least);
    let best = near.min_by(|a, b| a.1.babies.cmp(&b.1.babies).then(a.2.total_cmp(&b.2)));
    best.map_or((None, f64::INFINITY), |(steps, _, seconds)| (Some(steps), seconds))
}
