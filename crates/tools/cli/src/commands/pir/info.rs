//! `unspoken pir info`

use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::json;
use unspoken_database::{Database, Snapshot};
use unspoken_pir::{ANSWER_OVERHEAD_BYTES, REQUEST_OVERHEAD_BYTES};
use unspoken_pir_scheme::{DatabaseVersion, Layout, Length, Mode, SchemeError, SeededKeys, Tables};

/// Show what a database contains and what queries to it cost
///
/// All checksums are verified first, as services do before they serve a database.
#[derive(clap::Args)]
pub struct Arguments {
    /// Directory of the database
    database: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let database = Database::open(&arguments.database)?;
    let snapshot = database.snapshot();
    let files = files(&arguments.database)?;
    let tables = snapshot.tables();
    let questions = tables.kind().modes().iter().map(|&mode| Question::new(tables, mode));
    let questions: Vec<Question> = questions.collect::<Result<_, _>>()?;
    if arguments.json {
        return print_json(&snapshot, &files, &questions);
    }
    let (layout, parameters) = (snapshot.layout(), snapshot.parameters());
    let records = snapshot.records();
    let (by, room) = match layout {
        Layout::Index { records: room, length } => {
            ("index", format!("{records}, room for {room}, {}", lengths(length)))
        }
        Layout::Keys { .. } => ("key", format!("{records}")),
    };
    println!("read by     {by}");
    println!("records     {room}");
    if let Layout::Keys { candidates, .. } = layout {
        println!("buckets     {} of {} bytes, {candidates} for a key", layout.cells(), layout.cell_bytes());
    }
    println!("sealed      {}", if snapshot.sealing().is_some() { "yes" } else { "no" });
    println!("load        {:.1} %", 100.0 * snapshot.load()?);
    println!("planes      {}, responses to a query", tables.planes());
    println!("tables      {}, {} bytes", tables.kind(), snapshot.table_bytes());
    println!("changed     {} of their entries or cells since they were written", snapshot.changed_entries());
    println!("version     {}, generation {} of the files", snapshot.version(), snapshot.generation());
    println!("parameters  {}", parameters.name());
    for (name, bytes) in &files {
        println!("file        {name}, {bytes} bytes");
    }
    println!(
        "\n{:8} {:>12} {:>12} {:>12} {:>13}",
        "query", "keys, bytes", "asks, bytes", "gets, bytes", "log2 failure"
    );
    for question in &questions {
        let Question { mode, key_bytes, query_bytes, answer_bytes, log2_failure } = question;
        println!("{:8} {key_bytes:>12} {query_bytes:>12} {answer_bytes:>12} {log2_failure:>13.1}", mode.to_string());
    }
    println!(
        "\nA request of any number of queries has {REQUEST_OVERHEAD_BYTES} bytes more, an answer \
         {ANSWER_OVERHEAD_BYTES}."
    );
    Ok(())
}

/// The cost of one lookup. A lookup by key sends one query for each candidate bucket.
struct Question {
    mode: Mode,
    key_bytes: u64,
    query_bytes: u64,
    answer_bytes: u64,
    /// Of the whole lookup, at most.
    log2_failure: f64,
}

impl Question {
    fn new(tables: &Tables, mode: Mode) -> Result<Self, SchemeError> {
        let responses = tables.queries() * tables.planes();
        Ok(Question {
            mode,
            key_bytes: SeededKeys::byte_len(tables.parameters(), mode),
            query_bytes: (tables.queries() * tables.query_bytes(mode)) as u64,
            answer_bytes: (responses * tables.response_bytes()) as u64,
            log2_failure: tables.log2_failure(mode)?,
        })
    }
}

fn print_json(snapshot: &Snapshot, files: &[(String, u64)], questions: &[Question]) -> anyhow::Result<()> {
    let (layout, parameters) = (snapshot.layout(), snapshot.parameters());
    let files: serde_json::Map<_, _> = files.iter().map(|(name, bytes)| (name.clone(), json!(bytes))).collect();
    let question = |question: &Question| {
        let numbers = json!({
            "key_bytes": question.key_bytes, "query_bytes": question.query_bytes,
            "answer_bytes": question.answer_bytes, "log2_failure": question.log2_failure,
        });
        (question.mode.to_string(), numbers)
    };
    let questions: serde_json::Map<_, _> = questions.iter().map(question).collect();
    let line = json!({
        "layout": layout, "records": snapshot.records(), "cells": layout.cells(), "cell_bytes": layout.cell_bytes(),
        "planes": snapshot.tables().planes(), "tables": snapshot.tables().kind(),
        "sealed": snapshot.sealing().is_some(), "load": snapshot.load()?,
        "table_bytes": snapshot.table_bytes(),
        "changed_entries": snapshot.changed_entries(), "version": snapshot.version(),
        "generation": snapshot.generation(), "preset": parameters.name(), "files": files, "questions": questions,
        "request_overhead_bytes": REQUEST_OVERHEAD_BYTES, "answer_overhead_bytes": ANSWER_OVERHEAD_BYTES,
    });
    println!("{line}");
    Ok(())
}

fn lengths(length: Length) -> String {
    match length {
        Length::Fixed(bytes) => format!("all of {bytes} bytes"),
        Length::Variable { max } => format!("up to {max} bytes"),
    }
}

/// The files of the directory: names and lengths.
fn files(directory: &Path) -> anyhow::Result<Vec<(String, u64)>> {
    let list = || {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(directory)? {
            let entry = entry?;
            files.push((entry.file_name().to_string_lossy().into_owned(), entry.metadata()?.len()));
        }
        files.sort_unstable();
        Ok::<_, std::io::Error>(files)
    };
    list().with_context(|| format!("cannot list {}", directory.display()))
}
