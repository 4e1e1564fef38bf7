#![doc = include_str!("../README.md")]

mod amount;
mod child;
mod client;
mod constant_time;
mod kill;
mod load;
mod mutate;
mod service;
mod verdict;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Attack this project: time, crashes, load, malformed requests.
///
/// Every command prints its findings and a verdict of one line. The exit status is 0 without findings, 1 with findings,
/// and 2 where the command cannot run. docs/storm.md says what each command proves.
#[derive(Parser)]
#[command(version, propagate_version = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    ConstantTime(constant_time::Arguments),
    #[command(subcommand)]
    Kill(kill::Kill),
    Load(load::Arguments),
    Mutate(mutate::Arguments),
    /// One of the processes that the other commands start
    #[command(subcommand, hide = true)]
    Child(Task),
}

/// What a child process does.
#[derive(Subcommand)]
enum Task {
    /// A case of constant-time
    ConstantTime(constant_time::Step),
    /// An owner of a pool file
    Pool(kill::pool::Owner),
    /// A writer of a database
    Database(kill::database::WriterTask),
}

/// Runs a task in this process.
fn run_task(task: &Task) -> anyhow::Result<()> {
    match task {
        Task::ConstantTime(step) => constant_time::run_step(step),
        Task::Pool(owner) => kill::pool::run_owner(owner),
        Task::Database(writer) => kill::database::run_writer(writer),
    }
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::ConstantTime(arguments) => constant_time::run(&arguments),
        Command::Kill(kill) => kill::run(&kill),
        Command::Load(arguments) => load::run(&arguments),
        Command::Mutate(arguments) => mutate::run(&arguments),
        Command::Child(task) => run_task(&task).map(|()| ExitCode::SUCCESS),
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::from(2)
    })
}
