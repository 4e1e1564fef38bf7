//! `unspoken llama run`

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use serde_json::json;
use unspoken_chat::{Passages, PromptTokens};
use unspoken_llama_files::LoadedModel;
use unspoken_llama_model::{Generation, Message, Model, Prompt, Rendering, Tokenizer};

use super::ModelArguments;

/// Continue a text with a model, in the clear
///
/// Generation is greedy: each token is the most likely one. The continuation goes to standard output as it comes, the
/// speed to standard error. Nothing is encrypted.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    /// Text to continue. Control tokens of the model, such as <|im_start|>, are recognised in it
    #[arg(long, value_name = "TEXT", default_value = "", conflicts_with = "question")]
    prompt: String,
    /// Question to answer, in the form in which `unspoken chat --search` asks it: with passages in front, through the
    /// model's template of conversations if it has one, and filled up with dots
    #[arg(long, value_name = "TEXT")]
    question: Option<String>,
    /// File with the passages, one in each line, the best first [default: none]
    #[arg(long, value_name = "FILE", requires = "question")]
    passages: Option<PathBuf>,
    /// Tokens that passages take
    #[arg(long, value_name = "N", default_value_t = 192, requires = "question")]
    passage_tokens: usize,
    /// Tokens of a chunk, up to a multiple of which dots fill the text
    #[arg(long, value_name = "N", default_value_t = 16, requires = "question")]
    chunk: usize,
    /// Maximum number of generated tokens. Generation also ends at the model's end token, or when its context is full
    #[arg(long, value_name = "N", default_value_t = 256)]
    max_tokens: usize,
    /// Print one JSON object at the end, with the text, its tokens, and the speed
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let LoadedModel { model, tokenizer } = arguments.model.load()?;
    let (model, tokenizer, prompt) = match &arguments.question {
        Some(question) => asked(arguments, question, (model, tokenizer))?,
        None => {
            let prompt = tokenizer.encode(&arguments.prompt)?;
            (model, tokenizer, prompt)
        }
    };
    anyhow::ensure!(!prompt.is_empty(), "found no prompt, and this model needs one: name it with --prompt");
    let mut stream = tokenizer.stream(&prompt)?;
    let start = Instant::now();
    let mut generation = Generation::new(&model, &prompt, tokenizer.ends()).context("--prompt")?;
    let prompt_seconds = start.elapsed().as_secs_f64();
    let (mut tokens, mut text) = (vec![], String::new());
    let start = Instant::now();
    for token in generation.by_ref().take(arguments.max_tokens) {
        let new = stream.push(token)?;
        if !arguments.json {
            print!("{new}");
            io::stdout().flush().context("cannot write to standard output")?;
        }
        tokens.push(token);
        text.push_str(&new);
    }
    let seconds = start.elapsed().as_secs_f64();
    // The first token is known when the prompt has been run.
    let runs = tokens.len().saturating_sub(1);
    let tokens_per_second = runs as f64 / seconds.max(f64::MIN_POSITIVE);
    let end = match tokens.len() == arguments.max_tokens {
        true => "maximum",
        false if generation.is_full() => "context",
        false => "end token",
    };
    if arguments.json {
        let line = json!({
            "prompt_tokens": prompt, "tokens": tokens, "text": text, "end": end,
            "prompt_seconds": prompt_seconds, "seconds": seconds, "tokens_per_second": tokens_per_second,
        });
        println!("{line}");
        return Ok(());
    }
    println!();
    eprintln!("prompt      {} tokens in {prompt_seconds:.2} s", prompt.len());
    eprintln!("text        {} tokens, {tokens_per_second:.1} tokens per second, ended by the {end}", tokens.len());
    Ok(())
}

/// The tokens of a question with passages, as clients send them.
fn asked(
    arguments: &Arguments,
    question: &str,
    (model, tokenizer): (Model, Tokenizer),
) -> anyhow::Result<(Model, Tokenizer, Vec<u32>)> {
    let texts = match &arguments.passages {
        Some(path) => unspoken_files::read_text(path).with_context(|| format!("--passages: {}", path.display()))?,
        None => String::new(),
    };
    let texts: Vec<&str> = texts.lines().collect();
    let mut passages = Passages::new(arguments.passage_tokens).context("--passage-tokens")?;
    let content = passages.ask(&tokenizer, question, &texts).context("--passage-tokens")?;
    let prompt = match tokenizer.chat_template() {
        Some(_) => tokenizer.prompt(&[Message::new("user", content.as_str())], 0, &Rendering::default())?,
        None => Prompt { public: String::new(), private: Passages::without_template(&content) },
    };
    let begin: Vec<u32> = tokenizer.begin().into_iter().collect();
    let tokens = PromptTokens::with_passages((&tokenizer, &begin), &prompt, &passages, arguments.chunk)?;
    let prompt = [begin.as_slice(), &tokens.public, &tokens.private].concat();
    Ok((model, tokenizer, prompt))
}
