//! `unspoken search ask`

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use serde_json::json;
use unspoken_client::{ClientError, ServiceClient};
use unspoken_pir::{Answer, PirClient, PirOptions, Question};
use unspoken_pir_scheme::Mode;
use unspoken_protocol::{ApplicationError, ErrorKind};
use unspoken_search::{Description, Hit, SearchClient, SearchError};
use unspoken_wire::is_application_name;

use super::vectors::{self, Embedder, TextEmbedder};
use crate::commands::connection::{Target, usage_lines};
use crate::interrupt;
use crate::progress::Bars;

/// Find the documents of a service's collection that are nearest to a query, without revealing either
///
/// The query is a vector, or a text, whose vector is the mean of the rows of an embedding table: the one that the
/// collection was built with. Prints a line for each document: the cosine of its vector and the query's, and the
/// document. Always the same number of documents is fetched.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    target: Target,
    /// Documents to find and fetch
    #[arg(short = 'k', long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1000))]
    count: u16,
    /// The vector of the query: a NumPy file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["text", "words"])]
    vector: Option<PathBuf>,
    #[command(flatten)]
    words: Embedder,
    /// Print one JSON object per document
    #[arg(long)]
    json: bool,
    /// Print the bytes sent and received, and the times, on standard error
    #[arg(long)]
    usage: bool,
    /// The query
    #[arg(required_unless_present = "vector")]
    text: Vec<String>,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let cancel = interrupt::on_ctrl_c()?;
    let (vector, embedder) = match &arguments.vector {
        Some(path) => (vectors::read_one(path)?, None),
        None => {
            let embedder = arguments.words.open()?.context("needed --words: the one the collection was built with")?;
            let made = embedder.vectors(&[arguments.text.join(" ")], |_| "the query".into())?;
            (made.into_raw_vec_and_offset().0, Some(embedder))
        }
    };
    let (transport, application, state) = arguments.target.open(&cancel)?;
    let mut bars = Bars::new();
    let mut step = |step| bars.step(step);
    let mut search = ServiceClient::<SearchClient>::connect(transport, &application, (), &state, &mut step, &cancel)?;
    let description = search.description();
    check_embedder(embedder.as_ref(), description)?;
    let (documents, most) = (description.documents().to_owned(), description.document_count());
    anyhow::ensure!(
        is_application_name(&documents),
        "found {documents:?} as the name of the application of the documents, needed a name of applications; do not \
         trust this service"
    );
    let (transport, state) = arguments.target.open_beside(&documents)?;
    let options = PirOptions::new(Mode::Packed, state.clone());
    // Connected before the first question, so that the time of its answer says nothing.
    let mut fetch = ServiceClient::<PirClient>::connect(transport, &documents, options, &state, &mut step, &cancel)?;
    let found = search.ask(&[vector], &mut step, &cancel);
    // A service that makes an answer unreadable must not learn that it was: the same number of documents is fetched.
    let nothing = Vec::new();
    let hits = match &found {
        Ok(found) => found.first().unwrap_or(&nothing),
        Err(error) if is_unreadable(error) => &nothing,
        Err(_) => return Ok(found.map(drop)?),
    };
    // As many as were asked for, or all; a small collection may have fewer in the blocks that were asked.
    let count = u64::from(arguments.count).min(most) as usize;
    let mut wanted: Vec<u64> = hits.iter().take(count).map(|hit| hit.position).collect();
    wanted.resize(count, 0);
    let questions: Vec<Question> = wanted.iter().map(|&position| Question::Index(position)).collect();
    let answers = fetch.ask(&questions, &mut step, &cancel);
    let (found, answers) = (found?, answers?);
    let hits = found.first().unwrap_or(&nothing);
    bars.finish();
    if arguments.usage {
        eprint!("search\n{}", usage_lines(search.usage()));
        eprint!("documents\n{}", usage_lines(fetch.usage()));
    }
    print(arguments.json, hits, &answers)
}

/// Refuses a table of words that did not make the vectors of the documents.
fn check_embedder(embedder: Option<&TextEmbedder>, description: &Description) -> anyhow::Result<()> {
    let Some(name) = embedder.map(TextEmbedder::name) else { return Ok(()) };
    let needed = description.embedder();
    anyhow::ensure!(
        name == needed,
        "the vector of the query is the {name}; needed what made the vectors of the documents: {}",
        if needed.is_empty() { "its name is not known, so give --vector" } else { needed }
    );
    Ok(())
}

/// Whether the error depends on what an answer decrypts to.
fn is_unreadable(error: &ClientError) -> bool {
    error.application::<SearchError>().is_some_and(|error| error.kind() == ErrorKind::Unreadable)
}

/// Prints a line for each document that was found.
fn print(as_json: bool, hits: &[Hit], answers: &[Answer]) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    for (hit, answer) in hits.iter().zip(answers) {
        let document = answer.record.as_ref().map(|record| String::from_utf8_lossy(record)).unwrap_or_default();
        match as_json {
            true => {
                writeln!(out, "{}", json!({ "cosine": hit.cosine, "position": hit.position, "document": document }))?
            }
            false => writeln!(out, "{:.3}  {document}", hit.cosine)?,
        }
    }
    Ok(out.flush()?)
}
