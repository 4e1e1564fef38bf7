//! `unspoken proxy`

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use indicatif::DecimalBytes;
use unspoken_chat::ChatClient;
use unspoken_client::{Progress, ServiceClient};
use unspoken_llama_model::ClientModel;
use unspoken_proxy::{Key, Options, RemoteService, Served, listen, serve};
use zeroize::Zeroizing;

use super::connection::Target;
use super::search::Embedder;
use crate::interrupt;
use crate::progress::{Bars, note};

/// Pause between two looks at whether the command was interrupted.
const PAUSE: Duration = Duration::from_millis(200);

/// Characters of a public text that the log shows.
const SHOWN: usize = 60;

/// Speak OpenAI's protocol on this machine, in front of a service's private language model
///
/// Editors, libraries and command-line tools that speak this protocol work unchanged: give them the address and the key
/// that this command prints. The service sees neither messages nor answers. It sees messages that are declared public,
/// how many chunks of tokens the rest has, and the passes of each. Each pass takes seconds to minutes, so set long
/// timeouts. The proxy listens on this machine only, and says on standard error what left
/// it. The first start generates and uploads keys, some gigabytes.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    target: Target,
    /// Directory of the client's half of the model, DIR/client of `unspoken llama prepare --out DIR`
    #[arg(long, value_name = "DIR")]
    model: PathBuf,
    /// Address to listen on, one of this machine alone
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8081")]
    listen: SocketAddr,
    /// File with the key that callers must give [default: a new key, which is printed]
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Conversations whose sessions are kept at the service: what they have run does not run again. A service keeps two
    /// for a client unless its owner allows more
    #[arg(long, value_name = "N", default_value_t = 2)]
    sessions: usize,
    /// Tokens of an answer, at most, if a request does not say how many
    #[arg(long, value_name = "N", default_value_t = 256)]
    max_tokens: usize,
    /// Let the service read system messages in front of a conversation, unless a request says otherwise: they run in
    /// the clear
    #[arg(long)]
    public_system: bool,
    /// Send private texts as they are. Without this option they are filled up to whole chunks with dots, so that the
    /// service learns the number of chunks, and not the number of tokens
    #[arg(long)]
    tell_length: bool,
    #[command(flatten)]
    words: Embedder,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let cancel = interrupt::on_ctrl_c()?;
    let model = Arc::new(ClientModel::load(&arguments.model).context("--model")?);
    let embedder = arguments.words.open()?.map(|words| {
        let name = words.name().to_owned();
        let embed = move |texts: &[String]| {
            let vectors = words.vectors(texts, |text| format!("input {text}")).map_err(|error| error.to_string())?;
            Ok(vectors.outer_iter().map(|vector| vector.to_vec()).collect())
        };
        (name, Box::new(embed) as unspoken_proxy::Embed)
    });
    let key = match &arguments.key_file {
        Some(path) => {
            let text = unspoken_files::read_text(path).with_context(|| format!("cannot read {}", path.display()))?;
            Key::new(Zeroizing::new(text).trim()).context("--key-file")?
        }
        None => Key::random()?,
    };
    anyhow::ensure!(arguments.max_tokens > 0, "--max-tokens: found 0, needed 1 or more");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    // A mistake must not cost a key upload.
    let listener = runtime.block_on(listen(arguments.listen)).context("--listen")?;
    let (transport, application, state) = arguments.target.open(&cancel)?;
    let mut bars = Bars::new();
    let mut step = |step| bars.step(step);
    let client =
        ServiceClient::<ChatClient>::connect(transport, &application, Arc::clone(&model), &state, &mut step, &cancel)?;
    bars.finish();
    let options = Options {
        model: application.clone(),
        key: key.clone(),
        sessions: arguments.sessions,
        tokens: arguments.max_tokens,
        public_system: arguments.public_system,
        tell_length: arguments.tell_length,
        embedder,
    };
    let report = move |step: Progress| match step {
        // The log tells what each request sent.
        Progress::QueriesToSend(_) | Progress::Asking { .. } => {}
        step => bars.step(step),
    };
    let service = RemoteService::new(client, report, cancel.clone());
    if model.tokenizer().chat_template().is_none() {
        note("model       has no template of conversations: /v1/chat/completions refuses, /v1/completions answers");
    }
    println!("OPENAI_BASE_URL=http://{}/v1", listener.local_addr()?);
    if arguments.key_file.is_none() {
        println!("OPENAI_API_KEY={}", key.as_str());
    }
    note(&format!("model       {application:?}"));
    let end = async move {
        while !cancel.is_cancelled() {
            tokio::time::sleep(PAUSE).await;
        }
    };
    let log = |served: &Served| note(&line(served));
    runtime.block_on(serve(listener, options, service, model, log, end)).context("serve")
}

/// What left this machine for a request.
fn line(served: &Served) -> String {
    let Served { number, public_tokens, passes, tokens, seconds, uncovered, .. } = served;
    let [up, down] = served.bytes.map(DecimalBytes);
    let public = match (served.public.is_empty(), served.begun) {
        (true, _) => "nothing in the clear".to_owned(),
        (false, false) => "nothing new in the clear".to_owned(),
        (false, true) => {
            let text: String = served.public.chars().take(SHOWN).collect();
            let more = if text.len() < served.public.len() { ".." } else { "" };
            format!("in the clear {public_tokens} tokens, {text:?}{more}")
        }
    };
    let warning = match uncovered {
        0 => String::new(),
        count => format!("; {count} tokens that the preparation never ran, so the answer may be wrong"),
    };
    format!(
        "request {number:<3} {public}; encrypted {up} sent, {down} received in {passes} passes, {seconds:.1} s; \
         {tokens} tokens{warning}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_says_what_left_and_nothing_private() {
        let mut served = Served {
            number: 3,
            public: "x".repeat(70),
            public_tokens: 70,
            begun: true,
            passes: 2,
            bytes: [6_140_000, 983_000],
            seconds: 61.25,
            tokens: 5,
            uncovered: 0,
        };
        let said = line(&served);
        assert!(said.contains("in the clear 70 tokens") && said.contains("xx\".."), "{said}");
        assert!(said.contains("6.14 MB sent, 983.00 kB received in 2 passes, 61.2 s; 5 tokens"), "{said}");
        served.begun = false;
        assert!(line(&served).contains("nothing new in the clear"));
        served.public.clear();
        served.uncovered = 1;
        assert!(line(&served).contains("nothing in the clear") && line(&served).contains("never ran"));
    }
}
