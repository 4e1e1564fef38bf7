//! Concrete ML beside ours: its own model of the same rows, one row at a time, in turn with a full batch of ours.

use ndarray::s;
use serde_json::json;
use unspoken_protocol::ClientHalf;

use super::case::Measured;
use super::service::answer;
use super::subject::equal;
use crate::clock::{Stopwatch, TimedOperation, alternate, scaled};
use crate::harness::{Harness, pool};
use crate::machine::MachineInfo;
use crate::peer::ConcreteModel;
use crate::row::Metric;

pub(super) fn run(harness: &mut Harness<'_>, measured: &mut Measured<'_>) -> anyhow::Result<()> {
    let (case, batch) = (measured.case, measured.compiled.batch);
    let Some((kind, repetitions)) = case.concrete.filter(|_| harness.options.peers) else { return Ok(()) };
    harness.progress(format!("{}: Concrete ML trains, compiles and makes keys", case.name));
    let root = harness.options.root.clone();
    let started = ConcreteModel::start(&root, kind, &root.join(case.rows()));
    // Its limit of memory ends it for some models: the rows of ours go on.
    let mut peer = match started.unwrap_or_else(|error| Err(format!("{error:#}"))) {
        Ok(peer) => peer,
        Err(missing) => {
            harness.progress(format!("{}: no rows beside Concrete ML: {missing}", case.name));
            return Ok(());
        }
    };
    harness.progress(format!("{}: in turn with Concrete ML", case.name));
    let cores = MachineInfo::detect().cores;
    let several = pool(cores)?;
    let count = batch.min(measured.rows.nrows());
    let rows = measured.served.rows(measured.rows.slice(s![..count, ..]))?;
    let query = measured.served.client.query(&rows)?;
    let (server, keys) = (&measured.served.server, &measured.served.keys);
    let answer_bytes = answer(server, keys, &query)?.len();
    let mut operations: [TimedOperation<'_>; 2] = [
        Box::new(|| Stopwatch::wall(&several).seconds(|| answer(server, keys, &query).map(drop))),
        Box::new(|| peer.time()),
    ];
    let samples = alternate(repetitions, &mut operations)?;
    drop(operations);
    let (ours, theirs) = (&samples[0], &samples[1]);
    let about = &peer.about;
    let mut params = measured.params.clone();
    params.extend([
        ("threads".to_owned(), json!(cores)),
        ("clock".to_owned(), json!("wall")),
        ("repetitions".to_owned(), json!(ours.len())),
        ("their_rows".to_owned(), json!([peer.asked, peer.equal])),
        ("their_compile_seconds".to_owned(), json!(about.compile_seconds)),
        ("their_key_seconds".to_owned(), json!(about.key_seconds)),
    ]);
    let name = peer.name();
    let mut row = |metric, ours: &[f64], theirs: &[f64]| {
        harness.row(metric, case.name, ours, Some((&name, theirs)), params.clone());
    };
    row(Metric::less("beside_first_row_time", "s"), ours, theirs);
    row(Metric::less("beside_row_time", "s"), &scaled(ours, 1.0 / batch as f64), theirs);
    let each = 1.0 / batch as f64;
    let bytes = |name| Metric::less(name, "bytes");
    row(bytes("beside_key_bytes"), &[measured.served.key_bytes as f64], &[about.key_bytes as f64]);
    row(bytes("beside_query_bytes"), &[query.len() as f64], &[about.query_bytes as f64]);
    row(bytes("beside_query_bytes_a_row"), &[query.len() as f64 * each], &[about.query_bytes as f64]);
    row(bytes("beside_answer_bytes"), &[answer_bytes as f64], &[about.answer_bytes as f64]);
    // The quantised model in the clear, whose labels the encrypted rows have.
    let clear = measured.subject.clear(measured.subject.test.view())?.labels;
    let accuracy = equal(&clear, &measured.subject.wanted[..clear.len()]);
    row(Metric::more("beside_accuracy", "of 1"), &[accuracy], &[about.accuracy]);
    Ok(())
}
