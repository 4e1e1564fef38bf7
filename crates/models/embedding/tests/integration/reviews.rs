//! Tests of the downstream task: accuracy depends on the content of the embeddings.

use std::sync::atomic::AtomicBool;

use crate::common::{quick, table};
use unspoken_embedding::{EmbeddingError, EmbeddingTable, RecurrentOptions, RecurrentProgress, ReviewTask, compress};
use unspoken_store::Dataset;

/// Texts of four tokens out of 40. Texts with label `good` have one more of the first ten tokens than other texts.
fn reviews() -> Dataset {
    let text = |i: usize| {
        let first = if i.is_multiple_of(2) { i / 2 % 10 } else { 10 + i % 30 };
        format!("t{first} t{} T{} t{} zebra!", 10 + i * 7 % 30, 10 + i * 11 % 30, 10 + i * 13 % 30)
    };
    let label = |i: usize| if i.is_multiple_of(2) { "good" } else { "bad" }.to_owned();
    Dataset::new((0..400).map(text).collect(), (0..400).map(label).collect()).expect("as many of each")
}

/// A table whose first coordinate separates the first ten tokens from the rest.
fn telling() -> EmbeddingTable {
    table(
        40,
        4,
        |row, column| if column == 0 { f32::from(u8::from(row < 10)) } else { ((row * 7 + column) % 5) as f32 },
    )
}

#[test]
fn telling_embeddings_classify_and_silent_ones_do_not() {
    let good = telling();
    let task = ReviewTask::new(&reviews(), good.tokens(), 0.25, 0).expect("two labels");
    assert_eq!((task.len(), task.labels()), ((300, 100), &["bad".into(), "good".into()]));
    let accuracy = task.accuracy(&good).expect("same vocabulary");
    assert!(accuracy.held_out > 0.99 && accuracy.training > 0.99, "{accuracy:?}");
    let silent = task.accuracy(&table(40, 4, |_, _| 1.0)).expect("same vocabulary");
    assert!((0.4..=0.6).contains(&silent.held_out), "{silent:?}");
    let compressed = compress(&good, &quick(), &mut |_| {}, &AtomicBool::new(false)).expect("compresses");
    let kept = task.accuracy(&compressed.decompress().expect("in range")).expect("same vocabulary");
    assert!(kept.held_out > 0.95, "{kept:?}");
}

#[test]
fn other_vocabularies_and_labels_are_refused() {
    let task = ReviewTask::new(&reviews(), telling().tokens(), 0.25, 0).expect("two labels");
    let other = table(41, 4, |_, _| 0.0);
    let error = task.accuracy(&other).expect_err("refused").to_string();
    assert!(error.contains("found a table of 41 tokens, needed the 40 that the task was made with"), "{error}");
    let one = Dataset::new(vec!["t1".into()], vec!["good".into()]).expect("one of each");
    let refused = ReviewTask::new(&one, other.tokens(), 0.0, 0);
    assert!(matches!(refused, Err(EmbeddingError::Training { found, .. }) if found == "1 distinct labels"));
}

/// Texts whose label is the order of two tokens, which the mean of the embeddings does not tell.
fn ordered() -> Dataset {
    let text = |i: usize| {
        let pair = if i.is_multiple_of(2) { "t1 t2" } else { "t2 t1" };
        format!("{} {pair} {}", "t5 ".repeat(i % 4), "t6 ".repeat(i / 2 % 3))
    };
    let label = |i: usize| if i.is_multiple_of(2) { "good" } else { "bad" }.to_owned();
    Dataset::new((0..240).map(text).collect(), (0..240).map(label).collect()).expect("as many of each")
}

fn small() -> RecurrentOptions {
    RecurrentOptions { hidden: 8, epochs: 20, batch: 16, rate: 0.02, ..RecurrentOptions::default() }
}

#[test]
fn the_recurrent_classifier_learns_an_order() {
    let given = table(8, 4, |row, column| ((row * 5 + column * 3) % 7) as f32 - 3.0);
    let task = ReviewTask::new(&ordered(), given.tokens(), 0.25, 0).expect("two labels");
    let mut losses = Vec::new();
    let mut note = |progress: &RecurrentProgress| losses.push(progress.loss);
    let found = task.recurrent_accuracy(&given, &small(), &mut note, &AtomicBool::new(false)).expect("trains");
    assert!(found.held_out > 0.95 && found.training > 0.95, "{found:?} {losses:?}");
    assert_eq!(losses.len(), 20);
    let mean = task.accuracy(&given).expect("same vocabulary");
    assert!(mean.held_out < 0.7, "{mean:?}");
    let silent = table(8, 4, |_, _| 1.0);
    let silent = task.recurrent_accuracy(&silent, &small(), &mut |_| {}, &AtomicBool::new(false)).expect("trains");
    assert!(silent.held_out < 0.7, "{silent:?}");
}

#[test]
fn the_recurrent_classifier_is_the_same_on_any_number_of_threads_and_stops() {
    let given = telling();
    let task = ReviewTask::new(&reviews(), given.tokens(), 0.25, 0).expect("two labels");
    let options = RecurrentOptions { epochs: 2, reviews: 50, max_tokens: 2, ..small() };
    let on = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
        let mut losses = Vec::new();
        let mut note = |progress: &RecurrentProgress| losses.push(progress.loss.to_bits());
        pool.install(|| {
            task.recurrent_accuracy(&given, &options, &mut note, &AtomicBool::new(false)).expect("trains");
        });
        losses
    };
    assert_eq!(on(1), on(3));
    let cancelled = task.recurrent_accuracy(&given, &options, &mut |_| {}, &AtomicBool::new(true));
    assert!(matches!(cancelled, Err(EmbeddingError::Cancelled { step: 1 })));
    let bad = RecurrentOptions { rate: 0.0, ..options };
    let error = task.recurrent_accuracy(&given, &bad, &mut |_| {}, &AtomicBool::new(false)).expect_err("refused");
    assert!(error.to_string().contains("found rate = 0, needed above 0, at most 1"), "{error}");
}
