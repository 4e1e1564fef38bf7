//! Text that `unspoken llama prepare` brings: a page with many kinds of characters, general English prose, what the
//! model tells itself, and conversations with it.

use unspoken_llama_model::{ChatTemplate, Generation, InputError, Message, Model, Rendering, Tokenizer};

use crate::progress::{Bars, note};

/// Prose, a letter, code, markup, other alphabets, signs and emoji.
pub const BROAD: &str = include_str!("broad.txt");

/// General English prose: introductions of countries, in the public domain. `scripts/general_text.py` wrote it.
const GENERAL: &str = include_str!("general.txt");

/// What people ask, a message in each line.
const QUESTIONS: &str = include_str!("questions.txt");

/// A system message, which one of three conversations has.
const SYSTEM: &str = "You are a helpful assistant. Answer in a few sentences.";

/// Openings of texts that the model continues. Each name has each of the openings.
pub const NAMES: [&str; 8] = ["Lily", "Tom", "Sue", "Ben", "Mia", "Tim", "Anna", "Max"];
const OPENINGS: [&str; 6] = [
    "Once upon a time, there was a little child named",
    "One day, a mom went to the park with her friend",
    "In a small house there lived a big dog with a boy named",
    "There was a red ball, and it was lost. It belonged to",
    "A bird sat in a tree and saw a girl whose name was",
    "It was a sunny day, and there was a happy cat named",
];

/// Tokens of each continuation, and of each answer.
const CONTINUED: usize = 160;
const ANSWERED: usize = 48;

/// The openings with each name.
pub fn openings() -> impl Iterator<Item = String> {
    NAMES.iter().flat_map(|name| OPENINGS.map(|opening| format!("{opening} {name}.")))
}

/// What people ask.
pub fn questions() -> Vec<String> {
    QUESTIONS.lines().map(|line| line.replace("\\n", "\n")).collect()
}

/// The general text, a line for each paragraph.
pub fn general() -> String {
    GENERAL.split("\n\n").map(|paragraph| paragraph.replace('\n', " ") + "\n").collect()
}

/// A text that the model tells: the continuations of the openings, until there are `tokens` tokens.
pub fn told(model: &Model, tokenizer: &Tokenizer, tokens: usize, bars: &mut Bars) -> anyhow::Result<String> {
    let mut all = String::new();
    let mut count = 0;
    for opening in openings() {
        if count >= tokens {
            break;
        }
        let prompt = tokenizer.encode(&opening)?;
        let (told, given) = continued(model, tokenizer, &prompt, CONTINUED)?;
        all += &opening;
        all += &told;
        all.push('\n');
        count += prompt.len() + given;
        bars.windows("telling text", count.min(tokens), tokens);
    }
    bars.finish();
    Ok(all)
}

/// What the model continues, and its number of tokens.
fn continued(model: &Model, tokenizer: &Tokenizer, prompt: &[u32], most: usize) -> anyhow::Result<(String, usize)> {
    let room = model.config.context.saturating_sub(prompt.len());
    let mut stream = tokenizer.stream(prompt)?;
    let (mut text, mut count) = (String::new(), 0);
    for token in Generation::new(model, prompt, tokenizer.ends())?.take(most.min(room)) {
        text += &stream.push(token)?;
        count += 1;
    }
    Ok((text, count))
}

/// The tokens of conversations in the form of the model's template, with answers of the model, until there are `tokens`
/// tokens. None if the model has no template, or its template refuses them.
pub fn conversations(
    model: &Model,
    tokenizer: &Tokenizer,
    tokens: usize,
    bars: &mut Bars,
) -> anyhow::Result<Option<Vec<u32>>> {
    let Some(template) = tokenizer.chat_template() else { return Ok(None) };
    let mut all = Vec::new();
    let questions = questions();
    for (round, (number, pair)) in questions.chunks(2).enumerate().cycle().enumerate() {
        if round > number && all.is_empty() {
            note("warning     the template refuses conversations that end with an answer");
            return Ok(None);
        }
        if all.len() >= tokens {
            break;
        }
        let system = (number % 3 == 0).then(|| Message::new("system", SYSTEM));
        let mut messages: Vec<Message> = system.into_iter().collect();
        for question in pair {
            messages.push(Message::new("user", question));
            let prompt = match rendered(tokenizer, template, &messages, true) {
                // Some templates have no system messages.
                Err(_) if messages.len() == 2 && messages[0].role == "system" => {
                    messages.remove(0);
                    rendered(tokenizer, template, &messages, true)
                }
                prompt => prompt,
            };
            let prompt = match prompt {
                Ok(prompt) if prompt.len() < model.config.context => prompt,
                Ok(_) => break,
                Err(error) => {
                    note(&format!("warning     the template refuses conversations of the usual form: {error}"));
                    return Ok(None);
                }
            };
            let prompt = after_begin(tokenizer, prompt);
            messages.push(Message::new("assistant", continued(model, tokenizer, &prompt, ANSWERED)?.0));
        }
        if let Ok(text) = rendered(tokenizer, template, &messages, false) {
            all.extend(text);
        }
        bars.windows("talking to the model", all.len().min(tokens), tokens);
    }
    bars.finish();
    all.truncate(tokens);
    Ok(Some(all))
}

/// Tokens after the token for the begin, if there is one.
pub fn after_begin(tokenizer: &Tokenizer, tokens: Vec<u32>) -> Vec<u32> {
    tokenizer.begin().into_iter().chain(tokens).collect()
}

/// The tokens of messages, without the token for the begin.
pub fn rendered(
    tokenizer: &Tokenizer,
    template: &ChatTemplate,
    messages: &[Message],
    answer: bool,
) -> Result<Vec<u32>, InputError> {
    let text = template.render(messages, answer, &Rendering::default())?;
    let mut tokens = tokenizer.encode_continuation(&text)?;
    // Templates may have this token, too.
    if tokens.first().copied() == tokenizer.begin() && tokenizer.begin().is_some() {
        tokens.remove(0);
    }
    Ok(tokens)
}
