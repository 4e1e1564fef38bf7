//! `unspoken embed classify`

use std::path::PathBuf;
use std::sync::Arc;

use unspoken_client::ServiceClient;
use unspoken_embedding::{TextReader, TokenCodes};
use unspoken_layer::{LayerClient, LayerModel};
use unspoken_protocol::CkksDescription;

use crate::commands::connection::{Target, usage_lines};
use crate::interrupt;
use crate::progress::Bars;
use crate::scores::{LabelOptions, Labelled, error_of};

/// Classify texts with an encrypted query to a service that has a linear head over an embedding table
///
/// Texts are the arguments, or the lines of standard input. The service takes the mean of their embeddings and applies
/// its head, all encrypted; it sees neither words nor scores, nor how many words a text has. The first call generates
/// and uploads keys; later calls reuse them.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    target: Target,
    /// Directory of the compressed table's client half
    #[arg(long)]
    model: PathBuf,
    /// Ignore the rest of texts that have more tokens than the service reads; otherwise empty texts are sent in their
    /// place, and the command ends with an error
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
    let cancel = interrupt::on_ctrl_c()?;
    // Read first: a mistake must not cost a wait for the service or a key upload.
    let codes = Arc::new(TokenCodes::load(&arguments.model)?);
    let texts = arguments.labels.messages()?;
    let (transport, application, state) = arguments.target.open(&cancel)?;
    let mut bars = Bars::new();
    let mut step = |step| bars.step(step);
    let model = LayerModel { codes: Arc::clone(&codes), cut: arguments.cut };
    let mut client = ServiceClient::<LayerClient>::connect(transport, &application, model, &state, &mut step, &cancel)?;
    let results = client.ask(&texts, &mut step, &cancel)?;
    bars.finish();
    // After the last answer: the time between requests must not depend on the texts.
    let description = client.description();
    for warning in TextReader::new(codes.tokens()).coverage(&texts, description.max_tokens()).warnings() {
        eprintln!("warning: {warning}");
    }
    let half = client.half();
    let share = |answers: &[_], bits| half.share(answers, bits);
    let results = arguments.labels.share().shared(results, share, |answer, bits| half.certainty(answer, bits))?;
    for (text, (result, certainty)) in texts.iter().zip(&results) {
        let error = result.error(error_of(description.header()));
        let found = Labelled { label: &result.label, scores: &result.scores, certainty: *certainty };
        arguments.labels.print(error, description.classes(), text, &found);
    }
    if arguments.usage {
        eprint!("{}", usage_lines(client.usage()));
    }
    arguments.labels.share().check(results.iter().map(|(_, certainty)| *certainty))
}
