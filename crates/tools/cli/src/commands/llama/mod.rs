//! `unspoken llama`

mod calibration;
mod choices;
mod clients;
mod drafts;
mod fitness;
mod outcome;
mod own_text;
mod picture;
mod plan;
mod prepare;
mod report;
mod run;
mod shared;
mod simulate;
mod study;
mod tables;
mod text;

use std::path::{Path, PathBuf};

use unspoken_llama_files::{LoadError, LoadedModel};

/// Look at language models (Llama, Mistral, Qwen, SmolLM, Phi-3); prepare, simulate and plan their encrypted passes
#[derive(clap::Subcommand)]
pub enum Command {
    Run(run::Arguments),
    Prepare(prepare::Arguments),
    Report(report::Arguments),
    Simulate(simulate::Arguments),
    Plan(plan::Arguments),
}

/// Runs the command.
pub fn run(command: &Command) -> anyhow::Result<()> {
    crate::allocator::keep_freed_memory();
    match command {
        Command::Run(arguments) => run::run(arguments),
        Command::Prepare(arguments) => prepare::run(arguments),
        Command::Report(arguments) => report::run(arguments),
        Command::Simulate(arguments) => simulate::run(arguments),
        Command::Plan(arguments) => plan::run(arguments),
    }
}

/// The model that a command works on
#[derive(clap::Args)]
struct ModelArguments {
    /// GGUF file, llama2.c checkpoint (.bin), or directory with config.json, tokenizer.json and safetensors
    #[arg(value_name = "MODEL", required_unless_present = "named")]
    place: Option<PathBuf>,
    /// The same, with a name
    #[arg(id = "named", long = "model", value_name = "PATH", conflicts_with = "place")]
    named: Option<PathBuf>,
    /// Tokenizer of a llama2.c checkpoint [default: the only tok*.bin in the checkpoint's directory]
    #[arg(long, value_name = "FILE")]
    tokenizer: Option<PathBuf>,
}

impl ModelArguments {
    fn load(&self) -> Result<LoadedModel, LoadError> {
        unspoken_llama_files::load(self.path(), self.tokenizer.as_deref())
    }

    /// Where the model is.
    fn path(&self) -> &Path {
        self.place.as_deref().or(self.named.as_deref()).unwrap_or(Path::new(""))
    }
}
