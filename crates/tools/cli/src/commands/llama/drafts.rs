//! The texts from which clients guess how a text goes on: what the model tells itself. They go to every client, so they
//! are never the text of `--text`.

use rayon::prelude::*;
use unspoken_chat::Drafts;
use unspoken_llama_model::{DraftTexts, Generation, Message, Model, Tokenizer};

use super::own_text::{NAMES, after_begin, openings, questions, rendered};
use crate::progress::Bars;

/// Tokens of each continuation.
const CONTINUED: usize = 160;

/// Most tokens of all texts that are told by default, and about the multiplications that telling them may take.
const MOST_TOKENS: usize = 32_768;
const MULTIPLICATIONS: usize = 400_000_000_000;

/// Texts that are told between two looks at the count.
const TOGETHER: usize = 8;

/// Who the texts that measure are about, and what the others are about.
const HELD_OUT: &str = "Zoe";
const THINGS: [&str; 10] = ["car", "tree", "bird", "fish", "flower", "book", "hat", "boat", "toy", "cake"];
const PLOTS: [&str; 5] = [
    "{name} wanted to play with a {thing}.",
    "{name} had a big {thing}.",
    "One day {name} saw a {thing} in the park.",
    "{name} was sad because the {thing} was gone.",
    "The {thing} was very pretty. {name} liked it.",
];
const HELD_OUT_PLOTS: [&str; 4] = [
    "It was raining and {name} could not go out.",
    "Grandma gave {name} a box with a secret.",
    "{name} found a shiny stone near the river.",
    "A loud noise woke {name} up in the night.",
];

/// Number of tokens that are told by default.
pub fn default_tokens(model: &Model) -> usize {
    (MULTIPLICATIONS / model.config.linear_weights().max(1)).min(MOST_TOKENS)
}

/// About `tokens` tokens that the model tells, or fewer if it has continued all openings.
pub fn told(model: &Model, tokenizer: &Tokenizer, tokens: usize, bars: &mut Bars) -> anyhow::Result<DraftTexts> {
    let (mut texts, mut count) = (Vec::new(), 0);
    let prompts = prompts(model, tokenizer)?;
    for prompts in prompts.chunks(TOGETHER) {
        if count >= tokens {
            break;
        }
        let told: Result<Vec<Vec<u32>>, _> =
            prompts.par_iter().map(|prompt| continued(model, tokenizer, prompt)).collect();
        for text in told? {
            count += text.len();
            texts.push(text);
        }
        bars.windows("telling texts for guesses", count.min(tokens), tokens);
    }
    bars.finish();
    let refused = |(found, needed)| anyhow::anyhow!("found {found}, needed {needed}");
    DraftTexts::new(&texts, model.config.vocabulary).map_err(refused)
}

/// A prompt and what the model continues.
fn continued(model: &Model, tokenizer: &Tokenizer, prompt: &[u32]) -> anyhow::Result<Vec<u32>> {
    let room = model.config.context.saturating_sub(prompt.len());
    let told = Generation::new(model, prompt, tokenizer.ends())?.take(CONTINUED.min(room));
    Ok(prompt.iter().copied().chain(told).collect())
}

/// Openings and plots, and every other one a question if the model answers questions.
fn prompts(model: &Model, tokenizer: &Tokenizer) -> anyhow::Result<Vec<Vec<u32>>> {
    let plots = THINGS.iter().flat_map(|thing| {
        PLOTS.iter().flat_map(move |plot| NAMES.map(|name| plot.replace("{name}", name).replace("{thing}", thing)))
    });
    let stories = openings().chain(plots).map(|text| tokenizer.encode(&text));
    let mut prompts: Vec<Vec<u32>> = stories.collect::<Result<_, _>>()?;
    for (number, question) in questions().iter().enumerate() {
        let Some(template) = tokenizer.chat_template() else { break };
        // A template that refuses a message has no conversations.
        let Ok(tokens) = rendered(tokenizer, template, &[Message::new("user", question)], true) else { break };
        prompts.insert(2 * number, after_begin(tokenizer, tokens));
    }
    prompts.retain(|prompt| prompt.len() < model.config.context);
    Ok(prompts)
}

/// Tokens that a pass gives on average, where guesses fill chunks of `chunk` tokens: in texts that the model continues
/// from openings which the others lack. The texts' own tokens alone guess for the first number.
pub fn tokens_per_pass(
    (model, tokenizer): (&Model, &Tokenizer),
    texts: &DraftTexts,
    chunk: usize,
) -> anyhow::Result<[f64; 2]> {
    let prompts = HELD_OUT_PLOTS.map(|plot| tokenizer.encode(&plot.replace("{name}", HELD_OUT)));
    let mut prompts = prompts.into_iter().collect::<Result<Vec<_>, _>>()?;
    prompts.retain(|prompt| prompt.len() < model.config.context);
    let told = prompts.par_iter().map(|prompt| Ok((prompt.len(), continued(model, tokenizer, prompt)?)));
    let told = told.collect::<anyhow::Result<Vec<_>>>()?;
    let rate = |others: Option<&DraftTexts>| {
        let generated: usize = told.iter().map(|(prompt, text)| text.len() - prompt).sum();
        let passes: usize = told.iter().map(|(prompt, text)| passes(text, *prompt, others, chunk)).sum();
        generated as f64 / passes.max(1) as f64
    };
    Ok([rate(None), rate(Some(texts))])
}

/// Passes of a text after its first `prompt` tokens, which fill whole chunks.
fn passes(text: &[u32], prompt: usize, others: Option<&DraftTexts>, chunk: usize) -> usize {
    // The last pass of the prompt gives the first token.
    let (mut known, mut passes) = (prompt + 1, 1);
    while known < text.len() {
        let free = chunk - (known - prompt - 1) % chunk - 1;
        let guesses = Drafts::guess(&text[..known], free, others);
        let right = guesses.iter().zip(&text[known..]).take_while(|(guess, token)| guess == token).count();
        known += right + 1;
        passes += 1;
    }
    passes
}
