//! `unspoken search build`

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use serde_json::json;
use unspoken_collection::Builder;
use unspoken_search_index::{Plan, is_index};

use super::documents::{Documents, Source};
use crate::commands::pir::link;
use crate::interrupt;
use crate::progress::Bars;

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
    #[command(flatten)]
    source: Source,
    /// Part of the ten nearest documents that a question finds, of those that exact search finds
    #[arg(long, default_value_t = 0.95, value_parser = part)]
    recall: f64,
    /// Speed of the clients' link, in Mbit/s, for the choice of the layout
    #[arg(long, default_value_t = 100.0, value_parser = link)]
    link: f64,
    /// Memory of the table at the service, in MiB [default: three bytes for each coordinate, at least 256 MiB]
    #[arg(long, value_name = "MIB")]
    memory: Option<u64>,
    /// Bytes of the longest document to make room for [default: a quarter more than the longest one has]
    #[arg(long, value_name = "BYTES", default_value_t = 0, hide_default_value = true)]
    longest: usize,
    /// Build nothing: show the layouts and what a question would cost with each
    #[arg(long)]
    explain: bool,
    /// With --explain: print one JSON object for each layout
    #[arg(long, requires = "explain")]
    json: bool,
    /// Replace the existing collection. Services take up the new one while they answer
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
    if let Some(dir) = arguments.collection.as_ref().filter(|dir| !arguments.replace && is_index(dir)) {
        anyhow::bail!("{} has a collection already; give --replace, or another directory", dir.display());
    }
    let Documents { documents, vectors, embedder } = arguments.source.read()?;
    let builder = Builder {
        recall: arguments.recall,
        link: arguments.link * 1e6,
        memory: arguments.memory.map(|mib| mib << 20),
        embedder,
        longest: arguments.longest,
        replace: arguments.replace,
    };
    let Some(collection) = arguments.collection.as_ref().filter(|_| !arguments.explain) else {
        explain(&builder.plans(documents.len(), vectors.ncols())?, arguments.json);
        return Ok(());
    };
    std::fs::create_dir_all(collection).with_context(|| format!("cannot create {}", collection.display()))?;
    let (start, cancel, mut bars) = (Instant::now(), interrupt::on_ctrl_c()?, Bars::new());
    let built = builder.build(collection, &documents, vectors, &mut |step| bars.collection(&step), cancel.flag())?;
    bars.finish();
    let (plan, count) = (built.plan, built.documents);
    println!("documents   {count}, {} coordinates, built in {:.1} s", built.width, start.elapsed().as_secs_f64());
    println!("layout      {} blocks of {} clusters, {} of them asked", plan.blocks, plan.groups, plan.asked);
    let sampled = count.min(Builder::SAMPLED);
    println!("recall      {:.3} of the {} nearest, on {sampled} documents", built.recall, Builder::NEIGHBOURS);
    println!("memory      {} bytes for the table, at the service", plan.memory_bytes);
    println!("question    {} bytes, and {} bytes of answer", plan.query_bytes, plan.answer_bytes);
    println!("predicted   {:.2} s of one core for an answer", plan.core_seconds);
    if built.recall < arguments.recall {
        eprintln!("warning: the recall is below {}, whatever a question asks", arguments.recall);
    }
    println!("serve it    unspoken serve --search {}", collection.display());
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
    println!("The first is the fastest, with two fifths of the blocks asked; building measures how many are needed.");
}
