//! Writers of a database that are killed at random moments.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use unspoken_database::{Builder, Database, Record, Snapshot, Writer};
use unspoken_pir_scheme::Preset;

use super::{End, kill_after};
use crate::amount::Amount;
use crate::child;
use crate::verdict::Verdict;

/// Keys that exist at some time.
const KEYS: u64 = 60;
/// Longest life of a writer, counted from its start.
const LONGEST: Duration = Duration::from_millis(250);
/// Batches of a writer that is not killed.
const BATCHES: u64 = 400;

/// The records: the value's number by the key's number.
type Content = BTreeMap<u64, u64>;

/// What a writer does before it acknowledges.
#[derive(Debug, Serialize, Deserialize)]
enum Batch {
    /// Changes and a commit. `None` deletes.
    Commit(Vec<(u64, Option<u64>)>),
    /// Rewrites the tables; no record changes.
    Compact,
    /// Builds the database anew with these records, and replaces the present database.
    Replace(Content),
}

/// A line of a writer's log.
#[derive(Debug, Serialize, Deserialize)]
enum Line {
    /// Written before the batch.
    Begun(Batch),
    /// Written after it.
    Acknowledged,
}

impl Batch {
    fn random(random: &mut fastrand::Rng, content: &Content) -> Self {
        let number = |random: &mut fastrand::Rng| random.u64(..1 << 40);
        match random.u8(..20) {
            0 => Batch::Replace((0..KEYS).filter(|_| random.bool()).chain([KEYS]).map(|key| (key, key + 1)).collect()),
            1 => Batch::Compact,
            _ => {
                let mut changes = Vec::new();
                for _ in 0..random.usize(1..6) {
                    let key = random.u64(..KEYS);
                    let delete = content.contains_key(&key) && random.u8(..3) == 0;
                    let twice = changes.iter().any(|(earlier, _)| *earlier == key);
                    if !twice {
                        changes.push((key, (!delete).then(|| number(random))));
                    }
                }
                Batch::Commit(changes)
            }
        }
    }

    fn apply(&self, content: &mut Content) {
        match self {
            Batch::Commit(changes) => {
                for (key, value) in changes {
                    match value {
                        Some(value) => content.insert(*key, *value),
                        None => content.remove(key),
                    };
                }
            }
            Batch::Compact => {}
            Batch::Replace(all) => *content = all.clone(),
        }
    }

    fn run(&self, directory: &Path) -> anyhow::Result<()> {
        match self {
            Batch::Commit(changes) => {
                let mut writer = Writer::open(directory)?;
                for (key, value) in changes {
                    match value {
                        Some(value) => writer.put(&key_bytes(*key), &value_bytes(*value))?,
                        None => writer.delete(&key_bytes(*key))?,
                    };
                }
                writer.commit()?;
            }
            Batch::Compact => Writer::open(directory)?.compact(|_| (), &AtomicBool::new(false))?,
            Batch::Replace(all) => build(directory, all, true)?,
        }
        Ok(())
    }
}

/// A writer: runs random batches, and logs each before and after.
#[derive(clap::Args)]
pub struct WriterTask {
    directory: PathBuf,
    log: PathBuf,
    seed: u64,
}

/// Runs a writer until it is killed.
pub fn run_writer(task: &WriterTask) -> anyhow::Result<()> {
    let mut random = fastrand::Rng::with_seed(task.seed);
    let mut log = OpenOptions::new().append(true).create(true).open(&task.log)?;
    let mut content = read(&Database::open(&task.directory)?.snapshot())?;
    for _ in 0..BATCHES {
        let batch = Batch::random(&mut random, &content);
        batch.apply(&mut content);
        let mut line = serde_json::to_vec(&Line::Begun(batch))?;
        line.push(b'\n');
        log.write_all(&line)?;
        let Ok(Line::Begun(batch)) = serde_json::from_slice(&line) else { anyhow::bail!("a line that is no batch") };
        batch.run(&task.directory)?;
        let mut line = serde_json::to_vec(&Line::Acknowledged)?;
        line.push(b'\n');
        log.write_all(&line)?;
    }
    Ok(())
}

/// Runs the command.
pub fn run(amount: &Amount) -> anyhow::Result<ExitCode> {
    let folder = tempfile::tempdir()?;
    let directory = folder.path().join("database");
    let (mut rounds, mut random) = (amount.rounds(60), amount.random());
    let mut verdict = Verdict::new("kill database");
    let mut content: Content = (0..KEYS).step_by(2).map(|key| (key, key)).collect();
    build(&directory, &content, false)?;
    // A service keeps its reader open, and must follow all changes.
    let mut reader = Database::open(&directory)?;
    let (mut kills, mut ended, mut acknowledged, mut interrupted, mut refused) = (0u64, 0u64, 0u64, 0u64, 0u64);
    while rounds.next() {
        let log = folder.path().join("log");
        std::fs::write(&log, [])?;
        let [database, log_path] = [&directory, &log].map(|path| path.to_str());
        let context = "a directory with a name that is not UTF-8";
        let (database, log_path, seed) = (database.context(context)?, log_path.context(context)?, random.u64(..));
        let writer = child::start(&["child", "database", database, log_path, &seed.to_string()])?;
        match kill_after(writer, LONGEST.mul_f64(random.f64()))? {
            End::Killed => kills += 1,
            End::Done => ended += 1,
            End::Failed(error) => verdict.finding(format!("a writer failed: {error}")),
        }
        let (batches, pending) = replay(&log, &mut content)?;
        acknowledged += batches;
        let mut after = content.clone();
        if let Some(batch) = &pending {
            batch.apply(&mut after);
        }
        match verify(&directory) {
            Ok(found) if found == content => {}
            Ok(found) if found == after => content = after,
            Ok(found) => {
                let lost = content.iter().filter(|(key, value)| found.get(key) != Some(value)).count();
                let what = format!("{lost} acknowledged records differ, and {pending:?} was not acknowledged");
                verdict.finding(format!("after kill {kills}: {what}"));
                content = found;
            }
            Err(error) => {
                verdict.finding(format!("after kill {kills}: the database is not whole: {error:#}"));
                break;
            }
        }
        interrupted += u64::from(pending.is_some());
        match reader.refresh().map_err(anyhow::Error::from).and_then(|_| read(&reader.snapshot())) {
            Ok(found) if found == content => {}
            Ok(_) => {
                verdict.finding(format!("after kill {kills}: an open reader neither follows the database nor refuses"));
                reader = Database::open(&directory)?;
            }
            // A service that refuses says so, and is started again.
            Err(_) => {
                reader = Database::open(&directory)?;
                refused += 1;
            }
        }
    }
    for path in left_over(folder.path(), &directory, &content)? {
        verdict.finding(format!("left behind: {}", path.display()));
    }
    verdict.number("kills", kills);
    verdict.number("ended", ended);
    verdict.number("acknowledged", acknowledged);
    verdict.number("interrupted", interrupted);
    verdict.number("readers_refused", refused);
    verdict.number("seconds", rounds.elapsed().as_secs());
    Ok(verdict.print(amount.json))
}

/// Applies the acknowledged batches of a log. Returns their number, and the batch that was begun last, if it was not
/// acknowledged.
fn replay(log: &Path, content: &mut Content) -> anyhow::Result<(u64, Option<Batch>)> {
    let (mut count, mut pending) = (0, None);
    for line in std::fs::read_to_string(log)?.lines() {
        // A line that is cut off was not acknowledged either.
        match serde_json::from_str(line) {
            Ok(Line::Begun(batch)) => pending = Some(batch),
            Ok(Line::Acknowledged) => {
                if let Some(batch) = pending.take() {
                    batch.apply(content);
                }
                count += 1;
            }
            Err(_) => break,
        }
    }
    Ok((count, pending))
}

/// Opens the database, which compares its files with their checksums, and reads all records.
fn verify(directory: &Path) -> anyhow::Result<Content> {
    let database = Database::open(directory)?;
    let snapshot = database.snapshot();
    // Reads every bucket.
    snapshot.load()?;
    read(&snapshot)
}

/// All records. Checks that each is whole.
fn read(snapshot: &Arc<Snapshot>) -> anyhow::Result<Content> {
    let mut content = Content::new();
    for key in 0..=KEYS {
        if let Some(value) = snapshot.get(&key_bytes(key))? {
            let number = value.first_chunk().map(|bytes| u64::from_le_bytes(*bytes)).context("a record is cut off")?;
            anyhow::ensure!(value == value_bytes(number), "record {key} is damaged");
            content.insert(key, number);
        }
    }
    Ok(content)
}

/// Hidden files beside the database and in it that are there after a replacement without a kill.
fn left_over(folder: &Path, directory: &Path, content: &Content) -> anyhow::Result<Vec<PathBuf>> {
    build(directory, content, true)?;
    Writer::open(directory)?;
    let mut found = Vec::new();
    for place in [folder, directory] {
        for entry in std::fs::read_dir(place)? {
            let path = entry?.path();
            if path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b".")) {
                found.push(path);
            }
        }
    }
    Ok(found)
}

fn build(directory: &Path, content: &Content, replace: bool) -> anyhow::Result<()> {
    let record = |(&key, &value): (&u64, &u64)| {
        Ok::<_, Infallible>(Record { key: Some(key_bytes(key)), value: value_bytes(value) })
    };
    let builder = Builder { replace, capacity: 2 * KEYS, longest: 64, ..Builder::new(Preset::InsecureN11) };
    builder.build(directory, content.iter().map(record), |_| (), &AtomicBool::new(false))?;
    Ok(())
}

fn key_bytes(key: u64) -> Vec<u8> {
    format!("key {key}").into_bytes()
}

/// The number, then bytes that depend on it, so that a record of two halves is noticed.
fn value_bytes(number: u64) -> Vec<u8> {
    let filling = std::iter::repeat_n(number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes(), 4).flatten();
    number.to_le_bytes().into_iter().chain(filling).collect()
}
