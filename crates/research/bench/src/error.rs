//! Errors of a benchmark.

use std::path::PathBuf;

use unspoken_audit::AuditError;
use unspoken_chat::ChatError;
use unspoken_ckks::CkksError;
use unspoken_classify::ClassifyError;
use unspoken_client::ClientError;
use unspoken_cnn::CnnError;
use unspoken_database::DatabaseError;
use unspoken_embedding::EmbeddingError;
use unspoken_encrypt::EncryptError;
use unspoken_encrypted_llama::PassError;
use unspoken_encrypted_matrix::EncryptedMatrixError;
use unspoken_exact::ExactError;
use unspoken_fasttext::{ModelError, TrainError};
use unspoken_gsw::GswError;
use unspoken_llama::{CircuitError, PreparationError};
use unspoken_llama_files::LoadError;
use unspoken_llama_model::InputError;
use unspoken_lookup::LookupError;
use unspoken_permute::PermuteError;
use unspoken_pir::PirError;
use unspoken_pir_scheme::SchemeError;
use unspoken_protocol::{ApplicationError, ProtocolError};
use unspoken_query::QueryError;
use unspoken_ring::RingError;
use unspoken_rlwe::RlweError;
use unspoken_slim::SlimError;
use unspoken_store::{DataError, FileError};
use unspoken_symmetric_pir::SymmetricPirError;

/// Errors of this crate. Each message names the measurement, what was found and what was needed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// No suite has this name.
    #[error("no suite '{found}'; there are engine, lookup, matrix, encrypt, pir, llama, web and cluster")]
    Suite {
        /// The name given.
        found: String,
    },
    /// No part of the suite has this name.
    #[error("no part '{found}' of the suite {suite}; there are {}", if needed.is_empty() { "none" } else { needed })]
    Part {
        /// The name given.
        found: String,
        /// The suite's name.
        suite: &'static str,
        /// The names of its parts.
        needed: String,
    },
    /// An operation gave a wrong result, so its timing is not reported.
    #[error("{case}: the result is off by {found:e}, needed at most {needed:e}; this is a bug, please report it")]
    Wrong {
        /// What was measured.
        case: String,
        /// Largest distance from the expected values.
        found: f64,
        /// Largest distance allowed.
        needed: f64,
    },
    /// Two clients read different answers.
    #[error("{case}: the answers are {found} and {needed}; this is a bug, please report it")]
    Differs {
        /// What was measured.
        case: String,
        /// One answer.
        found: String,
        /// The other one.
        needed: String,
    },
    /// The module for browsers is not built.
    #[error("there is no module for browsers; needed Node.js 20 or newer, and 'make web'")]
    Module,
    /// There is no Python package with Ray, or no command.
    #[error("there are no services on Ray; needed 'make python-env' and 'cargo build --release -p unspoken-cli'")]
    Cluster,
    /// A half of an application failed.
    #[error("{0}")]
    Application(Box<dyn ApplicationError>),
    /// No preset has the levels that the baseline needs for a table.
    #[error("a table of {found} columns; needed at most {most}: compress it with fewer (--columns)")]
    Columns {
        /// Columns of the table.
        found: usize,
        /// The largest number of columns.
        most: usize,
    },
    /// A peer process failed.
    #[error("peer {peer}: {reason}; run 'make peers' again, or leave peers out")]
    Peer {
        /// The peer's name.
        peer: &'static str,
        /// The cause.
        reason: String,
    },
    /// A table of numbers cannot be read.
    #[error("cannot read {}: {reason}; scripts/fetch_data.py downloads it anew", path.display())]
    Table {
        /// The file.
        path: PathBuf,
        /// The cause.
        reason: String,
    },
    /// A file that was named cannot be read.
    #[error("cannot read {}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        reason: String,
    },
    /// A part needs a preparation and a text.
    #[error("part {part}: found no preparation or no text, needed --preparation DIR and --text FILE")]
    Prepared {
        /// The part.
        part: &'static str,
    },
    /// A text, or the context of a preparation, is too short for a chain.
    #[error(
        "the text of a chain: found {found} tokens with a prefix of {prefix}, in a context of {context}, needed \
         {needed}; name a longer text, or prepare the model for more tokens"
    )]
    Prompt {
        /// Number of tokens found.
        found: usize,
        /// Number of tokens of the prefix.
        prefix: usize,
        /// Tokens that the preparation is for.
        context: usize,
        /// Number of tokens needed.
        needed: usize,
    },
    /// Text for a measurement is too short.
    #[error("{what}: found {found} tokens, needed {needed}; this is a bug, please report it")]
    Text {
        /// What the text is for.
        what: &'static str,
        /// Number of tokens found.
        found: usize,
        /// Number of tokens needed.
        needed: usize,
    },
    /// The system refused to start threads.
    #[error("cannot start {threads} threads: {reason}; request fewer")]
    Threads {
        /// Number of requested threads.
        threads: usize,
        /// The system's error message.
        reason: String,
    },
    /// The system refused to create a temporary directory.
    #[error("cannot create a temporary directory: {reason}; set TMPDIR to a directory with room")]
    Folder {
        /// The system's error message.
        reason: String,
    },
    /// The ring failed.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// Keys or ciphertexts failed.
    #[error(transparent)]
    Rlwe(#[from] RlweError),
    /// Encrypted arithmetic failed.
    #[error(transparent)]
    Ckks(#[from] CkksError),
    /// Exact encrypted arithmetic failed.
    #[error(transparent)]
    Exact(#[from] ExactError),
    /// A pool of encryptions failed.
    #[error(transparent)]
    Encrypt(#[from] EncryptError),
    /// A published encryption method failed.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// A lookup failed.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// An operation on matrices failed.
    #[error(transparent)]
    Matrix(#[from] EncryptedMatrixError),
    /// A permutation failed.
    #[error(transparent)]
    Permute(#[from] PermuteError),
    /// No digits and gadgets of the published decomposition keep its conditions.
    #[error(
        "published decomposition of {bits} bits on '{name}': found no digits that fail less than once in 2^40, needed \
         a smaller index or a larger ring"
    )]
    Decomposition {
        /// Number of bits of the index.
        bits: u32,
        /// Name of the parameter set.
        name: &'static str,
    },
    /// An operation on encrypted bits failed.
    #[error(transparent)]
    Gsw(#[from] GswError),
    /// Private retrieval failed.
    #[error(transparent)]
    Retrieval(#[from] SchemeError),
    /// The service of a benchmark cannot be started.
    #[error("cannot start the measured service: {reason}; needed a free local port and a temporary directory")]
    Service {
        /// The system's error message.
        reason: String,
    },
    /// A query to a service failed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The service's half of retrieval failed.
    #[error(transparent)]
    Retrieve(#[from] PirError),
    /// A record could not be sealed or opened, or its key not asked for.
    #[error(transparent)]
    Sealed(#[from] SymmetricPirError),
    /// A database on disk failed.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// Classification failed.
    #[error(transparent)]
    Classify(#[from] ClassifyError),
    /// Two halves of an application do not fit, or their keys failed.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// The compressed table cannot be read.
    #[error(transparent)]
    Embedding(#[from] EmbeddingError),
    /// The data set cannot be read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// Training failed.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// The model refuses its own codes.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// An encrypted network failed.
    #[error(transparent)]
    Network(#[from] CnnError),
    /// A query of indices could not be created or read.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The network refuses its parameters.
    #[error(transparent)]
    Digits(unspoken_digits_model::ModelError),
    /// A generated image is invalid.
    #[error(transparent)]
    Image(unspoken_digits_model::DataError),
    /// A polynomial has no sums of squares, or they do not fit the parameters.
    #[error(transparent)]
    Slim(#[from] SlimError),
    /// A language model cannot be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// Text does not fit a language model.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The polynomials of a language model cannot be chosen.
    #[error(transparent)]
    Circuit(#[from] CircuitError),
    /// A preparation cannot be read.
    #[error(transparent)]
    Preparation(#[from] PreparationError),
    /// One half of a model cannot be read.
    #[error(transparent)]
    Half(#[from] FileError),
    /// An encrypted pass failed.
    #[error(transparent)]
    Pass(#[from] PassError),
    /// The service of a language model, or its client, failed.
    #[error(transparent)]
    Chat(#[from] ChatError),
}

/// The larger of two errors; NaN if one of them is NaN, so that no comparison with a tolerance accepts it.
pub(crate) fn larger_error(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}

#[cfg(test)]
mod tests {
    use super::larger_error;

    #[test]
    fn a_nan_is_never_within_a_tolerance() {
        let largest = |errors: &[f64]| errors.iter().copied().fold(0.0, larger_error);
        assert_eq!(largest(&[1.0, 3.0, 2.0]), 3.0);
        assert!(largest(&[1.0, f64::NAN, 2.0]).is_nan() && largest(&[f64::NAN]).is_nan());
    }
}
