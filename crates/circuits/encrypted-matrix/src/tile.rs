//! Linear maps inside tiles, the building block of permutations, sums of diagonals and products with plaintexts.

use std::collections::BTreeMap;

use unspoken_ckks::{CkksParameters, Complex64, CostModel, LinearPlan, LinearTransform, Steps};
use unspoken_permute::{Diagonals, Permutation, Shifts};

use crate::error::EncryptedMatrixError;
use crate::layout::Layout;

/// Level, input scale and output scale of a linear map.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LevelAndScales {
    pub(crate) level: usize,
    pub(crate) input: f64,
    pub(crate) output: f64,
}

/// One coefficient of a linear map of a tile: `weight` times the entry `index * unit` positions later is added to entry
/// (`row`, `column`) of the result. The map says what its unit is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Term {
    /// Row of the result in its tile.
    pub row: usize,
    /// Column of the result in its tile.
    pub column: usize,
    /// Distance of the entry, in units.
    pub index: i64,
    /// Its factor.
    pub weight: f64,
}

/// The map with these terms, the same for all matrices of a vector. The result is zero outside the tile, also if the
/// input is not. The diagonals form an arithmetic progression of difference `unit` positions. They are split into baby
/// steps and giant steps of least cost.
pub(crate) fn transform(
    parameters: &CkksParameters,
    layout: Layout,
    scales: LevelAndScales,
    unit: usize,
    terms: impl IntoIterator<Item = Term>,
) -> Result<LinearTransform, EncryptedMatrixError> {
    let ((rows, columns), parallel) = (layout.tile(), layout.parallel());
    // With a single block, rotations by rows are cyclic, so a shift up is also a shift down; so are rotations of a
    // single row by columns.
    let period = match (layout.blocks(), rows) {
        (1, 1) => Some(columns / unit.min(columns)),
        (1, _) if unit == columns => Some(rows),
        _ => None,
    };
    let mut diagonals: BTreeMap<i64, Vec<Complex64>> = BTreeMap::new();
    for Term { row, column, index, weight } in terms {
        let index = period.map_or(index, |period| index.rem_euclid(period as i64));
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

/// The permutation of the entries of a tile in row-major order, the same for all matrices of a vector.
pub(crate) fn permutation(
    parameters: &CkksParameters,
    layout: Layout,
    scales: LevelAndScales,
    permutation: &Permutation,
) -> Result<LinearTransform, EncryptedMatrixError> {
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

/// The plan with the cheapest number of baby steps.
fn cheapest(
    parameters: &CkksParameters,
    plan: LinearPlan,
    difference: usize,
    first: i64,
    count: usize,
) -> Result<LinearPlan, EncryptedMatrixError> {
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
