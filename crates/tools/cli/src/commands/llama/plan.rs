//! `unspoken llama plan`

mod served;

use std::path::PathBuf;

use anyhow::Context;
use clap::builder::PossibleValuesParser;
use serde_json::{Value, json};
use unspoken_ckks::Preset;
use unspoken_llama::{
    Circuit, Degrees, Machine, PartPlan, PassPlan, Plan, PlanRequest, Row, SHAPES, Totals, plan, preset_for_scale,
    published,
};
use unspoken_llama_model::Config;

/// Plan the encrypted pass of a model: levels, bootstraps, algorithms, predicted time and memory
///
/// With --preparation it is the pass that `unspoken serve --llama` runs, counted step by step, in chunks of --private
/// over --chunks tokens. With --model or --shape it is an estimate by formulas, of which only the dimensions of the
/// model matter. Bootstraps are placed where they cost the least under a cost model, whose units of work are measured
/// on this machine with all its threads. Nothing is encrypted.
#[derive(clap::Args)]
pub struct Arguments {
    /// GGUF file, llama2.c checkpoint (.bin), or directory with config.json, tokenizer.json and safetensors
    #[arg(long, value_name = "PATH", required_unless_present_any = ["shape", "preparation"], conflicts_with = "shape")]
    model: Option<PathBuf>,
    /// Dimensions of a published model, without its files
    #[arg(long, value_parser = PossibleValuesParser::new(SHAPES))]
    shape: Option<String>,
    /// Directory that `unspoken llama prepare` wrote
    #[arg(long, value_name = "DIR", conflicts_with_all = ["model", "shape", "generate"])]
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
    /// Plan a step of generation after the prompt as well
    #[arg(long)]
    generate: bool,
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
    /// Show each operation, keys, memory, and what the machine needs at least
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
    let preset = match &arguments.preset {
        Some(name) => Preset::find(name).context("--preset")?,
        None => preset_for_scale(arguments.scale).with_context(|| {
            format!("--scale: found {} bits, needed the scale of a preset; name one with --preset", arguments.scale)
        })?,
    };
    let parameters = preset.build()?;
    if let Some(directory) = &arguments.preparation {
        return served::run(directory, &parameters, arguments);
    }
    let request = PlanRequest {
        config: config(arguments)?,
        public: arguments.public,
        private: arguments.private,
        chunks: arguments.chunks,
        generate: arguments.generate,
        rounds: Circuit::ROUNDS,
        degrees: Degrees::default(),
        memory: arguments.memory.map(|gigabytes| (gigabytes * GIGABYTE) as u64),
    };
    // Refused before the machine is measured.
    request.check(&parameters)?;
    let machine = Machine::measure(&parameters)?;
    let plan = plan(&request, &parameters, &machine)?;
    // A scale that was asked for, not one of a named preset.
    let scale = arguments.preset.is_none().then_some(arguments.scale);
    if arguments.json {
        println!("{}", object(&plan, &request, &machine, scale)?);
    } else {
        describe(&plan, scale, arguments.explain);
    }
    Ok(())
}

const GIGABYTE: f64 = 1e9;

/// Dimensions of the model.
fn config(arguments: &Arguments) -> anyhow::Result<Config> {
    match (&arguments.model, &arguments.shape) {
        (Some(path), _) => Ok(unspoken_llama_files::load(path, None)?.model.config),
        (None, shape) => shape.as_deref().and_then(published).context("needed --model, --shape or --preparation"),
    }
}

/// What is printed with `--json`.
fn object(plan: &Plan, request: &PlanRequest, machine: &Machine, scale: Option<u32>) -> anyhow::Result<Value> {
    let mut object = serde_json::to_value(plan)?;
    let model = &machine.model;
    object["request"] = json!({
        "public": request.public, "private": request.private, "chunks": request.chunks,
        "generate": request.generate, "scale": scale, "width": request.config.width, "layers": request.config.layers,
    });
    object["machine"] = json!({
        "threads": rayon::current_num_threads(), "bandwidth": machine.bandwidth,
        "limb_transform": model.limb_transform, "residue_mac": model.residue_mac, "matrix_mac": model.matrix_mac,
        "elementwise": model.elementwise, "encoding": model.encoding,
    });
    Ok(object)
}

/// What is printed without `--json`.
fn describe(plan: &Plan, scale: Option<u32>, explain: bool) {
    let [entry, top] = plan.bootstrap_levels;
    println!("preset      {}, {:.0} bits of security", plan.preset, plan.security_bits);
    if let Some(scale) = scale.filter(|scale| !plan.preset.ends_with(&format!("_scale{scale}"))) {
        println!("            no set has a scale of 2^{scale}: planned with the next larger one");
    }
    println!("bootstraps  from level {entry} to level {top}");
    println!("machine     measured on {} threads", rayon::current_num_threads());
    println!();
    println!(
        "{:<11} {:>7} {:>8} {:>13} {:>12} {:>11} {:>11}",
        "pass", "tokens", "earlier", "bootstraps", "key switches", "seconds", "greedy"
    );
    for (name, pass) in passes(plan) {
        let Totals { first_halves, second_halves, key_switches, seconds, .. } = pass.totals;
        let greedy = pass.greedy_seconds.map_or_else(|| "stuck".into(), |seconds| format!("{seconds:.1}"));
        let earlier = pass.public + pass.earlier;
        let halves = format!("{first_halves}/{second_halves}");
        println!(
            "{name:<11} {:>7} {earlier:>8} {halves:>13} {key_switches:>12} {seconds:>11.1} {greedy:>11}",
            pass.tokens
        );
    }
    println!("(bootstraps: maps from slots to coefficients / raises with the map back and the reduction)");
    println!();
    describe_memory(plan, explain);
    if explain {
        passes(plan).for_each(|(name, pass)| describe_pass(&name, pass));
        println!();
        plan.assumptions.iter().for_each(|assumption| println!("assumed: {assumption}"));
    } else {
        println!("\n--explain shows each operation, keys, memory, and what the plan assumes");
    }
}

/// All passes with their names.
fn passes(plan: &Plan) -> impl Iterator<Item = (String, &PassPlan)> {
    let chunks = plan.chunks.iter().enumerate().map(|(number, pass)| (format!("chunk {}", number + 1), pass));
    chunks.chain(plan.generation.iter().map(|pass| ("generation".to_owned(), pass)))
}

fn describe_memory(plan: &Plan, explain: bool) {
    let memory = &plan.memory;
    let gigabytes = |bytes: u64| bytes as f64 / GIGABYTE;
    if explain {
        for part in &memory.keys {
            println!("{:<44} {:>6} {:>9.2} GB", format!("keys, {}", part.purpose), part.keys, gigabytes(part.bytes));
        }
    }
    for (name, bytes) in [
        ("keys", memory.key_bytes),
        ("keys on the wire, without the small ring's", memory.key_wire_bytes),
        ("weights", memory.weight_bytes),
        ("matrices of bootstraps", memory.bootstrap_bytes),
        ("public cache", memory.public_cache_bytes),
        ("private cache", memory.private_cache_bytes),
        ("working memory", memory.working_bytes),
        ("memory of the service", memory.total_bytes),
    ] {
        println!("{name:<44} {:>6} {:>9.2} GB", "", gigabytes(bytes));
    }
    if let Some(limit) = memory.limit_bytes.filter(|_| !memory.fits) {
        println!(
            "memory: found {:.2} GB, needed {:.2} GB: raise --memory, or take fewer tokens or a smaller model",
            gigabytes(limit),
            gigabytes(memory.total_bytes)
        );
    }
}

fn describe_pass(name: &str, pass: &PassPlan) {
    println!("\n{name}: {} tokens behind {} public and {} private ones", pass.tokens, pass.public, pass.earlier);
    pass.parts.iter().for_each(describe_part);
    println!();
    for share in &pass.shares {
        let percent = 100.0 * share.seconds / pass.totals.seconds;
        println!("{:<12} {:>10.2} s {percent:>5.1} %", share.phase, share.seconds);
    }
    println!("{:<12} {:>10.2} s", "pass", pass.totals.seconds);
    let floor = &pass.floor;
    println!(
        "floor        {:>10.2} s, of which the plan takes {:.0} times: {:.2} GB read once in {:.2} s; {:.1} G integer \
         multiply-adds in {:.2} s",
        floor.seconds(),
        pass.totals.seconds / floor.seconds(),
        floor.bytes as f64 / GIGABYTE,
        floor.byte_seconds,
        pass.totals.multiply_adds as f64 / 1e9,
        floor.mac_seconds
    );
    for deeper in &pass.deeper {
        println!("with {} more levels after a bootstrap: {:.2} s", deeper.levels, deeper.seconds);
    }
}

fn describe_part(part: &PartPlan) {
    println!("\nfrom layer {}, {} times: level {} to {}", part.first, part.count, part.level_in, part.level_out);
    println!(
        "{:<25} {:<19} {:<27} {:>5} {:>5} {:>4} {:>6} {:>9} {:>9} {:>10} {:>9}",
        "place", "operation", "algorithm", "level", "scale", "ct", "keysw", "halves", "seconds", "bootstraps", "MB"
    );
    for Row { place, operation, algorithm, level_in, level_out, scale_bits, ciphertexts, bytes, work, .. } in &part.rows
    {
        let levels = format!("{level_in}>{level_out}");
        let (keys, seconds, bootstraps) = (work.key_switches, work.seconds, work.bootstrap_seconds);
        let (halves, megabytes) = (format!("{}/{}", work.first_halves, work.second_halves), *bytes as f64 / 1e6);
        let what = format!("{place:<25} {operation:<19} {algorithm:<27} {levels:>5} {scale_bits:>5.1}");
        println!("{what} {ciphertexts:>4} {keys:>6} {halves:>9} {seconds:>9.3} {bootstraps:>10.3} {megabytes:>9.1}");
    }
    let totals = &part.totals;
    let halves = format!("{}/{}", totals.first_halves, totals.second_halves);
    println!(
        "{:<25} {:<19} {:<27} {:>5} {:>5} {:>4} {:>6} {halves:>9} {:>9.3} {:>10.3}",
        "sum", "", "", "", "", "", totals.key_switches, totals.seconds, totals.bootstrap_seconds
    );
}
