//! `unspoken pir get`

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use serde_json::json;
use unspoken_client::ServiceClient;
use unspoken_pir::{Answer, PirClient, PirOptions, Question};
use unspoken_pir_scheme::Mode;

use super::oprf::{self, OprfOptions};
use crate::commands::connection::{Target, usage_lines};
use crate::output_file::OutputFile;
use crate::progress::Bars;
use crate::{input, interrupt};

/// Retrieve records of a service's database without revealing which
///
/// Each record is written to standard output, followed by a newline, in the order of the keys or indices. The line of
/// an absent record is "(absent)", or the text of --absent, and the exit status is 1. If records contain that text or
/// newlines, use --json. The first call generates and uploads keys; later calls reuse them.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    target: Target,
    /// Kind of query: packed (at most 352 bytes, or 147 KB to dense and 93 KB to wide tables, about 3 MB of keys, the
    /// fastest), bits (32 bytes and 5 bits for each bit of the index, about 100 MB of keys), compact (36 bytes, about
    /// 100 MB of keys), or session (like compact, with 4 bytes per query; its query counter is kept in the state
    /// directory, which must never be restored from a copy). A request has 8 bytes more than its queries; a lookup by
    /// key sends two queries
    #[arg(long, default_value = "packed", value_parser = clap::value_parser!(Mode))]
    query: Mode,
    /// Indices instead of keys, separated by commas
    #[arg(long, value_delimiter = ',', conflicts_with = "keys")]
    index: Vec<u64>,
    /// Keys are bytes in hexadecimal, for keys that are not text
    #[arg(long, conflicts_with = "index")]
    hex: bool,
    /// Write the record, without a newline, to this file; an absent one leaves no file. It must not exist yet
    #[arg(long, conflicts_with = "json")]
    out: Option<PathBuf>,
    /// Overwrite the file of --out
    #[arg(long, requires = "out")]
    force: bool,
    /// Line for an absent record
    #[arg(long, value_name = "TEXT", default_value = "(absent)", conflicts_with_all = ["json", "out"])]
    absent: String,
    /// Print one JSON object per record: key or index, version of the database, whether the record was found, and the
    /// record as text, or in hexadecimal if it is not UTF-8, or null if it is absent
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    oprf: OprfOptions,
    /// Print the bytes sent and received, and the times, on standard error
    #[arg(long)]
    usage: bool,
    /// Keys; the lines of standard input if none are given
    keys: Vec<String>,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let questions = questions(arguments)?;
    let cancel = interrupt::on_ctrl_c()?;
    anyhow::ensure!(!questions.is_empty(), "nothing to ask for; give keys, or --index");
    anyhow::ensure!(
        arguments.out.is_none() || questions.len() == 1,
        "--out needs exactly one key or index, found {}",
        questions.len()
    );
    let out = arguments.out.as_deref().map(|path| OutputFile::open("--out", path, arguments.force)).transpose()?;
    let (transport, application, state) = arguments.target.open(&cancel)?;
    let mut bars = Bars::new();
    let mut step = |step| bars.step(step);
    let mut unsealer = oprf::connect(&arguments.oprf, &arguments.target, &mut step, &cancel)?;
    let sealing = unsealer.as_ref().map(|unsealer| unsealer.description().sealing().id());
    let options = PirOptions::new(arguments.query, state.clone()).with_sealing(sealing);
    let mut client = ServiceClient::<PirClient>::connect(transport, &application, options, &state, &mut step, &cancel)?;
    let answers = match &mut unsealer {
        Some(unsealer) => {
            let sealed = oprf::ask(unsealer, &questions, &mut step, &cancel)?;
            oprf::open(&sealed, client.ask(&sealed.stored(&questions), &mut step, &cancel)?)?
        }
        None => client.ask(&questions, &mut step, &cancel)?,
    };
    bars.finish();
    if arguments.usage {
        if let Some(unsealer) = &unsealer {
            eprint!("keys of sealed records\n{}", usage_lines(unsealer.usage()));
        }
        eprint!("{}", usage_lines(client.usage()));
    }
    match out {
        Some(out) => match answers.first().and_then(|answer| answer.record.as_ref()) {
            Some(record) => out.write(record)?,
            None => drop(out),
        },
        None => print(arguments, &questions, &answers)?,
    }
    let absent: Vec<String> =
        questions.iter().zip(&answers).filter(|(_, answer)| answer.record.is_none()).map(|(q, _)| name(q)).collect();
    anyhow::ensure!(absent.is_empty(), "no such {}", absent.join(", no such "));
    Ok(())
}

/// The queried indices or keys, or the lines of standard input as keys.
fn questions(arguments: &Arguments) -> anyhow::Result<Vec<Question>> {
    if !arguments.index.is_empty() {
        return Ok(arguments.index.iter().map(|&index| Question::Index(index)).collect());
    }
    let keys = match arguments.keys.as_slice() {
        [] => input::lines("keys")?,
        given => given.to_vec(),
    };
    let bytes = |key: String| match arguments.hex {
        true => {
            let wrong = || format!("--hex: {key:?} is no hexadecimal number of whole bytes");
            hex::decode(&key).ok().with_context(wrong)
        }
        false => Ok(key.into_bytes()),
    };
    keys.into_iter().map(|key| bytes(key).map(Question::Key)).collect()
}

/// Prints a line for each question.
fn print(arguments: &Arguments, questions: &[Question], answers: &[Answer]) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    for (question, answer) in questions.iter().zip(answers) {
        match &answer.record {
            _ if arguments.json => writeln!(out, "{}", described(question, answer))?,
            Some(record) => {
                out.write_all(record)?;
                writeln!(out)?;
            }
            None => writeln!(out, "{}", arguments.absent)?,
        }
    }
    Ok(out.flush()?)
}

/// The line that `--json` prints.
fn described(question: &Question, answer: &Answer) -> serde_json::Value {
    let mut line = json!({ "found": answer.record.is_some(), "version": answer.version });
    match question {
        Question::Key(key) => match std::str::from_utf8(key) {
            Ok(text) => line["key"] = text.into(),
            Err(_) => line["key_hex"] = hex::encode(key).into(),
        },
        Question::Index(index) => line["index"] = (*index).into(),
    }
    match answer.record.as_deref().map(|record| (std::str::from_utf8(record), record)) {
        Some((Ok(text), _)) => line["record"] = text.into(),
        Some((Err(_), bytes)) => line["record_hex"] = hex::encode(bytes).into(),
        None => line["record"] = serde_json::Value::Null,
    }
    line
}

fn name(question: &Question) -> String {
    match question {
        Question::Key(key) => match std::str::from_utf8(key) {
            Ok(text) => format!("key: {text}"),
            Err(_) => format!("key: {} (in hexadecimal)", hex::encode(key)),
        },
        Question::Index(index) => format!("record: {index}"),
    }
}
