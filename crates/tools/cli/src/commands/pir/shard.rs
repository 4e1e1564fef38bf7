//! `unspoken pir shard`

use std::path::PathBuf;
use std::time::Instant;

use unspoken_database::{Database, Split};
use unspoken_pir_scheme::DatabaseVersion;

use crate::interrupt;
use crate::progress::Bars;

/// Cut a database with dense tables into shards, for services on several machines
///
/// Each shard is a directory `shard-NUMBER` in OUT, which `unspoken serve --pir-shard` serves and nothing changes. A
/// router (`unspoken serve --pir-router`) asks all shards and adds their encrypted answers; clients ask the router as
/// they would ask a service of the whole database. To change records, change the whole database, cut it again, and
/// restart the services of the shards with the new directories.
///
/// A shard has some of the groups of columns that `unspoken pir info` counts; if there are fewer groups than shards,
/// the rows are cut as well, in blocks of 2,048, and each shard then has packings of its own for its groups. A shard
/// that is lost can be written again with --only, from the same version of the database.
#[derive(clap::Args)]
pub struct Arguments {
    /// Directory of the database
    database: PathBuf,
    /// Number of shards
    #[arg(long, value_name = "N")]
    of: usize,
    /// Write only this shard, from 1; may be given several times [default: all]
    #[arg(long, value_name = "NUMBER")]
    only: Vec<u32>,
    /// Directory for the directories of the shards; made if it is missing
    out: PathBuf,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let cancel = interrupt::on_ctrl_c()?;
    let database = Database::open(&arguments.database)?;
    let start = Instant::now();
    let split = Split::new(database.snapshot(), arguments.of, cancel.flag())?;
    let all: Vec<u32> = (1..=split.shards()).collect();
    let numbers = if arguments.only.is_empty() { &all } else { &arguments.only };
    if let Some(number) = numbers.iter().find(|number| !all.contains(number)) {
        anyhow::bail!("there is no shard {number}; shards are numbered from 1 to {}", split.shards());
    }
    std::fs::create_dir_all(&arguments.out)?;
    for &number in numbers {
        let directory = arguments.out.join(format!("shard-{number}"));
        let mut bars = Bars::new();
        split.write(number, &directory, |progress| bars.database(&progress), cancel.flag())?;
        bars.finish();
        println!("{}  {}", split.shard(number), directory.display());
    }
    let (version, seconds) = (database.snapshot().version(), start.elapsed().as_secs_f64());
    println!("cut         version {version} into {} shards, in {seconds:.1} s", split.shards());
    println!("serve each  unspoken serve --pir-shard {}", arguments.out.join("shard-1").display());
    Ok(())
}
