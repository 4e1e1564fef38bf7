//! The search suite: questions to collections of vectors, beside exact search in the clear and products of matrices
//! under encryption, and the predictions of the planner of layouts.
//!
//! - **Collections** are laid out as `unspoken search build` does it: clusters, the layout of the planner, and as many
//!   blocks asked as the wanted recall needs on documents of the collection. Recall is then measured on queries that
//!   were kept out. Synthetic vectors have the spectrum of real ones (`data.rs`); files below `data/` that are absent
//!   are named and left out.
//! - **Every decrypted cosine** of the questions for `encrypted_recall` is compared with that of the index.
//! - **Exact search** takes the inner product of the query with every vector, in single precision, in this process. The
//!   script `research/tables/search_tables.py` has those of numpy and faiss, and the service over HTTP.
//! - **The million** (`--only million`) is measured only when asked for by name: it needs 12 GB of memory and ten
//!   minutes, nearly all for the clusters.
//! - **Products in CKKS** (`--only product`) score all documents: `product.rs` says how. Larger collections are scaled
//!   from the time for each document, in the tables and not here.
//! - **The planner** (`--only planner`): seconds of one core for passes over tables of random bytes, the predicted ones
//!   as the baseline, and the constants that fit them best.
//! - **Tiptoe** (`--only plans`) is a plan in bytes and multiplications. Nothing of it runs.

mod answers;
mod data;
mod exact;
mod planner;
mod product;
mod subject;
mod tiptoe;

use std::time::Duration;

use data::{GLOVE, ICD_10, Source};
use planner::Passes;
use unspoken_pir_scheme::Preset;

use crate::clock::Repetitions;
use crate::harness::Harness;

const ANSWERS: &str = "answers";
const DATA: &str = "data";
const MILLION: &str = "million";
const PRODUCT: &str = "product";
const PLANNER: &str = "planner";
const PLANS: &str = "plans";

pub(crate) const PARTS: [&str; 6] = [ANSWERS, DATA, MILLION, PRODUCT, PLANNER, PLANS];

/// What is measured.
struct Case {
    preset: Preset,
    /// Sizes of synthetic collections, and for which other recalls each is measured.
    synthetic: &'static [(usize, &'static [f64])],
    /// Collections of files.
    files: &'static [Source],
    /// Documents of the collection that is measured only by name.
    million: usize,
    /// Questions whose answers are decrypted and compared.
    questions: usize,
    repetitions: Repetitions,
    /// CKKS preset of the product of a matrix with a vector.
    product: &'static str,
    planner: &'static [Passes],
    /// Documents of the planned collections.
    planned: &'static [usize],
}

const FULL: Case = Case {
    preset: Preset::N11,
    synthetic: &[(10_000, &[]), (100_000, &[0.98])],
    files: &[ICD_10, GLOVE],
    million: 1_000_000,
    questions: 20,
    repetitions: Repetitions { min: 5, max: 15, budget: Duration::from_secs(20) },
    product: "n13_depth3_scale30",
    planner: &[
        Passes { blocks: 1, groups: 1, queries: &[1, 8, 32] },
        Passes { blocks: 1, groups: 8, queries: &[1, 8, 32] },
        Passes { blocks: 512, groups: 1, queries: &[1, 8, 32] },
        Passes { blocks: 1024, groups: 8, queries: &[1, 8] },
    ],
    planned: &[10_000, 100_000, 1_000_000],
};

const QUICK: Case = Case {
    preset: Preset::N11,
    synthetic: &[(10_000, &[])],
    files: &[],
    million: 1_000_000,
    questions: 3,
    repetitions: Repetitions { min: 2, max: 5, budget: Duration::from_secs(2) },
    product: "n13_depth3_scale30",
    planner: &[
        Passes { blocks: 1, groups: 1, queries: &[1, 8] },
        Passes { blocks: 1, groups: 4, queries: &[1, 8] },
        Passes { blocks: 256, groups: 1, queries: &[1, 8] },
    ],
    planned: &[10_000, 100_000, 1_000_000],
};

pub(crate) fn run(harness: &mut Harness<'_>) -> anyhow::Result<()> {
    let case = if harness.options.quick { QUICK } else { FULL };
    run_case(harness, &case)
}

fn run_case(harness: &mut Harness<'_>, case: &Case) -> anyhow::Result<()> {
    if harness.includes(PLANS) {
        tiptoe::run(harness, case)?;
    }
    if harness.includes(PLANNER) {
        planner::run(harness, case)?;
    }
    if harness.includes(PRODUCT) {
        product::run(harness, case)?;
    }
    let (answers, files) = (harness.includes(ANSWERS), harness.includes(DATA));
    for &(documents, others) in case.synthetic.iter().filter(|_| answers) {
        answers::run(harness, case, Source::Synthetic(documents), others)?;
    }
    for &source in case.files.iter().filter(|_| files) {
        answers::run(harness, case, source, &[])?;
    }
    if harness.options.only.iter().any(|part| part == MILLION) {
        answers::run(harness, case, Source::Synthetic(case.million), &[])?;
    }
    harness.peak_memory("the largest collection, its index and its table");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Suite;
    use crate::harness::test_rows;

    #[test]
    fn every_part_has_its_rows() {
        let case = Case {
            preset: Preset::InsecureN11,
            synthetic: &[(6000, &[0.9])],
            files: &[GLOVE],
            questions: 2,
            repetitions: Repetitions::exactly(2),
            planner: &[
                Passes { blocks: 1, groups: 1, queries: &[1, 2] },
                Passes { blocks: 1, groups: 2, queries: &[1, 2] },
                Passes { blocks: 4, groups: 1, queries: &[1, 2] },
            ],
            planned: &[10_000],
            product: "insecure_n11_depth9_scale50",
            ..QUICK
        };
        let rows = test_rows(Suite::Search, |harness| run_case(harness, &case));
        let find = |metric: &str, case: &str| {
            let row = rows.iter().find(|row| row.metric == metric && row.case == case);
            row.unwrap_or_else(|| panic!("no {metric} of {case}"))
        };
        let name = "synthetic, 6000 x 384";
        let (recall, encrypted) = (find("recall", name), find("encrypted_recall", name));
        assert!(recall.ours > 0.6 && recall.ours <= 1.0, "{recall:?}");
        assert!((encrypted.ours - encrypted.baseline.unwrap()).abs() <= 0.1, "{encrypted:?}");
        for metric in ["query_bytes", "answer_bytes", "memory", "answer_time", "core_seconds", "query_time"] {
            assert!(find(metric, name).ours > 0.0);
        }
        assert!(find("answer_time", &format!("{name}, all cores")).baseline.is_some());
        assert!(find("query_bytes", &format!("{name}, for 0.9")).ours <= find("query_bytes", name).ours);
        assert_eq!(find("memory", name).ours, find("memory", name).baseline.unwrap());
        assert!(find("core_seconds", "64 rows, 2 groups, 2 queries").baseline.is_some());
        assert!(find("planner_packing", "one thread").baseline.unwrap() > 0.0);
        let product = find("product_time", "2048 x 384, all scored");
        assert!(product.baseline.unwrap() > 0.0);
        assert_eq!(find("planned_hint_bytes", "10000 x 384").ours, 0.0);
        assert!(rows.iter().all(|row| !row.case.starts_with("GloVe")), "absent files have no rows");
    }
}
