//! `unspoken permute`

mod draw;
mod picture;
mod plan;
mod subject;

/// Plan permutations of encrypted slots, and draw them
#[derive(clap::Subcommand)]
pub enum Command {
    /// Show the plan of a permutation, and the reasons for it
    Plan(plan::Arguments),
    /// Draw a permutation's diagonals, the diagonals of its factors, or its network, as SVG
    Draw(draw::Arguments),
}

/// Runs the command.
pub fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::Plan(arguments) => plan::run(arguments),
        Command::Draw(arguments) => draw::run(arguments),
    }
}
