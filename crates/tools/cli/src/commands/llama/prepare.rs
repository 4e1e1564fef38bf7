//! `unspoken llama prepare`

use std::path::PathBuf;

use anyhow::Context;
use unspoken_ckks::{CkksParameters, Preset};
use unspoken_llama::{
    Circuit, CircuitError, Comparison, Design, DesignOptions, EngineNoise, Margins, Needed, Noise, Preparation,
    Quantity, Ranges, Sample, Simulation, calibrate,
};
use unspoken_llama_files::LoadedModel;
use unspoken_llama_model::{ClientModel, Coverage, DraftTexts, Model, RotatedModel, Tokenizer, rotate};

use super::ModelArguments;
use super::calibration::{CalibrationArguments, Texts};
use super::drafts;
use super::fitness::Fitness;
use super::outcome::{Covered, Outcome, SHOWN, describe, object};
use super::shared::{self, Shared};
use super::text::{RotationArguments, Sizes, named};
use crate::memory::free_memory;
use crate::progress::{Bars, note};
use unspoken_offers::preparation::{client_directory, make, save};

/// Factor by which margins exceed the margins that held-out text needs, unless margins are given.
const SPARE: f64 = 1.1;

/// Precision of bootstraps in the simulation, and the scale of a preset whose name has none.
const BOOTSTRAP_BITS: f64 = 16.0;
const SCALE_BITS: f64 = 40.0;

/// Largest number of rounds of softmax that is tried.
const MAX_ROUNDS: u8 = 6;

/// Rotate a model for encrypted arithmetic, and choose the polynomials that replace its functions
///
/// The command searches a prefix and rotates the model as `unspoken llama report` does. Then it runs the circuit of
/// private inference over the first part of the text in windows, over a page with many kinds of characters, and over
/// all tokens of the vocabulary in random order, and measures the range of each value. A window is as long as a session
/// can be, with --public and --private tokens; its tokens are private after the first --least-public ones, so that a
/// text may have that many public tokens or more. A polynomial is right on an interval only: held-out text, the rest,
/// shows by which margins intervals must be wider than these ranges, so that no value leaves its interval. With these
/// margins, and the ranges of all text, the command chooses the polynomials that replace functions at the precision,
/// and runs the held-out text with them. The directory gets all that a service needs: preparation.json (prefix, seed of
/// the rotations, margins, precision), ranges.safetensors, and tamed.safetensors, the rotated weights. Its directory
/// client gets what clients need: client.json, the rotated rows of the embedding in client.safetensors,
/// tokenizer.json, texts that the model told in drafts.json, from which clients guess tokens to save passes, and the
/// template of conversations in chat_template.json if there is one.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    text: CalibrationArguments,
    #[command(flatten)]
    rotation: RotationArguments,
    /// Precision of the circuit in bits of each value's range; polynomials are more precise
    #[arg(long, value_name = "N", default_value_t = 14.0)]
    bits: f64,
    /// Margin of all intervals [default: 1.1 times what held-out text needs, for each kind of function]
    #[arg(long, value_name = "FACTOR")]
    margin: Option<f64>,
    /// Rounds of softmax, from 1 to 8 [default: as few as the sums of softmax allow, from 2 to 6]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=8))]
    rounds: Option<u8>,
    /// File with a template in Jinja for conversations [default: the model's own, if it has one]. It gets the messages,
    /// each with role and content, and `add_generation_prompt`
    #[arg(long, value_name = "FILE")]
    chat_template: Option<PathBuf>,
    /// Do not measure: take what another preparation of the same weights found, its file calibration.safetensors, with
    /// its sizes, margins and precision
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "text", "tokens", "public", "private", "least_public", "skip_vocabulary", "held_out", "search_tokens",
        "prefix_length", "seed", "bits", "margin", "rounds", "preset",
    ])]
    calibration: Option<PathBuf>,
    /// Parameter set for which the report at the end predicts how the model is served
    #[arg(long, value_name = "NAME", default_value = "n16_boot_depth15_scale40")]
    preset: String,
    /// Tokens of texts that the model tells, from which clients guess how texts go on: right guesses save passes
    /// [default: 32768, or what takes some minutes for large models]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    draft_tokens: Option<u32>,
    /// Leave out the report at the end, whether the model is fit for encrypted serving
    #[arg(long)]
    skip_report: bool,
    /// Directory for the preparation. It must not exist yet
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let out = &arguments.out;
    anyhow::ensure!(!out.exists(), "--out: {} exists; name a new directory", out.display());
    anyhow::ensure!(
        arguments.bits > 0.0 && arguments.bits <= 40.0,
        "--bits: found {}, needed more than 0 and at most 40",
        arguments.bits
    );
    if let Some(margin) = arguments.margin {
        anyhow::ensure!(margin >= 1.0 && margin.is_finite(), "--margin: found {margin}, needed a number of at least 1");
    }
    let parameters = Preset::find(&arguments.preset).context("--preset")?.build()?;
    let shared = arguments.calibration.as_deref().map(Shared::load).transpose()?;
    make(out)?;
    if let Some(shared) = shared {
        return finish_shared(arguments, shared);
    }
    let prepared = prepare(arguments, &parameters);
    if prepared.is_err() {
        // Nothing is in it yet, or what could not be written.
        let _ = std::fs::remove_dir_all(out);
    }
    let outcome = prepared?;
    if arguments.json {
        println!("{}", object(&outcome));
    } else {
        describe(&outcome);
        println!("\nmodel       {}", outcome.id);
        println!("service     unspoken serve --chat {}", out.display());
        println!("clients     need {}", client_directory(out).display());
        println!("to share    {}, for --calibration with the same weights", out.join(shared::FILE).display());
    }
    Ok(())
}

/// Rotates the model, fits the polynomials, and writes the preparation into its directory, which exists.
fn prepare(arguments: &Arguments, parameters: &CkksParameters) -> anyhow::Result<Outcome> {
    let (mut model, tokenizer) = load(arguments)?;
    let sizes = arguments.text.sizes.sizes(arguments.rotation.room(&model.config))?;
    look_at_memory(&model, sizes)?;
    let seed = arguments.rotation.seed;
    let mut texts = arguments.text.texts((&model, &tokenizer), sizes, seed)?;
    let prefix = arguments.rotation.search(&model, &tokenizer, texts.text())?;
    let drafts = Guesses::of(arguments, &model, &tokenizer)?;
    let weights = model.weights.digest();
    rotate(&model.config, &mut model.weights, seed);

    let tokens = prefix.len() + sizes.window();
    let mut bars = Bars::new();
    let fitted = fit_texts(arguments, &model, (&mut texts, &prefix, tokens), &mut bars)?;
    let (samples, held_out) = (texts.calibration(&prefix), texts.held_out(&prefix));
    let Fitted { circuit, ranges, needed, options, design } = fitted;
    let chunk = arguments.text.sizes.chunk;
    let simulation = Simulation { circuit: &circuit, model: &model, served: &model, design: &design, chunk };
    let mut compare = |samples: &[Sample]| -> anyhow::Result<[Comparison; 2]> {
        let progress = |done| bars.windows("running held-out text", done, samples.len());
        let results = simulation.compare(&[Noise::None], samples, progress)?;
        results.try_into().ok().context("a result for the model and one for the circuit")
    };
    let [clear, polynomials] = compare(&held_out[0])?;
    let vocabulary = compare(&held_out[1])?;
    let unseen = match arguments.skip_report {
        true => Vec::new(),
        false => texts.unseen(&prefix),
    };
    let mut simulated = None;
    if !unseen.is_empty() {
        let progress = |done| bars.windows("simulating unseen text", done, unseen.len());
        simulated = simulation.compare(&[noise(parameters, &design)?], &unseen, progress)?.pop();
    }
    bars.finish();
    let preparation = Preparation {
        config: model.config.clone(),
        weights,
        prefix,
        seed,
        rounds: circuit.rounds(),
        options,
        ranges,
        least_public: Some(arguments.text.least_public),
    };
    save(&preparation, &arguments.out)?;
    let rotated = RotatedModel::new(model, preparation.prefix.clone());
    rotated.save(&arguments.out)?;
    let id = rotated.id();
    let (client, covered) = client_half(&rotated, tokenizer, &texts);
    let client = client.with_draft_texts(drafts.texts);
    client.save(&client_directory(&arguments.out))?;
    let fitness = match arguments.skip_report {
        true => None,
        false => {
            let unseen_tokens = covered.vocabulary - covered.all;
            Some(Fitness::new((&preparation, rotated), parameters, (chunk, sizes), simulated, unseen_tokens)?)
        }
    };
    let outcome = Outcome {
        id,
        prefix: named(client.tokenizer(), &preparation.prefix),
        tokens: private_tokens(&samples),
        held_out_tokens: held_out.iter().map(|samples| private_tokens(samples)).sum(),
        rounds: preparation.rounds,
        needed,
        margins: preparation.options.margins,
        design,
        clear,
        polynomials,
        vocabulary,
        public: [arguments.text.least_public, sizes.window().saturating_sub(chunk)],
        covered,
        talks: client.tokenizer().chat_template().is_some(),
        kinds: texts.kinds.clone(),
        tokens_per_pass: drafts.tokens_per_pass,
        fitness,
    };
    let covered = texts.coverage(&preparation.prefix).0;
    let every = (0u32..).take(preparation.config.vocabulary);
    let covered = every.filter(|token| covered.covers(*token)).collect();
    Shared { preparation, covered, report: object(&outcome) }.save(&arguments.out)?;
    Ok(outcome)
}

/// Texts for guesses, and the tokens of a pass without and with them.
struct Guesses {
    texts: DraftTexts,
    /// `None` if there is no report.
    tokens_per_pass: Option<[f64; 2]>,
}

impl Guesses {
    /// The texts that the model tells before it is rotated.
    fn of(arguments: &Arguments, model: &Model, tokenizer: &Tokenizer) -> anyhow::Result<Self> {
        let tokens = arguments.draft_tokens.map_or_else(|| drafts::default_tokens(model), |tokens| tokens as usize);
        let texts = drafts::told(model, tokenizer, tokens, &mut Bars::new())?;
        let chunk = arguments.text.sizes.chunk;
        let asked = (!arguments.skip_report).then(|| drafts::tokens_per_pass((model, tokenizer), &texts, chunk));
        let tokens_per_pass = asked.transpose()?;
        Ok(Guesses { texts, tokens_per_pass })
    }
}

/// The model, with the template of the arguments.
fn load(arguments: &Arguments) -> anyhow::Result<(Model, Tokenizer)> {
    let LoadedModel { model, mut tokenizer } = arguments.model.load()?;
    if let Some(path) = &arguments.chat_template {
        let source = unspoken_files::read_text(path);
        let source = source.with_context(|| format!("--chat-template: cannot read {}", path.display()))?;
        tokenizer = tokenizer.with_chat_template_source(&source).context("--chat-template")?;
    }
    Ok((model, tokenizer))
}

/// The noise of a service with these parameters.
fn noise(parameters: &CkksParameters, design: &Design) -> anyhow::Result<Noise> {
    let scale = parameters.name().rsplit("_scale").next().and_then(|bits| bits.parse().ok()).unwrap_or(SCALE_BITS);
    Ok(Noise::Engine(EngineNoise::new(parameters, scale, BOOTSTRAP_BITS, design)?))
}

/// Says how much memory is needed, and refuses to begin if the machine has less.
fn look_at_memory(model: &Model, sizes: Sizes) -> anyhow::Result<()> {
    let config = &model.config;
    let (kv, head) = (config.kv_heads * config.head_width, config.heads * config.head_width);
    let layer = config.width * (2 * head + 2 * kv + 3 * config.ffn_width);
    let table = config.vocabulary * config.width;
    let weights = 4 * (config.layers * layer + 2 * table);
    // Values of a window, most of all its logits: of the model in the clear and of the circuit, and their exponentials.
    let values = config.vocabulary + config.layers * 2 * kv + 8 * (config.width + config.ffn_width);
    let window = 8 * 4 * sizes.window() * (values + config.heads * sizes.window());
    // The weights are here already; their halves are written from a copy.
    let more = (weights + window) as u64;
    let gigabytes = |bytes: u64| bytes as f64 / 1e9;
    note(&format!(
        "memory      {:.2} GB for the weights, at most {:.2} GB more",
        gigabytes(weights as u64),
        gigabytes(more)
    ));
    if let Some(free) = free_memory().filter(|free| *free < more) {
        anyhow::bail!(
            "found {:.2} GB of memory that is free, needed {:.2} GB beside the weights: use a larger machine, or lower \
             --public and --private",
            gigabytes(free),
            gigabytes(more)
        );
    }
    Ok(())
}

/// Prepares a model with what another preparation found.
fn finish_shared(arguments: &Arguments, shared: Shared) -> anyhow::Result<()> {
    let written = write_shared(arguments, &shared);
    if written.is_err() {
        let _ = std::fs::remove_dir_all(&arguments.out);
    }
    let id = written?;
    if arguments.json {
        println!("{}", shared.report);
        return Ok(());
    }
    let Preparation { prefix, options, least_public, .. } = &shared.preparation;
    let tokens = options.tokens.map_or("any".to_owned(), |tokens| tokens.to_string());
    println!("calibrated  by the file; no text was run");
    println!("sessions    {tokens} tokens, {} of them the prefix", prefix.len());
    println!("public      texts of {} tokens or more", least_public.unwrap_or(0));
    println!("coverage    {} of {} tokens ran", shared.covered.len(), shared.preparation.config.vocabulary);
    if let Some(verdict) = shared.report["serving"]["verdict"].as_str() {
        println!("verdict     {verdict}, on the machine of the one who made the file (--json prints all of it)");
    }
    println!("\nmodel       {id}");
    println!("service     unspoken serve --chat {}", arguments.out.display());
    println!("clients     need {}", client_directory(&arguments.out).display());
    Ok(())
}

/// Writes both halves; the model's id.
fn write_shared(arguments: &Arguments, shared: &Shared) -> anyhow::Result<unspoken_store::ModelId> {
    let (model, tokenizer) = load(arguments)?;
    let drafts = Guesses::of(arguments, &model, &tokenizer)?;
    let model = shared.preparation.rotated(model).context("--calibration: the file belongs to other weights")?;
    shared.preparation.design().context("--calibration")?;
    save(&shared.preparation, &arguments.out)?;
    let rotated = RotatedModel::new(model, shared.preparation.prefix.clone());
    rotated.save(&arguments.out)?;
    let id = rotated.id();
    let client = ClientModel::new(&rotated, tokenizer).with_coverage(Coverage::new(shared.covered.iter().copied()));
    let client = client.with_draft_texts(drafts.texts);
    client.save(&client_directory(&arguments.out))?;
    shared.save(&arguments.out)?;
    Ok(id)
}

/// The client's half, with the tokens that calibration ran.
fn client_half(rotated: &RotatedModel, tokenizer: Tokenizer, texts: &Texts) -> (ClientModel, Covered) {
    let (coverage, text) = texts.coverage(rotated.prefix());
    let vocabulary = rotated.model().config.vocabulary;
    let all = coverage.len();
    let client = ClientModel::new(rotated, tokenizer).with_coverage(coverage);
    let every: Vec<u32> = (0u32..).take(vocabulary).collect();
    let unseen = client.uncovered(&every).into_iter().take(SHOWN).collect();
    (client, Covered { text, all, unseen, vocabulary })
}

/// A circuit with its ranges and polynomials.
struct Fitted {
    circuit: Circuit,
    ranges: Ranges,
    needed: Margins<Needed>,
    options: DesignOptions,
    design: Design,
}

/// Finds the polynomials for sessions of `tokens` tokens, with the fewest rounds of softmax that its sums allow.
fn fit(
    arguments: &Arguments,
    model: &Model,
    (samples, held_out, tokens): (&[Sample], &[Sample], usize),
    bars: &mut Bars,
) -> anyhow::Result<Fitted> {
    let rounds = arguments.rounds.map_or(Circuit::ROUNDS..=MAX_ROUNDS, |rounds| rounds..=rounds);
    let last = *rounds.end();
    for rounds in rounds {
        let circuit = Circuit::new(&model.config).with_rounds(rounds);
        let mut measure = |samples: &[Sample], what| {
            let progress = |done| bars.windows(what, done, samples.len());
            calibrate(&circuit, model, samples, arguments.text.sizes.chunk, progress)
        };
        let mut ranges = measure(samples, "calibrating")?;
        let others = measure(held_out, "measuring held-out text")?;
        let needed = Margins::needed(&circuit, &ranges, &others)?;
        ranges.merge(&others);
        let margins = match arguments.margin {
            Some(margin) => Margins::all(margin),
            None => needed.map(|needed| SPARE * needed.margin),
        };
        let options = DesignOptions { bits: arguments.bits, margins, tokens: Some(tokens), ..DesignOptions::default() };
        match Design::new(&circuit, &ranges, &options) {
            Ok(design) => return Ok(Fitted { circuit, ranges, needed, options, design }),
            Err(CircuitError::Imprecise { place, .. })
                if rounds < last && place.quantity == Quantity::SoftmaxFactor(0) => {}
            Err(error @ CircuitError::Imprecise { .. }) => {
                let remedy = "no polynomials for these ranges; --least-public N or --skip-vocabulary narrow them";
                return Err(error).context(remedy);
            }
            Err(error) => return Err(error.into()),
        }
    }
    unreachable!("the last number of rounds returns")
}

/// Fits polynomials to the ranges of texts. In some models tokens in random company, as no text has them, make ranges
/// that no polynomial fits: then the vocabulary is left out, and only tokens of texts run.
fn fit_texts(
    arguments: &Arguments,
    model: &Model,
    (texts, prefix, tokens): (&mut Texts, &[u32], usize),
    bars: &mut Bars,
) -> anyhow::Result<Fitted> {
    let mut fit = |texts: &Texts| {
        fit(arguments, model, (&texts.calibration(prefix), &texts.held_out(prefix).concat(), tokens), bars)
    };
    let fitted = fit(texts);
    let is_imprecise = |error: &anyhow::Error| matches!(error.downcast_ref(), Some(CircuitError::Imprecise { .. }));
    match fitted {
        Err(error) if is_imprecise(&error) && texts.leave_out_vocabulary() => {
            let fitted = fit(texts)?;
            note(&format!(
                "vocabulary  left out, as with --skip-vocabulary: {error:#}. Clients warn of tokens that no text had"
            ));
            Ok(fitted)
        }
        fitted => fitted,
    }
}

fn private_tokens(samples: &[Sample]) -> usize {
    samples.iter().map(|sample| sample.private.len()).sum()
}
