//! A chain of tokens that a client generates at a service in this process, each chunk filled with drafts.

use std::io::{BufReader, BufWriter, Seek, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use unspoken_chat::{
    Answer, ChatError, Description, LlamaClient, LlamaKeys, LlamaServer, Logits, PrivateGeneration, Question,
    ServerOptions, SessionId,
};
use unspoken_ckks::Preset;
use unspoken_llama_model::Generation;
use unspoken_protocol::{ClientHalf, ClientId, KeyGenerator, KeyLoader, ServerHalf};
use unspoken_rlwe::RlweError;

use super::agreement::Agreement;
use super::passes;
use super::stories::Stories;
use crate::clock::{Clock, process_seconds};
use crate::error::BenchError;
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
    case: passes::Case,
    /// Private tokens of the prompt.
    private: usize,
    /// Generated tokens.
    tokens: usize,
}

pub(super) const FULL: Case = Case { case: passes::FULL, private: 12, tokens: 64 };
/// The same chain in a small ring, which has room for smaller chunks only.
pub(super) const SMALL: Case = Case { case: passes::QUICK, private: 12, tokens: 64 };
pub(super) const QUICK: Case = Case { case: passes::QUICK, private: 6, tokens: 3 };

/// Public tokens of the prompt.
const PUBLIC: usize = 17;

const CLIENT: ClientId = ClientId::new([1; 16]);
const SESSION: SessionId = SessionId::new([1; 16]);
static GO: AtomicBool = AtomicBool::new(false);

/// A service and a client whose keys it has loaded.
struct Party {
    server: LlamaServer,
    client: LlamaClient,
    keys: LlamaKeys,
    key_bytes: u64,
}

impl Party {
    fn new(stories: &Stories, case: Case) -> Result<Self, BenchError> {
        let parameters = Preset::find(case.case.preset)?.build()?;
        let chunk = case.case.chunk;
        let options = ServerOptions {
            chunk,
            chunks: (case.private + case.tokens).div_ceil(chunk),
            sessions: 1,
            sessions_per_client: 1,
            age: Duration::from_secs(24 * 3600),
            ..ServerOptions::default()
        };
        let server = LlamaServer::new(stories.served(), &parameters, &options)?;
        let description = match parameters.rlwe().is_insecure() {
            true => Description::insecure_from_bytes(&server.describe())?,
            false => Description::from_bytes(&server.describe())?,
        };
        let client = LlamaClient::open(description, Arc::clone(&stories.client), None)?;
        // A file: keys on their way would take as much memory as those that are loaded.
        let folder = |error: std::io::Error| BenchError::Folder { reason: error.to_string() };
        let mut bundle = BufWriter::new(tempfile::tempfile().map_err(folder)?);
        client.write_keys(&mut bundle, |_, _| {}, &GO)?;
        bundle.flush().map_err(RlweError::Io)?;
        let mut bundle = bundle.into_inner().map_err(|error| folder(error.into_error()))?;
        bundle.rewind().map_err(folder)?;
        let keys = server.load_keys(&mut BufReader::new(bundle))?;
        let key_bytes = client.key_bytes();
        Ok(Party { server, client, keys, key_bytes })
    }

    /// Asks a question. Returns the answer, and the seconds and the CPU seconds of the service.
    fn ask(&mut self, question: &Question) -> Result<(Answer, [f64; 2]), ChatError> {
        let encoded = self.client.encode(&[question])?;
        let query = self.client.query(&encoded)?;
        let (begin, cpu) = (Instant::now(), process_seconds());
        let answer = self.server.answer(CLIENT, &self.keys, &query, &GO)?;
        let cpu = process_seconds().zip(cpu).map_or(0.0, |(after, before)| after - before);
        let seconds = [begin.elapsed().as_secs_f64(), cpu];
        let mut answers = self.client.read(&answer, &encoded)?;
        match answers.pop() {
            Some(answer) => Ok((answer, seconds)),
            None => unreachable!("one answer to one question"),
        }
    }
}

/// The logits of a step in the clear, and what was decrypted.
struct Steps<'a> {
    stories: &'a Stories,
    all: Agreement,
    rows: Vec<(Vec<f32>, Vec<f32>)>,
}

impl Steps<'_> {
    /// Adds the logits that gave tokens: those from `place` on, in a chunk behind `before`.
    fn add(
        &mut self,
        before: &[u32],
        sent: &[u32],
        logits: &Logits,
        places: std::ops::Range<usize>,
    ) -> Result<(), BenchError> {
        let model = &self.stories.model;
        let mut cache = model.prefix_cache(before)?;
        let normed = model.forward(sent, &mut cache, &mut ())?;
        let clear = model.logits(normed.view());
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

pub(super) fn run(harness: &mut Harness<'_>, case: Case) -> Result<(), BenchError> {
    harness.progress("stories260K: stories, polynomials, service and keys");
    let stories = Stories::prepare(&harness.options.root, case.case.chunk)?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let all = pool(threads)?;
    let mut party = all.install(|| Party::new(&stories, case))?;
    let (begin, rest) = stories.unseen[0].split_at(PUBLIC);
    let (prefix, public) = begin.split_at(stories.tamed.prefix().len());
    let private = &rest[..case.private];
    let texts = (prefix, public, private);
    let description = party.client.description();
    let mut generation = PrivateGeneration::new(description, SESSION, texts, &[], case.tokens)?;
    let (mut seconds, mut cpu, mut given) = (Vec::new(), Vec::new(), Vec::new());
    let mut steps = Steps { stories: &stories, all: Agreement::default(), rows: Vec::new() };
    let mut known = [begin, private].concat();
    while let Some(question) = generation.question() {
        let (answer, took) = all.install(|| party.ask(&question))?;
        let new = generation.answer(&answer)?;
        if let (Question::Pass { chunk, tokens, .. }, Answer::Passed(logits)) = (&question, &answer) {
            seconds.push(took[0]);
            cpu.push(took[1]);
            let first = PUBLIC + *chunk as usize * case.case.chunk;
            if !new.is_empty() {
                let place = known.len() - 1 - first;
                steps.add(&known[..first], tokens, logits, place..place + new.len())?;
                given.push(new.len() as f64);
            }
            known.extend_from_slice(&new);
            let (told, agreement) = (generation.tokens().len(), steps.all);
            harness.progress(format!(
                "stories260K: pass {} in {:.1} s, {told} tokens, {} of {} as in the clear, largest error {:.4}",
                seconds.len(),
                took[0],
                agreement.same,
                agreement.tokens,
                agreement.logit_error
            ));
        }
    }
    report(harness, case, &party, (&stories, &generation), (&seconds, &cpu, &given, &steps), threads)
}

fn report(
    harness: &mut Harness<'_>,
    case: Case,
    party: &Party,
    (stories, generation): (&Stories, &PrivateGeneration),
    (seconds, cpu, given, steps): (&[f64], &[f64], &[f64], &Steps<'_>),
    threads: usize,
) -> Result<(), BenchError> {
    let (agreement, sure, statistics) = (steps.all, steps.sure(), generation.statistics());
    let told = generation.tokens();
    let prompt = &stories.unseen[0][..PUBLIC + case.private];
    let clear = Generation::new(&stories.model, prompt, &[])?.take(told.len());
    let same = told.iter().zip(clear).take_while(|(own, clear)| **own == *clear).count();
    let all: f64 = seconds.iter().sum();
    let params = || {
        params! {
            "preset": case.case.preset, "chunk": case.case.chunk, "public": PUBLIC, "private": case.private,
            "tokens": told.len(), "passes": statistics.passes, "guessed": statistics.guessed, "threads": threads,
            "clock": Clock::Wall.name(), "steps": agreement.tokens, "steps_above_error": sure.tokens,
            "least_margin": agreement.least_margin, "largest_lost_margin": agreement.largest_lost_margin,
        }
    };
    let ring = if case.case.is_insecure() { ", small insecure ring" } else { "" };
    let name = format!("stories260K, chain of {} tokens{ring}", told.len());
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
    harness.value(BYTES, &name, party.key_bytes as f64, None, params());
    Ok(())
}
