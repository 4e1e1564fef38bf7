//! The classifier of the suite and its messages.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use unspoken_fasttext::{Model, TrainOptions, fit_with_validation};
use unspoken_store::Dataset;

const SMS: &str = "data/sms/spam_collection.tsv";

/// A trained model and messages it was not trained on.
pub(super) struct ClassifierData {
    pub(super) model: Model,
    pub(super) messages: Vec<String>,
    /// Their source, for the parameters of a row.
    pub(super) source: &'static str,
}

impl ClassifierData {
    /// The SMS spam collection if it has been downloaded, else synthetic messages of the same shape.
    pub(super) fn load(root: &Path, messages: usize) -> anyhow::Result<Self> {
        Self::with_columns(root, messages, TrainOptions::default().columns)
    }

    /// Like [`ClassifierData::load`], with this many columns in each subtable.
    pub(super) fn with_columns(root: &Path, messages: usize, columns: usize) -> anyhow::Result<Self> {
        let path = root.join(SMS);
        if !path.exists() {
            return Self::synthetic(messages, columns);
        }
        let data = Dataset::read_tab_separated(path)?;
        let options = TrainOptions { columns, ..TrainOptions::default() };
        Self::train(&data, messages, options, "SMS spam collection")
    }

    /// Messages of made-up words, `columns` columns in each of the four subtables.
    pub(super) fn synthetic(messages: usize, columns: usize) -> anyhow::Result<Self> {
        let count = 10 * messages.max(40);
        let label = |i: usize| if i.is_multiple_of(4) { "spam" } else { "ham" };
        let text = |i: usize| {
            let word = |k: usize| format!("{}{}", label(i), (i * 13 + k * k * 7) % 97);
            (0..4 + i % 20).map(word).collect::<Vec<_>>().join(" ")
        };
        let texts = (0..count).map(text).collect();
        let labels = (0..count).map(|i| label(i).to_owned()).collect();
        let options = TrainOptions { columns, relaxed_epochs: 3, hard_epochs: 2, ..TrainOptions::default() };
        Self::train(&Dataset::new(texts, labels)?, messages, options, "synthetic")
    }

    fn train(data: &Dataset, messages: usize, options: TrainOptions, source: &'static str) -> anyhow::Result<Self> {
        let split = data.split(0.1, 0.1, options.seed)?;
        let never = AtomicBool::new(false);
        let model = fit_with_validation(&split.train, &split.validation, &options, &mut |_| {}, &never)?;
        let messages = split.test.texts().iter().take(messages).cloned().collect();
        Ok(ClassifierData { model, messages, source })
    }
}
