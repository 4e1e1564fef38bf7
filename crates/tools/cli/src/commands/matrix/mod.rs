//! `unspoken matrix`

mod ask;

/// Let a service compute with encrypted matrices
#[derive(clap::Subcommand)]
pub enum Command {
    /// Encrypt arrays, let a service compute with them, and decrypt the result
    Ask(ask::Arguments),
}

/// Runs the command.
pub fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::Ask(arguments) => ask::run(arguments),
    }
}
