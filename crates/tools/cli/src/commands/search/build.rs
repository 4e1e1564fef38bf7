//! `unspoken search build`

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context;
use ndarray::Array2;
use serde_json::json;
use unspoken_database::{Builder, Record};
use unspoken_offers::SEARCH_DOCUMENTS;
use unspoken_pir_scheme::dense::MaskSeed;
use unspoken_pir_scheme::{Preset, TableKind};
use unspoken_ring::SecretRng;
use unspoken_search_index::{Index, Plan, StoredIndex, Wish, directions};

use super::vectors::{self, Embedder, TextEmbedder};
use crate::commands::pir::{RecordOptions, link};
use crate::interrupt;
use crate::progress::{Bars, note};

/// Documents whose neighbours are looked for to measure the recall.
const SAMPLED: usize = 256;

/// Neighbours of each of them.
const NEIGHBOURS: usize = 10;

/// Plans that --explain shows.
const SHOWN: usize = 8;

/// Build a collection from documents and their vectors
///
/// The documents are the records of a file, as for `unspoken pir build`. Their vectors are those of a NumPy file, in
/// the same order, or the means of the rows of an embedding table for the words of each record. The vectors are
/// quantised to 8 bits and clustered. How many blocks of clusters a question asks follows from the wanted recall,
/// measured on documents of the collection.
#[derive(clap::Args)]
pub struct Arguments {
    /// File of the documents: .csv, .tsv, .jsonl, .json, .sqlite or .parquet
    #[arg(long)]
    from: PathBuf,
    #[command(flatten)]
    records: RecordOptions,
    /// The vectors of the documents: a NumPy file with one in each row
    #[arg(long, value_name = "FILE", conflicts_with = "words", required_unless_present = "words")]
    vectors: Option<PathBuf>,
    /// Name of what made the vectors of --vectors, for clients
    #[arg(long, value_name = "NAME", requires = "vectors")]
    embedder: Option<String>,
    #[command(flatten)]
    words: Embedder,
    /// Part of the ten nearest documents that a question finds, of those that exact search finds
    #[arg(long, default_value_t = 0.95, value_parser = part)]
    recall: f64,
    /// Speed of the clients' link, in Mbit/s, for the choice of the layout
    #[arg(long, default_value_t = 100.0, value_parser = link)]
    link: f64,
    /// Memory of the table at the service, in MiB [default: three bytes for each coordinate, at least 256 MiB]
    #[arg(long, value_name = "MIB")]
    memory: Option<u64>,
    /// Build nothing: show the layouts and what a question would cost with each
    #[arg(long)]
    explain: bool,
    /// With --explain: print one JSON object for each layout
    #[arg(long, requires = "explain")]
    json: bool,
    /// Replace the existing collection
    #[arg(long)]
    replace: bool,
    /// Directory of the collection
    #[arg(required_unless_present = "explain")]
    collection: Option<PathBuf>,
}

/// A part from 0 to 1.
fn part(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(part) if (0.0..=1.0).contains(&part) => Ok(part),
        _ => Err(format!("found {text}, needed a number from 0 to 1")),
    }
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let (source, has_keys) = arguments.records.open(&arguments.from)?;
    anyhow::ensure!(
        !has_keys,
        "found documents with keys in {}, needed documents without: they are found by their vectors; leave out --key, \
         and give a table in the place of a folder",
        arguments.from.display()
    );
    let records: Vec<Vec<u8>> = source.map(|record| Ok(record?.value)).collect::<anyhow::Result<_>>()?;
    let embedder = arguments.words.open()?;
    let made = vectors_of(arguments, embedder.as_ref(), &records)?;
    anyhow::ensure!(
        made.nrows() == records.len(),
        "found {} documents in {} and {} vectors, needed as many",
        records.len(),
        arguments.from.display(),
        made.nrows()
    );
    let (documents, width) = made.dim();
    let vectors = directions(made)?;
    let parameters = Preset::N11.build()?;
    let usual = (3 * documents as u64 * width as u64).max(256 << 20);
    let memory = arguments.memory.map_or(usual, |mib| mib << 20);
    let wish = Wish { documents, width, link: arguments.link * 1e6 / 8.0, cores: cores(), memory };
    let plans = Plan::all(&parameters, &wish)?;
    let Some(collection) = arguments.collection.as_ref().filter(|_| !arguments.explain) else {
        explain(&plans, arguments.json);
        return Ok(());
    };
    anyhow::ensure!(
        arguments.replace || !collection.join(SEARCH_DOCUMENTS).exists(),
        "{} has a collection already; give --replace, or another directory",
        collection.display()
    );
    let start = Instant::now();
    let mut masks = MaskSeed([0; 16]);
    SecretRng::from_os()?.fill(&mut masks.0);
    let index = Index::new(&parameters, vectors.view(), &plans[0], masks)?;
    note(&format!(
        "clustered   {} clusters in {:.1} s",
        plans[0].blocks * plans[0].groups,
        start.elapsed().as_secs_f64()
    ));
    let (index, recall) = asking(index, &vectors, arguments.recall);
    std::fs::create_dir_all(collection).with_context(|| format!("cannot create {}", collection.display()))?;
    // Until all files are there, the directory is no collection: positions of one belong to no other's documents.
    StoredIndex::end(collection)?;
    store_documents(collection, &index, &records)?;
    let name = embedder.as_ref().map(TextEmbedder::name).or(arguments.embedder.as_deref());
    index.store(&parameters, collection, name)?;
    let plan = Plan::new(&parameters, &wish, layout(&index));
    println!("documents   {documents}, {width} coordinates, built in {:.1} s", start.elapsed().as_secs_f64());
    println!("layout      {} blocks of {} clusters, {} of them asked", plan.blocks, plan.groups, plan.asked);
    println!("recall      {recall:.3} of the {NEIGHBOURS} nearest, on {} documents", documents.min(SAMPLED));
    println!("memory      {} bytes for the table, at the service", plan.memory_bytes);
    println!("question    {} bytes, and {} bytes of answer", plan.query_bytes, plan.answer_bytes);
    println!("predicted   {:.2} s of one core for an answer", plan.core_seconds);
    if recall < arguments.recall {
        eprintln!("warning: the recall is below {}, whatever a question asks", arguments.recall);
    }
    println!("serve it    unspoken serve --search {}", collection.display());
    Ok(())
}

/// Cores of this machine.
fn cores() -> f64 {
    std::thread::available_parallelism().map_or(1.0, |cores| cores.get() as f64)
}

/// The vectors of all documents.
fn vectors_of(
    arguments: &Arguments,
    embedder: Option<&TextEmbedder>,
    records: &[Vec<u8>],
) -> anyhow::Result<Array2<f32>> {
    let Some(embedder) = embedder else {
        let path = arguments.vectors.as_ref().context("needed --vectors or --words")?;
        return vectors::read(path);
    };
    let place = |number: usize| format!("record {number} of {}", arguments.from.display());
    let text = |(number, record): (usize, &'_ Vec<u8>)| {
        String::from_utf8(record.clone()).with_context(|| format!("{}: found no UTF-8 text", place(number)))
    };
    let texts: Vec<String> = records.iter().enumerate().map(text).collect::<anyhow::Result<_>>()?;
    embedder.vectors(&texts, place)
}

fn layout(index: &Index) -> [usize; 3] {
    [index.shape().blocks(), index.shape().groups(), index.directory().asked()]
}

/// The index with as many blocks asked as the wanted recall needs, and the recall that it has.
fn asking(index: Index, vectors: &Array2<f32>, wanted: f64) -> (Index, f64) {
    let step = (vectors.nrows() / SAMPLED).max(1);
    let sample: Vec<usize> = (0..vectors.nrows()).step_by(step).take(SAMPLED).collect();
    let recalls = index.recalls(vectors.view(), &sample, NEIGHBOURS);
    let most = recalls.len();
    let asked = recalls.iter().position(|&recall| recall >= wanted).map_or(most, |place| place + 1);
    (index.asking(asked), recalls[asked - 1])
}

/// Stores the documents by position, in the place of those of an earlier collection.
fn store_documents(collection: &Path, index: &Index, records: &[Vec<u8>]) -> anyhow::Result<()> {
    let directory = collection.join(SEARCH_DOCUMENTS);
    let cancel = interrupt::on_ctrl_c()?;
    let mut bars = Bars::new();
    let record = |position: &Option<u32>| {
        let value = position.map(|number| records[number as usize].clone()).unwrap_or_default();
        Ok::<_, std::io::Error>(Record { key: None, value })
    };
    let builder = Builder { tables: TableKind::Dense, replace: true, ..Builder::new(Preset::N11) };
    let stored = index.positions().iter().map(record);
    builder.build(&directory, stored, |progress| bars.database(&progress), cancel.flag())?;
    bars.finish();
    Ok(())
}

/// Prints what a question costs with each layout.
fn explain(plans: &[Plan], as_json: bool) {
    if as_json {
        for plan in plans {
            let Plan { blocks, groups, asked, memory_bytes, query_bytes, answer_bytes, core_seconds, seconds } = plan;
            let line = json!({
                "blocks": blocks, "groups": groups, "asked": asked, "memory_bytes": memory_bytes,
                "query_bytes": query_bytes, "answer_bytes": answer_bytes,
                "core_seconds": core_seconds, "seconds": seconds,
            });
            println!("{line}");
        }
        return;
    }
    println!("blocks  clusters each  asked  memory MiB  question KB  answer KB  core s  seconds");
    for plan in plans.iter().take(SHOWN) {
        println!(
            "{:>6}  {:>13}  {:>5}  {:>10}  {:>11.0}  {:>9.0}  {:>6.2}  {:>7.2}",
            plan.blocks,
            plan.groups,
            plan.asked,
            plan.memory_bytes >> 20,
            plan.query_bytes as f64 / 1e3,
            plan.answer_bytes as f64 / 1e3,
            plan.core_seconds,
            plan.seconds
        );
    }
    println!("The first is the fastest, with a tenth of the blocks asked; building measures how many are needed.");
}
