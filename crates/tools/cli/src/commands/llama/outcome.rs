//! What `unspoken llama prepare` found, as it is printed.

use serde_json::{Value, json};
use unspoken_llama::{Comparison, Design, Margins, Needed};
use unspoken_store::ModelId;

use super::fitness::Fitness;
use super::tables::{
    comparison_object, describe_comparison, describe_design, describe_escapes, describe_header, design_object,
};
use super::text::prefix_line;

/// A preparation, and what held-out text showed.
pub struct Outcome {
    pub id: ModelId,
    /// Whether it has a template of conversations.
    pub talks: bool,
    pub prefix: Vec<(u32, String)>,
    pub tokens: usize,
    pub held_out_tokens: usize,
    pub rounds: u8,
    pub needed: Margins<Needed>,
    pub margins: Margins,
    pub design: Design,
    pub clear: Comparison,
    pub polynomials: Comparison,
    /// The circuit over held-out tokens of the vocabulary in random order, after the model in the clear.
    pub vocabulary: [Comparison; 2],
    /// Numbers of public tokens that clients may send.
    pub public: [usize; 2],
    pub covered: Covered,
    /// Windows of each kind of text.
    pub kinds: Vec<(&'static str, usize)>,
    /// Tokens that a pass gives, where the text alone guesses and with the texts for guesses; `None` if that was not
    /// asked.
    pub tokens_per_pass: Option<[f64; 2]>,
    /// Whether it is fit for serving; `None` if that was not asked.
    pub fitness: Option<Fitness>,
}

/// Tokens that calibration ran.
pub struct Covered {
    /// Tokens that the text had.
    pub text: usize,
    /// All of them.
    pub all: usize,
    /// The texts of some that never ran.
    pub unseen: Vec<String>,
    pub vocabulary: usize,
}

/// Number of tokens that never ran whose texts are printed.
pub const SHOWN: usize = 8;

/// The margins by name: needed by held-out text, and taken.
fn margin_rows(outcome: &Outcome) -> impl Iterator<Item = (&'static str, Needed, f64)> {
    let taken = outcome.margins.named().map(|(_, taken)| taken);
    outcome.needed.named().into_iter().zip(taken).map(|((name, needed), taken)| (name, needed, taken))
}

/// What is printed with `--json`.
pub fn object(outcome: &Outcome) -> Value {
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
        "windows": outcome.kinds.iter().map(|(name, count)| ((*name).to_owned(), json!(count))).collect::<Value>(),
        "tokens_per_pass": outcome.tokens_per_pass.map(|[own, all]| json!({ "own_text": own, "draft_texts": all })),
        "serving": outcome.fitness.as_ref().map(Fitness::object),
    })
}

/// What is printed without `--json`.
pub fn describe(outcome: &Outcome) {
    println!("prefix      {}", prefix_line(&outcome.prefix));
    let kinds: Vec<String> = outcome.kinds.iter().map(|(name, count)| format!("{count} of {name}")).collect();
    println!("windows     {}", kinds.join(", "));
    println!("calibrated  on {} private tokens", outcome.tokens);
    println!("held out    {} private tokens", outcome.held_out_tokens);
    println!("softmax     {} rounds", outcome.rounds);
    let [least, most] = outcome.public;
    println!("public      texts of {least} to {most} tokens");
    describe_coverage(&outcome.covered);
    if let Some([own, all]) = outcome.tokens_per_pass {
        println!("guesses     {all:.2} tokens a pass in greedy stories, {own:.2} without the texts for guesses");
    }
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
    outcome.fitness.iter().for_each(Fitness::describe);
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
