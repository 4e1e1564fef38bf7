//! `unspoken llama plan`

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::builder::PossibleValuesParser;
use serde_json::{Value, json};
use unspoken_chat::{ServedModel, small_degree};
use unspoken_ckks::{CkksParameters, CostModel, Encoder, PRESETS, Preset};
use unspoken_client::transport::TransportConfig;
use unspoken_encrypted_llama::{CountedPass, Dimensions, ExplainedStep, Layout, SpreadTimes};
use unspoken_llama::Degrees;
use unspoken_llama_model::{Config, RotatedModel, SHAPES, published};
use unspoken_offers::preparation;
use unspoken_rlwe::{KeyBundle, KeyPlan};
use unspoken_server::Timeouts;

use super::clients;

/// Plan the encrypted pass of a model: levels, bootstraps, predicted time and memory
///
/// It is the pass that `unspoken serve --chat` runs, in chunks of --private over --chunks tokens, counted step by step
/// without values. With --preparation the polynomials are those of the model. With --model or --shape only the
/// dimensions of the model matter, and the degrees of the polynomials are the paper's. Bootstraps are placed where they
/// cost the least; seconds are those of a cost model whose units of work are measured on this machine with all its
/// threads. Nothing is encrypted.
#[derive(clap::Args)]
pub struct Arguments {
    /// GGUF file, llama2.c checkpoint (.bin), or directory with config.json, tokenizer.json and safetensors
    #[arg(long, value_name = "PATH", required_unless_present_any = ["shape", "preparation"], conflicts_with = "shape")]
    model: Option<PathBuf>,
    /// Dimensions of a published model, without its files
    #[arg(long, value_parser = PossibleValuesParser::new(SHAPES))]
    shape: Option<String>,
    /// Directory that `unspoken llama prepare` wrote
    #[arg(long, value_name = "DIR", conflicts_with_all = ["model", "shape"])]
    preparation: Option<PathBuf>,
    /// Tokens of the public part of the prompt, after the prefix of a preparation
    #[arg(long, value_name = "N")]
    public: usize,
    /// Tokens of the private part, which follows the public one
    #[arg(long, value_name = "T")]
    private: usize,
    /// Passes over which the private tokens are spread
    #[arg(long, value_name = "C", default_value_t = 1)]
    chunks: usize,
    /// Bits of the scale: takes the bootstrapping preset with the smallest scale that is at least this large
    #[arg(long, value_name = "BITS", default_value_t = 40, conflicts_with = "preset")]
    scale: u32,
    /// Parameter set with bootstrapping; `unspoken params` lists all sets
    #[arg(long)]
    preset: Option<String>,
    /// Memory of the service, in GB of 10^9 bytes: the plan says whether it is enough
    #[arg(long, value_name = "GB")]
    memory: Option<f64>,
    /// With --preparation: also predict the pass in N processes, counting helpers, each like this machine; several
    /// numbers with commas
    #[arg(long, value_name = "N", value_delimiter = ',', requires = "preparation")]
    processes: Vec<usize>,
    /// Speed of the network of each process, in Gbit/s
    #[arg(long, value_name = "GBIT", default_value_t = 10.0, requires = "processes")]
    network_gbit: f64,
    /// Also predict N clients that ask at the same time, at most 1000; several numbers with commas
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..=1000))]
    clients: Vec<u64>,
    /// Show each operation
    #[arg(long)]
    explain: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if let Some(memory) = arguments.memory {
        anyhow::ensure!(memory > 0.0 && memory.is_finite(), "--memory: found {memory} GB, needed a positive number");
    }
    let &Arguments { private, chunks, .. } = arguments;
    anyhow::ensure!(
        (1..=private).contains(&chunks),
        "found {private} private tokens in {chunks} chunks, needed at least one chunk, and one token for each"
    );
    let preset = match &arguments.preset {
        Some(name) => Preset::find(name).context("--preset")?,
        None => preset_for_scale(arguments.scale).with_context(|| {
            format!("--scale: found {} bits, needed the scale of a preset; name one with --preset", arguments.scale)
        })?,
    };
    let parameters = preset.build()?;
    let planned = match &arguments.preparation {
        Some(directory) => served(directory, &parameters, arguments)?,
        None => counted(&config(arguments)?, &parameters, arguments)?,
    };
    match arguments.json {
        true => println!("{}", planned.object(arguments)),
        false => planned.describe(arguments),
    }
    Ok(())
}

const GIGABYTE: f64 = 1e9;

/// The preset for a scale: the bootstrapping preset of 128 bits of security with the smallest scale that is at least
/// `bits`. `None` if there is none.
fn preset_for_scale(bits: u32) -> Option<&'static Preset> {
    let usable = |preset: &&Preset| preset.name.contains("_boot_") && !preset.name.starts_with("insecure_");
    let scale = |preset: &&Preset| preset.name.rsplit("_scale").next().and_then(|bits| bits.parse::<u32>().ok());
    let enough = |preset: &&Preset| scale(preset).is_some_and(|scale| scale >= bits);
    PRESETS.iter().filter(usable).filter(enough).min_by_key(scale)
}

/// Dimensions of the model.
fn config(arguments: &Arguments) -> anyhow::Result<Config> {
    match (&arguments.model, &arguments.shape) {
        (Some(path), _) => Ok(unspoken_llama_files::load(path, None)?.model.config),
        (None, shape) => shape.as_deref().and_then(published).context("needed --model, --shape or --preparation"),
    }
}

/// Places of a chunk: the tokens that are spread over the chunks, rounded up.
fn places(arguments: &Arguments) -> usize {
    arguments.private.div_ceil(arguments.chunks).next_power_of_two().max(Layout::MIN_TOKENS)
}

/// Plans the pass of a model of which only the dimensions are known.
fn counted(config: &Config, parameters: &CkksParameters, arguments: &Arguments) -> anyhow::Result<Planned> {
    let &Arguments { public, private, chunks, .. } = arguments;
    let last = public.saturating_add(chunks.saturating_mul(places(arguments)));
    anyhow::ensure!(
        last <= config.context,
        "found {public} public tokens, and {chunks} chunks of {} places, a power of two, for {private} private ones, \
         needed at most {} together: the context of the model",
        places(arguments),
        config.context
    );
    let degrees = Degrees::default();
    let (chunk, small_degree) = (places(arguments), small_degree(parameters));
    let dimensions = Dimensions { config, degrees: &degrees, chunk, small_degree };
    let model = CostModel::measure(parameters)?;
    let CountedPass { tokens, bootstrap_levels, keys, steps, memory } =
        dimensions.count(parameters, (public, chunks.min(2) - 1, chunks), &model)?;
    let client = Client::new(parameters, bootstrap_levels, &keys);
    let spread = Vec::new();
    Ok(Planned { client, layers: config.layers, degrees: Some(degrees), tokens, public, steps, memory, spread })
}

/// Plans the pass of a preparation.
fn served(directory: &Path, parameters: &CkksParameters, arguments: &Arguments) -> anyhow::Result<Planned> {
    let &Arguments { private, chunks, .. } = arguments;
    let preparation = preparation::load(directory)?;
    let layers = preparation.config.layers;
    let served = ServedModel::new(&preparation, RotatedModel::load(directory)?)?;
    let program = served.program(parameters, places(arguments))?;
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
    let bootstrap = program.bootstrap();
    Ok(Planned {
        client: Client::new(parameters, [bootstrap.input_level(), bootstrap.output_level()], &requirements.keys),
        layers,
        degrees: None,
        tokens: program.layout().chunk(),
        public,
        steps: program.explain(&encoder, place, &model)?,
        memory: requirements.memory(&program, public),
        spread: arguments.processes.iter().copied().zip(times).collect(),
    })
}

/// What clients have, and the levels of their ciphertexts.
struct Client {
    preset: String,
    slots: usize,
    /// The lowest level from which a bootstrap starts, and that of its results.
    bootstrap_levels: [usize; 2],
    /// Number of switching keys, without those of the small ring, and their bytes as they are sent.
    keys: (usize, u64),
}

impl Client {
    fn new(parameters: &CkksParameters, bootstrap_levels: [usize; 2], keys: &KeyPlan) -> Self {
        let (preset, slots) = (parameters.name().into(), parameters.slots());
        let bytes = KeyBundle::byte_len(parameters.rlwe(), keys);
        Client { preset, slots, bootstrap_levels, keys: (keys.len(), bytes) }
    }
}

/// A pass, and what a service needs for it.
struct Planned {
    client: Client,
    layers: usize,
    /// Degrees of the polynomials, if they are not those of a preparation.
    degrees: Option<Degrees>,
    /// Tokens of a chunk.
    tokens: usize,
    /// Tokens of the public part, with the prefix.
    public: usize,
    steps: Vec<ExplainedStep>,
    /// What one session of one client takes, part by part.
    memory: [(&'static str, u64); 7],
    /// Numbers of processes, and what parts of the pass take in them.
    spread: Vec<(usize, SpreadTimes)>,
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
    /// Whether a pass may take longer than so many seconds.
    fn may_exceed(&self, seconds: f64) -> bool {
        Sums::of(&self.steps).seconds / PREDICTED[0] > seconds
    }

    fn total_bytes(&self) -> u64 {
        self.memory.iter().map(|(_, bytes)| bytes).sum()
    }

    fn object(&self, arguments: &Arguments) -> Value {
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
        let degrees = self.degrees.as_ref().map(|degrees| {
            let Degrees { exponential, silu, norm, softmax } = degrees;
            json!({ "exponential": exponential, "silu": silu, "norm": norm, "softmax": softmax })
        });
        let Client { preset, slots, bootstrap_levels, keys: (keys, key_wire_bytes) } = &self.client;
        let limit = arguments.memory.map(|gigabytes| (gigabytes * GIGABYTE) as u64);
        json!({
            "preset": preset, "slots": slots, "bootstrap_levels": bootstrap_levels, "keys": keys,
            "key_wire_bytes": key_wire_bytes, "limit_bytes": limit,
            "fits": limit.is_none_or(|limit| self.total_bytes() <= limit),
            "threads": rayon::current_num_threads(), "layers": self.layers,
            "tokens": self.tokens, "public": self.public, "chunks": arguments.chunks, "private": arguments.private,
            "places": arguments.chunks * self.tokens, "degrees": degrees,
            "bootstraps": sums.bootstraps, "key_switches": sums.key_switches,
            "seconds": sums.seconds, "bootstrap_seconds": sums.bootstrap_seconds,
            "exceeds_answer_timeout": self.may_exceed(answer_seconds()), "memory": memory,
            "processes": self.spread.iter().map(processes).collect::<Vec<_>>(),
            "clients": clients::objects(&arguments.clients, sums.seconds, &self.memory),
            "total_bytes": self.total_bytes(), "steps": self.steps.iter().map(step).collect::<Vec<_>>(),
        })
    }

    fn describe(&self, arguments: &Arguments) {
        let sums = Sums::of(&self.steps);
        let Client { preset, bootstrap_levels: [entry, top], keys: (keys, wire), .. } = &self.client;
        println!("preset      {preset}, bootstraps from level {entry} to level {top}");
        println!("machine     measured on {} threads", rayon::current_num_threads());
        println!("pass        {} tokens after {} public ones, with the prefix", self.tokens, self.public);
        let &Arguments { chunks, private, .. } = arguments;
        let which = if chunks > 1 { "the second" } else { "the only" };
        let tokens = self.tokens;
        println!("chunks      {chunks} of {tokens} places for {private} tokens; the pass is that of {which} one");
        if let Some(Degrees { exponential, silu, norm, softmax }) = &self.degrees {
            let softmax: Vec<String> = softmax.iter().map(usize::to_string).collect();
            println!(
                "polynomials assumed: exponential {exponential}, SiLU {silu}, norms {norm}, rounds of softmax {}",
                softmax.join(" and ")
            );
        }
        println!();
        println!("layers       {:>9}", self.layers);
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
        clients::describe(&arguments.clients, sums.seconds, &self.memory);
        println!();
        let gigabytes = |bytes: u64| bytes as f64 / GIGABYTE;
        println!("{:<30} {:>9.2} GB", format!("{keys} keys as they are sent"), gigabytes(*wire));
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
