//! `unspoken classify`

use std::path::PathBuf;
use std::sync::Arc;

use unspoken_classify::{FastText, Head, HeadModel, Kind, ScoreClient, ScoreDescription};
use unspoken_client::ServiceClient;
use unspoken_embedding::{TextReader, TokenCodes};
use unspoken_fasttext::Encoder;
use unspoken_protocol::CkksDescription;
use unspoken_query::QueryForm;

use crate::commands::connection::{Target, usage_lines};
use crate::interrupt;
use crate::progress::Bars;
use crate::scores::{LabelOptions, Labelled, error_of};

/// Classify messages with an encrypted query to a service
///
/// Messages are the arguments, or the lines of standard input. The service sees neither words nor scores, nor how many
/// words a message has. A warning says how many were cut because they have more words than the model reads, and whether
/// most words are unknown to the model. The first call generates and uploads keys; later calls reuse them.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    target: Target,
    /// Directory of the model's client half; with a linear head over an embedding table, of the table's client half
    #[arg(long)]
    model: PathBuf,
    /// Fail unless the service accepts this form of query: direct, compact or one-hot [default: the form the service
    /// accepts]
    #[arg(long, value_parser = clap::value_parser!(QueryForm))]
    query: Option<QueryForm>,
    /// Ignore the rest of messages that have more tokens than a linear head reads; otherwise empty ones are sent in
    /// their place, and the command ends with an error. Models of `unspoken train` always cut
    #[arg(long)]
    cut: bool,
    /// Print bytes and times to standard error
    #[arg(long)]
    usage: bool,
    #[command(flatten)]
    labels: LabelOptions,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    // Read first: a mistake must not cost a wait for the service or a key upload.
    if TokenCodes::is_in(&arguments.model) {
        let codes = Arc::new(TokenCodes::load(&arguments.model)?);
        let model = HeadModel { codes: Arc::clone(&codes), cut: arguments.cut };
        return ask::<Head>(arguments, model, |texts, description| {
            TextReader::new(codes.tokens()).coverage(texts, description.max_tokens()).warnings()
        });
    }
    let words = Arc::new(Encoder::load(&arguments.model)?);
    ask::<FastText>(arguments, Arc::clone(&words), |texts, _| words.coverage(texts).warnings().collect())
}

/// Asks a service with a model of this kind. `warnings` says what the model reads of texts.
fn ask<K: Kind>(
    arguments: &Arguments,
    model: K::Model,
    warnings: impl Fn(&[String], &ScoreDescription<K>) -> Vec<String>,
) -> anyhow::Result<()> {
    let cancel = interrupt::on_ctrl_c()?;
    let messages = arguments.labels.messages()?;
    let (transport, application, state) = arguments.target.open(&cancel)?;
    let mut bars = Bars::new();
    let mut step = |step| bars.step(step);
    let mut client =
        ServiceClient::<ScoreClient<K>>::connect(transport, &application, model, &state, &mut step, &cancel)?;
    let offered = client.description().query_form();
    if let Some(wanted) = arguments.query.filter(|&wanted| wanted != offered) {
        anyhow::bail!(
            "the service accepts {offered} queries, not {wanted}; use --query {offered}, or a service that \
             was started with the option query={wanted} of its offer"
        );
    }
    let results = client.ask(&messages, &mut step, &cancel)?;
    bars.finish();
    // After the last answer: the time between requests must not depend on the texts.
    for warning in warnings(&messages, client.description()) {
        eprintln!("warning: {warning}");
    }
    let half = client.half();
    let share = |answers: &[_], bits| half.share(answers, bits);
    let results = arguments.labels.share().shared(results, share, |answer, bits| half.certainty(answer, bits))?;
    let sum_error = error_of(client.description().header());
    for (message, (result, certainty)) in messages.iter().zip(&results) {
        let found = Labelled { label: &result.label, scores: &result.scores, certainty: *certainty };
        arguments.labels.print(result.error(sum_error), half.labels(), message, &found);
    }
    if arguments.usage {
        eprint!("{}", usage_lines(client.usage()));
    }
    arguments.labels.share().check(results.iter().map(|(_, certainty)| *certainty))
}
