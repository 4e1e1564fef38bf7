//! `unspoken cluster`

mod demand;
mod plan;
mod rates;

use clap::Subcommand;

/// Plan a service on many machines
#[derive(Subcommand)]
pub enum Command {
    Plan(plan::Arguments),
}

/// Runs a command.
pub fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::Plan(arguments) => plan::run(arguments),
    }
}
