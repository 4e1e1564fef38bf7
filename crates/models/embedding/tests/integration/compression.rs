//! Tests of compression of small tables: exactness, determinism, cancellation.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{quick, random_table, structured_table};
use unspoken_embedding::{CompressOptions, CompressedTable, EmbeddingError, EmbeddingTable, Phase, Progress, compress};

fn run(table: &EmbeddingTable, options: &CompressOptions) -> CompressedTable {
    compress(table, options, &mut |_| {}, &AtomicBool::new(false)).expect("compresses")
}

#[test]
fn a_table_that_is_a_sum_of_columns_is_found_almost_exactly() {
    // 1,024 rows, each the sum of one of 8 columns of each of 3 subtables, all combinations twice. A few spare columns
    // keep the search from getting stuck.
    let table = structured_table(1024, 12, 3, 8);
    let options = CompressOptions { subtables: 3, columns: 14, rounds: 20, trials: 8, ..quick() };
    let quality = run(&table, &options).quality(&table).expect("same table");
    assert!(quality.relative_error < 1e-3, "{quality:?}");
    assert!(quality.mean_cosine > 0.999, "{quality:?}");
}

#[test]
fn the_error_falls_with_columns_and_never_rises_with_rounds() {
    let table = random_table(600, 10);
    let mut last = f64::INFINITY;
    for columns in [2, 6, 16, 40] {
        let mut errors = Vec::new();
        let mut note = |progress: &Progress| errors.extend(progress.relative_error);
        let options = CompressOptions { columns, ..quick() };
        let compressed = compress(&table, &options, &mut note, &AtomicBool::new(false)).expect("compresses");
        let error = compressed.quality(&table).expect("same table").relative_error;
        assert_eq!(errors.len(), options.rounds);
        assert!(errors.windows(2).all(|pair| pair[1] <= pair[0] * (1.0 + 1e-4)), "{errors:?}");
        assert!(error <= errors[errors.len() - 1] * (1.0 + 1e-6), "{error} {errors:?}");
        assert!(error < 0.9 * last, "{columns} columns: {error} after {last}");
        last = error;
    }
}

#[test]
fn fewer_rows_than_columns_are_kept_exactly() {
    let table = random_table(20, 7);
    let compressed = run(&table, &CompressOptions { columns: 32, ..quick() });
    let quality = compressed.quality(&table).expect("same table");
    assert!(quality.relative_error < 1e-9, "{quality:?}");
}

#[test]
fn tables_without_spread_are_no_trouble() {
    for value in [0.0, 1.0] {
        let table = crate::common::table(64, 5, |_, _| value);
        let quality = run(&table, &quick()).quality(&table).expect("same table");
        assert!(quality.relative_error < 1e-6, "{quality:?}");
    }
    let table = crate::common::table(1, 1, |_, _| 1e6);
    assert!((run(&table, &quick()).reconstruct_row(0).expect("a row")[0] - 1e6).abs() < 1.0);
}

#[test]
fn the_same_seed_gives_the_same_table_on_any_number_of_threads() {
    let table = random_table(500, 9);
    let on = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
        pool.install(|| run(&table, &quick()))
    };
    let one = on(1);
    assert_eq!(one, on(3));
    assert_ne!(one.codes().id(), run(&table, &CompressOptions { seed: 1, ..quick() }).codes().id());
}

#[test]
fn progress_is_told_and_the_flag_stops_the_work() {
    let table = random_table(300, 6);
    let mut seen = Vec::new();
    let options = quick();
    compress(&table, &options, &mut |p| seen.push(*p), &AtomicBool::new(false)).expect("compresses");
    let steps = options.subtables * options.start_rounds + options.rounds;
    assert_eq!(seen.iter().map(|p| p.step).collect::<Vec<_>>(), (1..=steps).collect::<Vec<_>>());
    assert!(seen.iter().all(|p| p.steps == steps && (p.phase == Phase::Refine) == p.relative_error.is_some()));

    for stop_at in [1, 3, steps - 1] {
        let cancel = AtomicBool::new(false);
        let mut stop = |p: &Progress| cancel.store(p.step == stop_at, Ordering::Relaxed);
        let error = compress(&table, &options, &mut stop, &cancel).expect_err("cancelled");
        assert!(matches!(error, EmbeddingError::Cancelled { step } if step == stop_at + 1), "{error}");
    }
}

#[test]
fn bad_options_are_named() {
    let table = random_table(10, 3);
    let bad = [
        ("subtables", CompressOptions { subtables: 0, ..quick() }),
        ("subtables", CompressOptions { subtables: 17, ..quick() }),
        ("columns", CompressOptions { columns: 7, ..quick() }),
        ("columns", CompressOptions { columns: 0, ..quick() }),
        ("columns", CompressOptions { columns: 4098, ..quick() }),
        ("columns of all subtables", CompressOptions { subtables: 5, columns: 4096, ..quick() }),
        ("rounds", CompressOptions { rounds: 0, ..quick() }),
        ("trials", CompressOptions { trials: 1001, ..quick() }),
    ];
    for (name, options) in bad {
        let error = compress(&table, &options, &mut |_| {}, &AtomicBool::new(false)).expect_err("refused");
        assert!(matches!(error, EmbeddingError::Option { .. }), "{error}");
        assert!(error.to_string().contains(&format!("found {name} = ")), "{error}");
    }
}

#[test]
fn tokens_outside_the_vocabulary_are_named() {
    let table = random_table(10, 3);
    let compressed = run(&table, &quick());
    let error = compressed.reconstruct("zebra").expect_err("no such token").to_string();
    assert!(error.contains("\"zebra\""), "{error}");
    let error = compressed.reconstruct_row(10).expect_err("no such row").to_string();
    assert!(error.contains("id 10, needed 0 to 9"), "{error}");
    let with_unknown = run(&table.with_unknown().expect("room"), &quick());
    assert_eq!(with_unknown.reconstruct("zebra").expect("a row"), with_unknown.reconstruct("<unk>").expect("a row"));
}
