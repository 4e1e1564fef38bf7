//! Tests of compression by an encoder network: what it finds, determinism, files, cancellation.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{random_table, structured_table};
use serde_json::Value;
use unspoken_embedding::{
    CompressedTable, CompressionRecord, EmbeddingError, EmbeddingTable, GumbelOptions, Phase, Progress,
    compress_by_gumbel,
};

/// Options for compression within a second.
fn quick() -> GumbelOptions {
    GumbelOptions { subtables: 2, columns: 8, epochs: 5, batch: 32, rate: 0.01, ..GumbelOptions::default() }
}

fn run(table: &EmbeddingTable, options: &GumbelOptions) -> CompressedTable {
    compress_by_gumbel(table, options, &mut |_| {}, &AtomicBool::new(false)).expect("compresses")
}

#[test]
fn a_table_that_is_a_sum_of_columns_is_found_in_the_main() {
    let table = structured_table(512, 12, 2, 8);
    let quality = run(&table, &GumbelOptions { epochs: 60, ..quick() }).quality(&table).expect("same table");
    assert!(quality.relative_error < 0.1, "{quality:?}");
    // Columns say more than their mean, which has an error of almost 1.
    let silent = run(&table, &GumbelOptions { epochs: 1, rate: 1e-6, ..quick() }).quality(&table).expect("same table");
    assert!(silent.relative_error > 0.9, "{silent:?}");
}

#[test]
fn the_unit_of_the_table_does_not_matter() {
    let (table, small) = (
        random_table(200, 6),
        crate::common::table(200, 6, |row, column| {
            random_table(200, 6).row(row).map_or(0.0, |row| row[column]) / 1024.0
        }),
    );
    let error = |table: &EmbeddingTable| run(table, &quick()).quality(table).expect("same table").relative_error;
    assert!((error(&table) - error(&small)).abs() < 1e-4);
}

#[test]
fn the_best_epoch_is_kept() {
    let table = random_table(300, 6);
    let mut errors = Vec::new();
    let mut note = |progress: &Progress| {
        assert_eq!((progress.phase, progress.steps), (Phase::Train, 8));
        errors.extend(progress.relative_error);
    };
    let options = GumbelOptions { epochs: 8, rate: 0.2, ..quick() };
    let compressed = compress_by_gumbel(&table, &options, &mut note, &AtomicBool::new(false)).expect("compresses");
    let least = errors.iter().copied().fold(f64::INFINITY, f64::min);
    let found = compressed.quality(&table).expect("same table").relative_error;
    assert_eq!(errors.len(), 8);
    assert!((found - least).abs() < 1e-6, "{found} {errors:?}");
    assert!(errors.iter().any(|error| *error > least), "{errors:?}");
}

#[test]
fn the_same_seed_gives_the_same_table_on_any_number_of_threads() {
    let table = random_table(300, 6);
    let on = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
        pool.install(|| run(&table, &quick()))
    };
    let one = on(1);
    assert_eq!(one, on(3));
    assert_ne!(one.codes().id(), run(&table, &GumbelOptions { seed: 1, ..quick() }).codes().id());
}

#[test]
fn files_say_how_the_table_was_made() {
    let compressed = run(&random_table(100, 6), &quick());
    let directory = tempfile::tempdir().expect("a directory");
    compressed.save(directory.path()).expect("saves");
    let read = CompressedTable::load(directory.path()).expect("loads");
    assert_eq!(read, compressed);
    assert!(matches!(read.record(), CompressionRecord::Gumbel(record) if record.epochs == 5 && record.rate == 0.01));
    let json: Value =
        serde_json::from_slice(&fs::read(directory.path().join("server.json")).expect("reads")).expect("JSON");
    assert_eq!(json["version"], 2);
}

#[test]
fn work_is_cancelled_and_bad_options_are_named() {
    let table = random_table(100, 6);
    let cancel = AtomicBool::new(false);
    let mut stop = |progress: &Progress| cancel.store(progress.step == 2, Ordering::Relaxed);
    let error = compress_by_gumbel(&table, &quick(), &mut stop, &cancel).expect_err("cancelled");
    assert!(matches!(error, EmbeddingError::Cancelled { step: 3 }), "{error}");
    let bad = [
        ("subtables", GumbelOptions { subtables: 17, ..quick() }),
        ("columns", GumbelOptions { columns: 7, ..quick() }),
        ("columns of all subtables", GumbelOptions { subtables: 16, columns: 1024, ..quick() }),
        ("epochs", GumbelOptions { epochs: 0, ..quick() }),
        ("batch", GumbelOptions { batch: 0, ..quick() }),
        ("rate", GumbelOptions { rate: f32::NAN, ..quick() }),
        ("temperature", GumbelOptions { temperature: 0.0, ..quick() }),
    ];
    for (name, options) in bad {
        let error = compress_by_gumbel(&table, &options, &mut |_| {}, &AtomicBool::new(false)).expect_err("refused");
        assert!(error.to_string().contains(&format!("found {name} = ")), "{error}");
    }
}
