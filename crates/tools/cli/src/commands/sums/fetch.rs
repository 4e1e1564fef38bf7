//! `unspoken sums count` and `unspoken sums fetch`

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use serde_json::json;
use unspoken_client::ServiceClient;
use unspoken_sums::{CollectorAnswer, CollectorQuestion, Sums, SumsCollector};

use super::read_private;
use crate::commands::connection::Target;
use crate::interrupt;
use crate::progress::Bars;

/// Ask how many contributions a collection has
#[derive(clap::Args)]
pub struct CountArguments {
    #[command(flatten)]
    target: Target,
    /// The private file of the collection
    #[arg(long, value_name = "FILE")]
    private: PathBuf,
}

/// Close a collection, and decrypt its sums
///
/// The service releases the sum if there are enough contributions. It adds nothing after that: two sums would tell what
/// came between. The same command prints the same sums again.
#[derive(clap::Args)]
pub struct FetchArguments {
    #[command(flatten)]
    target: Target,
    /// The private file of the collection
    #[arg(long, value_name = "FILE")]
    private: PathBuf,
    /// Print one JSON object: the number of contributions, and sum and mean of each column
    #[arg(long)]
    json: bool,
}

/// Runs `unspoken sums count`.
pub fn count(arguments: &CountArguments) -> anyhow::Result<()> {
    match ask(&arguments.target, &arguments.private, CollectorQuestion::Count)? {
        CollectorAnswer::Count(count) => println!("{count}"),
        CollectorAnswer::Sums(_) => anyhow::bail!("the service answered another question"),
    }
    Ok(())
}

/// Runs `unspoken sums fetch`.
pub fn fetch(arguments: &FetchArguments) -> anyhow::Result<()> {
    match ask(&arguments.target, &arguments.private, CollectorQuestion::Close)? {
        CollectorAnswer::Sums(sums) if arguments.json => println!("{}", described(&sums)),
        CollectorAnswer::Sums(sums) => print(&sums),
        CollectorAnswer::Count(_) => anyhow::bail!("the service answered another question"),
    }
    Ok(())
}

fn ask(target: &Target, private: &Path, question: CollectorQuestion) -> anyhow::Result<CollectorAnswer> {
    let key = Arc::new(read_private(private)?);
    let cancel = interrupt::on_ctrl_c()?;
    let (transport, application, state) = target.open(&cancel)?;
    let mut bars = Bars::new();
    let mut step = |step| bars.step(step);
    let mut client = ServiceClient::<SumsCollector>::connect(transport, &application, key, &state, &mut step, &cancel)?;
    let answer = client.ask(&[question], &mut step, &cancel)?.pop().context("the service gave no answer")?;
    bars.finish();
    Ok(answer)
}

fn print(sums: &Sums) {
    println!("contributions  {}", sums.contributions);
    let width = sums.columns.iter().map(|column| column.name.chars().count()).max().unwrap_or(0).max(13);
    println!("{:width$}  {:>14}  {:>14}", "column", "sum", "mean");
    for column in &sums.columns {
        println!("{:width$}  {:>14}  {:>14.6}", column.name, column.sum, column.mean);
    }
}

fn described(sums: &Sums) -> serde_json::Value {
    let columns =
        sums.columns.iter().map(|column| json!({ "name": column.name, "sum": column.sum, "mean": column.mean }));
    json!({ "contributions": sums.contributions, "columns": columns.collect::<Vec<_>>() })
}
