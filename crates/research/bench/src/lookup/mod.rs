//! The lookup suite: encrypted fastText and encrypted embeddings by every plan, and the baselines of the paper.
//!
//! - **fastText** is `ClassifyServer::timed_answer` on held-out messages of the SMS collection
//!   (`scripts/fetch_data.py`), or, without the collection, on a synthetic set of the same shape; `params.data` says
//!   which. `ive-paper` is `Plan::Paper` at the same preset. All plans take turns, batch by batch. Query forms do not:
//!   one batch of each form is measured, after a batch that is not counted. Seconds per message are seconds of a full
//!   query. VecGen and Linear are the two stages of the total. Linear includes the sum over the tokens and the answer's
//!   encoding; the rest of the total is the decoding of the query.
//! - **Errors** are the largest distance of a decrypted score from the clear model's score, relative to the largest
//!   score of the same message, over all messages. `labels_differ` counts messages whose label is not the clear
//!   model's.
//! - **Kim et al.**: the encrypted indicators of a few columns, in turn with batches of ours. The product with the
//!   matrix and the sum over the tokens are measured once. All is extrapolated to all columns; the case names the
//!   number of measured columns. `unspoken_lookup::indicator` is our implementation of their circuit.
//! - **Embeddings** are looked up with all slots full, in four subtables at once, with the paper's plan, the planner's
//!   choice, and the planner's choice in the real ring. The entries are random, which does not change the time, or come
//!   from a compressed table (`--table`). All plans and the indicators of Kim et al. take turns: VecGen, then the
//!   linear stage. The linear stage works row by row. It is measured on all rows of a compressed table, and on at most
//!   64 random rows (`params.rows_measured`), also of the baseline. Each repetition measures another column of Kim et
//!   al. and extrapolates VecGen of all columns from it; the product with the matrix of all columns uses this one
//!   ciphertext for every column. `params.baseline_columns_measured` is the number of measured columns. The part
//!   `whole` measures all columns of one subtable, and multiplies by the number of subtables, which have the same
//!   operations.
//! - **Few tokens**: both sides pack their subtables as densely as they fit, at the smallest ring with their levels.
//!   The first and the last row of our embeddings, and every slot of the small batches, are decrypted and compared
//!   before a time counts. If the baseline's subtables divide into equal parts, only one part is measured and
//!   `params.baseline_measured_times` is the number of parts: the encoded diagonals of all parts would need 15 GB.
//! - **One-hot** (HE-LRM): bytes are computed; the server's time is the time of the matrix product and its rescale.

mod accuracy;
mod data;
mod embedding;
mod fixture;
mod forms;
mod indicator;
mod one_hot;
mod plans;
mod small_batch;
mod subtables;

use anyhow::Context;
use data::ClassifierData;
use embedding::Presets;
use forms::FormCase;
use plans::{ClassifierFixture, PlanComparison};
use subtables::Subtables;
use unspoken_ckks::Preset;
use unspoken_lookup::LookupPlan;
use unspoken_query::QueryForm;

use crate::harness::Harness;

/// Names of the baselines: the paper's plan, and the indicators of Kim et al.
const PAPER: &str = "ive-paper";
const KIM: &str = "Kim et al., extrapolated";

/// Repetitions of embedding lookups, after one warm-up.
const EMBEDDING_REPETITIONS: usize = 3;

/// Repetitions of ours beside all columns of the baseline, which fall into the same number of parts.
const WHOLE_REPETITIONS: usize = 8;

/// Number of messages classified at once.
const MESSAGES: usize = 256;

/// The plans compared with the paper's.
const OURS: [LookupPlan; 4] = [
    LookupPlan::ComplexFirst,
    LookupPlan::LazyLast,
    LookupPlan::BabyGiant { babies: 8 },
    LookupPlan::BabyGiant { babies: 16 },
];

/// Number of subtables of the embeddings, as in the paper.
const SUBTABLES: usize = 4;

/// Embedding dimensions of the paper's Table 3: GloVe 50d and 300d, GPT-2.
const WIDTHS: [usize; 3] = [50, 300, 768];

/// Presets of the embeddings, by the largest number of columns.
const EMBEDDING_PRESETS: [(usize, Presets); 2] = [
    (
        256,
        Presets { complex: "n15_depth10_scale50", real: "n15_real_depth11_scale50", baseline: "n16_depth24_scale52" },
    ),
    (
        1024,
        Presets { complex: "n15_depth10_scale50", real: "n15_real_depth11_scale50", baseline: "n16_depth28_scale50" },
    ),
];

/// Every query form, full or short, with its preset.
const FORMS: [FormCase; 4] = [
    FormCase { form: QueryForm::Direct, short: false, preset: "n15_depth8_scale50" },
    FormCase { form: QueryForm::Compact, short: false, preset: "n16_boot_depth10_scale50" },
    FormCase { form: QueryForm::Compact, short: true, preset: "n16_query_depth11_scale40" },
    FormCase { form: QueryForm::OneHot, short: false, preset: "n15_depth8_scale50" },
];

/// Columns of the model for the query forms: with the zero column that pads compact queries, at most 256.
const FORM_COLUMNS: usize = 254;

/// Positions of a token in the small batches of the paper's Table 6: 300 rows, padded.
const POSITIONS: usize = 512;

/// Preset of the accuracies, and most texts of a data set that are asked about.
const ACCURACY: (&str, usize) = ("n15_depth8_scale50", 1024);

/// Fully encrypted classification, its accuracy on data sets (Table 5), forms of query, embeddings by every plan (Table
/// 3), all columns of the baseline, embeddings of few tokens (Table 6), and the compressed table of the options.
pub(crate) const PARTS: [&str; 7] = ["classifier", "accuracy", "forms", "embeddings", "whole", "few", "given"];

pub(crate) fn run(harness: &mut Harness<'_>) -> anyhow::Result<()> {
    if harness.includes("classifier") {
        classifier(harness)?;
    }
    if harness.includes("accuracy") && !harness.options.quick {
        accuracy::run(harness, &harness.options.root, ACCURACY.0, ACCURACY.1)?;
    }
    if harness.includes("forms") && !harness.options.quick {
        forms::run(harness, &FORMS, FORM_COLUMNS, MESSAGES)?;
    }
    if harness.includes("embeddings") {
        tables(harness)?;
    }
    if harness.includes("whole") && !harness.options.quick {
        for columns in [64, 256] {
            let random = Subtables::random(SUBTABLES, WIDTHS[0], columns)?;
            let repetitions = WHOLE_REPETITIONS;
            embedding::run_whole(harness, &embedding::Case { repetitions, ..case(&random, &WIDTHS[..1])? })?;
        }
    }
    if harness.includes("few") && !harness.options.quick {
        few_tokens(harness)?;
    }
    if harness.includes("given") {
        given_table(harness)?;
    }
    harness.peak_memory("clients, servers and every plan of the suite");
    Ok(())
}

/// Text classification by every plan, and its baselines.
fn classifier(harness: &mut Harness<'_>) -> anyhow::Result<()> {
    harness.progress("training the model");
    let data = ClassifierData::load(&harness.options.root, MESSAGES)?;
    harness.progress(format!("{} model, {} held-out messages", data.source, data.messages.len()));
    if harness.options.quick {
        let quick = PlanComparison { preset: "n14_depth8_scale30", plans: &OURS, messages: 64, rounds: 1 };
        plans::run(harness, &data, quick)?;
        return one_hot::run(harness, &data, Preset::find("n14_depth8_scale30")?);
    }
    let small = PlanComparison { preset: "n14_depth8_scale30", plans: &OURS, messages: MESSAGES, rounds: 1 };
    plans::run(harness, &data, small)?;
    let precise = PlanComparison { preset: "n15_depth8_scale50", plans: &OURS, messages: MESSAGES, rounds: 2 };
    let best = plans::run(harness, &data, precise)?;
    one_hot::run(harness, &data, Preset::find("n15_depth8_scale50")?)?;
    let mut fixture = ClassifierFixture::new(&data, Preset::find("n15_depth8_scale50")?, best)?;
    indicator::run(harness, &data, &mut fixture, Preset::find("n16_depth24_scale52")?, 3)
}

/// Table 3 of the paper, with random entries.
fn tables(harness: &mut Harness<'_>) -> anyhow::Result<()> {
    if harness.options.quick {
        let random = Subtables::random(SUBTABLES, 50, 64)?;
        return embedding::run(harness, &embedding::Case { repetitions: 1, ..case(&random, &[50])? });
    }
    for columns in [64, 256, 1024] {
        let random = Subtables::random(SUBTABLES, WIDTHS[0].max(embedding::ROWS), columns)?;
        embedding::run(harness, &case(&random, &WIDTHS)?)?;
    }
    Ok(())
}

/// Table 6 of the paper.
fn few_tokens(harness: &mut Harness<'_>) -> anyhow::Result<()> {
    for (columns, baseline) in
        [(64, "n16_depth24_scale52"), (256, "n16_depth24_scale52"), (1024, "n16_depth28_scale50")]
    {
        let tables = Subtables::random(SUBTABLES, 300, columns)?;
        let ours = "n15_depth11_scale50";
        let repetitions = EMBEDDING_REPETITIONS;
        let case = small_batch::Case { tables: &tables, width: POSITIONS, ours, baseline, repetitions };
        small_batch::run(harness, &case)?;
    }
    Ok(())
}

/// Measures the compressed table of the options, if given, with all of its rows, and with twice its rows where that is
/// the largest dimension of the paper.
fn given_table(harness: &mut Harness<'_>) -> anyhow::Result<()> {
    let Some(directory) = &harness.options.table else { return Ok(()) };
    let given = Subtables::read(directory)?;
    let repetitions = if harness.options.quick { 1 } else { EMBEDDING_REPETITIONS };
    let rows = given.rows();
    embedding::run(harness, &embedding::Case { repetitions, ..case(&given, &[rows])? })?;
    if WIDTHS.contains(&(2 * rows)) {
        let tiled = given.twice()?;
        embedding::run(harness, &embedding::Case { repetitions, ..case(&tiled, &[2 * rows])? })?;
    }
    Ok(())
}

/// A case with the presets for the number of columns.
fn case<'a>(tables: &'a Subtables, widths: &'a [usize]) -> anyhow::Result<embedding::Case<'a>> {
    let found = EMBEDDING_PRESETS.iter().find(|(most, _)| tables.columns() <= *most);
    let (_, presets) = found.with_context(|| {
        let most = EMBEDDING_PRESETS.iter().map(|(most, _)| *most).max().unwrap_or(0);
        let columns = tables.columns();
        format!("a table of {columns} columns; needed at most {most}: compress it with fewer (--columns)")
    })?;
    Ok(embedding::Case { presets: *presets, tables, widths, repetitions: EMBEDDING_REPETITIONS })
}

/// Seconds of the two stages of a lookup, repetition by repetition.
#[derive(Clone, Default)]
struct StageTimes {
    vectors: Vec<f64>,
    linear: Vec<f64>,
}

impl StageTimes {
    /// The times from samples of both stages; times of the linear stage are multiplied by `factor`.
    fn new(samples: &[[f64; 2]], factor: f64) -> Self {
        StageTimes {
            vectors: samples.iter().map(|[vectors, _]| *vectors).collect(),
            linear: samples.iter().map(|[_, linear]| factor * linear).collect(),
        }
    }

    fn total(&self) -> Vec<f64> {
        self.vectors.iter().zip(&self.linear).map(|(vectors, linear)| vectors + linear).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::Suite;
    use crate::harness::test_rows;

    const PRESET: &str = "insecure_n11_depth9_scale50";

    fn measure_everything(harness: &mut Harness<'_>) -> anyhow::Result<()> {
        let data = ClassifierData::synthetic(16, 32)?;
        const PLANS: [LookupPlan; 2] = [LookupPlan::LazyLast, LookupPlan::BabyGiant { babies: 4 }];
        let comparison = PlanComparison { preset: PRESET, plans: &PLANS, messages: 16, rounds: 1 };
        let best = plans::run(harness, &data, comparison)?;
        assert!(PLANS.contains(&best));
        one_hot::run(harness, &data, Preset::find(PRESET)?)?;
        let mut fixture = ClassifierFixture::new(&data, Preset::find(PRESET)?, best)?;
        let deep = Preset::find("insecure_n11_depth24_scale52")?;
        indicator::run(harness, &data, &mut fixture, deep, 2)?;
        let case = |form, short, preset| FormCase { form, short, preset };
        let forms = [
            case(QueryForm::Direct, false, PRESET),
            case(QueryForm::Compact, false, "insecure_n11_boot_depth10_scale50"),
            case(QueryForm::Compact, true, "insecure_n11_query_depth11_scale40"),
            case(QueryForm::OneHot, false, PRESET),
        ];
        forms::run(harness, &forms, 14, 16)?;
        let random = Subtables::random(2, 6, 16)?;
        let presets = Presets {
            complex: PRESET,
            real: "insecure_n11_real_depth9_scale50",
            baseline: "insecure_n11_depth24_scale52",
        };
        let case = embedding::Case { presets, tables: &random, widths: &[3, 6], repetitions: 1 };
        embedding::run(harness, &case)?;
        embedding::run_whole(harness, &embedding::Case { widths: &[3], repetitions: 4, ..case })?;
        let (ours, baseline) = (PRESET, "insecure_n11_depth24_scale52");
        let case = small_batch::Case { tables: &random, width: 8, ours, baseline, repetitions: 1 };
        small_batch::run(harness, &case)?;
        Ok(())
    }

    #[test]
    fn every_plan_and_baseline_at_a_small_ring() {
        let rows = test_rows(Suite::Lookup, measure_everything);
        let value = |case: &str, metric: &str| {
            let row = rows.iter().find(|row| row.case.starts_with(case) && row.metric == metric);
            row.unwrap_or_else(|| panic!("no {metric} of {case}")).ours
        };
        for plan in ["paper", "lazy-last", "baby-giant-4"] {
            let case = format!("fastText, {plan}");
            let total = value(&case, "time_per_message");
            assert!(total > 0.0);
            let shares = value(&case, "vecgen_per_message") + value(&case, "linear_per_message");
            assert!(shares < total && shares > 0.5 * total, "{shares} of {total}");
            assert!(value(&case, "log2_relative_error") < -10.0);
            assert_eq!(value(&case, "labels_differ"), 0.0);
        }
        let kim = rows.iter().find(|row| row.baseline_name.starts_with("Kim")).unwrap();
        assert!(kim.case.contains("extrapolated from 2 of 128 columns") && kim.ratio.unwrap() > 1.0, "{kim:?}");
        let bytes = |form: &str| value(&format!("fastText, {form} queries"), "form_bytes_per_token");
        assert!(bytes("compact") < bytes("direct") / 4.0 && bytes("direct") < bytes("one-hot") / 4.0);
        assert!(bytes("short compact") < bytes("compact") + 1.0);
        let query = rows.iter().find(|row| row.baseline_name.starts_with("one-hot")).unwrap();
        assert!(query.ratio.unwrap() > 1.0, "{query:?}");
        let whole: Vec<_> = rows.iter().filter(|row| row.case.contains("all columns of Kim et al.")).collect();
        let (name, measured) = (&whole[0].baseline_name, whole[0].params.get("baseline_columns_measured").cloned());
        assert!(whole.len() == 1 && name == "Kim et al." && measured == Some(16.into()), "{whole:?}");
        assert!(whole[0].ratio.unwrap() > 1.0, "{whole:?}");
        for d in [3, 6] {
            let prefix = format!("embedding, log p = 4, d = {d}, ");
            let cases: BTreeSet<&str> = rows
                .iter()
                .map(|row| row.case.as_str())
                .filter(|case| case.starts_with(&prefix) && !case.contains("all columns"))
                .collect();
            assert_eq!(cases.len(), 3, "the paper's plan, ours, and the real ring's: {cases:?}");
            for case in cases {
                let total = value(case, "lookup_per_token");
                let shares = value(case, "vecgen_per_token") + value(case, "pcmm_per_token");
                assert!((shares / total - 1.0).abs() < 1e-9, "{case}: {shares} of {total}");
                assert!(value(case, "lookup_depth") < 6.0);
            }
        }
        let columns_of_kim = rows
            .iter()
            .filter_map(|row| Some((row.params.get("baseline_columns_measured")?, row.params.get("repetitions")?)));
        assert!(
            columns_of_kim.clone().count() >= 18 && columns_of_kim.into_iter().all(|(measured, all)| measured == all)
        );
        let case = "embedding of few tokens, log p = 4, d = 6";
        assert!(value(case, "small_batch_vecgen") < value(case, "small_batch_latency"));
    }
}
