//! A chain of tokens that a client generates at a service in this process, each chunk filled with drafts.

use anyhow::Context;
use std::io::{BufReader, BufWriter, IntoInnerError, Seek, Write};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rayon::ThreadPool;
use unspoken_chat::{
    Answer, ChatClient, ChatError, ChatKeys, ChatServer, Description, Logits, PrivateGeneration, Question, ServedModel,
    ServerOptions, SessionId,
};
use unspoken_ckks::Preset;
use unspoken_llama_model::{ClientModel, Generation, Model};
use unspoken_protocol::{AnswerProgress, Call, ClientHalf, ClientId, KeyGenerator, KeyLoader, Request, ServerHalf};
use unspoken_rlwe::RlweError;

use super::agreement::Agreement;
use super::passes;
use super::subject::Subject;
use crate::clock::{Clock, process_seconds};
use crate::error::NO_FOLDER;
use crate::harness::{Harness, pool};
use crate::row::{Metric, params};

const PASS_TIME: Metric = Metric::less("chain_pass_time", "s");
const PASS_CPU_TIME: Metric = Metric::less("chain_pass_cpu_time", "s");
const TOKEN_TIME: Metric = Metric::less("chain_time_per_token", "s");
const TOKENS_PER_PASS: Metric = Metric::more("chain_tokens_per_pass", "tokens");
const SAME: Metric = Metric::more("chain_same_top_token", "share");
const SURE: Metric = Metric::more("chain_same_top_token_above_error", "share");
const DIVERGENCE: Metric = Metric::less("chain_divergence", "nats");
const LOGIT_ERROR: Metric = Metric::less("chain_largest_logit_error", "logits");
const SAME_TEXT: Metric = Metric::more("chain_same_text", "tokens");
const BYTES: Metric = Metric::less("chain_key_bytes", "bytes");

#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    preset: &'static str,
    /// Tokens of a chunk.
    pub(super) chunk: usize,
    /// Public tokens of the prompt, with the prefix.
    public: usize,
    /// Private tokens of the prompt.
    private: usize,
    /// Generated tokens.
    tokens: usize,
}

pub(super) const FULL: Case =
    Case { preset: passes::FULL.preset, chunk: passes::FULL.chunk, public: 17, private: 12, tokens: 64 };
/// The same chain in a small ring, which has room for smaller chunks only.
pub(super) const SMALL: Case = Case { preset: passes::QUICK.preset, chunk: passes::QUICK.chunk, ..FULL };
pub(super) const QUICK: Case = Case { private: 6, tokens: 3, ..SMALL };

/// A chunk of 64 private tokens, all of them of the prompt.
pub(super) const PREFILL: Case = Case { chunk: 64, public: 257, private: 64, tokens: 1, ..FULL };
/// A chunk of the prompt, and passes of 8 tokens after it.
pub(super) const STEPS: Case = Case { chunk: 8, public: 257, private: 8, tokens: 2, ..FULL };

impl Case {
    /// Whether the ring is for tests only.
    fn is_insecure(&self) -> bool {
        self.preset.starts_with("insecure_")
    }
}

/// Time between two messages on the progress of a pass.
const PATIENCE: Duration = Duration::from_secs(60);

const CLIENT: ClientId = ClientId::new([1; 16]);
const SESSION: SessionId = SessionId::new([1; 16]);
static GO: AtomicBool = AtomicBool::new(false);

/// A service and a client whose keys it has loaded.
struct Party {
    server: ChatServer,
    client: ChatClient,
    keys: ChatKeys,
    key_bytes: u64,
}

/// The service of a chain.
fn serve(served: ServedModel, case: Case) -> anyhow::Result<ChatServer> {
    let chunk = case.chunk;
    let options = ServerOptions {
        chunk,
        // The last token that is generated is not sent.
        chunks: (case.private + case.tokens - 1).div_ceil(chunk),
        sessions: 1,
        sessions_per_client: 1,
        age: Duration::from_secs(24 * 3600),
        ..ServerOptions::default()
    };
    Ok(ChatServer::new(served, &Preset::find(case.preset)?.build()?, &options)?)
}

impl Party {
    fn new(server: ChatServer, model: &Arc<ClientModel>, case: Case) -> anyhow::Result<Self> {
        let description = match case.is_insecure() {
            true => Description::insecure_from_bytes(&server.describe())?,
            false => Description::from_bytes(&server.describe())?,
        };
        let client = ChatClient::open(description, Arc::clone(model), None)?;
        // A file: keys on their way would take as much memory as loaded keys.
        let mut bundle = BufWriter::new(tempfile::tempfile().context(NO_FOLDER)?);
        client.write_keys(&mut bundle, |_, _| {}, &GO)?;
        bundle.flush().map_err(RlweError::Io)?;
        let mut bundle = bundle.into_inner().map_err(IntoInnerError::into_error).context(NO_FOLDER)?;
        bundle.rewind().context(NO_FOLDER)?;
        let keys = server.load_keys(&mut BufReader::new(bundle))?;
        let key_bytes = client.key_bytes();
        Ok(Party { server, client, keys, key_bytes })
    }

    /// Asks a question, and calls `tell` with the steps of a long pass that are done, and all of them. Returns the
    /// answer, and the seconds and the CPU seconds of the service.
    fn ask(
        &mut self,
        pool: &ThreadPool,
        question: &Question,
        mut tell: impl FnMut(u32, u32),
    ) -> Result<(Answer, [f64; 2]), ChatError> {
        let encoded = self.client.encode(&[question])?;
        let query = self.client.query(&encoded)?;
        let progress = AnswerProgress::new();
        let (begin, cpu) = (Instant::now(), process_seconds());
        let answer = std::thread::scope(|scope| {
            let (done, waiting) = channel();
            let (server, request) = (&self.server, Request::new(CLIENT, &self.keys, &query));
            let call = Call { progress: Some(&progress), ..Call::default() };
            let answering = scope.spawn(move || {
                let answer = pool.install(|| server.answer(&request, &call));
                drop(done);
                answer
            });
            while waiting.recv_timeout(PATIENCE) == Err::<(), _>(RecvTimeoutError::Timeout) {
                if let Some((done, total)) = progress.newest() {
                    tell(done, total);
                }
            }
            answering.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })?;
        let cpu = process_seconds().zip(cpu).map_or(0.0, |(after, before)| after - before);
        let seconds = [begin.elapsed().as_secs_f64(), cpu];
        let mut answers = self.client.read(&answer, &encoded)?;
        match answers.pop() {
            Some(answer) => Ok((answer, seconds)),
            None => unreachable!("one answer to one question"),
        }
    }
}

/// The logits after tokens of the prompt and after generated tokens: decrypted, and in the clear.
struct Steps<'a> {
    model: &'a Model,
    all: Agreement,
    rows: Vec<(Vec<f32>, Vec<f32>)>,
}

impl Steps<'_> {
    /// Adds the logits at places of a chunk that was sent after other tokens.
    fn add(&mut self, before: &[u32], sent: &[u32], logits: &Logits, places: Range<usize>) -> anyhow::Result<()> {
        let mut cache = self.model.prefix_cache(before)?;
        let normed = self.model.forward(sent, &mut cache, &mut ())?;
        let clear = self.model.logits(normed.view());
        for place in places {
            let (Some(found), wanted) = (logits.row(place), clear.row(place).to_vec()) else { continue };
            self.all.add(found, &wanted);
            self.rows.push((found.to_vec(), wanted));
        }
        Ok(())
    }

    /// The agreement at steps whose two most likely tokens are farther apart in the clear than twice the largest error.
    fn sure(&self) -> Agreement {
        let mut sure = Agreement::default();
        for (found, clear) in &self.rows {
            let mut alone = Agreement::default();
            alone.add(clear, clear);
            if alone.least_margin > Some(2.0 * self.all.logit_error) {
                sure.add(found, clear);
            }
        }
        sure
    }
}

pub(super) fn run(harness: &mut Harness<'_>, case: Case, subject: Subject) -> anyhow::Result<()> {
    harness.progress(format!("{}: the service's matrices", subject.name));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let all = pool(threads)?;
    let prompt = subject.begin((case.public, case.private))?.to_vec();
    let prefix = subject.served.prefix.len();
    let (model, name) = (Arc::clone(subject.model()), subject.name);
    let (served, client) = (subject.served, subject.client);
    let server = all.install(|| serve(served, case))?;
    let requirements = server.requirements();
    let memory: u64 = requirements.memory(server.program(), case.public).iter().map(|(_, bytes)| bytes).sum();
    harness.progress(format!(
        "{name}: at most {} bootstraps in a pass, {:.2} GB of memory; keys",
        requirements.bootstraps,
        memory as f64 * 1e-9
    ));
    let mut party = all.install(|| Party::new(server, &client, case))?;
    let texts = (&prompt[..prefix], &prompt[prefix..case.public], &prompt[case.public..]);
    let description = party.client.description();
    let mut generation = PrivateGeneration::new(description, SESSION, texts, &[], case.tokens)?;
    let (mut seconds, mut cpu, mut given) = (Vec::new(), Vec::new(), Vec::new());
    let mut steps = Steps { model: &model, all: Agreement::default(), rows: Vec::new() };
    let (mut known, mut compared) = (prompt.clone(), case.public);
    while let Some(question) = generation.question() {
        let pass = seconds.len() + 1;
        let tell = |done, total| harness.progress(format!("{name}: pass {pass}, layer {done} of {total}"));
        let (answer, took) = party.ask(&all, &question, tell)?;
        let new = generation.answer(&answer)?;
        if let (Question::Pass { chunk, tokens, .. }, Answer::Passed(logits)) = (&question, &answer) {
            seconds.push(took[0]);
            cpu.push(took[1]);
            if !new.is_empty() {
                given.push(new.len() as f64);
            }
            known.extend_from_slice(&new);
            let first = case.public + *chunk as usize * case.chunk;
            // The last known token was not sent, and of a long prompt only a chunk.
            let end = (known.len() - 1).min(first + case.chunk);
            steps.add(&known[..first], tokens, logits, compared - first..end - first)?;
            compared = end;
            let (told, agreement) = (generation.tokens().len(), steps.all);
            harness.progress(format!(
                "{name}: pass {pass} in {:.1} s, {told} tokens, {} of {} as in the clear, largest error {:.4}",
                took[0], agreement.same, agreement.tokens, agreement.logit_error
            ));
        }
    }
    let clear = Generation::new(&model, &prompt, &[])?.take(generation.tokens().len()).collect();
    report(harness, case, (&name, party.key_bytes), (&generation, clear), (&seconds, &cpu, &given, &steps), threads);
    Ok(())
}

fn report(
    harness: &mut Harness<'_>,
    case: Case,
    (model, key_bytes): (&str, u64),
    (generation, clear): (&PrivateGeneration, Vec<u32>),
    (seconds, cpu, given, steps): (&[f64], &[f64], &[f64], &Steps<'_>),
    threads: usize,
) {
    let (agreement, sure, statistics) = (steps.all, steps.sure(), generation.statistics());
    let told = generation.tokens();
    let same = told.iter().zip(clear).take_while(|(own, clear)| **own == *clear).count();
    let all: f64 = seconds.iter().sum();
    let params = || {
        params! {
            "preset": case.preset, "chunk": case.chunk, "public": case.public, "private": case.private,
            "tokens": told.len(), "passes": statistics.passes, "guessed": statistics.guessed, "threads": threads,
            "clock": Clock::Wall.name(), "compared": agreement.tokens, "compared_above_error": sure.tokens,
            "least_margin": agreement.least_margin, "largest_lost_margin": agreement.largest_lost_margin,
            "pass_seconds": seconds,
        }
    };
    let ring = if case.is_insecure() { ", small insecure ring" } else { "" };
    let name = format!("{model}, {} private and {} generated tokens{ring}", case.private, told.len());
    harness.row(PASS_TIME, &name, seconds, None, params());
    harness.row(PASS_CPU_TIME, &name, cpu, None, params());
    harness.value(TOKEN_TIME, &name, all / told.len() as f64, None, params());
    let mean = given.iter().sum::<f64>() / given.len() as f64;
    harness.value(TOKENS_PER_PASS, &name, mean, Some(("without drafts", 1.0)), params());
    harness.value(SAME, &name, agreement.share(), None, params());
    harness.value(SURE, &name, if sure.tokens == 0 { 1.0 } else { sure.share() }, None, params());
    harness.value(DIVERGENCE, &name, agreement.mean_divergence(), None, params());
    harness.value(LOGIT_ERROR, &name, agreement.logit_error, None, params());
    harness.value(SAME_TEXT, &name, same as f64, Some(("the model in the clear", told.len() as f64)), params());
    harness.value(BYTES, &name, key_bytes as f64, None, params());
}
