//! Questions to a collection: recall, bytes, memory, and seconds beside exact search in the clear and the planner.

use std::time::Instant;

use rayon::ThreadPool;
use serde_json::{Map, Value};

use super::Case;
use super::data::Source;
use super::exact;
use super::subject::{Client, NEIGHBOURS, Question, RECALL_OF, Subject};
use crate::clock::{Stopwatch, TimedOperation, alternate, median, process_seconds};
use crate::harness::{Harness, pool};
use crate::machine::MachineInfo;
use crate::row::{Metric, params};

const ANSWER: Metric = Metric::less("answer_time", "s");
const CORE_SECONDS: Metric = Metric::less("core_seconds", "s");
const PREDICTED: &str = "predicted by the planner";
const CLEAR: &str = "exact search in the clear";

/// Questions of several clients that are answered in one pass.
const TOGETHER: usize = 4;

/// Measures a collection as it is laid out for the usual recall, and then for others, by which its rows are named.
pub(super) fn run(harness: &mut Harness<'_>, case: &Case, source: Source, others: &[f64]) -> anyhow::Result<()> {
    let parameters = case.preset.build()?;
    let collection = match source.open(&harness.options.root)? {
        Ok(collection) => collection,
        Err(missing) => {
            harness.progress(missing);
            return Ok(());
        }
    };
    let name = collection.name.clone();
    harness.progress(format!("{name}: index and table"));
    let started = Instant::now();
    let mut subject = Subject::new(&parameters, collection)?;
    let params = described(&subject);
    harness.value(Metric::less("build_time", "s"), &name, started.elapsed().as_secs_f64(), None, params);
    by_blocks(harness, &subject);
    measure(harness, case, &subject)?;
    for &recall in others {
        subject = subject.asking(recall);
        subject.collection.name = format!("{name}, for {recall}");
        measure(harness, case, &subject)?;
    }
    Ok(())
}

fn measure(harness: &mut Harness<'_>, case: &Case, subject: &Subject) -> anyhow::Result<()> {
    facts(harness, subject)?;
    encrypted_recall(harness, case, subject)?;
    times(harness, case, subject)
}

/// The layout, for the parameters of a row.
fn described(subject: &Subject) -> Map<String, Value> {
    let [blocks, groups, asked] = subject.layout();
    params! {
        "documents": subject.collection.len(), "width": subject.collection.width(), "blocks": blocks, "groups": groups,
        "asked": asked, "preset": subject.parameters.name(), "backend": subject.parameters.ring().backend().name(),
    }
}

/// Bytes, memory and recall.
fn facts(harness: &mut Harness<'_>, subject: &Subject) -> anyhow::Result<()> {
    let (name, plan, params) = (subject.collection.name.clone(), subject.plan(), described(subject));
    let numbers = (subject.collection.len() * subject.collection.width()) as f64;
    let mut row = |metric, ours: f64, baseline| harness.value(metric, &name, ours, baseline, params.clone());
    row(RECALL_OF, subject.recall(), Some((CLEAR, 1.0)));
    row(Metric::less("query_bytes", "bytes"), plan.query_bytes as f64, None);
    row(Metric::less("answer_bytes", "bytes"), plan.answer_bytes as f64, None);
    let memory = subject.table.memory_bytes() as f64;
    row(Metric::less("memory", "bytes"), memory, Some((PREDICTED, plan.memory_bytes as f64)));
    row(Metric::less("memory_per_coordinate", "bytes"), memory / numbers, Some(("vectors of f32", 4.0)));
    row(Metric::less("directory_bytes", "bytes"), subject.index.directory().centres().len() as f64, None);
    row(Metric::less("cosine_deviation", "cosine"), subject.cosine_deviation()?, None);
    Ok(())
}

/// The recall by the number of blocks that are asked, on documents of the collection.
fn by_blocks(harness: &mut Harness<'_>, subject: &Subject) {
    let (blocks, most) = (subject.layout()[0], subject.recalls.len());
    for (place, &found) in subject.recalls.iter().enumerate() {
        let asked = place + 1;
        if asked.is_power_of_two() || asked == subject.asked() || asked == most {
            let case = format!("{}, {asked} of {blocks} blocks", subject.collection.name);
            harness.value(Metric::more("recall_by_blocks", "of 10"), case, found, None, described(subject));
        }
    }
}

/// The recall that decrypted scores have, beside that without errors of encryption for the same queries.
fn encrypted_recall(harness: &mut Harness<'_>, case: &Case, subject: &Subject) -> anyhow::Result<()> {
    harness.progress(format!("{}: {} questions", subject.collection.name, case.questions));
    let queries = subject.collection.first_queries(case.questions);
    let mut found = [0, 0];
    for (number, vector) in queries.iter().enumerate() {
        let mut client = Client::new(&subject.parameters, number as u64)?;
        let question = [client.ask(subject, vector)?];
        let responses = subject.pass(&question)?;
        let both = subject.check(&client, number, &question[0], &responses)?;
        found.iter_mut().zip(both).for_each(|(found, more)| *found += more);
    }
    let part = |found: usize| found as f64 / (queries.len() * NEIGHBOURS) as f64;
    let mut params = described(subject);
    params.insert("questions".into(), queries.len().into());
    let metric = Metric::more("encrypted_recall", "of 10");
    let baseline = Some(("without errors of encryption", part(found[1])));
    harness.value(metric, &subject.collection.name, part(found[0]), baseline, params);
    Ok(())
}

/// Seconds and core-seconds of a measured operation.
#[derive(Clone, Copy)]
struct Spent {
    seconds: f64,
    /// Of all threads; the seconds again for one thread.
    cores: f64,
}

fn on_one(stopwatch: Stopwatch<'_>, work: impl FnOnce() -> anyhow::Result<()> + Send) -> anyhow::Result<Spent> {
    let seconds = stopwatch.seconds(work)?;
    Ok(Spent { seconds, cores: seconds })
}

fn on_all(pool: &ThreadPool, work: impl FnOnce() -> anyhow::Result<()> + Send) -> anyhow::Result<Spent> {
    let before = process_seconds();
    let seconds = Stopwatch::wall(pool).seconds(work)?;
    let cores = process_seconds().zip(before).map_or(seconds, |(after, before)| after - before);
    Ok(Spent { seconds, cores })
}

/// Passes for one question and for several, and exact search, on one thread and on all cores, in turn.
fn times(harness: &mut Harness<'_>, case: &Case, subject: &Subject) -> anyhow::Result<()> {
    harness.progress(format!("{}: passes in turn", subject.collection.name));
    let cores = MachineInfo::detect().cores;
    let (several, stopwatch) = (pool(cores)?, harness.stopwatch());
    let mut client = Client::new(&subject.parameters, 77)?;
    let vectors = subject.collection.first_queries(TOGETHER);
    let together: Vec<Question> =
        vectors.iter().map(|vector| client.ask(subject, vector)).collect::<anyhow::Result<_>>()?;
    let (one, documents, vector) = (&together[..1], &subject.collection.documents, &vectors[0]);
    let pass = |questions: &[Question]| subject.pass(questions).map(drop);
    let exact = || {
        std::hint::black_box(exact::search(documents, vector, NEIGHBOURS));
        Ok(())
    };
    let responses = subject.pass(one)?;
    let mut asking = Client::new(&subject.parameters, 78)?;
    let mut operations: [TimedOperation<'_, Spent>; 7] = [
        Box::new(|| on_one(stopwatch, || pass(one))),
        Box::new(|| on_one(stopwatch, exact)),
        Box::new(|| on_all(&several, || pass(one))),
        Box::new(|| on_all(&several, exact)),
        Box::new(|| on_one(stopwatch, || pass(&together))),
        Box::new(|| on_one(stopwatch, || asking.ask(subject, vector).map(drop))),
        Box::new(|| on_one(stopwatch, || client.read(subject, &one[0], &responses).map(drop))),
    ];
    let samples = alternate(case.repetitions, &mut operations)?;
    drop(operations);
    report(harness, subject, cores, &samples);
    Ok(())
}

fn report(harness: &mut Harness<'_>, subject: &Subject, cores: usize, samples: &[Vec<Spent>]) {
    let seconds = |place: usize| samples[place].iter().map(|spent| spent.seconds).collect::<Vec<f64>>();
    let (name, params, plan) = (&subject.collection.name, described(subject), subject.plan());
    let clear = seconds(1);
    harness.timing(ANSWER, name, &seconds(0), Some((CLEAR, &clear)), params.clone());
    let predicted = vec![plan.core_seconds; clear.len()];
    harness.timing(CORE_SECONDS, name, &seconds(0), Some((PREDICTED, &predicted)), params.clone());
    let [blocks, groups, asked] = subject.layout();
    let rows = blocks * subject.collection.width();
    let multiplied = (rows * groups * subject.parameters.ring().degree() * asked) as f64;
    let rate = [multiplied / median(&seconds(0)) / 1e9];
    harness.timing(Metric::more("rate", "10^9 products/s"), name, &rate, None, params.clone());
    let each: Vec<f64> = seconds(4).iter().map(|all| all / TOGETHER as f64).collect();
    let alone = seconds(0);
    let case = format!("{name}, {TOGETHER} questions in a pass, each");
    harness.timing(ANSWER, case, &each, Some(("a pass for each question", &alone)), params.clone());
    harness.timing(Metric::less("query_time", "s"), name, &seconds(5), None, params.clone());
    harness.timing(Metric::less("read_time", "s"), name, &seconds(6), None, params.clone());
    let mut of_all = params;
    of_all.insert("threads".into(), cores.into());
    of_all.insert("clock".into(), "wall".into());
    let case = format!("{name}, all cores");
    harness.row(ANSWER, &case, &seconds(2), Some((CLEAR, &seconds(3))), of_all.clone());
    let spent: Vec<f64> = samples[2].iter().map(|spent| spent.cores).collect();
    harness.row(CORE_SECONDS, &case, &spent, Some((PREDICTED, &predicted)), of_all);
}
