//! `unspoken llama plan --preparation`: the pass that a service runs.

use std::path::Path;

use serde_json::{Value, json};
use unspoken_chat::ServedModel;
use unspoken_ckks::{CkksParameters, CostModel, Encoder};
use unspoken_client::transport::TransportConfig;
use unspoken_encrypted_llama::{ExplainedStep, Layout, SpreadTimes};
use unspoken_llama_model::TamedModel;
use unspoken_server::Timeouts;

use super::{Arguments, GIGABYTE};
use unspoken_offers::preparation;

/// A pass, and what a service needs for it.
struct Planned {
    preset: String,
    threads: usize,
    /// Tokens of a chunk.
    tokens: usize,
    /// Tokens of the public part, with the prefix.
    public: usize,
    /// Chunks of the session.
    chunks: usize,
    /// Private tokens, which need not fill the chunks.
    private: usize,
    steps: Vec<ExplainedStep>,
    /// What one session of one client takes, part by part.
    memory: [(&'static str, u64); 7],
    /// Numbers of processes, and what parts of the pass take in them.
    spread: Vec<(usize, SpreadTimes)>,
}

/// Runs the command for a preparation.
pub fn run(directory: &Path, parameters: &CkksParameters, arguments: &Arguments) -> anyhow::Result<()> {
    let &Arguments { private, chunks, .. } = arguments;
    anyhow::ensure!(
        (1..=private).contains(&chunks),
        "found {private} private tokens in {chunks} chunks, needed at least one chunk, and one token for each"
    );
    let preparation = preparation::load(directory)?;
    let served = ServedModel::new(&preparation, TamedModel::load(directory)?)?;
    let program = served.program(parameters, private.div_ceil(chunks).next_power_of_two().max(Layout::MIN_TOKENS))?;
    let public = served.prefix.len() + arguments.public;
    let last = public + chunks * program.layout().chunk();
    anyhow::ensure!(
        last <= served.context,
        "found {} prefix and {} public tokens, and {chunks} chunks of {} places, a power of two, for {private} private \
         ones, needed at most {} together: the preparation is for these",
        served.prefix.len(),
        arguments.public,
        program.layout().chunk(),
        served.context
    );
    anyhow::ensure!(
        arguments.public >= served.least_public,
        "--public: found {}, needed {} or more, for which the preparation is",
        arguments.public,
        served.least_public
    );
    let network = arguments.network_gbit;
    anyhow::ensure!(network > 0.0 && network.is_finite(), "--network-gbit: found {network}, needed a positive number");
    if let Some(count) = arguments.processes.iter().find(|count| !(1..=MAX_PROCESSES).contains(*count)) {
        anyhow::bail!("--processes: found {count}, needed 1 to {MAX_PROCESSES}");
    }
    let encoder = Encoder::new(parameters);
    let model = CostModel::measure(parameters)?;
    let requirements = program.requirements(&encoder, public, chunks)?;
    // The pass of the second chunk, if there is one.
    let place = (public, chunks.min(2) - 1, chunks);
    let network = network * GIGABYTE / 8.0;
    let times = program.spread_times(&encoder, place, (&arguments.processes, network), &model)?;
    let planned = Planned {
        preset: parameters.name().into(),
        threads: rayon::current_num_threads(),
        tokens: program.layout().chunk(),
        public,
        chunks,
        private,
        steps: program.explain(&encoder, place, &model)?,
        memory: requirements.memory(&program, public),
        spread: arguments.processes.iter().copied().zip(times).collect(),
    };
    match arguments.json {
        true => println!("{}", planned.object()),
        false => planned.describe(arguments),
    }
    Ok(())
}

/// Processes that can be predicted at most: more than any pass has parts.
const MAX_PROCESSES: usize = 10_000;

/// The least and the largest factor by which predicted seconds differed from measured ones.
const PREDICTED: [f64; 2] = [0.9, 1.6];

/// Seconds after which a service ends an answer, unless it is configured.
fn answer_seconds() -> f64 {
    Timeouts::default().answer.as_secs_f64()
}

/// Sums over steps.
#[derive(Default)]
struct Sums {
    bootstraps: usize,
    key_switches: u64,
    seconds: f64,
    bootstrap_seconds: f64,
}

impl Sums {
    fn of<'a>(steps: impl IntoIterator<Item = &'a ExplainedStep>) -> Self {
        steps.into_iter().fold(Sums::default(), |sum, step| Sums {
            bootstraps: sum.bootstraps + step.bootstraps(),
            key_switches: sum.key_switches + step.key_switches,
            seconds: sum.seconds + step.seconds,
            bootstrap_seconds: sum.bootstrap_seconds + step.bootstrap_seconds,
        })
    }
}

/// The quantities of a step's results.
fn names(step: &ExplainedStep) -> String {
    step.places.iter().map(|place| place.quantity.to_string()).collect::<Vec<_>>().join("+")
}

fn layer(step: &ExplainedStep) -> usize {
    step.places.first().map_or(0, |place| place.layer)
}

impl Planned {
    /// Whether a pass may take longer than `seconds` seconds.
    fn may_exceed(&self, seconds: f64) -> bool {
        Sums::of(&self.steps).seconds / PREDICTED[0] > seconds
    }

    fn total_bytes(&self) -> u64 {
        self.memory.iter().map(|(_, bytes)| bytes).sum()
    }

    fn object(&self) -> Value {
        let sums = Sums::of(&self.steps);
        let step = |step: &ExplainedStep| {
            json!({
                "layer": layer(step), "results": names(step), "work": step.work.to_string(), "level": step.level,
                "output_level": step.output_level, "log2_scale": step.log2_scale, "inputs": step.inputs,
                "outputs": step.outputs, "bootstraps": step.bootstraps(), "key_switches": step.key_switches,
                "seconds": step.seconds, "bootstrap_seconds": step.bootstrap_seconds, "bytes": step.bytes,
            })
        };
        let processes = |(count, times): &(usize, SpreadTimes)| {
            let SpreadTimes { bytes, parts, .. } = times;
            json!({ "processes": count, "seconds": times.seconds(), "sent_bytes": bytes, "parts": parts })
        };
        let memory: serde_json::Map<String, Value> =
            self.memory.iter().map(|(what, bytes)| (what.replace(' ', "_"), json!(bytes))).collect();
        json!({
            "preset": self.preset, "threads": self.threads, "tokens": self.tokens, "public": self.public,
            "chunks": self.chunks, "private": self.private, "places": self.chunks * self.tokens,
            "bootstraps": sums.bootstraps, "key_switches": sums.key_switches,
            "seconds": sums.seconds, "bootstrap_seconds": sums.bootstrap_seconds,
            "exceeds_answer_timeout": self.may_exceed(answer_seconds()), "memory": memory,
            "processes": self.spread.iter().map(processes).collect::<Vec<_>>(),
            "total_bytes": self.total_bytes(), "steps": self.steps.iter().map(step).collect::<Vec<_>>(),
        })
    }

    fn describe(&self, arguments: &Arguments) {
        let sums = Sums::of(&self.steps);
        println!("preset      {}", self.preset);
        println!("machine     measured on {} threads", self.threads);
        println!("pass        {} tokens behind {} public ones, with the prefix", self.tokens, self.public);
        let which = if self.chunks > 1 { "the second" } else { "the only" };
        let (chunks, tokens, private) = (self.chunks, self.tokens, self.private);
        println!("chunks      {chunks} of {tokens} places for {private} tokens; the pass is that of {which} one");
        println!();
        println!("bootstraps   {:>9}", sums.bootstraps);
        println!("key switches {:>9}", sums.key_switches);
        println!("seconds      {:>9.1}, of which bootstraps take {:.1}", sums.seconds, sums.bootstrap_seconds);
        println!("             predictions were {} to {} times what passes took", PREDICTED[0], PREDICTED[1]);
        let limit = answer_seconds();
        if self.may_exceed(limit) {
            let patience = TransportConfig::new("").answer_timeout.as_secs();
            println!(
                "limit        a service ends an answer after {limit:.0} s, clients wait {patience} s: raise answer in \
                 [timeouts] of its configuration, and give clients --timeout"
            );
        }
        if !self.spread.is_empty() {
            let network = arguments.network_gbit;
            println!(
                "\n{:>9} {:>9} {:>9} {:>9} {:>9}   at {network} Gbit/s",
                "processes", "seconds", "speed-up", "parts", "GB sent"
            );
            for (count, times) in &self.spread {
                let (seconds, parts, sent) = (times.seconds(), times.parts, times.bytes / GIGABYTE);
                println!("{count:>9} {seconds:>9.1} {:>9.2} {parts:>9} {sent:>9.2}", sums.seconds / seconds);
            }
        }
        println!();
        let gigabytes = |bytes: u64| bytes as f64 / GIGABYTE;
        for (what, bytes) in self.memory.iter().chain([&("memory with one session", self.total_bytes())]) {
            println!("{what:<30} {:>9.2} GB", gigabytes(*bytes));
        }
        if let Some(limit) = arguments.memory.filter(|limit| *limit < gigabytes(self.total_bytes())) {
            let needed = gigabytes(self.total_bytes());
            println!("memory: found {limit:.2} GB, needed {needed:.2} GB: raise --memory, or take fewer tokens");
        }
        match arguments.explain {
            true => self.steps.chunk_by(|a, b| layer(a) == layer(b)).for_each(describe_layer),
            false => println!("\n--explain shows each operation"),
        }
    }
}

fn describe_layer(steps: &[ExplainedStep]) {
    println!("\nlayer {}", steps.first().map_or(0, layer));
    println!(
        "{:<22} {:<13} {:>7} {:>6} {:>8} {:>5} {:>7} {:>9} {:>10} {:>8}",
        "results", "work", "levels", "scale", "vectors", "boots", "keysw", "seconds", "bootstraps", "MB"
    );
    let row = |what: &str, work: &str, shape: [String; 3], sums: Sums, bytes: String| {
        let Sums { bootstraps, key_switches, seconds, bootstrap_seconds } = sums;
        let [levels, scale, vectors] = shape;
        println!(
            "{what:<22} {work:<13} {levels:>7} {scale:>6} {vectors:>8} {bootstraps:>5} {key_switches:>7} \
             {seconds:>9.3} {bootstrap_seconds:>10.3} {bytes:>8}"
        );
    };
    for step in steps {
        let shape = [
            format!("{}>{}", step.level, step.output_level),
            format!("{:.1}", step.log2_scale),
            format!("{}>{}", step.inputs, step.outputs),
        ];
        let bytes = format!("{:.1}", step.bytes as f64 / 1e6);
        row(&names(step), &step.work.to_string(), shape, Sums::of([step]), bytes);
    }
    row("sum", "", Default::default(), Sums::of(steps), String::new());
}
