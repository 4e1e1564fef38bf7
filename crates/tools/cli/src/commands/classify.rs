//! `unspoken classify`

use std::io::BufRead;
use std::path::PathBuf;
use std::sync::Arc;

use unspoken_classify::ClassifyClient;
use unspoken_client::ServiceClient;
use unspoken_fasttext::Encoder;
use unspoken_protocol::CkksDescription;
use unspoken_query::QueryForm;

use crate::commands::connection::Target;
use crate::interrupt;
use crate::progress::Bars;
use crate::scores::ScoreOptions;

/// Classify messages at a service, without showing them
///
/// Messages are arguments, or lines of standard input. The first call makes keys and uploads them; later ones use them
/// again.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    target: Target,
    /// Directory with the model's client half
    #[arg(long)]
    model: PathBuf,
    /// Ask only if the service takes this form of query: direct, compact or one-hot [default: what it takes]
    #[arg(long, value_parser = clap::value_parser!(QueryForm))]
    query: Option<QueryForm>,
    /// One JSON object per message instead of label and text; scores are rounded to digits that the error of the
    /// encryption hardly reaches
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    scores: ScoreOptions,
    /// Add noise to the scores that exceeds the error of the encryption by so many bits, so that they may be shared
    #[arg(long, value_name = "BITS")]
    share: Option<u32>,
    /// Messages; standard input if there are none
    messages: Vec<String>,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let cancel = interrupt::on_ctrl_c()?;
    let (transport, application, state) = arguments.target.open(&cancel)?;
    let words = Arc::new(Encoder::load(&arguments.model)?);
    let mut bars = Bars::new();
    let mut step = |step| bars.step(step);
    let mut client =
        ServiceClient::<ClassifyClient>::connect(transport, &application, words, &state, &mut step, &cancel)?;
    let offered = client.description().query_form();
    if let Some(wanted) = arguments.query.filter(|&wanted| wanted != offered) {
        anyhow::bail!(
            "the service takes {offered} queries, not {wanted} ones; ask with --query {offered}, or at a service that \
             was started with `unspoken serve --query {wanted}`"
        );
    }
    let messages = match arguments.messages.as_slice() {
        [] => std::io::stdin().lock().lines().collect::<Result<Vec<_>, _>>()?,
        given => given.to_vec(),
    };
    let results = client.ask(&messages, &mut step, &cancel)?;
    bars.finish();
    let results = match arguments.share {
        Some(bits) => client.half().share(&results, bits)?,
        None => results,
    };
    for (message, result) in messages.iter().zip(&results) {
        if arguments.json {
            let scores = arguments.scores.printed(client.description().header(), result.scores.iter().copied());
            let scores: serde_json::Map<String, serde_json::Value> =
                client.half().labels().iter().cloned().zip(scores.into_iter().map(Into::into)).collect();
            println!("{}", serde_json::json!({ "label": result.label, "scores": scores }));
        } else {
            println!("{}\t{message}", result.label);
        }
    }
    Ok(())
}
