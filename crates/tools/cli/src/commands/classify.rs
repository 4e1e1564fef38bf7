//! `unspoken classify`

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
use crate::scores::{LabelOptions, Labelled, error_of};
use crate::warnings::warn_of_texts;

/// Classify messages with an encrypted query to a service
///
/// Messages are the arguments, or the lines of standard input. A warning says how many were cut because they have more
/// words than the model reads, and whether most words are unknown to the model. The first call generates and uploads
/// keys; later calls reuse them.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    target: Target,
    /// Directory of the model's client half
    #[arg(long)]
    model: PathBuf,
    /// Fail unless the service accepts this form of query: direct, compact or one-hot [default: the form the service
    /// accepts]
    #[arg(long, value_parser = clap::value_parser!(QueryForm))]
    query: Option<QueryForm>,
    #[command(flatten)]
    labels: LabelOptions,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let cancel = interrupt::on_ctrl_c()?;
    // Read first: a mistake must not cost a wait for the service or a key upload.
    let words = Arc::new(Encoder::load(&arguments.model)?);
    let messages = arguments.labels.messages()?;
    let (transport, application, state) = arguments.target.open(&cancel)?;
    let mut bars = Bars::new();
    let mut step = |step| bars.step(step);
    let mut client = ServiceClient::<ClassifyClient>::connect(
        transport,
        &application,
        Arc::clone(&words),
        &state,
        &mut step,
        &cancel,
    )?;
    let offered = client.description().query_form();
    if let Some(wanted) = arguments.query.filter(|&wanted| wanted != offered) {
        anyhow::bail!(
            "the service accepts {offered} queries, not {wanted}; use --query {offered}, or a service that \
             was started with `unspoken serve --query {wanted}`"
        );
    }
    let results = client.ask(&messages, &mut step, &cancel)?;
    bars.finish();
    // After the last answer: the time between requests must not depend on the texts.
    warn_of_texts(&words.coverage(&messages));
    let half = client.half();
    let share = |answers: &[_], bits| half.share(answers, bits);
    let results = arguments.labels.share().shared(results, share, |answer, bits| half.certainty(answer, bits))?;
    let (header, labels) = (client.description().header(), half.labels());
    for (message, (result, certainty)) in messages.iter().zip(&results) {
        let found = Labelled { label: &result.label, scores: &result.scores, certainty: *certainty };
        arguments.labels.print(error_of(header), labels, message, &found);
    }
    arguments.labels.share().check(results.iter().map(|(_, certainty)| *certainty))
}
