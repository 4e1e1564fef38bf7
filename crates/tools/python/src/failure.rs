//! Conversion of the errors of the crates below to exceptions of the package.

use std::fmt::Display;
use std::io;

use pyo3::exceptions::PyValueError;
use pyo3::{PyErr, import_exception};
use unspoken_chat::ChatError;
use unspoken_ckks::CkksError;
use unspoken_classify::ClassifyError;
use unspoken_client::{ClientError, transport};
use unspoken_cnn::CnnError;
use unspoken_collection::CollectionError;
use unspoken_database::DatabaseError as DatabaseFailure;
use unspoken_digits::DigitsError;
use unspoken_digits_model::DigitsModelError;
use unspoken_embed::EmbedError;
use unspoken_embedding::EmbeddingError;
use unspoken_encrypt::EncryptError;
use unspoken_exact::ExactError as ExactFailure;
use unspoken_fasttext::FastTextError;
use unspoken_llama_model::InputError;
use unspoken_matrix::MatrixError as MatrixFailure;
use unspoken_model::ModelError as ModelFailure;
use unspoken_offers::ClientKind;
use unspoken_oprf::OprfError;
use unspoken_pir::PirError;
use unspoken_pir_scheme::SchemeError;
use unspoken_protocol::{ApplicationError, ErrorKind, ProtocolError};
use unspoken_ring::RingError;
use unspoken_rlwe::RlweError;
use unspoken_search::SearchError;
use unspoken_sources::SourceError;
use unspoken_store::StoreError;
use unspoken_sums::SumsError as SumsFailure;
use unspoken_symmetric_pir::SymmetricPirError;
use unspoken_wire::ProblemCode;

import_exception!(unspoken.errors, UnspokenError);
import_exception!(unspoken.errors, ArgumentError);
import_exception!(unspoken.errors, ConfigurationError);
import_exception!(unspoken.errors, ConnectionFailedError);
import_exception!(unspoken.errors, TimedOutError);
import_exception!(unspoken.errors, RefusedError);
import_exception!(unspoken.errors, KeysExpiredError);
import_exception!(unspoken.errors, MismatchError);
import_exception!(unspoken.errors, NoSuchIndexError);
import_exception!(unspoken.errors, StateError);
import_exception!(unspoken.errors, ModelError);
import_exception!(unspoken.errors, TrainingError);
import_exception!(unspoken.errors, UnknownTokenError);
import_exception!(unspoken.errors, UnreadableAnswerError);
import_exception!(unspoken.errors, MatrixError);
import_exception!(unspoken.errors, MissingKeysError);
import_exception!(unspoken.errors, DatabaseError);
import_exception!(unspoken.errors, DatabaseLockedError);
import_exception!(unspoken.errors, ExactError);
import_exception!(unspoken.errors, SumsError);

/// An error of a call. It is created without the interpreter lock, and converted to an exception with it.
pub(crate) enum Failure {
    /// The message of an error in reading, writing or using a model.
    Model(String),
    /// The message of an error in training, compression, or the data for them.
    Training(String),
    /// Text that a tokenizer cannot read, or tokens that it does not have.
    Text(InputError),
    /// A compressed table, a token of it, or a linear head.
    Embedding(EmbeddingError),
    /// Parameters.
    Ckks(CkksError),
    /// Compiling, reading or using a model of one's own.
    Compiled(ModelFailure),
    /// Encrypted matrices.
    Matrix(MatrixFailure),
    /// Encrypted vectors of integers.
    Exact(ExactFailure),
    /// A pool of encryptions of zero.
    Pool(EncryptError),
    /// A collection of encrypted contributions.
    Sums(SumsFailure),
    /// Building, reading or changing a database.
    Database(DatabaseFailure),
    /// Building, reading or changing a collection.
    Collection(CollectionError),
    /// A record that a bulk change could not put. Counted from 0.
    Record { name: String, number: u64, error: DatabaseFailure },
    /// Reading the records for a database.
    Source(SourceError),
    /// The description of a database.
    Description(PirError),
    /// Opening sealed records.
    Sealed(SymmetricPirError),
    /// Queries to a service, after the application is chosen.
    Client(ClientError),
    /// Creating the directory for the client's files.
    State { path: String, source: io::Error },
    /// No application was named and the service has none, or several.
    Application { offered: Vec<String> },
    /// The system refused to start threads.
    Threads(rayon::ThreadPoolBuildError),
}

impl Failure {
    /// The failure of training, of compression, or of reading the data for them.
    pub(crate) fn training<E: Display>(error: E) -> Self {
        Failure::Training(error.to_string())
    }
}

impl From<FastTextError> for Failure {
    fn from(error: FastTextError) -> Self {
        Failure::Model(error.to_string())
    }
}

impl From<DigitsModelError> for Failure {
    fn from(error: DigitsModelError) -> Self {
        Failure::Model(error.to_string())
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Failure::Model(error.to_string())
    }
}

impl From<InputError> for Failure {
    fn from(error: InputError) -> Self {
        Failure::Text(error)
    }
}

impl From<SymmetricPirError> for Failure {
    fn from(error: SymmetricPirError) -> Self {
        Failure::Sealed(error)
    }
}

impl From<EmbeddingError> for Failure {
    fn from(error: EmbeddingError) -> Self {
        Failure::Embedding(error)
    }
}

impl From<CkksError> for Failure {
    fn from(error: CkksError) -> Self {
        Failure::Ckks(error)
    }
}

impl From<MatrixFailure> for Failure {
    fn from(error: MatrixFailure) -> Self {
        Failure::Matrix(error)
    }
}

impl From<ExactFailure> for Failure {
    fn from(error: ExactFailure) -> Self {
        Failure::Exact(error)
    }
}

impl From<RlweError> for Failure {
    fn from(error: RlweError) -> Self {
        Failure::Exact(error.into())
    }
}

impl From<RingError> for Failure {
    fn from(error: RingError) -> Self {
        Failure::Exact(error.into())
    }
}

impl From<EncryptError> for Failure {
    fn from(error: EncryptError) -> Self {
        Failure::Pool(error)
    }
}

impl From<SumsFailure> for Failure {
    fn from(error: SumsFailure) -> Self {
        Failure::Sums(error)
    }
}

impl From<DatabaseFailure> for Failure {
    fn from(error: DatabaseFailure) -> Self {
        Failure::Database(error)
    }
}

impl From<CollectionError> for Failure {
    fn from(error: CollectionError) -> Self {
        Failure::Collection(error)
    }
}

impl From<SourceError> for Failure {
    fn from(error: SourceError) -> Self {
        Failure::Source(error)
    }
}

impl From<PirError> for Failure {
    fn from(error: PirError) -> Self {
        Failure::Description(error)
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        Failure::Client(error)
    }
}

impl From<transport::Error> for Failure {
    fn from(error: transport::Error) -> Self {
        Failure::Client(error.into())
    }
}

impl From<rayon::ThreadPoolBuildError> for Failure {
    fn from(error: rayon::ThreadPoolBuildError) -> Self {
        Failure::Threads(error)
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> PyErr {
        match failure {
            Failure::Model(message) => ModelError::new_err(message),
            Failure::Compiled(error) => of_compiled(&error),
            Failure::Training(message) => TrainingError::new_err(message),
            Failure::Text(error) => UnspokenError::new_err(error.to_string()),
            Failure::Embedding(error) => of_table(&error),
            Failure::Ckks(error) => UnspokenError::new_err(error.to_string()),
            Failure::Matrix(error) => of_matrix(&error),
            Failure::Exact(error) => of_exact(&error),
            Failure::Pool(error) => of_pool(&error),
            Failure::Sums(error) => of_sums(&error),
            Failure::Database(error) => of_database(&error),
            Failure::Collection(error) => of_collection(&error),
            Failure::Record { name, number, error } => {
                DatabaseError::new_err(format!("record {number} of {name}: {}", database_message(&error)))
            }
            Failure::Source(error) => DatabaseError::new_err(source_message(&error)),
            Failure::Sealed(error) => UnreadableAnswerError::new_err(format!(
                "open the records: {error}; if the application is not a sealed database, leave out oprf="
            )),
            Failure::Description(error) => of_retrieval(&error),
            Failure::Client(ClientError::Transport(error)) => of_transport(error.to_string(), &error),
            Failure::Client(ClientError::OtherKind { url, application, found, needed }) => {
                let remedy = |clients: &ClientKind| format!("use {}", clients.class);
                MismatchError::new_err(ClientKind::mismatch([&url, &application, &found, needed], "client", remedy))
            }
            Failure::Client(error @ (ClientError::State { .. } | ClientError::SecretKey { .. })) => {
                StateError::new_err(error.to_string())
            }
            Failure::Client(ClientError::Application(error)) if error.kind() == ErrorKind::Unreadable => {
                UnreadableAnswerError::new_err(error.to_string())
            }
            Failure::Client(error) => of_application(&error),
            Failure::State { path, source } => StateError::new_err(format!(
                "make the state directory {path}: {source}; pass state_dir=, a directory that can be written"
            )),
            Failure::Application { offered } => ConfigurationError::new_err(format!(
                "choose an application: found {offered:?} at the service, needed one; pass application= one of them"
            )),
            Failure::Threads(error) => UnspokenError::new_err(format!(
                "start threads: {error}; set RAYON_NUM_THREADS lower, or raise the limit on threads"
            )),
        }
    }
}

/// The exception for an application's error. Each application with its own exceptions has one line here.
fn of_application(error: &ClientError) -> PyErr {
    fn as_exception<E: ApplicationError>(error: &ClientError, convert: fn(&E) -> PyErr) -> Option<PyErr> {
        error.application().map(convert)
    }
    as_exception(error, of_protocol)
        .or_else(|| as_exception(error, of_classification))
        .or_else(|| as_exception(error, of_lookup))
        .or_else(|| as_exception(error, of_recognition))
        .or_else(|| as_exception(error, of_retrieval))
        .or_else(|| as_exception(error, of_search))
        .or_else(|| as_exception(error, of_unsealing))
        .or_else(|| as_exception(error, of_sums))
        .or_else(|| as_exception(error, of_matrix))
        .or_else(|| as_exception(error, of_prediction))
        .or_else(|| as_exception(error, of_generation))
        .unwrap_or_else(|| UnspokenError::new_err(error.to_string()))
}

/// The exception for the innermost cause, with the message of the whole error.
fn of_transport(message: String, error: &transport::Error) -> PyErr {
    match error {
        transport::Error::GaveUp { last, .. } => of_transport(message, last),
        transport::Error::Refused(problem) => {
            let remedy = problem.remedy.clone();
            let retry_after = problem.retry_after.map(|time| time.as_secs_f64());
            let fields =
                (message, problem.code.clone(), problem.status, remedy, retry_after, problem.request_id.clone());
            match problem.known_code() {
                Some(ProblemCode::KeyNotFound | ProblemCode::KeyDamaged) => KeysExpiredError::new_err(fields),
                _ => RefusedError::new_err(fields),
            }
        }
        transport::Error::Unreachable { .. } => ConnectionFailedError::new_err(message),
        transport::Error::TimedOut { .. } => TimedOutError::new_err(message),
        transport::Error::Config { .. } => ConfigurationError::new_err(message),
        transport::Error::Source(_) => StateError::new_err(message),
        transport::Error::Protocol { .. } => MismatchError::new_err(message),
        _ => UnspokenError::new_err(message),
    }
}

fn of_protocol(error: &ProtocolError) -> PyErr {
    match error {
        ProtocolError::Mismatch { .. } | ProtocolError::Damaged { .. } => MismatchError::new_err(error.to_string()),
        _ => UnspokenError::new_err(error.to_string()),
    }
}

fn of_classification(error: &ClassifyError) -> PyErr {
    match error {
        ClassifyError::Protocol(error) => of_protocol(error),
        ClassifyError::TooLong { .. } => PyValueError::new_err(error.to_string()),
        ClassifyError::Embedding(error) => of_table(error),
        _ => UnspokenError::new_err(error.to_string()),
    }
}

fn of_lookup(error: &EmbedError) -> PyErr {
    match error {
        EmbedError::Protocol(error) => of_protocol(error),
        EmbedError::Embedding(error) => of_table(error),
        _ => UnspokenError::new_err(error.to_string()),
    }
}

fn of_recognition(error: &DigitsError) -> PyErr {
    match error {
        DigitsError::Protocol(error) => of_protocol(error),
        DigitsError::Circuit(CnnError::Mismatch { .. }) => MismatchError::new_err(error.to_string()),
        _ => UnspokenError::new_err(error.to_string()),
    }
}

fn of_retrieval(error: &PirError) -> PyErr {
    let message = error.to_string();
    match error {
        PirError::Protocol(error) => of_protocol(error),
        PirError::NoSuchIndex { .. } => NoSuchIndexError::new_err(message),
        PirError::Sealed | PirError::OtherSealing | PirError::Pir(SchemeError::Kind { .. }) => {
            ConfigurationError::new_err(message)
        }
        PirError::Layout(_) | PirError::Pir(SchemeError::Cell { .. } | SchemeError::Length { .. }) => {
            MismatchError::new_err(message)
        }
        PirError::Io { .. } => StateError::new_err(message),
        _ => UnspokenError::new_err(message),
    }
}

fn of_search(error: &SearchError) -> PyErr {
    match error {
        SearchError::Protocol(error) => of_protocol(error),
        SearchError::Replaced => MismatchError::new_err(error.to_string()),
        _ => UnspokenError::new_err(error.to_string()),
    }
}

fn of_collection(error: &CollectionError) -> PyErr {
    match error {
        CollectionError::Documents(error) => of_database(error),
        CollectionError::Exists { dir } => DatabaseError::new_err(format!(
            "{} has a collection already; build in another directory, or pass replace=True",
            dir.display()
        )),
        _ => DatabaseError::new_err(error.to_string()),
    }
}

fn of_unsealing(error: &OprfError) -> PyErr {
    match error {
        OprfError::Protocol(error) => of_protocol(error),
        OprfError::Sealed(_) => MismatchError::new_err(error.to_string()),
        _ => UnspokenError::new_err(error.to_string()),
    }
}

fn of_exact(error: &ExactFailure) -> PyErr {
    match error {
        ExactFailure::Rlwe(RlweError::Decode { .. } | RlweError::OtherParameters { .. })
        | ExactFailure::Parameters { .. } => MismatchError::new_err(error.to_string()),
        ExactFailure::Literal { .. } => ConfigurationError::new_err(error.to_string()),
        _ => ExactError::new_err(error.to_string()),
    }
}

fn of_pool(error: &EncryptError) -> PyErr {
    match error {
        EncryptError::Files { .. } | EncryptError::Damaged { .. } | EncryptError::Io(_) => {
            StateError::new_err(error.to_string())
        }
        _ => ExactError::new_err(error.to_string()),
    }
}

fn of_sums(error: &SumsFailure) -> PyErr {
    match error {
        SumsFailure::Protocol(error) => of_protocol(error),
        SumsFailure::Exact(error) => of_exact(error),
        SumsFailure::Encrypt(error) => of_pool(error),
        _ => SumsError::new_err(error.to_string()),
    }
}

fn of_database(error: &DatabaseFailure) -> PyErr {
    let message = database_message(error);
    match error {
        DatabaseFailure::Locked { .. } => DatabaseLockedError::new_err(message),
        DatabaseFailure::Pir(SchemeError::Record { .. }) => NoSuchIndexError::new_err(message),
        _ => DatabaseError::new_err(message),
    }
}

/// The message, with the arguments of this package in place of the options of the command line.
fn database_message(error: &DatabaseFailure) -> String {
    match error {
        DatabaseFailure::Exists { dir } => {
            format!("{} is there already; build in another directory, or pass replace=True", dir.display())
        }
        DatabaseFailure::Duplicate { key, record } => format!(
            "record {record} has the key '{}' of an earlier one; remove one of them, or pass duplicates=\"first\" or \
             \"last\"",
            key.escape_ascii()
        ),
        DatabaseFailure::Full { what } => {
            format!("no room for another record: {what}; build the database with more room: capacity=, replace=True")
        }
        DatabaseFailure::Source(source) => match source.downcast_ref::<SourceError>() {
            Some(error) => source_message(error),
            None => error.to_string(),
        },
        _ => error.to_string(),
    }
}

/// As [`database_message`].
fn source_message(error: &SourceError) -> String {
    match error {
        SourceError::Kind { path, found, needed } => format!(
            "read {}: found the ending {found:?}, needed one of {needed}; rename the file or pass kind=",
            path.display()
        ),
        SourceError::Encoding { path, line, column, encoding } => format!(
            "read {}, line {line}: found bytes that are not {encoding} in column {column:?}; pass encoding=, for \
             instance \"windows-1252\", or convert the file to UTF-8",
            path.display()
        ),
        _ => error.to_string(),
    }
}

fn of_matrix(error: &MatrixFailure) -> PyErr {
    let message = error.to_string();
    if error.is_missing_keys() {
        MissingKeysError::new_err(message)
    } else if error.is_malformed() {
        MismatchError::new_err(message)
    } else {
        MatrixError::new_err(message)
    }
}

fn of_compiled(error: &ModelFailure) -> PyErr {
    match error {
        ModelFailure::Row(message) => ArgumentError::new_err(message.clone()),
        // With the argument of this package in place of the option of the command line.
        ModelFailure::Option { option, found, needed } => {
            ConfigurationError::new_err(format!("{}: found {found}, needed {needed}", option.replace('-', "_")))
        }
        _ => ModelError::new_err(error.to_string()),
    }
}

fn of_prediction(error: &ModelFailure) -> PyErr {
    match error {
        ModelFailure::Protocol(error) => of_protocol(error),
        ModelFailure::Row(message) => ArgumentError::new_err(message.clone()),
        _ => MismatchError::new_err(error.to_string()),
    }
}

fn of_generation(error: &ChatError) -> PyErr {
    match error {
        ChatError::Protocol(error) => of_protocol(error),
        _ => UnspokenError::new_err(error.to_string()),
    }
}

fn of_table(error: &EmbeddingError) -> PyErr {
    let message = error.to_string();
    match error {
        EmbeddingError::UnknownToken { token, .. } => UnknownTokenError::new_err((message, token.clone())),
        EmbeddingError::Option { .. } | EmbeddingError::Training { .. } => TrainingError::new_err(message),
        _ => ModelError::new_err(message),
    }
}
