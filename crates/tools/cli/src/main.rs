//! The `unspoken` command: train, serve, ask.

mod commands;
mod interrupt;
mod progress;
mod scores;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Ask a server questions it never sees.
///
/// A model is trained with `train`, offered with `serve`, and asked with `classify`. The server computes on encrypted
/// messages: it sees neither words nor answers.
#[derive(Parser)]
#[command(version, propagate_version = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Train a text classifier from labelled messages
    Train(commands::train::Arguments),
    /// Offer applications as a service
    Serve(Box<commands::serve::Arguments>),
    /// Classify messages at a service, without showing them
    Classify(commands::classify::Arguments),
    /// Fetch records of a database at a service, without showing which
    Get(commands::get::Arguments),
    /// Compress embedding tables, measure what that costs, and look tokens up privately
    #[command(subcommand)]
    Embed(commands::embed::Command),
    /// Train a network on handwritten digits, and have images recognised privately
    #[command(subcommand)]
    Digits(commands::digits::Command),
    /// Have a service compute with encrypted matrices
    #[command(subcommand)]
    Matrix(commands::matrix::Command),
    #[command(subcommand)]
    Pir(commands::pir::Command),
    /// Look after keys at a service, and make access tokens
    #[command(subcommand)]
    Keys(commands::keys::Command),
    /// List the parameter sets and their security
    Params(commands::params::Arguments),
    /// Plan permutations of encrypted slots, and draw them
    #[command(subcommand)]
    Permute(commands::permute::Command),
    /// Show the plans of a lookup and what each costs
    Plan(commands::plan::Arguments),
    #[command(hide = true, disable_help_flag = true)]
    Audit(commands::moved::Arguments),
    #[command(hide = true, disable_help_flag = true)]
    Bench(commands::moved::Arguments),
    /// Train, serve and ask on this machine, and show what travelled
    Demo(commands::demo::Arguments),
}

fn main() -> ExitCode {
    let command = Arguments::parse().command;
    // `unspoken params | head` ends quietly. Not where there are sockets: a peer that hangs up is an error to report.
    if matches!(command, Command::Params(_) | Command::Permute(_) | Command::Plan(_)) {
        sigpipe::reset();
    }
    match run(command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The chain of reasons, on one line, without a backtrace: it is for the person at the keyboard.
            eprintln!("error: {}", reasons(&error));
            ExitCode::FAILURE
        }
    }
}

/// The reasons of an error, each said once: many messages contain the one they have from below.
fn reasons(error: &anyhow::Error) -> String {
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
        Command::Classify(arguments) => commands::classify::run(&arguments),
        Command::Get(arguments) => commands::get::run(&arguments),
        Command::Embed(command) => commands::embed::run(&command),
        Command::Digits(command) => commands::digits::run(&command),
        Command::Matrix(command) => commands::matrix::run(&command),
        Command::Pir(command) => commands::pir::run(&command),
        Command::Keys(command) => commands::keys::run(&command),
        Command::Params(arguments) => commands::params::run(&arguments),
        Command::Permute(command) => commands::permute::run(&command),
        Command::Plan(arguments) => commands::plan::run(&arguments),
        Command::Audit(arguments) => commands::moved::exit("audit", "unspoken-bench audit", &arguments),
        Command::Bench(arguments) => commands::moved::exit("bench", "unspoken-bench", &arguments),
        Command::Demo(arguments) => commands::demo::run(&arguments),
    }
}
