//! `unspoken llama prepare`

use std::path::PathBuf;

use anyhow::Context;
use serde_json::{Value, json};
use unspoken_llama::{
    Circuit, CircuitError, Comparison, Design, DesignOptions, Margins, Needed, Noise, Preparation, Quantity, Ranges,
    Sample, Simulation, calibrate,
};
use unspoken_llama_files::LoadedModel;
use unspoken_llama_model::{ClientModel, Model, RotatedModel, Tokenizer, rotate};
use unspoken_store::ModelId;

use super::ModelArguments;
use super::calibration::{CalibrationArguments, Texts};
use super::tables::{
    comparison_object, describe_comparison, describe_design, describe_escapes, describe_header, design_object,
};
use super::text::{RotationArguments, named, prefix_line};
use crate::progress::Bars;
use unspoken_offers::preparation::{client_directory, make, save};

/// Factor by which margins exceed the margins that held-out text needs, unless margins are given.
const SPARE: f64 = 1.1;

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
/// tokenizer.json, and the template of conversations in chat_template.json if there is one.
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
    /// Directory for the preparation. It must not exist yet
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A preparation, and what held-out text showed.
struct Outcome {
    id: ModelId,
    /// Whether it has a template of conversations.
    talks: bool,
    prefix: Vec<(u32, String)>,
    tokens: usize,
    held_out_tokens: usize,
    rounds: u8,
    needed: Margins<Needed>,
    margins: Margins,
    design: Design,
    clear: Comparison,
    polynomials: Comparison,
    /// The circuit over held-out tokens of the vocabulary in random order, after the model in the clear.
    vocabulary: [Comparison; 2],
    /// Numbers of public tokens that clients may send.
    public: [usize; 2],
    covered: Covered,
}

/// Tokens that calibration ran.
struct Covered {
    /// Tokens that the text had.
    text: usize,
    /// All of them.
    all: usize,
    /// The texts of some that never ran.
    unseen: Vec<String>,
    vocabulary: usize,
}

/// Number of tokens that never ran whose texts are printed.
const SHOWN: usize = 8;

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
    make(out)?;
    let prepared = prepare(arguments);
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
    }
    Ok(())
}

/// Rotates the model, fits the polynomials, and writes the preparation into its directory, which exists.
fn prepare(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let LoadedModel { mut model, mut tokenizer } = arguments.model.load()?;
    if let Some(path) = &arguments.chat_template {
        let source = unspoken_files::read_text(path);
        let source = source.with_context(|| format!("--chat-template: cannot read {}", path.display()))?;
        tokenizer = tokenizer.with_chat_template_source(&source).context("--chat-template")?;
    }
    let sizes = arguments.text.sizes.sizes(arguments.rotation.room(&model.config))?;
    let seed = arguments.rotation.seed;
    let texts = arguments.text.texts((&model, &tokenizer), sizes, seed)?;
    let prefix = arguments.rotation.search(&model, &tokenizer, texts.text())?;
    let weights = model.weights.digest();
    rotate(&model.config, &mut model.weights, seed);

    let (samples, held_out) = (texts.calibration(&prefix), texts.held_out(&prefix));
    let tokens = prefix.len() + sizes.window();
    let mut bars = Bars::new();
    let fitted = fit(arguments, &model, (&samples, &held_out.concat(), tokens), &mut bars)?;
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
    let (client, covered) = client_half(&rotated, tokenizer, &texts);
    client.save(&client_directory(&arguments.out))?;
    let outcome = Outcome {
        id: rotated.id(),
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
    };
    Ok(outcome)
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

fn private_tokens(samples: &[Sample]) -> usize {
    samples.iter().map(|sample| sample.private.len()).sum()
}

/// The margins by name: needed by held-out text, and taken.
fn margin_rows(outcome: &Outcome) -> impl Iterator<Item = (&'static str, Needed, f64)> {
    let taken = outcome.margins.named().map(|(_, taken)| taken);
    outcome.needed.named().into_iter().zip(taken).map(|((name, needed), taken)| (name, needed, taken))
}

/// What is printed with `--json`.
fn object(outcome: &Outcome) -> Value {
    let prefix = outcome.prefix.iter().map(|(id, text)| json!({ "id": id, "text": text })).collect::<Vec<_>>();
    let margins: Value = margin_rows(outcome)
        .map(|(name, needed, taken)| {
            let place = needed.place.map(|place| place.to_string());
            (name.to_owned(), json!({ "needed": needed.margin, "taken": taken, "place": place }))
        })
        .collect();
    json!({
        "id": outcome.id.to_string(),
        "prefix": prefix,
        "tokens": outcome.tokens,
        "held_out_tokens": outcome.held_out_tokens,
        "rounds": outcome.rounds,
        "margins": margins,
        "perplexity": outcome.clear.perplexity(),
        "held_out": comparison_object(&outcome.polynomials, &outcome.clear),
        "vocabulary": comparison_object(&outcome.vocabulary[1], &outcome.vocabulary[0]),
        "public_tokens": outcome.public,
        "chat_template": outcome.talks,
        "covered": {
            "text": outcome.covered.text, "all": outcome.covered.all, "vocabulary": outcome.covered.vocabulary,
            "unseen": outcome.covered.unseen,
        },
        "polynomials": design_object(&outcome.design),
    })
}

/// What is printed without `--json`.
fn describe(outcome: &Outcome) {
    println!("prefix      {}", prefix_line(&outcome.prefix));
    println!("calibrated  on {} private tokens", outcome.tokens);
    println!("held out    {} private tokens", outcome.held_out_tokens);
    println!("softmax     {} rounds", outcome.rounds);
    let [least, most] = outcome.public;
    println!("public      texts of {least} to {most} tokens");
    describe_coverage(&outcome.covered);
    if !outcome.talks {
        println!("chat        no template: the model continues texts (--chat-template FILE makes it answer messages)");
    }
    println!("\n{:12} {:>8} {:>8}  place", "margin", "needed", "taken");
    for (name, needed, taken) in margin_rows(outcome) {
        let place = needed.place.map(|place| place.to_string()).unwrap_or_default();
        println!("{name:12} {:>8.3} {taken:>8.3}  {place}", needed.margin);
    }
    println!("\nHeld-out text with polynomials, whose intervals hold its ranges too");
    describe_header("");
    describe_comparison("model in the clear", &outcome.clear, &outcome.clear);
    describe_comparison("polynomials", &outcome.polynomials, &outcome.clear);
    if outcome.vocabulary[0].tokens > 0 {
        describe_comparison("vocabulary in the clear", &outcome.vocabulary[0], &outcome.vocabulary[0]);
        describe_comparison("polynomials", &outcome.vocabulary[1], &outcome.vocabulary[0]);
    }
    describe_escapes(&outcome.polynomials);
    describe_design(&outcome.design);
}

/// Which tokens ran.
fn describe_coverage(covered: &Covered) {
    let Covered { text, all, unseen, vocabulary } = covered;
    print!("coverage    text has {text} of {vocabulary} tokens");
    match vocabulary - all {
        0 => println!("; all ran in random order"),
        missing => {
            let unseen: Vec<String> = unseen.iter().map(|text| format!("{text:?}")).collect();
            println!("; {missing} never ran, such as {}; clients warn of them", unseen.join(", "));
        }
    }
}
