//! `unspoken pir build`

use std::path::PathBuf;
use std::time::Instant;

use unspoken_database::{Builder, Built, Duplicates, Phase, Progress};
use unspoken_pir::{Layout, Preset};

use super::records::{RecordOptions, convert};
use crate::interrupt;
use crate::progress::Bars;

/// Build a database from a file or a folder
///
/// With --key, records are asked for by key; without, by their number in the file, from 0. Records of one length take
/// no more room than they have bytes; if one is long, all cells are as long as that one. `unspoken pir info` tells what
/// questions to the database take, `unspoken serve --database` offers it.
///
/// Values are held in memory while it is built, the tables are not. Ctrl-C leaves nothing, and what was there before
/// with --replace.
#[derive(clap::Args)]
pub struct Arguments {
    /// File or directory of the records: .csv, .tsv, .jsonl, .sqlite, .parquet, or a folder of files
    #[arg(long)]
    from: PathBuf,
    #[command(flatten)]
    records: RecordOptions,
    /// Buckets that a key may be in. A question takes as many queries, always; with more of them buckets are fuller
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=3))]
    candidates: u32,
    /// What becomes of two records with one key
    #[arg(long, value_enum, default_value = "error")]
    duplicates: DuplicatesName,
    /// Records there should be room for, if more than there are
    #[arg(long, default_value_t = 0)]
    capacity: u64,
    /// Bytes of the longest record there should be room for, if it is longer than those there are
    #[arg(long, default_value_t = 0)]
    longest: usize,
    /// Replace the database that is there; services go on with the old one until the new one is whole, and are then to
    /// be started anew
    #[arg(long)]
    replace: bool,
    /// Directory of the database
    database: PathBuf,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum DuplicatesName {
    /// Nothing is built, and the key is named
    Error,
    /// The first one is kept
    First,
    /// The last one is kept
    Last,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let (source, _) = arguments.records.open(&arguments.from)?;
    let builder = Builder {
        candidates: arguments.candidates,
        duplicates: match arguments.duplicates {
            DuplicatesName::Error => Duplicates::Refuse,
            DuplicatesName::First => Duplicates::First,
            DuplicatesName::Last => Duplicates::Last,
        },
        capacity: arguments.capacity,
        longest: arguments.longest,
        replace: arguments.replace,
        ..Builder::new(Preset::N11)
    };
    let cancel = interrupt::on_ctrl_c()?;
    let mut bars = Bars::new();
    let expected = source.len_hint();
    let mut show = |progress: Progress| {
        let total = progress.total.or(expected.filter(|_| progress.phase == Phase::Read));
        bars.database(&Progress { total, ..progress });
    };
    let start = Instant::now();
    let built = builder.build(&arguments.database, source.map(convert), &mut show, cancel.flag())?;
    bars.finish();
    summarise(&built, start.elapsed().as_secs_f64())?;
    println!("serve it    unspoken serve --database {}", arguments.database.display());
    Ok(())
}

fn summarise(built: &Built, seconds: f64) -> anyhow::Result<()> {
    let (layout, planes) = (built.layout, built.layout.planes(&Preset::N11.build()?));
    println!("built       version {} in {seconds:.1} s", built.version);
    println!("records     {}", built.records);
    if built.dropped > 0 {
        println!("left out    {}, whose key another one has", built.dropped);
    }
    let by = match layout {
        Layout::Index { .. } => "index".to_owned(),
        Layout::Keys { candidates, .. } => format!("key, in {candidates} of the cells"),
    };
    println!("read by     {by}");
    println!("cells       {} of {} bytes", layout.cells(), layout.cell_bytes());
    println!("planes      {planes}, responses to a query");
    println!("data        {} bytes", built.value_bytes);
    println!("table       {} bytes{}", built.table_bytes, per_byte(built.table_bytes, built.value_bytes));
    println!("on disk     {} bytes with the cells", built.table_bytes + built.cells_bytes);
    Ok(())
}

/// Bytes of a table for each byte of data, where there is data.
fn per_byte(table: u64, data: u64) -> String {
    if data == 0 { String::new() } else { format!(", {:.1} per byte of data", table as f64 / data as f64) }
}
