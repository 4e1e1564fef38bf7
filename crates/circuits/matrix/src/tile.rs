//! Linear maps inside tiles: what permutations, sums of diagonals and products with plaintexts are made of.

use std::collections::BTreeMap;

use unspoken_ckks::{CkksParameters, Complex64, CostModel, LinearPlan, LinearTransform, Steps};
use unspoken_permute::{Diagonals, Permutation, Shifts};

use crate::error::MatrixError;
use crate::layout::Layout;

/// Level, input scale and output scale of a linear map.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LevelAndScales {
    pub(crate) level: usize,
    pub(crate) input: f64,
    pub(crate) output: f64,
}

/// One coefficient of a linear map of a tile: entry (`row`, `column`) of the result takes `weight` times the entry
/// `index * unit` positions after it.
pub(crate) struct Term {
    pub(crate) row: usize,
    pub(crate) column: usize,
    pub(crate) index: i64,
    pub(crate) weight: f64,
}

/// The map with these terms, for all matrices of a vector alike; zero outside the tile, whatever lay there before. Its
/// diagonals are in an arithmetic progression of difference `unit` positions, split into the baby steps and giant steps
/// that cost least.
pub(crate) fn transform(
    parameters: &CkksParameters,
    layout: Layout,
    scales: LevelAndScales,
    unit: usize,
    terms: impl IntoIterator<Item = Term>,
) -> Result<LinearTransform, MatrixError> {
    let (d, parallel) = (layout.dim(), layout.parallel());
    // A single block is cyclic in its rows: shifts up are shifts down.
    let cyclic = layout.blocks() == 1 && unit == d;
    let mut diagonals: BTreeMap<i64, Vec<Complex64>> = BTreeMap::new();
    for Term { row, column, index, weight } in terms {
        let index = if cyclic { index.rem_euclid(d as i64) } else { index };
        let diagonal = diagonals.entry(index).or_insert_with(|| vec![Complex64::default(); layout.slots()]);
        let first = layout.slot(0, row, column);
        diagonal[first..first + parallel].fill(weight.into());
    }
    if diagonals.is_empty() {
        diagonals.insert(0, vec![Complex64::default()]);
    }
    let (first, last) = (diagonals.keys().next().copied(), diagonals.keys().last().copied());
    let (first, last) = (first.unwrap_or(0), last.unwrap_or(0));
    let difference = (unit * parallel).max(1);
    let slots = |(index, diagonal)| (layout.rotation(index * difference as i64), diagonal);
    let diagonals: BTreeMap<usize, _> = diagonals.into_iter().map(slots).collect();
    let plan = LinearPlan::new(parameters, diagonals, scales.level, scales.input, scales.output)?;
    Ok(LinearTransform::deferred(cheapest(parameters, plan, difference, first, (last - first) as usize + 1)?))
}

/// The permutation of the entries of a tile, row-major, for all matrices of a vector alike.
pub(crate) fn permutation(
    parameters: &CkksParameters,
    layout: Layout,
    scales: LevelAndScales,
    permutation: &Permutation,
) -> Result<LinearTransform, MatrixError> {
    let diagonals = Diagonals::new(permutation, Shifts::Exact);
    let unit = diagonals.progression().difference;
    let terms = diagonals.iter().flat_map(|(shift, positions)| {
        positions.iter().map(move |&position| Term {
            row: position as usize / layout.dim(),
            column: position as usize % layout.dim(),
            index: shift / unit as i64,
            weight: 1.0,
        })
    });
    transform(parameters, layout, scales, unit, terms)
}

/// The plan with the number of baby steps that costs least.
fn cheapest(
    parameters: &CkksParameters,
    plan: LinearPlan,
    difference: usize,
    first: i64,
    count: usize,
) -> Result<LinearPlan, MatrixError> {
    let model = CostModel::nominal(parameters);
    let powers = (0..usize::BITS).map(|log2| 1usize << log2).take_while(|&babies| babies < count);
    let mut best: Option<(f64, LinearPlan)> = None;
    for babies in powers.chain([count]) {
        let candidate = plan.clone().with_steps(Steps { difference, first, babies })?;
        let seconds = model.seconds(&candidate.cost());
        if best.as_ref().is_none_or(|(least, _)| seconds < *least) {
            best = Some((seconds, candidate));
        }
    }
    Ok(best.map_or(plan, |(_, plan)| plan))
}
