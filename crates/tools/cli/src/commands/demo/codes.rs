//! A database of diagnoses: it is built, served, and queried by code without revealing the code.

use std::path::Path;
use std::time::Instant;

use anyhow::Context;
use unspoken_client::transport::Cancel;
use unspoken_client::{ServiceClient, StateDir, UsageStats};
use unspoken_database::{Builder, Built, Database, Record};
use unspoken_pir::{PirClient, PirOptions, Question};
use unspoken_pir_scheme::{Mode, Preset};
use unspoken_sources::{Source, SourceError, SourceSpec};

use super::service::Service;
use super::{SAMPLE_BYTES, print};
use crate::progress::Bars;

const APPLICATION: &str = "pir/icd10";

/// The queried codes; the last one does not exist.
const CODES: [&str; 5] = ["E11.9", "I10", "J45.909", "S82.401A", "X99.99"];

/// Codes queried in each mode. The second mode needs larger keys and at least a second per query.
const QUERIES: [(Mode, &[&str]); 2] = [(Mode::Packed, &CODES), (Mode::Compact, &[CODES[0]])];

/// Offset of the shown bytes in a request: after the seed of the first query.
const SAMPLE_START: usize = 32;

/// Runs this part of the demonstration.
pub fn run(codes: &Path, cancel: &Cancel) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let directory = folder.path().join("icd10");
    build(codes, &directory, cancel)?;
    let mut named = std::ffi::OsString::from(format!("{APPLICATION}="));
    named.push(&directory);
    let service = Service::start(["--pir".as_ref(), named.as_os_str()], folder.path())?;
    println!("service     {} offers {APPLICATION}", service.url);
    // The database in the clear, for comparison.
    let clear = Database::open(&directory)?.snapshot();
    for (mode, codes) in QUERIES {
        let answers = ask(&service, &folder.path().join(format!("client-{mode}")), mode, codes, cancel)?;
        for (code, record) in codes.iter().zip(&answers.records) {
            anyhow::ensure!(
                *record == clear.get(code.as_bytes())?,
                "{mode}: the record of {code} differs from the database"
            );
        }
        answers.report(mode, codes);
    }
    Ok(())
}

/// Reads the table and builds the database.
fn build(codes: &Path, directory: &Path, cancel: &Cancel) -> anyhow::Result<Built> {
    let absent = || format!("cannot read {}; `make demo` downloads it", codes.display());
    let mut spec = SourceSpec::guess(codes).with_context(absent)?;
    spec.key_column = Some("code".into());
    spec.value_columns = vec!["long_name".into()];
    let source = Source::open(&spec).with_context(absent)?;
    let start = Instant::now();
    let records = source.map(|read| read.map(|record| Record { key: record.key, value: record.value }));
    let built = Builder::new(Preset::N11).build::<SourceError>(directory, records, |_| {}, cancel.flag())?;
    println!("data        {} diagnoses, {} bytes, from {}", built.records, built.value_bytes, codes.display());
    println!("built       a table of {} bytes in {:.1} s", built.table_bytes, start.elapsed().as_secs_f64());
    Ok(built)
}

/// What the client received and the service saw.
struct Answers {
    records: Vec<Option<Vec<u8>>>,
    usage: UsageStats,
    /// Lengths of all requests.
    requests: Vec<usize>,
    /// Some bytes of the first request.
    sample: Vec<u8>,
}

/// Queries one code after the other.
fn ask(service: &Service, state: &Path, mode: Mode, codes: &[&str], cancel: &Cancel) -> anyhow::Result<Answers> {
    let mut bars = Bars::new();
    let state = StateDir::open(state, &service.url, APPLICATION)?;
    let mut step = |step| bars.step(step);
    let (transport, options) = (service.transport()?, PirOptions::new(mode, state.clone()));
    let mut client = ServiceClient::<PirClient>::connect(transport, APPLICATION, options, &state, &mut step, cancel)?;
    let (mut records, mut requests, mut sample) = (Vec::new(), Vec::new(), Vec::new());
    let mut look = |query: &[u8]| {
        requests.push(query.len());
        if sample.is_empty() {
            sample.extend(query.iter().skip(SAMPLE_START).take(SAMPLE_BYTES));
        }
    };
    for code in codes {
        let question = [Question::Key(code.as_bytes().to_vec())];
        let answers = client.ask_and_show(&question, &mut step, &mut look, cancel)?;
        records.extend(answers.into_iter().map(|answer| answer.record.map(|record| record.to_vec())));
    }
    let usage = client.usage();
    bars.finish();
    Ok(Answers { records, usage, requests, sample })
}

impl Answers {
    fn report(&self, mode: Mode, codes: &[&str]) {
        println!("\n{mode} queries");
        for (code, record) in codes.iter().zip(&self.records) {
            let text = record.as_deref().map(String::from_utf8_lossy);
            println!("            {code:9} {}", text.as_deref().unwrap_or("no such code"));
        }
        let each = |total: f64| total / codes.len() as f64;
        let lengths: Vec<String> = self.requests.iter().map(usize::to_string).collect();
        print(&[
            ("bytes of keys, once", self.usage.key_bytes.to_string()),
            ("seconds making and sending keys, once", format!("{:.2}", self.usage.key_seconds)),
            ("bytes of answer per code", format!("{:.0}", each(self.usage.answer_bytes as f64))),
            ("seconds per code, client", format!("{:.4}", each(self.usage.client_seconds))),
            ("seconds per code, service", format!("{:.4}", each(self.usage.server_seconds))),
            ("what the service saw: lengths", lengths.join(", ")),
            ("what the service saw: of the first", format!("{}...", hex::encode(&self.sample))),
        ]);
    }
}
