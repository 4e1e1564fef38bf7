#![doc = include_str!("../README.md")]

mod clock;
mod cluster;
mod encrypt;
mod engine;
mod error;
mod harness;
mod llama;
mod lookup;
mod machine;
mod matrix;
mod model;
mod peer;
mod pir;
mod row;
mod search;
mod untrained;
mod web;

use std::path::PathBuf;

pub use clock::Clock;
use harness::Harness;
pub use machine::{MachineInfo, peak_memory_bytes};
pub use row::Row;

/// What to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Suite {
    /// Ring and evaluator, against OpenFHE and Lattigo: operations, transforms, matrix products, keys, memory.
    Engine,
    /// Encrypted fastText and embeddings: the paper's plan, ours, and the baselines.
    Lookup,
    /// Products of encrypted matrices: the paper's, ours, and the published ones.
    Matrix,
    /// Client encryption: the published methods, ours, and SEAL's.
    Encrypt,
    /// Private retrieval: answers by mode and size, phase by phase.
    Pir,
    /// Encrypted Llama models: linear algebra, slim polynomials, whole passes, a chain of tokens, counted blocks.
    Llama,
    /// The module for browsers in V8: keys, encryption and decryption, against portable kernels and this process.
    Web,
    /// Services on Ray, against one without it: latency at one replica, and a database in shards.
    Cluster,
    /// Private search: recall, bytes, seconds, beside exact search, encrypted products and the planner's predictions.
    Search,
    /// Models of one's own: seconds, bytes, accuracy and errors, beside the model in the clear and Concrete ML.
    Model,
}

impl Suite {
    /// All suites.
    pub const ALL: [Suite; 10] = [
        Suite::Engine,
        Suite::Lookup,
        Suite::Matrix,
        Suite::Encrypt,
        Suite::Pir,
        Suite::Llama,
        Suite::Web,
        Suite::Cluster,
        Suite::Search,
        Suite::Model,
    ];

    /// `engine`, `lookup`, `matrix`, `encrypt`, `pir`, `llama`, `web`, `cluster`, `search` or `model`.
    pub fn name(self) -> &'static str {
        match self {
            Suite::Engine => "engine",
            Suite::Lookup => "lookup",
            Suite::Matrix => "matrix",
            Suite::Encrypt => "encrypt",
            Suite::Pir => "pir",
            Suite::Llama => "llama",
            Suite::Web => "web",
            Suite::Cluster => "cluster",
            Suite::Search => "search",
            Suite::Model => "model",
        }
    }

    /// Parts that can be measured alone ([`Options::only`]).
    pub fn parts(self) -> &'static [&'static str] {
        match self {
            Suite::Engine => &engine::PARTS,
            Suite::Lookup => &lookup::PARTS,
            Suite::Matrix => &matrix::PARTS,
            Suite::Encrypt => &encrypt::PARTS,
            Suite::Pir => &pir::PARTS,
            Suite::Llama => &llama::PARTS,
            Suite::Web => &web::PARTS,
            Suite::Cluster => &cluster::PARTS,
            Suite::Search => &search::PARTS,
            Suite::Model => &model::PARTS,
        }
    }
}

impl std::str::FromStr for Suite {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> anyhow::Result<Self> {
        let found = Suite::ALL.into_iter().find(|suite| suite.name() == name);
        found.ok_or_else(|| {
            let names: Vec<&str> = Suite::ALL.into_iter().map(Suite::name).collect();
            anyhow::anyhow!("no suite '{name}'; there are {}", names.join(", "))
        })
    }
}

/// Options of a measurement.
#[derive(Clone, Debug)]
pub struct Options {
    /// Small rings and few repetitions: a suite ends within 60 seconds on two cores.
    pub quick: bool,
    /// Thread counts to compare with one thread. All other rows use one thread.
    pub threads: Vec<usize>,
    /// The parts of the suite to measure ([`Suite::parts`]); all of them if empty.
    pub only: Vec<String>,
    /// Measure other libraries as baselines if they are set up.
    pub peers: bool,
    /// Clock of single-threaded rows. Rows of several threads are always wall-clock time.
    pub clock: Clock,
    /// Directory of a compressed embedding table, to look up in addition to random ones.
    pub table: Option<PathBuf>,
    /// Directory that `unspoken llama prepare` wrote, for the parts of the llama suite that need one.
    pub preparation: Option<PathBuf>,
    /// A text for the same parts, which the preparation has not seen.
    pub text: Option<PathBuf>,
    /// Directory of the repository, which contains `research/peers/`, `.peers/venv` and `data/`.
    pub root: PathBuf,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            quick: false,
            threads: vec![2],
            only: Vec::new(),
            peers: true,
            clock: Clock::Wall,
            table: None,
            preparation: None,
            text: None,
            root: PathBuf::from("."),
        }
    }
}

/// Runs a suite. `sink` receives each row as soon as it is known; `progress` receives what is being measured, and why
/// a baseline is absent.
///
/// # Errors
/// If [`Options::only`] names an unknown part, if an operation fails or gives a wrong result (then nothing is
/// reported for it), or if a peer that was set up stops answering.
pub fn run(
    suite: Suite,
    options: &Options,
    sink: &mut dyn FnMut(Row),
    progress: &mut dyn FnMut(&str),
) -> anyhow::Result<()> {
    let mut harness = Harness::new(suite, options, sink, progress)?;
    match suite {
        Suite::Engine => engine::run(&mut harness),
        Suite::Lookup => lookup::run(&mut harness),
        Suite::Matrix => matrix::run(&mut harness),
        Suite::Encrypt => encrypt::run(&mut harness),
        Suite::Pir => pir::run(&mut harness),
        Suite::Llama => llama::run(&mut harness),
        Suite::Web => web::run(&mut harness),
        Suite::Cluster => cluster::run(&mut harness),
        Suite::Search => search::run(&mut harness),
        Suite::Model => model::run(&mut harness),
    }
}
