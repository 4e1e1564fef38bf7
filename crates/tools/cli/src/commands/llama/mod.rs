//! `unspoken llama`

mod picture;
mod polynomial;
mod prepare;
mod report;
mod run;
mod study;
mod text;

use std::path::PathBuf;

use unspoken_llama_model::{LoadError, LoadedModel};

/// Look at language models of the Llama architecture in the clear: their text and their ranges
#[derive(clap::Subcommand)]
pub enum Command {
    /// Continue a text with a model, in the clear
    Run(run::Arguments),
    /// Find a model's prefix, rotate it, and measure the ranges that its values keep
    Prepare(prepare::Arguments),
    /// Report how large a model's values get, and how much a prefix and rotations reduce them
    Report(report::Arguments),
    /// Approximate a function by a polynomial, and compare two ways to evaluate it encrypted
    Polynomial(polynomial::Arguments),
}

/// Runs the command.
pub fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::Run(arguments) => run::run(arguments),
        Command::Prepare(arguments) => prepare::run(arguments),
        Command::Report(arguments) => report::run(arguments),
        Command::Polynomial(arguments) => polynomial::run(arguments),
    }
}

/// The model that a command works on
#[derive(clap::Args)]
struct ModelArguments {
    /// GGUF file, llama2.c checkpoint (.bin), or directory with config.json, tokenizer.json and safetensors
    #[arg(long, value_name = "PATH")]
    model: PathBuf,
    /// Tokenizer of a llama2.c checkpoint [default: the only tok*.bin in the checkpoint's directory]
    #[arg(long, value_name = "FILE")]
    tokenizer: Option<PathBuf>,
}

impl ModelArguments {
    fn load(&self) -> Result<LoadedModel, LoadError> {
        unspoken_llama_model::load(&self.model, self.tokenizer.as_deref())
    }
}
