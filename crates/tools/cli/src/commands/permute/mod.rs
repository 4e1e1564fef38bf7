//! `unspoken permute`

mod draw;
mod picture;
mod plan;
mod subject;

/// What to do with a permutation of encrypted slots
#[derive(clap::Subcommand)]
pub enum Command {
    /// Show how it would be done, and why
    Plan(plan::Arguments),
    /// Draw its diagonals, those of its factors, or its network, as SVG
    Draw(draw::Arguments),
}

/// Runs the command.
pub fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::Plan(arguments) => plan::run(arguments),
        Command::Draw(arguments) => draw::run(arguments),
    }
}
