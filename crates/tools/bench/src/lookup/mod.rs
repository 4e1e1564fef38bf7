//! The lookup suite: encrypted fastText and encrypted embeddings by every plan, and the baselines of the paper.

mod data;
mod embedding;
mod forms;
mod indicator;
mod one_hot;
mod party;
mod plans;
mod small_batch;
mod subtables;

use data::Sample;
use embedding::Presets;
use plans::{Contest, Shop};
use subtables::Subtables;
use unspoken_ckks::Preset;
use unspoken_lookup::Plan;
use unspoken_query::QueryForm;

use crate::error::BenchError;
use crate::session::Session;

/// Messages classified at once.
const MESSAGES: usize = 256;

/// The plans beside the paper's.
const OURS: [Plan; 4] =
    [Plan::ComplexFirst, Plan::LazyLast, Plan::BabyGiant { babies: 8 }, Plan::BabyGiant { babies: 16 }];

/// Subtables of the embeddings, as in the paper.
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

/// Every form of query, at the preset it takes.
const FORMS: [(QueryForm, &str); 3] = [
    (QueryForm::Direct, "n15_depth8_scale50"),
    (QueryForm::Compact, "n16_boot_depth8_scale50"),
    (QueryForm::OneHot, "n15_depth8_scale50"),
];

/// Columns of the model for the forms of query: with the zero column that compact ones pad with, 256 at most.
const FORM_COLUMNS: usize = 254;

/// Positions of a token in the small batches of the paper's Table 6: 300 rows, padded.
const POSITIONS: usize = 512;

pub(crate) fn run(session: &mut Session<'_>) -> Result<(), BenchError> {
    session.note("training the model");
    let sample = Sample::load(&session.options.root, MESSAGES)?;
    session.note(format!("{} model, {} held-out messages", sample.source, sample.messages.len()));
    if session.options.quick {
        let quick = Contest { preset: "n14_depth8_scale30", plans: &OURS, messages: 64, rounds: 1 };
        plans::run(session, &sample, quick)?;
        one_hot::run(session, &sample, Preset::find("n14_depth8_scale30")?)?;
        embeddings(session, &Subtables::random(SUBTABLES, 50, 64)?, &[50], 1)?;
        given_table(session)?;
    } else {
        let small = Contest { preset: "n14_depth8_scale30", plans: &OURS, messages: MESSAGES, rounds: 1 };
        plans::run(session, &sample, small)?;
        let precise = Contest { preset: "n15_depth8_scale50", plans: &OURS, messages: MESSAGES, rounds: 2 };
        let best = plans::run(session, &sample, precise)?;
        one_hot::run(session, &sample, Preset::find("n15_depth8_scale50")?)?;
        let mut shop = Shop::new(&sample, Preset::find("n15_depth8_scale50")?, best)?;
        indicator::run(session, &sample, &mut shop, Preset::find("n16_depth24_scale52")?, 3)?;
        drop((shop, sample));
        forms::run(session, &FORMS, FORM_COLUMNS, MESSAGES)?;
        tables(session)?;
    }
    session.peak_memory("clients, servers and every plan of the suite");
    Ok(())
}

/// The paper's Tables 3 and 6, and Table 3 once more for a compressed table where one is given.
fn tables(session: &mut Session<'_>) -> Result<(), BenchError> {
    for (columns, repetitions) in [(64, 3), (256, 2), (1024, 1)] {
        let random = Subtables::random(SUBTABLES, WIDTHS[0].max(embedding::ROWS), columns)?;
        embeddings(session, &random, &WIDTHS, repetitions)?;
    }
    given_table(session)?;
    for (columns, repetitions, baseline) in
        [(64, 3, "n16_depth24_scale52"), (256, 2, "n16_depth24_scale52"), (1024, 1, "n16_depth28_scale50")]
    {
        let tables = Subtables::random(SUBTABLES, 300, columns)?;
        let ours = "n15_depth11_scale50";
        let case = small_batch::Case { tables: &tables, width: POSITIONS, ours, baseline, repetitions };
        small_batch::run(session, &case)?;
    }
    Ok(())
}

/// The compressed table of the options, where there is one.
fn given_table(session: &mut Session<'_>) -> Result<(), BenchError> {
    let Some(directory) = &session.options.table else { return Ok(()) };
    let given = Subtables::read(directory)?;
    let widths = [given.rows()];
    embeddings(session, &given, &widths, 1)
}

/// Embeddings of these tables, for each number of rows.
fn embeddings(
    session: &mut Session<'_>,
    tables: &Subtables,
    widths: &[usize],
    repetitions: usize,
) -> Result<(), BenchError> {
    let Some((_, presets)) = EMBEDDING_PRESETS.iter().find(|(most, _)| tables.columns() <= *most) else {
        session.note(format!("no preset has the levels for the baseline of {} columns: left out", tables.columns()));
        return Ok(());
    };
    embedding::run(session, &embedding::Case { presets: *presets, tables, widths, repetitions })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{Clock, Options, Row, Suite};

    #[test]
    fn every_plan_and_baseline_at_a_small_ring() {
        let options = Options { quick: true, peers: false, clock: Clock::Cpu, ..Options::default() };
        let mut rows: Vec<Row> = Vec::new();
        let (mut sink, mut progress) = (|row| rows.push(row), |_: &str| ());
        let mut session = Session::new(Suite::Lookup, &options, &mut sink, &mut progress).unwrap();
        let sample = Sample::synthetic(16, 32).unwrap();
        const PLANS: [Plan; 2] = [Plan::LazyLast, Plan::BabyGiant { babies: 4 }];
        let preset = "insecure_n11_depth9_scale50";
        let contest = Contest { preset, plans: &PLANS, messages: 16, rounds: 1 };
        let best = plans::run(&mut session, &sample, contest).unwrap();
        assert!(PLANS.contains(&best));
        one_hot::run(&mut session, &sample, Preset::find(preset).unwrap()).unwrap();
        let mut shop = Shop::new(&sample, Preset::find(preset).unwrap(), best).unwrap();
        let deep = Preset::find("insecure_n11_depth24_scale52").unwrap();
        indicator::run(&mut session, &sample, &mut shop, deep, 2).unwrap();
        let forms = [
            (QueryForm::Direct, preset),
            (QueryForm::Compact, "insecure_n11_boot_depth8_scale50"),
            (QueryForm::OneHot, preset),
        ];
        forms::run(&mut session, &forms, 14, 16).unwrap();
        let random = Subtables::random(2, 6, 16).unwrap();
        let presets = Presets {
            complex: preset,
            real: "insecure_n11_real_depth9_scale50",
            baseline: "insecure_n11_depth24_scale52",
        };
        let case = embedding::Case { presets, tables: &random, widths: &[3, 6], repetitions: 1 };
        embedding::run(&mut session, &case).unwrap();
        let (ours, baseline) = (preset, "insecure_n11_depth24_scale52");
        let case = small_batch::Case { tables: &random, width: 8, ours, baseline, repetitions: 1 };
        small_batch::run(&mut session, &case).unwrap();
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
        let query = rows.iter().find(|row| row.baseline_name.starts_with("one-hot")).unwrap();
        assert!(query.ratio.unwrap() > 1.0, "{query:?}");
        for d in [3, 6] {
            let prefix = format!("embedding, log p = 4, d = {d}, ");
            let cases: BTreeSet<&str> =
                rows.iter().map(|row| row.case.as_str()).filter(|case| case.starts_with(&prefix)).collect();
            assert_eq!(cases.len(), 3, "the paper's plan, ours, and the real ring's: {cases:?}");
            for case in cases {
                let total = value(case, "lookup_per_token");
                let shares = value(case, "vecgen_per_token") + value(case, "pcmm_per_token");
                assert!((shares / total - 1.0).abs() < 1e-9, "{case}: {shares} of {total}");
                assert!(value(case, "lookup_depth") < 6.0);
            }
        }
        let case = "embedding of few tokens, log p = 4, d = 6";
        assert!(value(case, "small_batch_vecgen") < value(case, "small_batch_latency"));
    }
}
