//! `unspoken pir upload`

mod record;

use std::path::PathBuf;
use std::time::Instant;

use rayon::prelude::*;
use record::{Fingerprint, Record, Records};
use unspoken_client::ServiceClient;
use unspoken_client::transport::Cancel;
use unspoken_database::{Database, Snapshot};
use unspoken_pir::{PirOptions, UploadClient, UploadQuestion};
use unspoken_pir_scheme::{DatabaseVersion, EncryptedEntry, Mode, TableKind, Upload, UploadState};

use crate::commands::connection::Target;
use crate::interrupt;
use crate::progress::{Bars, note};

/// Encrypt a database and upload what has changed
///
/// The first upload sends all entries, later uploads only the entries that have changed. The entries of an upload make
/// one version; until it is complete, queries are answered from the version before. An upload that was interrupted goes
/// on where it stopped, if the database is still the same.
///
/// The service sees which entries an upload replaces. --all hides that, and re-encrypts everything.
#[derive(clap::Args)]
pub struct Arguments {
    /// Directory of the database
    database: PathBuf,
    #[command(flatten)]
    target: Target,
    /// Upload all entries, also unchanged ones
    #[arg(long)]
    all: bool,
}

/// The owner of a database, connected to the service.
struct Owner {
    client: ServiceClient<UploadClient>,
    cancel: Cancel,
}

impl Owner {
    fn ask(&mut self, question: UploadQuestion) -> anyhow::Result<UploadState> {
        let mut states = self.client.ask(&[question], &mut |_| {}, &self.cancel)?;
        states.pop().ok_or_else(|| anyhow::anyhow!("the service gave no reply"))
    }

    /// Fingerprints of the content of all entries.
    fn fingerprints(&self, snapshot: &Snapshot) -> Vec<Fingerprint> {
        let half = self.client.half();
        let count = EncryptedEntry::count(snapshot.tables());
        (0..count).into_par_iter().map(|number| half.fingerprint(number, |cell| snapshot.cell(cell))).collect()
    }

    /// Encrypts entries, on all threads.
    fn encrypted(&self, snapshot: &Snapshot, numbers: &[u64]) -> anyhow::Result<Vec<(u64, EncryptedEntry)>> {
        let half = self.client.half();
        let encrypt = |&number: &u64| Ok((number, half.encrypt_entry(number, |cell| snapshot.cell(cell))?));
        numbers.par_iter().map(encrypt).collect()
    }
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let cancel = interrupt::on_ctrl_c()?;
    let snapshot = Database::open(&arguments.database)?.snapshot();
    let kind = snapshot.tables().kind();
    anyhow::ensure!(
        kind == TableKind::Encrypted,
        "the database has {kind} tables; build it with --tables encrypted to upload it"
    );
    let (transport, application, state) = arguments.target.open(&cancel)?;
    let records = Records::new(state.path(), &application);
    let options = PirOptions::new(Mode::Packed, state.clone());
    let mut bars = Bars::new();
    let mut step = |step| bars.step(step);
    let client = ServiceClient::connect(transport, &application, options, &state, &mut step, &cancel)?;
    let mut owner = Owner { client, cancel };
    anyhow::ensure!(
        owner.client.description().tables() == snapshot.tables(),
        "{application} was declared for a database of another size; declare this one, and have it accepted again"
    );
    let now = owner.ask(UploadQuestion::State)?;
    let fingerprints = owner.fingerprints(&snapshot);
    let stored = records.stored(now)?;
    let differs = |number: &u64| {
        let before = stored.as_ref().and_then(|stored| stored.fingerprints.get(*number as usize));
        arguments.all || before != fingerprints.get(*number as usize)
    };
    let changed: Vec<u64> = (0..EncryptedEntry::count(snapshot.tables())).filter(differs).collect();
    if changed.is_empty() {
        println!("version     {} still: no entry differs", now.version);
        return Ok(());
    }
    let (begun, skipped) = match records.begun(now, &fingerprints, changed.len())? {
        Some(begun) => {
            note(&format!("going on    with the upload that was interrupted, after {} chunks", now.chunks));
            (begun, now.chunks)
        }
        None => {
            let upload = Upload { id: record::random_id()?, base: now.version };
            (Record { upload, changed: changed.len() as u64, fingerprints }, 0)
        }
    };
    records.begin(&begun)?;
    let started = Instant::now();
    let bytes = send(&mut owner, &snapshot, begun.upload, &changed, skipped, &mut bars)?;
    bars.finish();
    records.finish(&begun)?;
    let seconds = started.elapsed().as_secs_f64();
    println!("uploaded    {} entries, {bytes} bytes in {seconds:.1} s", changed.len());
    println!("version     {}", begun.version());
    Ok(())
}

/// Sends the chunks of an upload after the first `skipped`, and commits it. Returns the bytes that were sent.
fn send(
    owner: &mut Owner,
    snapshot: &Snapshot,
    upload: Upload,
    changed: &[u64],
    skipped: u64,
    bars: &mut Bars,
) -> anyhow::Result<u64> {
    let most = owner.client.half().most_entries();
    let chunks = changed.chunks(most);
    let (count, mut done) = (chunks.len() as u64, 0);
    let before = owner.client.usage().query_bytes;
    for (chunk, numbers) in (0..).zip(chunks) {
        if chunk >= skipped {
            let entries = owner.encrypted(snapshot, numbers)?;
            owner.ask(UploadQuestion::Chunk { upload, chunk, entries })?;
        }
        done += numbers.len() as u64;
        bars.entries(done, changed.len() as u64);
    }
    let state = owner.ask(UploadQuestion::Commit { upload, chunks: count })?;
    anyhow::ensure!(
        state.version == upload.base + 1,
        "the service says that its version is {}, needed {}; another upload came between, upload again",
        state.version,
        upload.base + 1
    );
    Ok(owner.client.usage().query_bytes - before)
}
