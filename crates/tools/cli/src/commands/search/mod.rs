//! `unspoken search`

mod ask;
mod build;
mod changes;
mod documents;

mod vectors;

pub use ask::check_embedder;
pub use vectors::{Embedder, TextEmbedder};

/// Search a collection by meaning, without revealing the query
///
/// A collection is a directory, created by `build` from documents and their vectors and served with `serve --search`.
/// The service sees neither the query, nor the scores, nor which documents are fetched.
#[derive(clap::Subcommand)]
pub enum Command {
    Build(build::Arguments),
    Ask(ask::Arguments),
    Put(changes::PutArguments),
    Delete(changes::DeleteArguments),
    Info(changes::InfoArguments),
}

/// Runs the command.
pub fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::Build(arguments) => build::run(arguments),
        Command::Ask(arguments) => ask::run(arguments),
        Command::Put(arguments) => changes::put(arguments),
        Command::Delete(arguments) => changes::delete(arguments),
        Command::Info(arguments) => changes::info(arguments),
    }
}
