//! `unspoken chat`

mod once;
mod printed;
mod sampling;
mod search;
mod talk;
mod told;

use self::printed::Printed;
use self::sampling::SamplingOptions;
use self::search::{Finder, SearchOptions};
use self::told::Told;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use unspoken_chat::{Answer, ChatClient, Conversation, End, Passages, PromptTokens, Question, Wanted};
use unspoken_client::transport::Cancel;
use unspoken_client::{Progress, ServiceClient};
use unspoken_llama_model::{ClientModel, Generation, Message, Prompt, RotatedModel, Sampler, StopStream};
use unspoken_search_client::Found;
use zeroize::Zeroizing;

use crate::commands::connection::Target;
use crate::interrupt;
use crate::progress::{Bars, note};

/// Bytes of a query that are shown.
const SHOWN_BYTES: usize = 24;

/// Continue a text with a service's language model, without revealing its private part
///
/// The text begins with a public part, which the service reads (context, instructions, documents), and ends with a
/// private part. The service computes with the private part, and with the tokens that follow, under encryption. The
/// continuation goes to standard output as it comes. Each pass of the service runs a chunk of tokens: its unused end
/// holds guesses of the next tokens, and right guesses give several tokens at once. Tokens are chosen here, from the
/// decrypted logits. With --interactive it is a conversation: each line of standard input is a message, and the answer
/// follows. With --search the text is a question, and passages that a private search finds stand in front of it. The
/// first call generates and uploads keys, some gigabytes; later calls reuse them.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    target: Target,
    /// Directory of the client's half of the model, DIR/client of `unspoken llama prepare --out DIR`
    #[arg(long, value_name = "DIR")]
    model: PathBuf,
    /// Text in front of the private one, which the service reads
    #[arg(long, value_name = "TEXT", conflicts_with = "public_file")]
    public: Option<String>,
    /// File with the text in front of the private one, UTF-8
    #[arg(long, value_name = "FILE")]
    public_file: Option<PathBuf>,
    /// Text to continue, which the service does not see; other users of this machine may see arguments of commands
    /// [default: standard input]
    #[arg(long, value_name = "TEXT")]
    private: Option<String>,
    /// Talk: each line of standard input is a message, which the service does not see, in the form that the template of
    /// the model gives it. What the service has run stays in its session. Lines that begin with a slash are commands:
    /// /again MESSAGE replaces the last message, /new begins another conversation, /quit ends
    #[arg(long, short, conflicts_with_all = ["private", "public", "public_file"])]
    interactive: bool,
    /// A system message in front of the conversation, or of a question with --search, which the service reads: it runs
    /// in the clear, once
    #[arg(long, value_name = "TEXT")]
    public_system: Option<String>,
    /// A system message in front, which the service does not see
    #[arg(long, value_name = "TEXT", conflicts_with = "public_system")]
    private_system: Option<String>,
    /// Maximum number of generated tokens. Generation also ends at the model's end token, or when the session is full
    #[arg(long, value_name = "N", default_value_t = 32)]
    max_tokens: usize,
    /// Number of continuations, at most 64. The session of the service keeps what has run of the text, and each has a
    /// seed of its own: --seed, then the numbers after it. With --json they are in "choices"
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "interactive",
        value_parser = clap::value_parser!(u64).range(1..=64))]
    choices: u64,
    #[command(flatten)]
    search: SearchOptions,
    #[command(flatten)]
    sampling: SamplingOptions,
    /// Directory of the service's half, to compare with what the model gives in the clear: another text is an error,
    /// and both are printed
    #[arg(long, value_name = "DIR")]
    check: Option<PathBuf>,
    /// Send the private text as it is. Without this option it is filled up to whole chunks with dots in front, or
    /// after the last answer, so that the service learns the number of chunks, and not the number of tokens
    #[arg(long)]
    tell_length: bool,
    /// Refuse a text with tokens that the preparation of the model never ran, and send nothing; without this option the
    /// command warns. If a service chose these tokens, an unsent text tells the service that it has such a token
    #[arg(long)]
    covered_only: bool,
    /// Print one JSON object at the end, with the text, its tokens, what it took, and the error if there is one; with
    /// --interactive one for each answer
    #[arg(long)]
    json: bool,
}

/// What the service saw besides the public text.
#[derive(Default)]
pub struct Seen {
    /// Passes of each chunk.
    pub passes: Vec<usize>,
    /// Bytes of the last query.
    pub query_bytes: usize,
    /// Some of them, from the middle.
    pub bytes: Vec<u8>,
}

/// Runs the command. With `--json` it prints the object also when it fails, with the error and the tokens so far.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut told = Vec::new();
    let result = chat(arguments, &mut told);
    if arguments.json && (!arguments.interactive || result.is_err()) {
        println!("{}", told::object(&told, arguments.choices > 1, result.as_ref().err()));
    }
    result
}

/// Runs the command. `told` gets what each choice gave, also one that failed.
fn chat(arguments: &Arguments, told: &mut Vec<Told>) -> anyhow::Result<()> {
    let cancel = interrupt::on_ctrl_c()?;
    // Read first: a mistake must not cost a key upload.
    let model = Arc::new(ClientModel::load(&arguments.model).context("--model")?);
    let check =
        arguments.check.as_ref().map(|directory| RotatedModel::load(directory).context("--check")).transpose()?;
    if let Some(check) = &check {
        anyhow::ensure!(check.id() == model.id(), "--check: a half of another model, {}", check.id());
    }
    anyhow::ensure!(arguments.max_tokens > 0, "--max-tokens: found 0, needed 1 or more");
    let sampling = arguments.sampling.sampling(model.config().vocabulary)?;
    let stops = arguments.sampling.stops().to_vec();
    anyhow::ensure!(
        arguments.choices == 1 || sampling.is_random(),
        "--choices: found {} without --temperature, needed a --temperature above 0: else all are the same",
        arguments.choices
    );
    let wanted = Wanted { tokens: arguments.max_tokens, sampling, stops };
    let finder = arguments.search.open()?;
    let system = arguments.public_system.is_some() || arguments.private_system.is_some();
    anyhow::ensure!(
        !system || arguments.interactive || finder.is_some(),
        "--public-system and --private-system: found neither --interactive nor --search, needed one of them"
    );
    let mut asking = Asking { arguments, model, check, wanted, cancel, bars: Bars::new(), finder };
    if arguments.interactive { asking.talk() } else { asking.once(told) }
}

/// What is asked for, by whom.
struct Asking<'a> {
    arguments: &'a Arguments,
    model: Arc<ClientModel>,
    /// The model in the clear, to compare with.
    check: Option<RotatedModel>,
    wanted: Wanted,
    cancel: Cancel,
    bars: Bars,
    /// What finds passages for questions.
    finder: Option<Finder>,
}

impl Asking<'_> {
    /// The tokens of a prompt, filled up to whole chunks.
    fn read(
        &self,
        (conversation, passages): (&Conversation, &Passages),
        prompt: &Prompt,
        chunk: usize,
    ) -> anyhow::Result<PromptTokens> {
        let tokens = conversation.read_with(prompt, passages, chunk)?;
        anyhow::ensure!(
            !tokens.private.is_empty(),
            "found no private text, needed one token or more: name it with --private"
        );
        Ok(tokens)
    }

    /// To how many tokens a private text is filled up.
    fn chunk(&self, client: &ServiceClient<ChatClient>) -> usize {
        if self.arguments.tell_length { 1 } else { client.description().chunk() }
    }

    fn connect(&mut self) -> anyhow::Result<ServiceClient<ChatClient>> {
        let (transport, application, state) = self.arguments.target.open(&self.cancel)?;
        let (model, bars) = (Arc::clone(&self.model), &mut self.bars);
        let mut step = |step| bars.step(step);
        let client = ServiceClient::connect(transport, &application, model, &state, &mut step, &self.cancel)?;
        if let Some(finder) = &mut self.finder {
            finder.connect((&self.arguments.target, &self.arguments.search), &mut self.bars, &self.cancel)?;
        }
        Ok(client)
    }

    /// The prompt of one question with passages: a message, if the model has a template.
    fn question(&self, content: &str, question: &str) -> anyhow::Result<Prompt> {
        anyhow::ensure!(
            !question.trim().is_empty(),
            "found no private text, needed a question: name it with --private"
        );
        let public = public_text(self.arguments)?;
        if self.model.tokenizer().chat_template().is_none() {
            anyhow::ensure!(
                self.system().is_none(),
                "--public-system and --private-system: found a model without a template of conversations; use --public"
            );
            return Ok(Prompt { public, private: Passages::without_template(content) });
        }
        anyhow::ensure!(
            public.is_empty(),
            "--public: found a model whose template makes messages of questions; use --public-system"
        );
        let messages: Vec<Message> = self.system().into_iter().chain([Message::new("user", content)]).collect();
        self.prompt(&messages)
    }

    /// Searches passages for a question, if that is asked for: the question with passages in front.
    fn find(&mut self, text: &str, found: &mut Option<Vec<Found>>) -> anyhow::Result<Option<Zeroizing<String>>> {
        let Some(finder) = &mut self.finder else { return Ok(None) };
        let (content, passages) = finder.ask(&self.model, text, &mut self.bars, &self.cancel)?;
        if !self.arguments.json {
            search::describe(&passages);
        }
        *found = Some(passages);
        Ok(Some(content))
    }

    fn passages(&self) -> Passages {
        self.finder.as_ref().map(|finder| finder.passages.clone()).unwrap_or_default()
    }

    /// Continues a prompt, and prints the text as it comes.
    fn say(
        &mut self,
        client: &mut ServiceClient<ChatClient>,
        conversation: &mut Conversation,
        (tokens, wanted): (PromptTokens, Wanted),
        told: &mut Told,
    ) -> anyhow::Result<()> {
        conversation.begin(client.half(), tokens, wanted)?;
        let begun = conversation.generation().map(|new| (new.text().to_vec(), new.sampler().clone()));
        let (prompt, sampler) = begun.context("no text was begun")?;
        let mut printed = Printed::new(self.arguments.json);
        let (start, before, mut seen) = (Instant::now(), client.usage(), Seen::default());
        let asked = self.ask_all(client, conversation, &mut printed, &mut seen);
        let finished = printed.finish(&mut self.bars);
        *told = Told::new(conversation, printed.text, seen);
        (told.usage, told.seconds) = (client.usage().since(before), start.elapsed().as_secs_f64());
        asked?;
        finished?;
        if let Some(check) = &self.check {
            // Where a text has ended, the model in the clear must have ended, too.
            let count = told.tokens.len() + usize::from(told.end == Some(End::Token));
            told.clear = Some(in_the_clear(check, &self.model, &prompt, (count, sampler, &self.wanted.stops))?);
        }
        Ok(())
    }

    /// Asks until all tokens are known.
    fn ask_all(
        &mut self,
        client: &mut ServiceClient<ChatClient>,
        conversation: &mut Conversation,
        printed: &mut Printed,
        seen: &mut Seen,
    ) -> anyhow::Result<()> {
        while let Some(question) = conversation.question() {
            // All tokens are known when only the session remains to be ended.
            let ended = conversation.end().is_some();
            let answer = match ask(client, &question, &mut self.bars, seen, &self.cancel) {
                Err(_) if ended => break,
                answer => answer?,
            };
            if matches!(answer, Answer::Unknown) {
                note("session     the service no longer has it; it begins again");
            }
            printed.push(&conversation.answer(&answer)?, &mut self.bars)?;
        }
        Ok(())
    }
}

/// What the model gives in the clear after a prompt: tokens, and their text.
fn in_the_clear(
    check: &RotatedModel,
    client: &ClientModel,
    prompt: &[u32],
    (count, sampler, stops): (usize, Sampler, &[String]),
) -> anyhow::Result<(Vec<u32>, String)> {
    let tokenizer = client.tokenizer();
    let told = Generation::sampled(check.model(), prompt, tokenizer.ends(), sampler)?;
    let tokens: Vec<u32> = told.take(count).collect();
    let mut stream = tokenizer.stream(prompt)?;
    let text = tokens.iter().map(|token| stream.push(*token)).collect::<Result<String, _>>()?;
    let mut stops = StopStream::new(stops.iter().cloned());
    let text = stops.push(&text) + &stops.rest();
    Ok((tokens, text))
}

/// Warns of tokens that the preparation has not run, or refuses them, before anything is sent: if only the other tokens
/// were sent, a service that chose which tokens run would learn something about the text.
fn look_at_coverage(arguments: &Arguments, uncovered: &[String]) -> anyhow::Result<()> {
    if uncovered.is_empty() {
        return Ok(());
    }
    let named: Vec<String> = uncovered.iter().map(|text| format!("{text:?}")).collect();
    let found = format!("the preparation of this model never ran some tokens of the text: {}", named.join(", "));
    anyhow::ensure!(!arguments.covered_only, "{found}; needed others, because of --covered-only; nothing was sent");
    note(&format!("warning     {found}; the answer may be refused, or wrong"));
    Ok(())
}

/// Asks one question. The line about the bytes of a query is printed for the first pass only.
pub fn ask(
    client: &mut ServiceClient<ChatClient>,
    question: &Question,
    bars: &mut Bars,
    seen: &mut Seen,
    cancel: &Cancel,
) -> anyhow::Result<Answer> {
    let (mut quiet, mut chunk) = (true, None);
    if let Question::Pass { chunk: number, .. } = question {
        (quiet, chunk) = (!seen.passes.is_empty(), Some(*number as usize));
    }
    let mut step = |step: Progress| match step {
        Progress::QueriesToSend(_) if quiet => {}
        // One question at a time: a bar for it tells nothing.
        Progress::Asking { .. } => {}
        step => bars.step(step),
    };
    let mut show = |query: &[u8]| {
        seen.query_bytes = query.len();
        seen.bytes = query.iter().skip(query.len() / 2).take(SHOWN_BYTES).copied().collect();
    };
    let answer = match chunk {
        Some(_) => client.ask_and_show(&[question], &mut step, &mut show, cancel)?,
        None => client.ask(&[question], &mut step, cancel)?,
    };
    if let (Some(chunk), Some(Answer::Passed(_))) = (chunk, answer.first()) {
        seen.passes.resize(seen.passes.len().max(chunk + 1), 0);
        seen.passes[chunk] += 1;
    }
    answer.into_iter().next().context("the service gave no answer")
}

fn public_text(arguments: &Arguments) -> anyhow::Result<String> {
    match (&arguments.public, &arguments.public_file) {
        (Some(text), _) => Ok(text.clone()),
        (None, Some(path)) => read(path),
        (None, None) => Ok(String::new()),
    }
}

fn read(path: &Path) -> anyhow::Result<String> {
    unspoken_files::read_text(path).with_context(|| format!("--public-file: cannot read {}", path.display()))
}
