//! A small separable data set and quick options for it.

use std::sync::atomic::AtomicBool;

use unspoken_fasttext::{Model, TrainOptions, fit};
use unspoken_store::Dataset;

const SPAM: [&str; 5] = ["win", "free", "prize", "claim", "urgent"];
const HAM: [&str; 5] = ["home", "later", "dinner", "sorry", "mum"];
const BOTH: [&str; 6] = ["the", "you", "and", "now", "call", "me"];

/// `count` messages: every third is spam. A message has three words that identify its class and three that do not.
pub fn separable(count: usize) -> Dataset {
    let message = |i: usize| {
        let own = if i.is_multiple_of(3) { SPAM } else { HAM };
        (0..3).flat_map(|k| [own[(i * 7 + k * 3) % 5], BOTH[(i * 5 + k) % 6]]).collect::<Vec<_>>().join(" ")
    };
    let label = |i: usize| if i.is_multiple_of(3) { "spam" } else { "ham" }.to_owned();
    let texts = (0..count).map(message).collect();
    let labels = (0..count).map(label).collect();
    Dataset::new(texts, labels).expect("as many of each")
}

/// Small tables and few epochs.
pub fn quick() -> TrainOptions {
    TrainOptions { columns: 16, dimension: 8, batch: 16, relaxed_epochs: 8, hard_epochs: 4, ..TrainOptions::default() }
}

/// A model of the separable set.
pub fn model(options: &TrainOptions) -> Model {
    let data = separable(150);
    let never = AtomicBool::new(false);
    fit(data.texts(), data.labels(), options, &mut |_| {}, &never).expect("trains")
}
