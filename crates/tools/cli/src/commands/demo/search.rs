//! A collection of diagnoses: it is built, served, and searched by meaning without revealing the question.

use std::collections::HashSet;
use std::path::Path;
use std::time::Instant;

use anyhow::Context;
use ndarray::{Array2, ArrayView1};
use unspoken_client::StateDir;
use unspoken_client::transport::Cancel;
use unspoken_collection::Builder;
use unspoken_search_client::{Found, Searcher};
use unspoken_search_index::{Document, directions};
use unspoken_sources::{Source, SourceSpec};

use super::service::Service;
use super::{SAMPLE_BYTES, print};
use crate::commands::search::{Embedder, TextEmbedder};
use crate::progress::Bars;

const APPLICATION: &str = "search/icd10";

const QUESTIONS: [&str; 3] = ["lung cancer from smoking", "hit by a car while cycling", "trouble sleeping at night"];

/// Documents that are found and fetched for each question.
const MOST: usize = 10;

/// Documents that are shown.
const SHOWN: usize = 3;

/// Offset of the shown bytes in a request: after the id of the index and the seed of the first query.
const SAMPLE_START: usize = 48;

/// Runs this part of the demonstration: with a table of diagnoses that has the columns code and long_name, and a
/// directory with an embedding table and its tokenizer.
pub fn run(codes: &Path, words: &Path, cancel: &Cancel) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let directory = folder.path().join("icd10");
    let (table, tokens) = (words.join("table.safetensors"), words.join("tokenizer.json"));
    let embedder = Embedder::new(table, Some(tokens), Some("embedding.weight".into())).open();
    let absent = || format!("cannot read {}; `make demo` downloads it", words.display());
    let embedder = embedder.with_context(absent)?.context("no table was named")?;
    let documents = documents(codes)?;
    let vectors = embed(&documents, &embedder)?;
    let (start, mut bars) = (Instant::now(), Bars::new());
    let builder = Builder { embedder: Some(embedder.name().to_owned()), ..Builder::default() };
    let built =
        builder.build(&directory, &documents, vectors.clone(), &mut |step| bars.collection(&step), cancel.flag())?;
    bars.finish();
    let seconds = start.elapsed().as_secs_f64();
    println!("data        {} diagnoses from {}", documents.len(), codes.display());
    println!("built       a table of {} bytes in {seconds:.1} s", built.plan.memory_bytes);
    let mut named = std::ffi::OsString::from(format!("{APPLICATION}="));
    named.push(&directory);
    let service = Service::start(["--search".as_ref(), named.as_os_str()], folder.path())?;
    println!("service     {} offers {APPLICATION}", service.url);
    let open = |application: &str| {
        let state = StateDir::open(&folder.path().join("client"), &service.url, application)?;
        anyhow::Ok((service.transport()?, state))
    };
    let mut step = |step| bars.step(step);
    let mut searcher = Searcher::connect(APPLICATION, open, &mut step, cancel)?;
    let (mut seconds, mut same, mut requests) = (0.0, 0, Vec::new());
    for question in QUESTIONS {
        let vector = embedder.vectors(&[question.to_owned()], |_| "the question".into())?.row(0).to_vec();
        let exact = nearest(&documents, &vectors, &vector);
        let start = Instant::now();
        let mut look = |request: &[u8]| requests.push(request.to_vec());
        let found = searcher.find_and_show(&[vector], MOST, &mut step, &mut look, cancel)?.concat();
        seconds += start.elapsed().as_secs_f64();
        same += found.iter().filter(|found| exact.contains(&found.document.content.as_slice())).count();
        println!("\n{question}");
        for Found { cosine, document, .. } in found.iter().take(SHOWN) {
            println!("            {cosine:.3}  {}", String::from_utf8_lossy(&document.content));
        }
    }
    let [search, fetch] = searcher.usage();
    let asked = QUESTIONS.len() as f64;
    let lengths: Vec<String> = requests.iter().map(|request| request.len().to_string()).collect();
    let sample: Vec<u8> = requests[0].iter().copied().skip(SAMPLE_START).take(SAMPLE_BYTES).collect();
    print(&[
        ("of the ten nearest in the clear, found", format!("{same} of {}", MOST * QUESTIONS.len())),
        ("bytes of scores per question", format!("{:.0}", search.answer_bytes as f64 / asked)),
        ("bytes of ten fetched documents", format!("{:.0}", fetch.answer_bytes as f64 / asked)),
        ("seconds per question, with documents", format!("{:.2}", seconds / asked)),
        ("what the service saw: lengths", lengths.join(", ")),
        ("what the service saw: of the first", format!("{}...", hex::encode(&sample))),
    ]);
    Ok(())
}

/// The documents: the long names of diagnoses, each once.
fn documents(codes: &Path) -> anyhow::Result<Vec<Document>> {
    let absent = || format!("cannot read {}; `make demo` downloads it", codes.display());
    let mut spec = SourceSpec::guess(codes).with_context(absent)?;
    spec.key_column = Some("code".into());
    spec.value_columns = vec!["long_name".into()];
    let (mut names, mut documents) = (HashSet::new(), Vec::new());
    for record in Source::open(&spec).with_context(absent)? {
        let record = record?;
        if names.insert(record.value.clone()) {
            documents.push(Document { id: record.key, content: record.value });
        }
    }
    Ok(documents)
}

/// A vector of length 1 for each document.
fn embed(documents: &[Document], embedder: &TextEmbedder) -> anyhow::Result<Array2<f32>> {
    let texts = documents.iter().map(|document| Ok(String::from_utf8(document.content.clone())?));
    let texts: Vec<String> = texts.collect::<anyhow::Result<_>>()?;
    Ok(directions(embedder.vectors(&texts, |number| format!("diagnosis {number}"))?)?)
}

/// The documents nearest to a vector, found in the clear.
fn nearest<'a>(documents: &'a [Document], vectors: &Array2<f32>, vector: &[f32]) -> Vec<&'a [u8]> {
    let cosines = vectors.dot(&ArrayView1::from(vector));
    let mut order: Vec<usize> = (0..documents.len()).collect();
    order.sort_by(|&a, &b| cosines[b].total_cmp(&cosines[a]));
    order.iter().take(MOST).map(|&number| documents[number].content.as_slice()).collect()
}
