//! Asking for the keys of sealed records, for `unspoken pir get`.

use anyhow::Context;
use unspoken_client::transport::Cancel;
use unspoken_client::{Progress, ServiceClient};
use unspoken_oprf::OprfClient;
use unspoken_pir::{Answer, Question, SealedQuestions};
use unspoken_symmetric_pir::PUBLIC_KEY_BYTES;

use crate::commands::connection::Target;

/// Options of a command that retrieves sealed records.
#[derive(clap::Args)]
pub struct OprfOptions {
    /// Application of the same service that gives the keys of sealed records, for instance oprf/codes. Records are
    /// then opened with them; each question counts there, whether its record exists or not
    #[arg(long, value_name = "APPLICATION")]
    oprf: Option<String>,
    /// Public key of the sealed database, in hexadecimal, as its owner tells it [default: the key that the service
    /// describes first]
    #[arg(long, value_name = "HEX", requires = "oprf", value_parser = public_key)]
    public_key: Option<[u8; PUBLIC_KEY_BYTES]>,
}

fn public_key(text: &str) -> Result<[u8; PUBLIC_KEY_BYTES], String> {
    hex::decode_to_array(text).map_err(|_| format!("needed {} hexadecimal digits", 2 * PUBLIC_KEY_BYTES))
}

/// Connects to the application that gives keys, if one is named.
pub fn connect(
    options: &OprfOptions,
    target: &Target,
    step: &mut dyn FnMut(Progress),
    cancel: &Cancel,
) -> anyhow::Result<Option<ServiceClient<OprfClient>>> {
    let Some(application) = &options.oprf else { return Ok(None) };
    let (transport, state) = target.open_beside(application)?;
    let known = options.public_key;
    Ok(Some(ServiceClient::connect(transport, application, known, &state, step, cancel)?))
}

/// Asks for the keys of all records. Each counts, so nothing is asked before it is known that they open the records.
pub fn ask(
    client: &mut ServiceClient<OprfClient>,
    questions: &[Question],
    step: &mut dyn FnMut(Progress),
    cancel: &Cancel,
) -> anyhow::Result<SealedQuestions> {
    let names: Vec<unspoken_oprf::Question> = SealedQuestions::names(questions).into_iter().map(Into::into).collect();
    let keys = client.ask(&names, step, cancel)?;
    Ok(SealedQuestions::new(client.description().sealing().clone(), keys))
}

/// Opens the answers to questions for sealed records.
pub fn open(sealed: &SealedQuestions, answers: Vec<Answer>) -> anyhow::Result<Vec<Answer>> {
    sealed.open(answers).context("open the records; if --application is not a sealed database, leave out --oprf")
}
