//! `unspoken permute draw`

use std::path::PathBuf;

use anyhow::Context;
use unspoken_permute::{Diagonals, Network, Packing, Shifts};

use super::picture::{diagonals_picture, network_picture};
use super::subject::Subject;

/// The longest vector whose matrix can be drawn.
const MAX_DRAWN: usize = 1024;

/// Draw a permutation's diagonals, the diagonals of its factors, or its network, as SVG
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    subject: Subject,
    /// Seed of the random permutation
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Draw the multi-group network instead of the factors
    #[arg(long)]
    network: bool,
    /// File to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let given = arguments.subject.permutation(arguments.seed)?;
    let length = given.permutation.len();
    anyhow::ensure!(length <= MAX_DRAWN, "{length} entries; at most {MAX_DRAWN} can be drawn, so choose a smaller one");
    let picture = if arguments.network {
        let network = Network::new(&given.permutation, Packing::Repeated, 0, 0)?;
        network_picture(&given.title, &network)
    } else {
        let named = |(i, factor)| (format!("factor {}", i + 1), Diagonals::new(factor, Shifts::Exact));
        let whole = ("the whole".to_owned(), Diagonals::new(&given.permutation, Shifts::Exact));
        let panels: Vec<(String, Diagonals)> =
            std::iter::once(whole).chain(given.factors.iter().enumerate().map(named)).collect();
        diagonals_picture(&given.title, &panels)
    };
    svg::save(&arguments.out, &picture).with_context(|| format!("cannot write {}", arguments.out.display()))?;
    println!("{}", arguments.out.display());
    Ok(())
}
