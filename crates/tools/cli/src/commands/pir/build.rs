//! `unspoken pir build`

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use unspoken_database::{Builder, Built, Duplicates, Phase, Progress};
use unspoken_pir_scheme::{Layout, Preset, TableKind};

use super::explain::{self, Options, Records};
use super::oprf_key::OprfKeyOption;
use super::records::{RecordOptions, convert, folder_lines, place};
use crate::interrupt;
use crate::memory::free_memory;
use crate::progress::Bars;

/// Build a database from a file or a folder
///
/// With --key, clients query records by key; without it, by their number in the file, from 0. Records of equal length
/// are stored without padding; otherwise every cell is as long as the longest record. `unspoken pir info` shows the
/// cost of queries; `unspoken serve --pir` serves the database.
///
/// There are three kinds of tables. Transformed ones take 16 bytes for each byte of data and answer queries of at most
/// 352 bytes. Dense ones take 1.5 bytes, are read at the speed of memory, answer many clients in one pass, and need
/// queries of about 147 KB. Wide ones are dense ones with 2 bytes and queries of about 93 KB. --explain compares them
/// for the records at hand.
///
/// Encrypted tables are for a service that must not read the records: the database stays here, and `unspoken pir
/// declare` and `unspoken pir upload` bring its encryption to the service.
///
/// The values are held in memory during the build; the tables are not. Ctrl-C or a termination signal removes the
/// unfinished database and, with --replace, keeps the old one. What a killed build leaves, the next build of the same
/// database removes.
#[derive(clap::Args)]
pub struct Arguments {
    /// File or directory of the records: .csv, .tsv, .jsonl, .json, .sqlite, .parquet, or a folder of files
    #[arg(long)]
    from: PathBuf,
    #[command(flatten)]
    records: RecordOptions,
    #[command(flatten)]
    oprf_key: OprfKeyOption,
    /// Kind of the tables: transformed, dense, wide or encrypted
    #[arg(long, default_value = "transformed", value_parser = clap::value_parser!(TableKind))]
    tables: TableKind,
    /// Build nothing: show what each kind of tables and of queries would cost, and which is recommended
    #[arg(long)]
    explain: bool,
    /// With --explain: speed of the clients' link, in Mbit/s
    #[arg(long, default_value_t = 20.0, requires = "explain", value_parser = link)]
    link: f64,
    /// With --explain: print one JSON object
    #[arg(long, requires = "explain")]
    json: bool,
    /// Candidate buckets of a key. A lookup always sends this many queries; more candidates let buckets be fuller
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=3))]
    candidates: u32,
    /// How to handle several records with the same key
    #[arg(long, value_enum, default_value = "error")]
    duplicates: DuplicatesName,
    /// Number of records to reserve room for, if more than the source has
    #[arg(long, default_value_t = 0)]
    capacity: u64,
    /// Length in bytes of the longest record to reserve room for, if longer than the records of the source
    #[arg(long, default_value_t = 0)]
    longest: usize,
    /// Replace the existing database; services keep serving the old one until the new one is complete, and then serve
    /// that, also with another layout
    #[arg(long)]
    replace: bool,
    /// Directory of the database
    #[arg(required_unless_present = "explain")]
    database: Option<PathBuf>,
}

/// A speed in Mbit/s.
pub fn link(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(speed) if (0.001..=1e6).contains(&speed) => Ok(speed),
        _ => Err(format!("found {text}, needed Mbit/s from 0.001 to 1000000")),
    }
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum DuplicatesName {
    /// Stop with an error that names the key
    Error,
    /// Keep the first one
    First,
    /// Keep the last one
    Last,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let (source, _) = arguments.records.open(&arguments.from)?;
    let files = folder_lines(source.files());
    let sealer = arguments.oprf_key.open()?;
    let Some(database) = arguments.database.as_ref().filter(|_| !arguments.explain) else {
        eprint!("{files}");
        return explain(arguments, Records::read(source.map(convert), |bytes| sealer.stored_bytes(bytes))?);
    };
    let builder = Builder {
        tables: arguments.tables,
        candidates: arguments.candidates,
        duplicates: match arguments.duplicates {
            DuplicatesName::Error => Duplicates::Refuse,
            DuplicatesName::First => Duplicates::First,
            DuplicatesName::Last => Duplicates::Last,
        },
        capacity: arguments.capacity,
        longest: arguments.longest,
        replace: arguments.replace,
        sealing: sealer.id(),
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
    let records = source.zip(0..).map(|(record, index)| {
        let record = convert(record)?;
        sealer.record(&record, index).with_context(|| place(index, &record, &arguments.from))
    });
    let built = builder.build(database, records, &mut show, cancel.flag())?;
    bars.finish();
    print!("{files}");
    summarise(&built, start.elapsed().as_secs_f64())?;
    match arguments.tables {
        TableKind::Encrypted => println!("declare it  unspoken pir declare {} --url URL ...", database.display()),
        _ => println!("serve it    unspoken serve --pir {}", database.display()),
    }
    Ok(())
}

/// Prints what each kind of tables would cost.
fn explain(arguments: &Arguments, records: Records) -> anyhow::Result<()> {
    let Arguments { candidates, capacity, longest, .. } = *arguments;
    let choices = records.choices(&Preset::N11.build()?, Options { candidates, capacity, longest })?;
    let (link, memory) = (arguments.link * 1e6, free_memory().unwrap_or(u64::MAX));
    match arguments.json {
        true => println!("{}", explain::json(&choices, link, memory)),
        false => explain::print(&choices, link, memory),
    }
    Ok(())
}

fn summarise(built: &Built, seconds: f64) -> anyhow::Result<()> {
    let (layout, planes) = (built.tables.layout(), built.tables.planes());
    println!("built       version {} in {seconds:.1} s", built.version);
    println!("records     {}", built.records);
    if built.dropped > 0 {
        println!("left out    {}, whose keys are duplicates", built.dropped);
    }
    let by = match layout {
        Layout::Index { .. } => "index".to_owned(),
        Layout::Keys { candidates, .. } => format!("key, in {candidates} of the cells"),
    };
    println!("read by     {by}");
    println!("cells       {} of {} bytes", layout.cells(), layout.cell_bytes());
    println!("planes      {planes}, responses to a query");
    println!("tables      {}", built.tables.kind());
    println!("data        {} bytes", built.value_bytes);
    println!("table       {} bytes{}", built.table_bytes, per_byte(built.table_bytes, built.value_bytes));
    println!("on disk     {} bytes with the cells", built.table_bytes + built.cells_bytes);
    Ok(())
}

/// Bytes of a table per byte of data; empty if there is no data.
fn per_byte(table: u64, data: u64) -> String {
    if data == 0 { String::new() } else { format!(", {:.1} per byte of data", table as f64 / data as f64) }
}
