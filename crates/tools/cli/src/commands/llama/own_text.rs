//! Text that `unspoken llama prepare` brings: what the model tells itself, and a page with many kinds of characters.

use unspoken_llama_model::{Generation, Model, Tokenizer};

use crate::progress::Bars;

/// Prose, a letter, code, markup, other alphabets, signs and emoji.
pub const BROAD: &str = include_str!("broad.txt");

/// Openings of texts that the model continues. Each name has each of the openings.
const NAMES: [&str; 8] = ["Lily", "Tom", "Sue", "Ben", "Mia", "Tim", "Anna", "Max"];
const OPENINGS: [&str; 6] = [
    "Once upon a time, there was a little child named",
    "One day, a mom went to the park with her friend",
    "In a small house there lived a big dog with a boy named",
    "There was a red ball, and it was lost. It belonged to",
    "A bird sat in a tree and saw a girl whose name was",
    "It was a sunny day, and there was a happy cat named",
];

/// Tokens of each continuation.
const CONTINUED: usize = 160;

/// A text that the model tells: the continuations of the openings, until there are `tokens` tokens.
pub fn told(model: &Model, tokenizer: &Tokenizer, tokens: usize, bars: &mut Bars) -> anyhow::Result<String> {
    let mut all = String::new();
    let mut count = 0;
    let texts = NAMES.iter().flat_map(|name| OPENINGS.map(|opening| format!("{opening} {name}.")));
    for (number, opening) in texts.enumerate() {
        if count >= tokens {
            break;
        }
        let prompt = tokenizer.encode(&opening)?;
        let room = model.config.context.saturating_sub(prompt.len());
        let mut stream = tokenizer.stream(&prompt)?;
        all += &opening;
        for token in Generation::new(model, &prompt, tokenizer.ends())?.take(CONTINUED.min(room)) {
            all += &stream.push(token)?;
            count += 1;
        }
        all.push('\n');
        count += prompt.len();
        bars.windows("telling text", number + 1, NAMES.len() * OPENINGS.len());
    }
    bars.finish();
    Ok(all)
}
