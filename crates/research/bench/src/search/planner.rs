//! What passes cost, for the planner of layouts: the seconds of one core that it predicts, beside measured ones, and
//! the constants that measured ones give.
//!
//! The model is the planner's: `queries * query + groups * (group + queries * packing) + bytes * (pass + queries *
//! product)`. The constants are those with the least sum of squares of the relative errors, without negative ones.

use std::sync::atomic::AtomicBool;

use unspoken_pir_scheme::dense::scores::{ScoreShape, answer};
use unspoken_pir_scheme::dense::{DenseTable, MaskSeed, RowsQuery};
use unspoken_pir_scheme::{PirParameters, PirSecret};
use unspoken_ring::SecretRng;
use unspoken_search_index::Plan;

use super::Case;
use super::subject::wish;
use crate::clock::{TimedOperation, alternate, median};
use crate::harness::Harness;
use crate::row::{Metric, params};

/// Coordinates of a vector.
const WIDTH: usize = 64;

/// Largest norm of a vector.
const NORM: u32 = 127;

const CORE_SECONDS: Metric = Metric::less("core_seconds", "s");
const PLANNER: &str = "the planner";

/// The constants of the model: the metric, and how much of each a pass has, of queries, groups and bytes.
type Share = fn(f64, f64, f64) -> f64;
const CONSTANTS: [(Metric, Share); 5] = [
    (Metric::less("planner_query", "s"), |queries, _, _| queries),
    (Metric::less("planner_group", "s"), |_, groups, _| groups),
    (Metric::less("planner_packing", "s"), |queries, groups, _| queries * groups),
    (Metric::less("planner_pass", "s per 10^9 bytes"), |_, _, bytes| bytes / 1e9),
    (Metric::less("planner_product", "s per 10^9 bytes"), |queries, _, bytes| queries * bytes / 1e9),
];

/// A measured shape: blocks of `WIDTH` rows, groups, and numbers of queries in a pass.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passes {
    pub(super) blocks: usize,
    pub(super) groups: usize,
    pub(super) queries: &'static [usize],
}

/// A pass, and the seconds of its repetitions.
struct Measured {
    shape: ScoreShape,
    queries: usize,
    bytes: usize,
    seconds: Vec<f64>,
}

pub(super) fn run(harness: &mut Harness<'_>, case: &Case) -> anyhow::Result<()> {
    let parameters = case.preset.build()?;
    let mut measured = Vec::new();
    for &passes in case.planner {
        harness.progress(format!("planner: {} rows, {} groups", passes.blocks * WIDTH, passes.groups));
        measured.extend(measure(harness, case, &parameters, passes)?);
    }
    for pass in &measured {
        let (rows, groups, queries) = (pass.shape.rows(), pass.shape.groups(), pass.queries);
        let layout = [pass.shape.blocks(), groups, queries];
        let predicted = Plan::new(&parameters, &wish(1, WIDTH), layout).core_seconds;
        let name = format!("{rows} rows, {groups} groups, {queries} queries");
        let params = params! {
            "rows": rows, "groups": groups, "queries": queries, "bytes": pass.bytes, "preset": parameters.name(),
            "backend": parameters.ring().backend().name(),
        };
        let predicted = vec![predicted; pass.seconds.len()];
        harness.timing(CORE_SECONDS, name, &pass.seconds, Some(("predicted by the planner", &predicted)), params);
    }
    constants(harness, &parameters, &measured);
    Ok(())
}

/// Seconds of passes over a table of random bytes, in turn.
fn measure(
    harness: &Harness<'_>,
    case: &Case,
    parameters: &PirParameters,
    passes: Passes,
) -> anyhow::Result<Vec<Measured>> {
    let shape = ScoreShape::new([WIDTH, passes.blocks, passes.groups], NORM, MaskSeed([3; 16]))?;
    let part = shape.part(parameters, 0..passes.groups)?;
    let mut rng = SecretRng::insecure_from_seed(9);
    let mut bytes = vec![0; part.table_bytes(parameters)];
    rng.fill(&mut bytes);
    let length = bytes.len();
    let table = DenseTable::from_bytes(parameters, part, bytes)?;
    let most = passes.queries.iter().copied().max().unwrap_or(1);
    let secret = PirSecret::generate(parameters, &mut rng)?;
    let query = |number: usize| secret.score_query(&shape, number % passes.blocks, &[1.0; WIDTH], &mut rng);
    let queries: Vec<RowsQuery> = (0..most).map(query).collect::<Result<_, _>>()?;
    let (stopwatch, views, never) = (harness.stopwatch(), table.groups(), AtomicBool::new(false));
    let mut operations: Vec<TimedOperation<'_>> = Vec::new();
    for &count in passes.queries {
        let asked: Vec<&RowsQuery> = queries[..count].iter().collect();
        let (views, never) = (&views, &never);
        let pass = move || answer(parameters, &shape, 0..shape.groups(), views, &asked, never).map(drop);
        operations.push(Box::new(move || stopwatch.seconds(&pass)));
    }
    let samples = alternate(case.repetitions, &mut operations)?;
    let made = passes.queries.iter().zip(samples);
    Ok(made.map(|(&queries, seconds)| Measured { shape, queries, bytes: length, seconds }).collect())
}

/// The constants that fit all passes best, beside those of the planner.
fn constants(harness: &mut Harness<'_>, parameters: &PirParameters, measured: &[Measured]) {
    let shares = |pass: &Measured| {
        CONSTANTS.map(|(_, share)| share(pass.queries as f64, pass.shape.groups() as f64, pass.bytes as f64))
    };
    let passes: Vec<([f64; 5], f64)> = measured.iter().map(|pass| (shares(pass), median(&pass.seconds))).collect();
    let found = fit(&passes);
    let of = |shares: &[f64; 5]| shares.iter().zip(&found).map(|(share, constant)| share * constant).sum::<f64>();
    let worst = passes.iter().map(|(shares, seconds)| (of(shares) / seconds - 1.0).abs()).fold(0.0, f64::max);
    // The planner's constants, from what it predicts for a pass over nothing, and over a block.
    let seconds = |layout| Plan::new(parameters, &wish(1, WIDTH), layout).core_seconds;
    let gigabyte = 1e9 / (WIDTH * parameters.ring().degree()) as f64;
    let (query, group, block) = (seconds([0, 0, 1]), seconds([0, 1, 0]), seconds([1, 1, 0]));
    let packing = seconds([0, 1, 1]) - query - group;
    let [pass, product] = [block - group, seconds([1, 1, 1]) - query - block - packing];
    let planner = [query, group, packing, pass * gigabyte, product * gigabyte];
    for ((metric, _), (ours, theirs)) in CONSTANTS.into_iter().zip(found.into_iter().zip(planner)) {
        let params = params! {
            "preset": parameters.name(), "backend": parameters.ring().backend().name(), "threads": 1,
            "clock": harness.clock().name(), "passes": passes.len(), "largest_relative_error": worst,
        };
        harness.value(metric, "one thread", ours, Some((PLANNER, theirs)), params);
    }
}

/// The constants without negative ones whose relative errors have the least sum of squares: of all sets of constants
/// that are not zero, the best one whose solution has no negative number.
fn fit(passes: &[([f64; 5], f64)]) -> [f64; 5] {
    let squares = |found: &[f64; 5]| -> f64 {
        let error = |(shares, seconds): &([f64; 5], f64)| {
            let predicted: f64 = shares.iter().zip(found).map(|(share, constant)| share * constant).sum();
            (predicted / seconds - 1.0).powi(2)
        };
        passes.iter().map(error).sum()
    };
    let solutions = (1u32..1 << 5).filter_map(|set| {
        let kept: Vec<usize> = (0..5).filter(|&place| set >> place & 1 == 1).collect();
        solved(passes, &kept).filter(|found| found.iter().all(|&constant| constant >= 0.0))
    });
    solutions.min_by(|a, b| squares(a).total_cmp(&squares(b))).unwrap_or_default()
}

/// The best solution of the constants that are kept; the others are zero. `None` if it is not unique.
fn solved(passes: &[([f64; 5], f64)], kept: &[usize]) -> Option<[f64; 5]> {
    let count = kept.len();
    // Normal equations, with the right side as the last column.
    let mut rows = vec![vec![0.0; count + 1]; count];
    for (shares, seconds) in passes {
        let relative: Vec<f64> = kept.iter().map(|&place| shares[place] / seconds).collect();
        for (row, a) in rows.iter_mut().zip(&relative) {
            row.iter_mut().zip(relative.iter().chain([&1.0])).for_each(|(sum, b)| *sum += a * b);
        }
    }
    for pivot in 0..count {
        let largest = (pivot..count).max_by(|&a, &b| rows[a][pivot].abs().total_cmp(&rows[b][pivot].abs()))?;
        rows.swap(pivot, largest);
        let head = rows[pivot].clone();
        if head[pivot].abs() < 1e-12 {
            return None;
        }
        for (place, row) in rows.iter_mut().enumerate().filter(|&(place, _)| place != pivot) {
            debug_assert_ne!(place, pivot);
            let factor = row[pivot] / head[pivot];
            row.iter_mut().zip(&head).for_each(|(a, b)| *a -= factor * b);
        }
    }
    let mut found = [0.0; 5];
    kept.iter().enumerate().for_each(|(row, &place)| found[place] = rows[row][count] / rows[row][row]);
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fit_finds_the_constants_of_exact_passes() {
        let constants = [1e-3, 4e-3, 5e-3, 0.08, 0.07];
        let pass = |queries: f64, groups: f64, bytes: f64| {
            let shares = CONSTANTS.map(|(_, share)| share(queries, groups, bytes));
            (shares, shares.iter().zip(constants).map(|(share, constant)| share * constant).sum::<f64>())
        };
        let groups = [(1.0, 1e5), (6.0, 6e5), (2.0, 1e8)];
        let passes: Vec<([f64; 5], f64)> =
            groups.iter().flat_map(|&(groups, bytes)| [1.0, 8.0].map(|queries| pass(queries, groups, bytes))).collect();
        let found = fit(&passes);
        for (found, constant) in found.into_iter().zip(constants) {
            assert!((found / constant - 1.0).abs() < 1e-6, "{found} {constant}");
        }
        // Passes that cost nothing for a group: no constant is negative.
        let cheap: Vec<([f64; 5], f64)> =
            passes.iter().map(|(shares, all)| (*shares, all - 5e-3 * shares[1])).collect();
        assert!(fit(&cheap).iter().all(|&constant| constant >= 0.0));
    }
}
