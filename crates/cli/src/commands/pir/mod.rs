//! `unspoken pir`

mod build;
mod change;
mod compact;
mod info;
mod put;
mod records;
mod verify;

use unspoken_database::DatabaseError;

/// Build databases for private retrieval, change them, and look after them
///
/// A database is a directory, made by `build` and offered with `serve --database`. Records are added, changed and deleted
/// while it is served.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Build a database from a file or a folder
    Build(build::Arguments),
    /// Tell what a database holds, and what questions to it take
    Info(info::Arguments),
    /// Check every byte of a database
    Verify(verify::Arguments),
    /// Add or overwrite records
    Put(put::Arguments),
    /// Overwrite the record at an index
    Set(change::SetArguments),
    /// Delete records
    Delete(change::DeleteArguments),
    /// Write the tables anew with all changes
    Compact(compact::Arguments),
}

/// Runs the command.
pub fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::Build(arguments) => build::run(arguments),
        Command::Info(arguments) => info::run(arguments),
        Command::Verify(arguments) => verify::run(arguments),
        Command::Put(arguments) => put::run(arguments),
        Command::Set(arguments) => change::set(arguments),
        Command::Delete(arguments) => change::delete(arguments),
        Command::Compact(arguments) => compact::run(arguments),
    }
}

/// An error for a person: of records that cannot be read, only what the source of records says.
fn explain(error: DatabaseError) -> anyhow::Error {
    match error {
        DatabaseError::Source(error) => anyhow::anyhow!(error),
        other => other.into(),
    }
}
