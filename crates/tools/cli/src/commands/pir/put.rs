//! `unspoken pir put`

use std::path::{Path, PathBuf};

use anyhow::Context;
use unspoken_database::{Phase, Progress, Writer};
use unspoken_pir_scheme::Layout;
use unspoken_symmetric_pir::Name;

use super::change::commit;
use super::oprf_key::OprfKeyOption;
use super::records::{RecordOptions, convert, folder_lines, place};
use crate::interrupt;
use crate::progress::Bars;

/// Number of records between two checks for Ctrl-C.
const STEP: u64 = 256;

/// Add or overwrite records
///
/// Writes one record, or all records of a file or a folder (--from) as one version: all of them, or none on an error.
/// In a database that is read by index, new records go after the last one; `unspoken pir set` overwrites.
#[derive(clap::Args)]
pub struct Arguments {
    /// Directory of the database
    database: PathBuf,
    /// Key of one record
    #[arg(required_unless_present = "from", conflicts_with = "from", requires = "value")]
    key: Option<String>,
    /// The record
    value: Option<String>,
    /// File or directory of records, as for `unspoken pir build`
    #[arg(long)]
    from: Option<PathBuf>,
    #[command(flatten)]
    records: RecordOptions,
    #[command(flatten)]
    oprf_key: OprfKeyOption,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    match (&arguments.from, &arguments.key, &arguments.value) {
        (Some(from), _, _) => put_all(arguments, from),
        (None, Some(key), Some(value)) => {
            let mut writer = Writer::open(&arguments.database)?;
            let (sealer, key) = (arguments.oprf_key.open_for(&writer)?, key.as_bytes());
            let there = writer.put(&sealer.key(key)?, &sealer.value(Name::Key(key), value.as_bytes())?)?;
            commit(&mut writer, if there { "changed     1" } else { "added       1" })
        }
        _ => anyhow::bail!("give a key and a record, or --from a file"),
    }
}

fn put_all(arguments: &Arguments, from: &Path) -> anyhow::Result<()> {
    let (source, keyed) = arguments.records.open(from)?;
    let files = folder_lines(source.files());
    let mut writer = Writer::open(&arguments.database)?;
    let sealer = arguments.oprf_key.open_for(&writer)?;
    match writer.layout() {
        Layout::Keys { .. } if !keyed => anyhow::bail!("the database is read by key: name the column with --key"),
        Layout::Index { .. } if keyed => {
            anyhow::bail!("the database is read by index: leave out --key, folders have keys")
        }
        _ => {}
    }
    let cancel = interrupt::on_ctrl_c()?;
    let mut bars = Bars::new();
    let total = source.len_hint();
    let (mut added, mut changed) = (0u64, 0u64);
    for record in source.map(convert) {
        let record = record?;
        let context = || format!("{}; nothing was changed", place(added + changed, &record, from));
        let stored = sealer.record(&record, writer.records()).with_context(context)?;
        let there = match &stored.key {
            Some(key) => writer.put(key, &stored.value),
            None => writer.push(&stored.value).map(|_| false),
        };
        let there = there.with_context(context)?;
        added += u64::from(!there);
        changed += u64::from(there);
        if (added + changed).is_multiple_of(STEP) {
            bars.database(&Progress { phase: Phase::Read, done: added + changed, total });
            anyhow::ensure!(!cancel.is_cancelled(), "cancelled; nothing was changed");
        }
    }
    bars.finish();
    commit(&mut writer, &format!("{files}added       {added}\nchanged     {changed}"))
}
