//! `unspoken pir verify`

use std::path::PathBuf;

use anyhow::Context;
use unspoken_database::Database;
use unspoken_pir::{DatabaseVersion, Layout};

/// Check every byte of a database
///
/// All files are compared with their checksums, and all records are read. A damaged file is named, with the place in
/// it.
#[derive(clap::Args)]
pub struct Arguments {
    /// Directory of the database
    database: PathBuf,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let database = Database::open(&arguments.database)?;
    let snapshot = database.snapshot();
    match snapshot.layout() {
        Layout::Index { records, .. } => {
            for index in 0..records {
                snapshot.record(index).with_context(|| format!("record {index}"))?;
            }
        }
        // The load is known once all buckets were read.
        Layout::Keys { .. } => _ = snapshot.load()?,
    }
    println!("whole       {} records, version {}", snapshot.records(), snapshot.version());
    Ok(())
}
