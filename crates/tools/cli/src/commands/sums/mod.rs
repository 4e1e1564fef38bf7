//! `unspoken sums`

mod create;
mod fetch;
mod pool;
mod resume;
mod rows;
mod send;

use std::path::Path;

use anyhow::Context;
use unspoken_sums::CollectorKey;
use zeroize::Zeroizing;

/// Add up what many clients send encrypted: exact counts, sums and means
///
/// A collector makes a collection with `create` and gives the public file to a service: `unspoken serve --offer
/// sums=FILE`. Contributors `send` numbers, which the service adds and never sees. The collector fetches the sum once.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Make a collection: a public file for the service, and a private one
    Create(create::Arguments),
    /// Encrypt numbers and send them to a collection
    Send(send::Arguments),
    /// Ask how many contributions a collection has
    Count(fetch::CountArguments),
    /// Close a collection, and decrypt its sums
    Fetch(fetch::FetchArguments),
}

/// Runs the command.
pub fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::Create(arguments) => create::run(arguments),
        Command::Send(arguments) => send::run(arguments),
        Command::Count(arguments) => fetch::count(arguments),
        Command::Fetch(arguments) => fetch::fetch(arguments),
    }
}

/// Reads the private file of a collection.
fn read_private(path: &Path) -> anyhow::Result<CollectorKey> {
    let bytes = std::fs::read(path).map(Zeroizing::new).with_context(|| format!("cannot read {}", path.display()))?;
    CollectorKey::from_bytes(&bytes).with_context(|| format!("cannot use {}", path.display()))
}
