//! `unspoken search ask`

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use serde_json::json;
use unspoken_search::Description;
use unspoken_search_client::{Found, Searcher};

use super::vectors::{self, Embedder, TextEmbedder};
use crate::commands::connection::{Target, usage_lines};
use crate::interrupt;
use crate::progress::Bars;

/// Find the documents of a service's collection that are nearest to a query, without revealing either
///
/// The query is a vector, or a text, whose vector is the mean of the rows of an embedding table: the one that the
/// collection was built with. Prints a line for each document: the cosine of its vector and the query's, and the
/// document. Always the same number of documents is fetched. Several queries are asked together: the service learns how
/// many there are.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    target: Target,
    /// Documents to find and fetch
    #[arg(short = 'k', long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1000))]
    count: u16,
    /// The vector of the query, or one in each row for several queries: a NumPy file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["text", "words"])]
    vector: Option<PathBuf>,
    /// Several queries: a text file with one in each line
    #[arg(long, value_name = "FILE", conflicts_with_all = ["text", "vector"])]
    queries: Option<PathBuf>,
    #[command(flatten)]
    words: Embedder,
    /// Print one JSON object per document, with the number of its query from 0
    #[arg(long)]
    json: bool,
    /// Print the bytes sent and received, and the times, on standard error
    #[arg(long)]
    usage: bool,
    /// The query
    #[arg(required_unless_present_any = ["vector", "queries"])]
    text: Vec<String>,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let cancel = interrupt::on_ctrl_c()?;
    let (vectors, embedder) = match &arguments.vector {
        Some(path) => (vectors::of_queries(path)?, None),
        None => {
            let embedder = arguments.words.open()?.context("needed --words: the one the collection was built with")?;
            let made = embedder.vectors(&arguments.texts()?, |number| format!("query {number}"))?;
            (made.outer_iter().map(|row| row.to_vec()).collect(), Some(embedder))
        }
    };
    anyhow::ensure!(!vectors.is_empty(), "found no query, needed one or more");
    let application = arguments.target.collection(&cancel)?;
    let mut bars = Bars::new();
    let mut step = |step| bars.step(step);
    let open = |application: &str| arguments.target.open_beside(application);
    let mut searcher = Searcher::connect(&application, open, &mut step, &cancel)?;
    check_embedder(embedder.as_ref(), searcher.description())?;
    let found = searcher.find(&vectors, arguments.count.into(), &mut step, &cancel)?;
    bars.finish();
    if arguments.usage {
        let [search, documents] = searcher.usage();
        eprint!("search\n{}documents\n{}", usage_lines(search), usage_lines(documents));
    }
    print(arguments.json, &found)
}

impl Arguments {
    /// The texts of the queries.
    fn texts(&self) -> anyhow::Result<Vec<String>> {
        let Some(path) = &self.queries else { return Ok(vec![self.text.join(" ")]) };
        let read = unspoken_files::read_text(path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(read.lines().map(str::to_owned).collect())
    }
}

/// Refuses a table of words that did not make the vectors of the documents.
pub fn check_embedder(embedder: Option<&TextEmbedder>, description: &Description) -> anyhow::Result<()> {
    let Some(name) = embedder.map(TextEmbedder::name) else { return Ok(()) };
    let needed = description.embedder();
    anyhow::ensure!(
        name == needed,
        "the vector of the query is the {name}; needed what made the vectors of the documents: {}",
        if needed.is_empty() { "its name is not known, so give --vector" } else { needed }
    );
    Ok(())
}

/// Prints a line for each document that was found, and an empty line between queries.
fn print(as_json: bool, found: &[Vec<Found>]) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    for (query, found) in found.iter().enumerate() {
        if query > 0 && !as_json {
            writeln!(out)?;
        }
        for Found { cosine, position, document } in found {
            let text = String::from_utf8_lossy(&document.content);
            let id = document.id.as_deref().map(String::from_utf8_lossy);
            match as_json {
                true => {
                    let line = json!({
                        "cosine": cosine, "position": position, "id": id, "document": text, "query": query,
                    });
                    writeln!(out, "{line}")?
                }
                false => writeln!(out, "{cosine:.3}  {text}")?,
            }
        }
    }
    Ok(out.flush()?)
}
