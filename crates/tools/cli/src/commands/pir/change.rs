//! `unspoken pir set` and `unspoken pir delete`

use std::path::PathBuf;

use unspoken_database::Writer;
use unspoken_pir_scheme::{Layout, TableKind};
use unspoken_symmetric_pir::Name;

use super::oprf_key::OprfKeyOption;

/// Journal size in bytes above which compaction is advised: this many bytes, or one per cent of the cells if that is
/// more.
const MAX_JOURNAL: u64 = 1 << 20;

/// Overwrite the record at an index
///
/// For databases that are read by index. The index may be after the last record, as long as there is room. The indices
/// between then have no record, or a record of zeros if all records have equal length.
#[derive(clap::Args)]
pub struct SetArguments {
    /// Directory of the database
    database: PathBuf,
    /// Number of the record, from 0
    index: u64,
    /// The record
    value: String,
    #[command(flatten)]
    oprf_key: OprfKeyOption,
}

/// Delete records
///
/// By key, or by index if the database is read by index; the other records keep their indices. All deletions form one
/// version.
#[derive(clap::Args)]
pub struct DeleteArguments {
    /// Directory of the database
    database: PathBuf,
    /// Keys or indices
    #[arg(required = true)]
    keys: Vec<String>,
    #[command(flatten)]
    oprf_key: OprfKeyOption,
}

/// Runs `unspoken pir set`.
pub fn set(arguments: &SetArguments) -> anyhow::Result<()> {
    let mut writer = Writer::open(&arguments.database)?;
    let sealer = arguments.oprf_key.open_for(&writer)?;
    let record = sealer.value(Name::Index(arguments.index), arguments.value.as_bytes())?;
    writer.set(arguments.index, &record)?;
    commit(&mut writer, &format!("written     record {}", arguments.index))
}

/// Runs `unspoken pir delete`.
pub fn delete(arguments: &DeleteArguments) -> anyhow::Result<()> {
    let mut writer = Writer::open(&arguments.database)?;
    let sealer = arguments.oprf_key.open_for(&writer)?;
    for key in &arguments.keys {
        if matches!(writer.layout(), Layout::Index { .. }) {
            let index =
                key.parse().map_err(|_| anyhow::anyhow!("the database is read by index, and {key:?} is none"))?;
            writer.clear(index)?;
        } else {
            anyhow::ensure!(writer.delete(&sealer.key(key.as_bytes())?)?, "no such key: {key:?}; nothing was changed");
        }
    }
    commit(&mut writer, &format!("deleted     {}", arguments.keys.len()))
}

/// Commits, and prints what was done.
pub fn commit(writer: &mut Writer, done: &str) -> anyhow::Result<()> {
    let before = writer.version();
    let version = writer.commit()?;
    println!("{done}");
    if version == before {
        println!("version     {version} still: no record differs");
        return Ok(());
    }
    match writer.table_kind() {
        TableKind::Encrypted => println!("version     {version}; `unspoken pir upload` brings it to the service"),
        _ => println!("version     {version}, which running services load"),
    }
    if writer.table_kind().is_dense() {
        println!(
            "memory      33 MB at services for each changed group of the dense tables, until `unspoken pir compact`"
        );
    }
    let (journal, layout) = (writer.journal_bytes(), writer.layout());
    if journal > MAX_JOURNAL.max(layout.cells().saturating_mul(layout.cell_bytes() as u64) / 100) {
        println!("journal     {journal} bytes: answers are faster after `unspoken pir compact`");
    }
    Ok(())
}
