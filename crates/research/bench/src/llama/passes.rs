//! Encrypted passes of stories260K, phase by phase, on several threads and on one.

use unspoken_ckks::{Bootstrap, Ciphertext, CkksParameters, Complex64, CostModel, Encoder, Preset};
use unspoken_encrypted_llama::{PassProgram, WEIGHT_BITS};
use unspoken_llama::Quantity;
use unspoken_llama_model::KvCache;

use super::agreement::Agreement;
use super::client::PassClient;
use super::phases::{self, PassPlace, PassReport};
use super::stories::Stories;
use crate::clock::Clock;
use crate::error::wrong;
use crate::harness::{Harness, pool};
use crate::row::{Metric, params};

const TIME: Metric = Metric::less("pass_time", "s");
const CPU_TIME: Metric = Metric::less("pass_cpu_time", "s");
const PHASE_TIME: Metric = Metric::less("phase_time", "s");
const BOOTSTRAP_TIME: Metric = Metric::less("phase_bootstrap_time", "s");
const KEY_SWITCHES: Metric = Metric::less("key_switches", "switches");
const BOOTSTRAPS: Metric = Metric::less("bootstraps", "vectors");
const KEY_MEMORY: Metric = Metric::less("key_memory", "bytes");
const THREADS: Metric = Metric::less("pass_time_by_threads", "s");
const SAME: Metric = Metric::more("same_top_token", "share");
const DIVERGENCE: Metric = Metric::less("divergence", "nats");
const LOGIT_ERROR: Metric = Metric::less("largest_logit_error", "logits");

/// Largest allowed error of a logit: values that left their intervals are far beyond.
const TOLERANCE: f64 = 2.0;

#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) preset: &'static str,
    /// Tokens of a chunk.
    pub(super) chunk: usize,
    /// Chunks for which sessions have room, and which are run.
    chunks: usize,
}

pub(super) const FULL: Case = Case { preset: "n16_boot_depth15_scale40", chunk: 16, chunks: 2 };
pub(super) const QUICK: Case = Case { preset: "insecure_n11_boot_depth15_scale40", chunk: 8, chunks: 1 };

/// Public tokens of the measured passes.
const PUBLIC: usize = 33;

/// A program for stories260K with its bootstraps placed.
fn program(stories: &Stories, parameters: &CkksParameters, chunk: usize) -> anyhow::Result<PassProgram> {
    let plan = Bootstrap::for_products(parameters, WEIGHT_BITS)?;
    let degree = (parameters.ring().degree() / 16).max(512);
    let model = stories.model.clone();
    let mut program = PassProgram::new(&stories.circuit, model, &stories.design, plan, (chunk, degree))?;
    program.place(&Encoder::new(parameters), PUBLIC, &CostModel::nominal(parameters))?;
    Ok(program)
}

pub(super) fn run(harness: &mut Harness<'_>, case: Case) -> anyhow::Result<()> {
    harness.progress("stories260K: stories, polynomials");
    let stories = Stories::prepare(&harness.options.root, case.chunk)?;
    let parameters = Preset::find(case.preset)?.build()?;
    let encoder = Encoder::new(&parameters);
    let program = program(&stories, &parameters, case.chunk)?;
    let text = &stories.unseen[0];
    let public = stories.model.prefix_cache(&text[..PUBLIC])?;
    let model = phases::measured_costs(&parameters)?;
    let counted = phases::count(&program, &encoder, (&public, case.chunks), model)?;
    harness.progress("stories260K: transformations");
    program.encode(&encoder)?;
    harness.progress(format!("stories260K: {} keys", counted.requirements.keys.len()));
    let mut client = PassClient::new(&program, &encoder, &counted.requirements.keys)?;
    let chunks: Vec<&[u32]> = text[PUBLIC..].chunks_exact(case.chunk).take(case.chunks).collect();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let all = pool(threads)?;
    let params = || {
        params! {
            "preset": parameters.name(), "chunk": case.chunk, "public": PUBLIC, "clock": Clock::Wall.name(),
            "rounds": stories.circuit.rounds(), "backend": parameters.ring().backend().name(),
        }
    };
    let name = format!("stories260K, {} tokens", case.chunk);
    harness.value(KEY_MEMORY, &name, client.key_bytes() as f64, None, params());

    let mut session = program.session();
    let mut agreement = Agreement::default();
    let mut clear = public.clone();
    for (number, tokens) in chunks.iter().enumerate() {
        harness.progress(format!("stories260K: pass of chunk {} on {threads} threads", number + 1));
        let input = input(&program, &stories, tokens, &mut client)?;
        let place = PassPlace { public: &public, session: &mut session, next: true, chunks: case.chunks };
        let meter = phases::clock();
        let pass_evaluator = client.pass_evaluator();
        let (logits, report) = all.install(|| phases::run(&pass_evaluator, &program, place, input, &meter))?;
        compare(&program, &stories, (tokens, &mut clear), &client.decrypt(&logits)?, &mut agreement)?;
        let chunk = format!("{name}, chunk {}", number + 1);
        send(harness, &chunk, (&report, &counted.passes[number]), |map| {
            let mut all = params();
            all.extend(map);
            all.insert("threads".into(), threads.into());
            all
        });
    }
    if agreement.logit_error > TOLERANCE || agreement.logit_error.is_nan() {
        return Err(wrong(name, agreement.logit_error, TOLERANCE));
    }
    let own = || {
        let mut own = params();
        own.extend(params! { "tokens": agreement.tokens, "least_margin": agreement.least_margin });
        own
    };
    harness.value(SAME, &name, agreement.share(), None, own());
    harness.value(DIVERGENCE, &name, agreement.mean_divergence(), None, own());
    harness.value(LOGIT_ERROR, &name, agreement.logit_error, None, own());

    for several in harness.options.threads.clone() {
        let pools = [pool(several)?, pool(1)?];
        let (mut samples, tokens) = ([Vec::new(), Vec::new()], chunks[case.chunks - 1]);
        for (pool, samples) in pools.iter().zip(&mut samples) {
            harness.progress(format!("stories260K: the same pass on {} threads", pool.current_num_threads()));
            let input = input(&program, &stories, tokens, &mut client)?;
            let mut session = session.clone();
            let place = PassPlace { public: &public, session: &mut session, next: false, chunks: case.chunks };
            let (pass_evaluator, meter) = (client.pass_evaluator(), phases::clock());
            pool.install(|| phases::run(&pass_evaluator, &program, place, input, &meter))?;
            samples.push(meter().seconds);
        }
        let mut own = params();
        own.insert("threads".into(), several.into());
        let case = format!("{name}, chunk {} again, {several} threads", case.chunks);
        harness.row(THREADS, case, &samples[0], Some(("ours, 1 thread", &samples[1])), own);
    }
    Ok(())
}

fn input(
    program: &PassProgram,
    stories: &Stories,
    tokens: &[u32],
    client: &mut PassClient,
) -> anyhow::Result<Vec<Ciphertext>> {
    let slots = program.layout().pack(stories.model.embed(tokens).view(), program.input_unit());
    client.encrypt(&slots, program.input_level())
}

/// Adds the logits of a chunk, beside the logits of the model in the clear.
fn compare(
    program: &PassProgram,
    stories: &Stories,
    (tokens, clear): (&[u32], &mut KvCache),
    found: &[Vec<Complex64>],
    agreement: &mut Agreement,
) -> anyhow::Result<()> {
    let result = program.result();
    let views: Vec<&[Complex64]> = found.iter().map(Vec::as_slice).collect();
    let found = program.layout().unpack(&views, result.width, result.unit);
    let found = if result.quantity == Quantity::Logits { found } else { stories.model.logits(found.view()) };
    let normed = stories.model.forward(tokens, clear, &mut ())?;
    for (found, wanted) in found.rows().into_iter().zip(stories.model.logits(normed.view()).rows()) {
        agreement.add(&found.to_vec(), &wanted.to_vec());
    }
    Ok(())
}

/// Sends the rows of a measured pass, with what was counted for it.
pub(super) fn send(
    harness: &mut Harness<'_>,
    case: &str,
    (measured, counted): (&PassReport, &PassReport),
    params: impl Fn(serde_json::Map<String, serde_json::Value>) -> serde_json::Map<String, serde_json::Value>,
) {
    let (all, count) = (measured.sum(&phases::Phase::ALL), counted.sum(&phases::Phase::ALL));
    let of = |count: phases::PhaseSum| params! { "predicted_seconds": count.all.seconds };
    harness.value(TIME, case, all.all.seconds, None, params(of(count)));
    harness.value(CPU_TIME, case, all.all.cpu, None, params(of(count)));
    harness.value(BOOTSTRAPS, case, all.vectors as f64, None, params(of(count)));
    harness.value(KEY_SWITCHES, case, count.all.key_switches, None, params(of(count)));
    for (phase, own) in measured.phases() {
        let count = counted.of(phase);
        let case = format!("{case}, {}", phase.name());
        let map = || {
            let mut map = of(count);
            map.extend(params! {
                "bootstraps": own.vectors, "key_switches": count.all.key_switches, "cpu_seconds": own.all.cpu,
            });
            params(map)
        };
        harness.value(PHASE_TIME, &case, own.all.seconds, None, map());
        harness.value(BOOTSTRAP_TIME, &case, own.refreshes.seconds, None, map());
    }
}
