//! One block of the published models at their true dimensions, with random weights: counted, with predicted seconds
//! (Table 5 of the paper); and a share of a block, which is run.

use serde_json::{Map, Value};
use unspoken_ckks::{Bootstrap, CkksParameters, CostModel, Encoder, Preset};
use unspoken_encrypted_llama::{PassProgram, WEIGHT_BITS};
use unspoken_llama::{Function, Noise, Quantity, Simulation};
use unspoken_llama_model::{Config, KvCache};

use super::client::PassClient;
use super::passes;
use super::phases::{self, Counted, PassPlace, PassReport, Phase};
use super::random::{RandomModel, config};
use crate::error::{larger_error, wrong};
use crate::harness::{Harness, pool};
use crate::machine::available_memory_bytes;
use crate::row::{Metric, params};

const PREDICTED: Metric = Metric::less("predicted_block_time", "s");
const PREDICTED_PHASE: Metric = Metric::less("predicted_phase_time", "s");
const SPREAD: Metric = Metric::less("predicted_spread_time", "s");
const BOOTSTRAPS: Metric = Metric::less("block_bootstraps", "vectors");
const KEY_SWITCHES: Metric = Metric::less("block_key_switches", "switches");
const MEMORY: Metric = Metric::less("predicted_memory", "bytes");
const LOG2_ERROR: Metric = Metric::less("share_log2_relative_error", "bits");

/// Numbers of processes, and bytes a second of the network of each.
const PROCESSES: [usize; 4] = [2, 4, 8, 16];
const NETWORK_BYTES: f64 = 1.25e9;

/// Largest allowed error of the output of the last norm, relative to the largest value.
const TOLERANCE: f64 = 1.0 / 64.0;

/// Bits of each value's range, for a simulation beside the share that is run.
const NOISE_BITS: f64 = 12.0;

#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    name: &'static str,
    preset: &'static str,
    small_degree: usize,
    /// Width, query heads, key heads, width of a head, width of the feed-forward network.
    dimensions: [usize; 5],
    /// Rows of the embedding: enough that the client computes the logits.
    vocabulary: usize,
    public: usize,
    private: usize,
    /// Tokens of a pass of generation.
    step: usize,
    /// The share of the heads and of the feed-forward network that is run is one over this.
    share: usize,
}

const LLAMA_2_7B: Case = Case {
    name: "Llama-2-7B",
    preset: "n16_boot_depth15_scale40",
    small_degree: 4096,
    dimensions: [4096, 32, 32, 128, 11_008],
    vocabulary: 33_000,
    public: 3968,
    private: 128,
    step: 8,
    share: 8,
};

pub(super) const FULL: &[Case] =
    &[LLAMA_2_7B, Case { name: "Llama-3-8B", dimensions: [4096, 32, 8, 128, 14_336], ..LLAMA_2_7B }];

pub(super) const QUICK: &[Case] = &[Case {
    name: "a small model",
    preset: "insecure_n11_boot_depth15_scale40",
    small_degree: 512,
    dimensions: [128, 8, 4, 32, 160],
    vocabulary: 1100,
    public: 40,
    private: 16,
    step: 8,
    share: 2,
}];

/// The phases of Table 5.
const TABLE: [(&str, &[Phase]); 4] = [
    ("QKV projection", &[Phase::AttentionNorm, Phase::Projections]),
    ("attention kernel", &[Phase::Scores, Phase::Softmax, Phase::WeightedValues]),
    ("O projection", &[Phase::OutputProjection]),
    ("FFN kernel", &[Phase::FfnNorm, Phase::FeedForward]),
];

/// A block without the last norm.
const BLOCK: &[Phase] = match &Phase::ALL {
    [block @ .., Phase::Head] => block,
    all => all,
};

impl Case {
    /// Dimensions of one block, or of the share of it that is run.
    fn config(&self, share: usize) -> Config {
        let [width, heads, kv_heads, head_width, ffn_width] = self.dimensions;
        let dimensions = [width, heads / share, kv_heads / share, head_width, ffn_width / share];
        config(dimensions, self.vocabulary, self.public + self.private + self.step)
    }

    fn random(&self, share: usize) -> anyhow::Result<RandomModel> {
        RandomModel::new(self.config(share), (self.public, self.private), self.private)
    }

    fn program(&self, random: &RandomModel, encoder: &Encoder, chunk: usize) -> anyhow::Result<PassProgram> {
        let plan = Bootstrap::for_products(encoder.parameters(), WEIGHT_BITS)?;
        let (circuit, model, sizes) = (&random.circuit, random.model.clone(), (chunk, self.small_degree));
        let mut program = PassProgram::new(circuit, model, &random.design, plan, sizes)?;
        program.place(encoder, self.public, &CostModel::nominal(encoder.parameters()))?;
        Ok(program)
    }

    fn params(&self, parameters: &CkksParameters, random: &RandomModel) -> Map<String, Value> {
        let degrees = |function: Function| {
            let own = random.design.approximations().filter(|(_, approximation)| approximation.function() == function);
            own.map(|(place, approximation)| format!("{} {}", place.quantity, approximation.degree())).collect()
        };
        let degrees: Vec<Vec<String>> =
            [Function::InverseSqrt, Function::Exponential, Function::Silu].map(degrees).to_vec();
        params! {
            "preset": parameters.name(), "public": self.public, "private": self.private,
            "rounds": random.circuit.rounds(), "degrees": degrees.concat(),
        }
    }
}

/// Counts a block: the private tokens as one chunk, and a pass of generation after them.
pub(super) fn run(harness: &mut Harness<'_>, case: &Case) -> anyhow::Result<()> {
    let parameters = Preset::find(case.preset)?.build()?;
    let encoder = Encoder::new(&parameters);
    let model = phases::measured_costs(&parameters)?;
    harness.progress(format!("a block of {}: weights and polynomials", case.name));
    let random = case.random(1)?;
    let public = random.model.prefix_cache(&random.text.public)?;
    for (what, chunk, chunks) in
        [("summarisation", case.private, 1), ("generation", case.step, case.private / case.step + 1)]
    {
        harness.progress(format!("a block of {}, {what}: placement of bootstraps", case.name));
        let program = case.program(&random, &encoder, chunk)?;
        harness.progress(format!("a block of {}, {what}: passes without values", case.name));
        let counted = phases::count(&program, &encoder, (&public, chunks), model)?;
        let mut params = case.params(&parameters, &random);
        params.insert("tokens".into(), program.layout().chunk().into());
        let name = format!("{}, {what}, {} tokens", case.name, program.layout().chunk());
        if let Some(last) = counted.passes.last() {
            predicted(harness, &name, last, &params);
        }
        memory(harness, (&name, &params), (&program, &counted), &public);
        if let Some(last) = counted.passes.last() {
            harness.progress(format!("a block of {}, {what}: several processes", case.name));
            let whole = (name.as_str(), last.sum(&Phase::ALL).all.seconds, &params);
            spread(harness, whole, (&program, &encoder, &model), (public.len(), chunks))?;
        }
    }
    Ok(())
}

/// Sends predicted times of a pass in several processes.
fn spread(
    harness: &mut Harness<'_>,
    (name, seconds, params): (&str, f64, &Map<String, Value>),
    (program, encoder, model): (&PassProgram, &Encoder, &CostModel),
    (public, chunks): (usize, usize),
) -> anyhow::Result<()> {
    let times = program.spread_times(encoder, (public, chunks - 1, chunks), (&PROCESSES, NETWORK_BYTES), model)?;
    for (processes, times) in PROCESSES.into_iter().zip(times) {
        let mut own = params.clone();
        own.extend(params! {
            "processes": processes, "network_bytes": NETWORK_BYTES, "parts": times.parts, "sent_bytes": times.bytes,
            "seconds_alone": seconds,
        });
        harness.value(SPREAD, format!("{name}, {processes} processes"), times.seconds(), None, own);
    }
    Ok(())
}

/// Sends what was counted for a pass.
fn predicted(harness: &mut Harness<'_>, name: &str, pass: &PassReport, params: &Map<String, Value>) {
    let mut send = |metric: Metric, case: &str, phases: &[Phase], whole: bool| {
        let sum = pass.sum(phases);
        let mut own = params.clone();
        own.extend(params! {
            "bootstraps": sum.vectors, "key_switches": sum.all.key_switches,
            "bootstrap_seconds": sum.refreshes.seconds,
        });
        harness.value(metric, case, sum.all.seconds, None, own.clone());
        if whole {
            harness.value(BOOTSTRAPS, case, sum.vectors as f64, None, own.clone());
            harness.value(KEY_SWITCHES, case, sum.all.key_switches, None, own);
        }
    };
    send(PREDICTED, name, BLOCK, true);
    for (what, phases) in TABLE {
        send(PREDICTED, &format!("{name}, {what}"), phases, false);
    }
    for phase in BLOCK {
        send(PREDICTED_PHASE, &format!("{name}, {}", phase.name()), &[*phase], false);
    }
}

/// Sends the memory of a service for one session, part by part. Returns the sum.
fn memory(
    harness: &mut Harness<'_>,
    (name, params): (&str, &Map<String, Value>),
    (program, counted): (&PassProgram, &Counted),
    public: &KvCache,
) -> u64 {
    let parts = counted.requirements.memory(program, public.len());
    let all: u64 = parts.iter().map(|(_, bytes)| bytes).sum();
    for (what, bytes) in parts.into_iter().chain([("all", all)]) {
        harness.value(MEMORY, format!("{name}, {what}"), bytes as f64, None, params.clone());
    }
    all
}

/// Says how far the polynomials are from the model, alone and with noise, and how many arguments left their intervals.
fn check_polynomials(
    harness: &mut Harness<'_>,
    (name, case): (&str, &Case),
    random: &RandomModel,
) -> anyhow::Result<()> {
    let RandomModel { circuit, model, design, text } = random;
    let simulation = Simulation { circuit, model, served: model, design, chunk: case.private };
    let noises = [Noise::None, Noise::Bits(NOISE_BITS)];
    let results = simulation.compare(&noises, std::slice::from_ref(text), |_| {})?;
    for (compared, what) in results.iter().skip(1).zip(["polynomials alone", "with noise"]) {
        let (escaped, error) = (compared.escaped(), compared.logit_error);
        harness.progress(format!("{name}, {what}: {escaped} escapes, largest logit error {error:.3e}"));
    }
    Ok(())
}

/// Runs a share of a block on all cores: some of the heads, and as much of the feed-forward network.
pub(super) fn run_share(harness: &mut Harness<'_>, case: &Case) -> anyhow::Result<()> {
    let parameters = Preset::find(case.preset)?.build()?;
    let encoder = Encoder::new(&parameters);
    let model = phases::measured_costs(&parameters)?;
    harness.progress(format!("a share of a block of {}: weights and polynomials", case.name));
    let random = case.random(case.share)?;
    let public = random.model.prefix_cache(&random.text.public)?;
    let program = case.program(&random, &encoder, case.private)?;
    let counted = phases::count(&program, &encoder, (&public, 1), model)?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut params = case.params(&parameters, &random);
    params.extend(params! { "share": case.share, "threads": threads, "tokens": program.layout().chunk() });
    let name = format!("1/{} of {}, {} tokens", case.share, case.name, program.layout().chunk());
    let needed = memory(harness, (&name, &params), (&program, &counted), &public);
    if let Some(found) = available_memory_bytes().filter(|found| *found < needed) {
        let gigabytes = |bytes: u64| bytes as f64 * 1e-9;
        let (found, needed) = (gigabytes(found), gigabytes(needed));
        harness.progress(format!("{name}: skipped; found {found:.1} GB of memory, needed {needed:.1} GB"));
        return Ok(());
    }
    check_polynomials(harness, (&name, case), &random)?;
    harness.progress(format!("{name}: {} keys", counted.requirements.keys.len()));
    let mut client = PassClient::new(&program, &encoder, &counted.requirements.keys)?;
    let tokens = &random.text.private;
    let slots = program.layout().pack(random.model.embed(tokens).view(), program.input_unit());
    let input = client.encrypt(&slots, program.input_level())?;
    harness.progress(format!("{name}: a pass on {threads} threads"));
    let mut session = program.session();
    let place = PassPlace { public: &public, session: &mut session, next: true, chunks: 1 };
    let (all, meter, pass_evaluator) = (pool(threads)?, phases::clock(), client.pass_evaluator());
    let (results, report) = all.install(|| phases::run(&pass_evaluator, &program, place, input, &meter))?;
    let result = program.result();
    debug_assert_eq!(result.quantity, Quantity::LastNorm, "the vocabulary is large");
    let slots = client.decrypt(&results)?;
    let slots: Vec<_> = slots.iter().map(Vec::as_slice).collect();
    let found = program.layout().unpack(&slots, result.width, result.unit);
    let wanted = random.model.forward(tokens, &mut public.clone(), &mut ())?;
    let largest = wanted.iter().fold(0.0f64, |most, value| most.max(f64::from(value.abs())));
    let errors = found.iter().zip(&wanted).map(|(a, b)| f64::from((a - b).abs()));
    let error = errors.fold(0.0, larger_error) / largest;
    if error > TOLERANCE || error.is_nan() {
        return Err(wrong(name, error, TOLERANCE));
    }
    harness.value(LOG2_ERROR, &name, error.log2(), None, params.clone());
    if let Some(count) = counted.passes.first() {
        passes::send(harness, &name, (&report, count), |map| {
            let mut own = params.clone();
            own.extend(map);
            own
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Suite;
    use crate::harness::test_rows;

    #[test]
    fn blocks_are_counted_and_a_share_is_run() {
        let rows = test_rows(Suite::Llama, |harness| {
            run(harness, &QUICK[0])?;
            run_share(harness, &QUICK[0])
        });
        let value = |metric: &str, case: &str| {
            let row = rows.iter().find(|row| row.metric == metric && row.case.contains(case));
            row.unwrap_or_else(|| panic!("no {metric} of {case}")).ours
        };
        for what in ["summarisation, 16 tokens", "generation, 8 tokens"] {
            let all = value("predicted_block_time", what);
            let phases =
                [Phase::Earlier.name()].map(|phase| value("predicted_phase_time", &format!("{what}, {phase}")));
            let parts = TABLE.map(|(part, _)| value("predicted_block_time", &format!("{what}, {part}")));
            let sum: f64 = phases.iter().chain(&parts).sum();
            assert!((sum / all - 1.0).abs() < 1e-9, "{sum} of {all}");
            assert!(value("predicted_spread_time", &format!("{what}, 2 processes")) < all);
            assert!(value("block_bootstraps", what) > 0.0 && value("block_key_switches", what) > 0.0);
        }
        assert!(value("share_log2_relative_error", "1/2 of") < -8.0);
        assert!(value("pass_time", "1/2 of") > 0.0);
    }
}
