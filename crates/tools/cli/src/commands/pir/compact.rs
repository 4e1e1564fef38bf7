//! `unspoken pir compact`

use std::path::PathBuf;
use std::time::Instant;

use unspoken_database::Writer;

use crate::interrupt;
use crate::progress::Bars;

/// Rewrite the tables with all changes included
///
/// Answers become faster and services need less memory; version and records stay the same. Services keep running, and
/// load the new files when they are complete. Needs as much free disk space as the database uses.
#[derive(clap::Args)]
pub struct Arguments {
    /// Directory of the database
    database: PathBuf,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut writer = Writer::open(&arguments.database)?;
    let cancel = interrupt::on_ctrl_c()?;
    let mut bars = Bars::new();
    let (start, journal) = (Instant::now(), writer.journal_bytes());
    writer.compact(|progress| bars.database(&progress), cancel.flag())?;
    bars.finish();
    println!(
        "compacted   version {}, {} records, in {:.1} s",
        writer.version(),
        writer.records(),
        start.elapsed().as_secs_f64()
    );
    println!("journal     {journal} bytes became {}", writer.journal_bytes());
    Ok(())
}
