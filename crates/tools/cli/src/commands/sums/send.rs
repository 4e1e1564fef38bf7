//! `unspoken sums send`

use std::path::PathBuf;

use unspoken_client::transport::{self, Cancel};
use unspoken_client::{ClientError, Progress, ServiceClient};
use unspoken_encrypt::PoolFile;
use unspoken_ring::SecretRng;
use unspoken_sums::{ContributionEncryptor, Description, Fingerprint, Receipt, SumsContributor, Trust, Zeros};
use unspoken_wire::ProblemCode;

use super::pool;
use super::resume::RowIds;
use super::rows::{self, NamedValue, Row};
use crate::commands::connection::{Target, print_usage};
use crate::interrupt;
use crate::progress::{Bars, note};

/// Rows that are encrypted before they are sent, and entries of a pool in memory.
const CHUNK: usize = 64;

/// Encrypt numbers and send them to a collection
///
/// One contribution is given as NAME=VALUE for each column, or many as rows of a CSV file. The service learns who sends
/// and when, and no value; the collector learns sums. Other users of this machine may see a command line: use --csv -
/// for values that they must not see.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    target: Target,
    /// Fingerprint of the collection, as its collector tells it: nothing is sent to another one. Needed unless
    /// --trust-first is given
    #[arg(long, value_name = "HEX")]
    fingerprint: Option<Fingerprint>,
    /// Send to the collection that the service describes first, and later only to the same. A service that puts its own
    /// key there reads every number
    #[arg(long, conflicts_with = "fingerprint")]
    trust_first: bool,
    /// CSV file whose first line names the columns; each row is a contribution. "-" is standard input. The rows are
    /// encrypted with encryptions of zero that a thread makes in memory, or with encryptions of zero from --pool
    #[arg(long, value_name = "FILE", conflicts_with = "values", required_unless_present = "values")]
    csv: Option<PathBuf>,
    /// File of encryptions of zero that are made ahead and used once, kept between runs; it is made if missing. Beside
    /// it are FILE.ledger and FILE.key. After the rows were sent it is filled again. Never restore it from a copy
    #[arg(long, value_name = "FILE", requires = "csv")]
    pool: Option<PathBuf>,
    /// Entries of the file of --pool
    #[arg(long, value_name = "COUNT", default_value_t = 64, requires = "pool",
        value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pool_entries: u32,
    /// File with which an interrupted command can be repeated: each row counts once. It must be given from the start,
    /// and is made if missing; keep it until all rows are sent
    #[arg(long, value_name = "FILE", requires = "csv")]
    resume: Option<PathBuf>,
    /// The values of one contribution
    #[arg(value_name = "NAME=VALUE")]
    values: Vec<NamedValue>,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let trust = arguments.trust()?;
    let cancel = interrupt::on_ctrl_c()?;
    // Read first: a mistake must not cost a wait for the service.
    let open = |path| anyhow::Ok((path, rows::open(path)?));
    let file = arguments.csv.as_deref().map(open).transpose()?;
    rows::check_names(&arguments.values)?;
    let (transport, application, state) = arguments.target.open(&cancel)?;
    let mut bars = Bars::new();
    let mut step = |step| bars.step(step);
    let mut client =
        ServiceClient::<SumsContributor>::connect(transport, &application, trust, &state, &mut step, &cancel)?;
    let description = client.description().clone();
    if trust == Trust::First {
        // Before anything is sent, so that a person can stop.
        note(&format!("collection  {}, on the word of the service (--trust-first)", description.fingerprint()));
    }
    let rows = match file {
        Some((path, input)) => rows::from_csv(description.columns(), path, input)?,
        None => vec![rows::from_values(description.columns(), &arguments.values)?],
    };
    check(&description, &rows)?;
    let ids = match &arguments.resume {
        Some(path) => RowIds::open(path, description.fingerprint(), &rows)?,
        None => RowIds::random()?,
    };
    let mut encryptor = ContributionEncryptor::new(&description, zeros(arguments, &description, rows.len())?)?;
    let mut sending = Sending {
        client: &mut client,
        encryptor: &mut encryptor,
        ids: &ids,
        bars: &mut bars,
        sent: 0,
        acknowledged: 0,
    };
    let repeated = sending.all(&rows, &cancel);
    let resumable = arguments.resume.is_some();
    let counts = Counts { acknowledged: sending.acknowledged, sent: sending.sent, total: rows.len() };
    let repeated = repeated.map_err(|error| unfinished(error, counts, resumable))?;
    bars.finish();
    println!("sent        {} contributions to {}", rows.len(), description.fingerprint());
    if repeated > 0 {
        println!("repeated    {repeated} of them, which had been added before and count once");
    }
    print_usage(client.usage());
    if let Zeros::File(mut pool) = encryptor.into_zeros() {
        match refill(&mut pool, arguments.pool_entries) {
            Ok(added) => println!("pool        {added} encryptions of zero made for the next time"),
            Err(error) => eprintln!("warning: all rows were sent, but the pool was not filled again: {error:#}"),
        }
    }
    Ok(())
}

impl Arguments {
    /// The collection that the person trusts.
    fn trust(&self) -> anyhow::Result<Trust> {
        match self.fingerprint {
            Some(fingerprint) => Ok(Trust::Fingerprint(fingerprint)),
            None if self.trust_first => Ok(Trust::First),
            None => anyhow::bail!(
                "found no --fingerprint; needed the one that the collector tells (`unspoken sums create` prints it), \
                 not the service: a service that describes a collection with a key of its own could read every \
                 number. --trust-first takes the service's word"
            ),
        }
    }
}

/// Fills a pool again; returns how many entries were made.
fn refill(pool: &mut PoolFile, entries: u32) -> anyhow::Result<usize> {
    Ok(pool.refill(&mut SecretRng::from_os()?, entries as usize)?)
}

/// Rows when sending failed.
#[derive(Clone, Copy)]
struct Counts {
    /// Rows that the service said it has.
    acknowledged: usize,
    /// Rows that were sent, acknowledged or not.
    sent: usize,
    total: usize,
}

/// An error, with what may have been added before it.
fn unfinished(error: anyhow::Error, Counts { acknowledged, sent, total }: Counts, resumable: bool) -> anyhow::Error {
    if is_final_refusal(&error) {
        // A run before this one may have added rows whose answer was lost.
        let added = if resumable { "at least " } else { "" };
        let others = if resumable { "" } else { ", and no other" };
        return error.context(format!("{added}{acknowledged} of {total} rows were added{others}"));
    }
    let rest = match (sent, resumable) {
        (0, _) => return error,
        (_, true) => "run the command again with the same --resume file: each row counts once",
        (_, false) => {
            "they cannot be told apart from the others, and a second run counts them again; --resume FILE, given from \
             the start of sending, avoids this"
        }
    };
    error.context(format!("up to {sent} of {total} rows may have been added; {rest}"))
}

/// Whether the service refused a request for what the collection is: it then added nothing of it.
fn is_final_refusal(error: &anyhow::Error) -> bool {
    let Some(ClientError::Transport(transport::Error::Refused(problem))) = error.downcast_ref() else { return false };
    problem.known_code() == Some(ProblemCode::NotAllowed)
}

/// Checks the values of all rows.
fn check(description: &Description, rows: &[Row]) -> anyhow::Result<()> {
    rows.iter().zip(1..).try_for_each(|(row, number)| {
        let checked = description.check(row);
        checked.map_err(|error| anyhow::anyhow!("row {number}: {error}; nothing was sent"))
    })
}

/// Where the encryptions of zero come from: a pool for many rows.
fn zeros(arguments: &Arguments, description: &Description, rows: usize) -> anyhow::Result<Zeros> {
    match &arguments.pool {
        Some(path) => Ok(Zeros::File(pool::in_file(description, path, arguments.pool_entries)?)),
        None if rows > 1 => Ok(Zeros::in_memory(description, CHUNK)?),
        None => Ok(Zeros::OnDemand),
    }
}

/// The work of sending rows.
struct Sending<'a> {
    client: &'a mut ServiceClient<SumsContributor>,
    encryptor: &'a mut ContributionEncryptor,
    ids: &'a RowIds,
    bars: &'a mut Bars,
    /// Rows that were sent, acknowledged or not, or are about to be.
    sent: usize,
    acknowledged: usize,
}

impl Sending<'_> {
    /// Encrypts and sends all rows. Returns how many had been added before.
    fn all(&mut self, rows: &[Row], cancel: &Cancel) -> anyhow::Result<usize> {
        let mut repeated = 0;
        for (chunk, start) in rows.chunks(CHUNK).zip((0..).step_by(CHUNK)) {
            repeated += self.chunk(chunk, start, rows.len(), cancel)?;
        }
        Ok(repeated)
    }

    fn chunk(&mut self, chunk: &[Row], start: usize, total: usize, cancel: &Cancel) -> anyhow::Result<usize> {
        let encrypted =
            chunk.iter().zip(start..).map(|(row, number)| self.encryptor.encrypt_as(self.ids.id(number), row));
        let encrypted = encrypted.collect::<Result<Vec<_>, _>>()?;
        self.sent = start + chunk.len();
        let (bars, acknowledged) = (&mut *self.bars, &mut self.acknowledged);
        let mut step = |step: Progress| match step {
            Progress::QueriesToSend(_) => {}
            Progress::Asking { done, .. } => {
                *acknowledged = start + done;
                bars.contributions(start + done, total);
            }
            other => bars.step(other),
        };
        let receipts = self.client.ask(&encrypted, &mut step, cancel)?;
        Ok(receipts.iter().filter(|receipt| **receipt == Receipt::AddedBefore).count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_say_what_may_have_been_added() {
        let counts = |sent| Counts { acknowledged: 0, sent, total: 100 };
        let said = |sent, resumable| format!("{:#}", unfinished(anyhow::anyhow!("lost"), counts(sent), resumable));
        assert_eq!(said(0, false), "lost");
        let without = said(64, false);
        assert!(without.contains("up to 64 of 100 rows may have been added; they cannot be told apart"), "{without}");
        assert!(without.contains("a second run counts them again") && without.ends_with(": lost"), "{without}");
        let with = said(64, true);
        assert!(
            with.contains("up to 64 of 100 rows may have been added; run the command again with the same"),
            "{with}"
        );
    }
}
