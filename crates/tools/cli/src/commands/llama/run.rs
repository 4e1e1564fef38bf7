//! `unspoken llama run`

use std::io::{self, Write};
use std::time::Instant;

use anyhow::Context;
use serde_json::json;
use unspoken_llama_files::LoadedModel;
use unspoken_llama_model::Generation;

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
    #[arg(long, value_name = "TEXT", default_value = "")]
    prompt: String,
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
    let prompt = tokenizer.encode(&arguments.prompt)?;
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
