//! What Tiptoe's ranking would send and multiply for these collections: a plan by its formulas, nothing is run.
//!
//! Tiptoe (Henzinger, Dauterman, Corrigan-Gibbs, Zeldovich, SOSP 2023) ranks with SimplePIR's linear encryption: a
//! matrix with a row for each document of a cluster and `width` columns for each of `C` clusters, times an encrypted
//! vector that is zero outside one cluster. So a question has `width C` numbers modulo 2^64, an answer one for each
//! row, and the server multiplies each coordinate once. Answers need a hint of `n` numbers for each row, which a client
//! downloads, or has evaluated by the server under encryption before it asks (Tiptoe's tokens); `n` is 2,048 for
//! ranking. `C` is the number with the fewest bytes for a question and its answer, of clusters of equal sizes.

use unspoken_search_index::Plan;

use super::Case;
use super::subject::wish;
use crate::harness::Harness;
use crate::row::{Metric, params};

/// Dimension of the secret, and bytes of a number modulo 2^64.
const DIMENSION: usize = 2048;
const WORD: usize = 8;

const NAME: &str = "Tiptoe's ranking, planned";

/// Coordinates of a vector.
const WIDTH: usize = 384;

/// Bytes and multiplications of a question.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Ranking {
    clusters: usize,
    question: usize,
    answer: usize,
    hint: usize,
    multiplications: usize,
}

impl Ranking {
    fn new(documents: usize, width: usize, clusters: usize) -> Self {
        let rows = documents.div_ceil(clusters);
        Ranking {
            clusters,
            question: WORD * width * clusters,
            answer: WORD * rows,
            hint: WORD * DIMENSION * rows,
            multiplications: rows * width * clusters,
        }
    }

    /// The one with the fewest bytes.
    fn best(documents: usize, width: usize) -> Self {
        let all = (1..=documents).map(|clusters| Ranking::new(documents, width, clusters));
        // The bytes of a question grow with the clusters: none after the square root of the documents is the best.
        let all = all.take_while(|ranking| ranking.clusters * ranking.clusters <= documents.max(1));
        all.min_by_key(|ranking| ranking.question + ranking.answer).unwrap_or(Ranking::new(documents, width, 1))
    }
}

/// A row for each number, beside the layout that our planner chooses, with a tenth of the blocks asked.
pub(super) fn run(harness: &mut Harness<'_>, case: &Case) -> anyhow::Result<()> {
    harness.progress("Tiptoe's ranking, as a plan");
    let parameters = case.preset.build()?;
    for &documents in case.planned {
        let plan = Plan::all(&parameters, &wish(documents, WIDTH))?.remove(0);
        let theirs = Ranking::best(documents, WIDTH);
        let products = plan.blocks * WIDTH * plan.groups * parameters.ring().degree() * plan.asked;
        let params = params! {
            "computed": true, "blocks": plan.blocks, "groups": plan.groups, "asked": plan.asked,
            "asked_clusters": plan.asked * plan.groups, "their_clusters": theirs.clusters, "their_asked_clusters": 1,
            "their_dimension": DIMENSION,
        };
        let case = format!("{documents} x {WIDTH}");
        let mut row = |metric, ours: f64, theirs: usize| {
            harness.value(metric, &case, ours, Some((NAME, theirs as f64)), params.clone());
        };
        row(Metric::less("planned_query_bytes", "bytes"), plan.query_bytes as f64, theirs.question);
        row(Metric::less("planned_answer_bytes", "bytes"), plan.answer_bytes as f64, theirs.answer);
        row(Metric::less("planned_hint_bytes", "bytes"), 0.0, theirs.hint);
        row(Metric::less("planned_products", "products"), products as f64, theirs.multiplications);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_number_of_clusters_balances_question_and_answer() {
        let best = Ranking::best(1_000_000, 384);
        assert!((40..=65).contains(&best.clusters), "{best:?}");
        assert!(best.question.abs_diff(best.answer) < best.answer / 10, "{best:?}");
        assert_eq!(best.hint, 2048 * best.answer);
        assert!(best.multiplications >= 384_000_000);
        assert_eq!(Ranking::best(1, 384), Ranking::new(1, 384, 1));
    }
}
