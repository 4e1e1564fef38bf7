//! `unspoken embed ask`

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::json;
use unspoken_client::ServiceClient;
use unspoken_embed::EmbedClient;
use unspoken_embedding::{Segmenter, Subtables, TokenCodes};
use unspoken_protocol::CkksDescription;

use crate::commands::connection::{Target, print_usage};
use crate::interrupt;
use crate::progress::Bars;
use crate::scores::{ScoreOptions, error_of};

/// Look up the embeddings of a text's tokens with an encrypted query to a service
///
/// The first call generates and uploads keys; later calls reuse them. Prints a summary of the embeddings, or the
/// embeddings with --json.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    target: Target,
    /// Directory of the compressed table's client half
    #[arg(long)]
    model: PathBuf,
    /// Directory of the server half, to compare with the embeddings in the clear
    #[arg(long)]
    check: Option<PathBuf>,
    /// Token ids, separated by commas, instead of a text
    #[arg(long, value_delimiter = ',', conflicts_with = "text")]
    ids: Vec<usize>,
    /// Print one JSON object per token with its embedding, rounded so that the encryption error rarely changes a
    /// digit
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    scores: ScoreOptions,
    /// The text
    #[arg(required_unless_present = "ids")]
    text: Vec<String>,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let cancel = interrupt::on_ctrl_c()?;
    let codes = TokenCodes::load(&arguments.model)?;
    // Resolve the ids first: an unknown token or id must not cost a key upload.
    let (ids, unknown) = token_ids(arguments, &codes)?;
    let check = arguments.check.as_ref().map(Subtables::load).transpose()?;
    let (transport, application, state) = arguments.target.open(&cancel)?;
    let mut bars = Bars::new();
    let mut step = |step| bars.step(step);
    let codes = Arc::new(codes);
    let mut client = ServiceClient::<EmbedClient>::connect(transport, &application, codes, &state, &mut step, &cancel)?;
    let embeddings = client.ask(&ids, &mut step, &cancel)?;
    bars.finish();
    // After the last answer: what is printed when must not depend on the text before.
    if unknown > 0 {
        eprintln!("warning: {unknown} of {} tokens are not in the table; the row for unknown ones is shown", ids.len());
    }
    if arguments.json {
        for (&id, embedding) in ids.iter().zip(&embeddings) {
            let token = &client.half().codes().tokens().as_slice()[id];
            let embedding =
                arguments.scores.printed(error_of(client.description().header()), embedding.iter().copied());
            println!("{}", json!({ "token": token, "id": id, "embedding": embedding }));
        }
        return Ok(());
    }
    describe(&client, &ids);
    if let Some(subtables) = &check {
        let (largest, scale) = difference(subtables, client.half().codes(), &ids, &embeddings)?;
        println!("error       {largest:.2e} at most, in numbers up to {scale:.3} (2^{:.1})", (largest / scale).log2());
    }
    Ok(())
}

/// The given ids, or the ids of the text's tokens, and how many tokens are not in the table.
fn token_ids(arguments: &Arguments, codes: &TokenCodes) -> anyhow::Result<(Vec<usize>, usize)> {
    for &id in &arguments.ids {
        codes.code(id)?;
    }
    if !arguments.ids.is_empty() {
        return Ok((arguments.ids.clone(), 0));
    }
    let found = Segmenter::new(codes.tokens()).segment(&arguments.text.join(" "));
    let unknown = found.iter().filter(|(_, id)| id.is_none()).count();
    let ids = found.into_iter().map(|(token, id)| match id {
        Some(id) => Ok(id),
        None => Ok(codes.token_id(&token)?),
    });
    let ids = ids.collect::<anyhow::Result<Vec<_>>>()?;
    anyhow::ensure!(!ids.is_empty(), "the text has no tokens");
    Ok((ids, unknown))
}

fn describe(client: &ServiceClient<EmbedClient>, ids: &[usize]) {
    let description = client.description();
    let names: Vec<&str> = ids.iter().map(|&id| client.half().codes().tokens().as_slice()[id].as_str()).collect();
    println!("tokens      {}", names.join(" "));
    println!("embeddings  {} x {}", ids.len(), description.width());
    println!(
        "computed    with plan {} and preset {}, {} tokens a query",
        description.header().plan(),
        description.parameters().name(),
        description.batch()
    );
    print_usage(client.usage());
}

/// The largest difference from the embeddings in the clear, and the largest magnitude of those embeddings.
fn difference(
    subtables: &Subtables,
    codes: &TokenCodes,
    ids: &[usize],
    embeddings: &[Vec<f64>],
) -> anyhow::Result<(f64, f64)> {
    anyhow::ensure!(
        subtables.id() == codes.id(),
        "the two directories are halves of different compressed tables; needed the halves of one table"
    );
    let (mut largest, mut scale) = (0.0f64, 0.0f64);
    for (&id, embedding) in ids.iter().zip(embeddings) {
        for (found, clear) in embedding.iter().zip(subtables.reconstruct(codes.code(id)?)?) {
            largest = largest.max((found - f64::from(clear)).abs());
            scale = scale.max(f64::from(clear).abs());
        }
    }
    Ok((largest, scale))
}
