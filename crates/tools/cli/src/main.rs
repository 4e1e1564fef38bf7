//! The `unspoken` command: train models, serve applications, query them.

#[macro_use]
mod output;

mod allocator;
mod commands;
#[cfg(test)]
mod help_texts;
mod input;
mod interrupt;
mod memory;
mod npy;
mod old_spellings;
mod output_file;
mod progress;
mod scores;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The version, and what a build without the feature `full` lacks.
const VERSION: &str = if cfg!(feature = "full") {
    env!("CARGO_PKG_VERSION")
} else {
    concat!(
        env!("CARGO_PKG_VERSION"),
        " (quick build: no GGUF, Parquet or SQLite files, no MCP, the system's allocator)"
    )
};

/// Query a service without revealing the query.
///
/// `train` trains a model, `serve` serves it, and `classify` queries it. The service computes on encrypted messages:
/// it learns neither the words nor the answers.
#[derive(Parser)]
#[command(version = VERSION, propagate_version = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Train a text classifier from labelled messages
    Train(commands::train::Arguments),
    Serve(Box<commands::serve::Arguments>),
    Doctor(Box<commands::doctor::Arguments>),
    Health(commands::health::Arguments),
    Openapi(commands::openapi::Arguments),
    /// Classify messages with an encrypted query to a service
    Classify(commands::classify::Arguments),
    /// Compress embedding tables, look up embeddings privately, and train linear heads over them
    #[command(subcommand)]
    Embed(commands::embed::Command),
    /// Train a network on handwritten digits, and recognise images privately
    #[command(subcommand)]
    Digits(commands::digits::Command),
    #[command(subcommand)]
    Llama(commands::llama::Command),
    Chat(Box<commands::chat::Arguments>),
    #[cfg(feature = "full")]
    Proxy(commands::proxy::Arguments),
    Compile(commands::model::compile::Arguments),
    Ask(commands::model::ask::Arguments),
    /// Let a service compute with encrypted matrices
    #[command(subcommand)]
    Matrix(commands::matrix::Command),
    #[command(subcommand)]
    Pir(commands::pir::Command),
    #[command(subcommand)]
    Search(commands::search::Command),
    #[cfg(feature = "full")]
    Mcp(commands::mcp::Arguments),
    #[command(subcommand)]
    Sums(commands::sums::Command),
    /// Manage evaluation keys at a service, and create access tokens
    #[command(subcommand)]
    Keys(commands::keys::Command),
    /// List the parameter sets and their security
    Params(commands::params::Arguments),
    Devices(commands::devices::Arguments),
    /// Plan permutations of encrypted slots, and draw them
    #[command(subcommand)]
    Permute(commands::permute::Command),
    #[command(subcommand)]
    Cluster(commands::cluster::Command),
    /// Show the plans of a lookup and their costs
    Plan(commands::plan::Arguments),
    /// Train, serve and query on this machine, and show what was sent
    Demo(commands::demo::Arguments),
}

fn main() -> ExitCode {
    let command = Arguments::parse_from(old_spellings::translated(std::env::args_os())).command;
    match output::run(|| run(command)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let error = commands::connection::name_command(error);
            // The chain of causes on one line, without a backtrace.
            eprintln!("error: {}", reasons(&error));
            ExitCode::FAILURE
        }
    }
}

/// The causes of an error, each named once: many messages already contain their cause.
pub(crate) fn reasons(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for reason in error.chain().map(ToString::to_string).filter(|reason| !reason.is_empty()) {
        if text.is_empty() {
            text = reason;
        } else if !text.contains(&reason) {
            text = format!("{text}: {reason}");
        }
    }
    text
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Train(arguments) => commands::train::run(&arguments),
        Command::Serve(arguments) => commands::serve::run(&arguments),
        Command::Doctor(arguments) => commands::doctor::run(&arguments),
        Command::Health(arguments) => commands::health::run(&arguments),
        Command::Openapi(arguments) => commands::openapi::run(&arguments),
        Command::Classify(arguments) => commands::classify::run(&arguments),
        Command::Embed(command) => commands::embed::run(&command),
        Command::Digits(command) => commands::digits::run(&command),
        Command::Llama(command) => commands::llama::run(&command),
        Command::Chat(arguments) => commands::chat::run(&arguments),
        #[cfg(feature = "full")]
        Command::Proxy(arguments) => commands::proxy::run(&arguments),
        Command::Compile(arguments) => commands::model::compile::run(&arguments),
        Command::Ask(arguments) => commands::model::ask::run(&arguments),
        Command::Matrix(command) => commands::matrix::run(&command),
        Command::Pir(command) => commands::pir::run(&command),
        Command::Search(command) => commands::search::run(&command),
        #[cfg(feature = "full")]
        Command::Mcp(arguments) => commands::mcp::run(&arguments),
        Command::Sums(command) => commands::sums::run(&command),
        Command::Keys(command) => commands::keys::run(&command),
        Command::Params(arguments) => commands::params::run(&arguments),
        Command::Devices(arguments) => commands::devices::run(&arguments),
        Command::Permute(command) => commands::permute::run(&command),
        Command::Cluster(command) => commands::cluster::run(&command),
        Command::Plan(arguments) => commands::plan::run(&arguments),
        Command::Demo(arguments) => commands::demo::run(&arguments),
    }
}
