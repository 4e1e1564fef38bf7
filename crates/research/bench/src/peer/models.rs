//! Models in the clear by onnxruntime, and encrypted by Concrete ML (`research/peers/model_peer.py`).

use std::path::Path;
use std::process::Command;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{PeerProcess, PeerTimes, failure, script};
use crate::clock::Clock;

const SCRIPT: &str = "model_peer.py";

/// Its environment, which `make tables-model` makes.
const PYTHON: &str = ".peers/concrete-ml/bin/python";

/// A model that onnxruntime evaluates on one thread.
pub(crate) struct ClearModel {
    process: PeerProcess,
    version: String,
    /// Its labels of all rows.
    pub(crate) labels: Vec<i64>,
}

#[derive(Deserialize)]
struct ClearAbout {
    version: String,
    labels: Vec<i64>,
}

impl ClearModel {
    const NAME: &str = "onnxruntime";

    /// Opens a model and its rows, of which a batch is timed; `None` if onnxruntime is not set up.
    pub(crate) fn start(root: &Path, model: &Path, rows: &Path, batch: usize) -> anyhow::Result<Option<Self>> {
        let command = json!({ "cmd": "setup", "library": "onnxruntime", "model": model, "rows": rows, "batch": batch });
        let Ok((process, about)) = open::<ClearAbout>(root, Self::NAME, &command)? else { return Ok(None) };
        Ok(Some(ClearModel { process, version: about.version, labels: about.labels }))
    }

    /// Its name in rows.
    pub(crate) fn name(&self) -> String {
        format!("{} {} in the clear", Self::NAME, self.version)
    }

    /// Seconds of a batch.
    pub(crate) fn time(&mut self, clock: Clock) -> anyhow::Result<f64> {
        let times: PeerTimes = self.process.ask(&json!({ "cmd": "time", "op": "run", "reps": 1 }))?;
        times.first(Self::NAME, clock)
    }
}

/// A model of Concrete ML.
pub(crate) struct ConcreteModel {
    process: PeerProcess,
    pub(crate) about: ConcreteAbout,
    /// Rows that were asked, and those of them whose label is that of its quantised model in the clear.
    pub(crate) asked: usize,
    pub(crate) equal: usize,
}

/// What Concrete ML says about its model.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ConcreteAbout {
    version: String,
    /// The part of all test rows that its quantised model labels rightly, in the clear.
    pub(crate) accuracy: f64,
    pub(crate) key_bytes: u64,
    pub(crate) key_seconds: f64,
    /// Of one row.
    pub(crate) query_bytes: u64,
    pub(crate) answer_bytes: u64,
    pub(crate) compile_seconds: f64,
}

#[derive(Deserialize)]
struct ConcreteTimes {
    ms: Vec<f64>,
    asked: usize,
    equal: usize,
}

impl ConcreteModel {
    const NAME: &str = "Concrete ML";

    /// Trains, compiles and saves a model of the rows of a folder, and makes its keys; the inner error says why it is
    /// absent.
    pub(crate) fn start(root: &Path, kind: &str, folder: &Path) -> anyhow::Result<Result<Self, String>> {
        let command = json!({ "cmd": "setup", "library": "concrete-ml", "model": kind, "folder": folder });
        let opened = open::<ConcreteAbout>(root, Self::NAME, &command)?;
        Ok(opened.map(|(process, about)| ConcreteModel { process, about, asked: 0, equal: 0 }))
    }

    /// Its name in rows.
    pub(crate) fn name(&self) -> String {
        format!("{} {}", Self::NAME, self.about.version)
    }

    /// Wall-clock seconds of its server for the next row, on all cores.
    pub(crate) fn time(&mut self) -> anyhow::Result<f64> {
        let times: ConcreteTimes = self.process.ask(&json!({ "cmd": "time", "op": "run", "reps": 1 }))?;
        (self.asked, self.equal) = (times.asked, times.equal);
        times.ms.first().map(|ms| ms / 1e3).ok_or_else(|| failure(Self::NAME, "an answer without times"))
    }
}

/// A process that has opened what the command names; the inner error says what is absent.
fn open<T: for<'de> Deserialize<'de>>(
    root: &Path,
    name: &'static str,
    command: &Value,
) -> anyhow::Result<Result<(PeerProcess, T), String>> {
    if !root.join(PYTHON).exists() {
        return Ok(Err(format!("{name} is not set up, needed 'make tables-model'")));
    }
    let mut start = Command::new(root.join(PYTHON));
    start.arg(script(root, SCRIPT));
    let mut process = PeerProcess::start(name, start)?;
    let answer: Value = process.ask(command)?;
    if let Some(absent) = answer.get("absent") {
        return Ok(Err(format!("{name} is not set up: {absent}")));
    }
    let about = serde_json::from_value(answer);
    Ok(Ok((process, about.map_err(|error| failure(name, format!("an answer of another version: {error}")))?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_set_up_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let absent = ConcreteModel::start(folder.path(), "logistic", folder.path()).unwrap().err().unwrap();
        assert!(absent.contains("make tables-model"), "{absent}");
        assert!(ClearModel::start(folder.path(), folder.path(), folder.path(), 1).unwrap().is_none());
    }

    #[test]
    fn models_of_others_answer_where_they_are_set_up() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
        if !root.join(PYTHON).exists() {
            println!("skipped: Concrete ML is not set up; `make tables-model` sets it up");
            return;
        }
        let rows = root.join("data/breast-cancer");
        let model = root.join("models/breast-cancer/logistic.onnx");
        let mut clear = ClearModel::start(&root, &model, &rows.join("test.npy"), 128);
        if let Some(clear) = clear.as_mut().unwrap() {
            assert!(clear.labels.len() == 128 && clear.time(Clock::Wall).unwrap() > 0.0);
        }
        let Ok(mut concrete) = ConcreteModel::start(&root, "logistic", &rows).unwrap() else { return };
        assert!(concrete.time().unwrap() > 0.0 && concrete.about.accuracy > 0.9);
        assert_eq!((concrete.asked, concrete.equal), (1, 1));
    }
}
