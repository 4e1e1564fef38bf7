//! Seconds of a full batch: at the service, at the client, in the clear.

use std::cell::RefCell;

use ndarray::s;
use unspoken_model::ModelClient;
use unspoken_protocol::ClientHalf;

use super::case::Measured;
use super::service::answer;
use super::subject::equal;
use crate::clock::{Stopwatch, TimedOperation, alternate};
use crate::harness::{Harness, pool};
use crate::machine::MachineInfo;
use crate::peer::ClearModel;
use crate::row::Metric;

const ANSWER: Metric = Metric::less("answer_time", "s");
const OWN: &str = "our evaluation in the clear";
const PREDICTED: &str = "predicted for one core";

/// Rows on which onnxruntime and our evaluation may give other labels: those whose scores are equal but for rounding.
const MOST_DIFFERENT: f64 = 0.005;

pub(super) fn run(harness: &mut Harness<'_>, measured: &mut Measured<'_>) -> anyhow::Result<()> {
    let (case, subject, batch) = (measured.case, measured.subject, measured.compiled.batch);
    let count = batch.min(measured.rows.nrows());
    let peer = clear_peer(harness, measured, count)?;
    harness.progress(format!("{}: times in turn", case.name));
    let cores = MachineInfo::detect().cores;
    let (several, stopwatch, clock) = (pool(cores)?, harness.stopwatch(), harness.clock());
    let table = measured.rows.slice(s![..count, ..]).to_owned();
    let input = subject.input(table.view())?;
    let served = &mut measured.served;
    let rows = served.rows(table.view())?;
    let query = served.client.query(&rows)?;
    let answered = answer(&served.server, &served.keys, &query)?;
    let (server, keys) = (&served.server, &served.keys);
    // Of the operations that alternate, one asks and one reads.
    let client = RefCell::new(&mut served.client);
    let run = || answer(server, keys, &query).map(drop);
    let mut peer = peer;
    let mut operations: [TimedOperation<'_>; 5] = [
        Box::new(|| stopwatch.seconds(run)),
        Box::new(|| Stopwatch::wall(&several).seconds(run)),
        Box::new(|| match &mut peer {
            Some(peer) => peer.time(clock),
            None => stopwatch.seconds(|| subject.model.run(std::slice::from_ref(&input)).map(drop)),
        }),
        Box::new(|| {
            let mut client = client.borrow_mut();
            let client: &mut ModelClient = &mut client;
            stopwatch.seconds(|| client.query(&rows).map(drop))
        }),
        Box::new(|| {
            let client = client.borrow();
            let client: &ModelClient = &client;
            stopwatch.seconds(|| client.read(&answered, &rows).map(drop))
        }),
    ];
    let samples = alternate(case.repetitions, &mut operations)?;
    drop(operations);
    let [one, all, clear, encrypt, decrypt] = &samples[..] else { return Ok(()) };
    let (name, params) = (case.name, measured.params.clone());
    let baseline = peer.as_ref().map_or_else(|| OWN.to_owned(), ClearModel::name);
    harness.timing(ANSWER, name, one, Some((&baseline, clear)), params.clone());
    let predicted = vec![measured.compiled.report.seconds_on_one_core; one.len()];
    harness.timing(Metric::less("predicted_time", "s"), name, one, Some((PREDICTED, &predicted)), params.clone());
    harness.timing(Metric::less("encrypt_time", "s"), name, encrypt, None, params.clone());
    harness.timing(Metric::less("decrypt_time", "s"), name, decrypt, None, params.clone());
    let mut of_all = params;
    of_all.extend([("threads".into(), cores.into()), ("clock".into(), "wall".into())]);
    of_all.insert("repetitions".into(), all.len().into());
    harness.row(ANSWER, format!("{name}, all cores"), all, Some(("one thread", one)), of_all);
    Ok(())
}

/// onnxruntime, whose labels of all rows are compared with ours, if it is set up.
fn clear_peer(harness: &mut Harness<'_>, measured: &Measured<'_>, count: usize) -> anyhow::Result<Option<ClearModel>> {
    let (case, subject) = (measured.case, measured.subject);
    let folder = harness.options.root.join(case.folder);
    let peer = match harness.options.peers {
        true => ClearModel::start(
            &harness.options.root,
            &folder.join(case.file),
            &harness.options.root.join(case.rows()).join("test.npy"),
            count,
        )?,
        false => None,
    };
    let Some(peer) = peer else {
        harness.progress(format!("{}: onnxruntime is not set up: our own evaluation is the baseline", case.name));
        return Ok(None);
    };
    let ours = subject.clear(subject.test.view())?.labels;
    let same = equal(&ours, &peer.labels[..ours.len()]);
    anyhow::ensure!(
        same >= 1.0 - MOST_DIFFERENT,
        "{}: {:.1} % of our labels in the clear are onnxruntime's, needed {:.1} %; this is a bug, please report it",
        case.name,
        same * 100.0,
        100.0 - MOST_DIFFERENT * 100.0
    );
    Ok(Some(peer))
}
