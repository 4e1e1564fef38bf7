//! `unspoken pir verify`

use std::path::PathBuf;

use anyhow::Context;
use unspoken_database::Database;
use unspoken_pir_scheme::{DatabaseVersion, Layout};

/// Verify the checksums and records of a database
///
/// Compares all files with their checksums and reads all records. An error names the damaged file and the offset of
/// the damage.
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
        // Computing the load reads every bucket.
        Layout::Keys { .. } => _ = snapshot.load()?,
    }
    println!("whole       {} records, version {}", snapshot.records(), snapshot.version());
    Ok(())
}
