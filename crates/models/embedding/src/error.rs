//! Errors of this crate.

use std::path::PathBuf;

use unspoken_store::FileError;

use crate::limits::LARGEST_VALUE;

/// An embedding table could not be read or built.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The file could not be opened or read.
    #[error("read {path}: {source}; check that the file exists and is readable", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The file does not contain the expected array.
    #[error(
        "read {path}: found {found}, needed {needed}; convert the table, or name another tensor",
        path = path.display()
    )]
    Array {
        /// The file.
        path: PathBuf,
        /// What was found.
        found: String,
        /// What was needed.
        needed: String,
    },
    /// The list of tokens is malformed.
    #[error(
        "read {path}: found {found}, needed {needed}; use the list that belongs to the table",
        path = path.display()
    )]
    TokenFile {
        /// The file.
        path: PathBuf,
        /// What was found.
        found: String,
        /// What was needed.
        needed: String,
    },
    /// A list of tokens is invalid.
    #[error("check the tokens: found {found}, needed {needed}; use the list that belongs to the table")]
    Tokens {
        /// What is wrong.
        found: String,
        /// What is allowed.
        needed: String,
    },
    /// The numbers of tokens and rows differ.
    #[error(
        "pair rows with tokens: found {rows} rows and {tokens} tokens, needed as many of each; {remedy}",
        remedy = count_remedy(*rows, *tokens)
    )]
    Count {
        /// Number of rows of the table.
        rows: usize,
        /// Number of tokens.
        tokens: usize,
    },
    /// The table has no rows, or rows of an invalid length.
    #[error("check the table: found {found}, needed {needed}")]
    Shape {
        /// The shape.
        found: String,
        /// The shapes allowed.
        needed: String,
    },
    /// A value is not a number, infinite or too large.
    #[error(
        "check the table: found {value} in row {row} (token {token:?}), column {column}, needed a number of magnitude \
         at most {LARGEST_VALUE:e}; correct the row or leave it out"
    )]
    Value {
        /// The row, from 0.
        row: usize,
        /// The row's token.
        token: String,
        /// The column, from 0.
        column: usize,
        /// The value.
        value: f32,
    },
}

/// What to do about a table with other numbers of rows and tokens.
fn count_remedy(rows: usize, tokens: usize) -> String {
    let list = "use the list of tokens that belongs to the table";
    match rows > tokens {
        true => format!("{list}, or if the last rows only pad it, take the first {tokens} rows (--rows {tokens})"),
        false => list.into(),
    }
}

/// A table could not be compressed.
#[derive(Debug, thiserror::Error)]
pub enum CompressError {
    /// An option is outside its range.
    #[error("compress: found {name} = {found}, needed {needed}; change the option")]
    Option {
        /// The option's name.
        name: &'static str,
        /// Its value.
        found: String,
        /// The values allowed.
        needed: String,
    },
    /// The caller raised the cancellation flag.
    #[error("compress: cancelled in step {step}; nothing was kept, compress again from the start")]
    Cancelled {
        /// The step, from 1.
        step: usize,
    },
    /// Weights became infinite or not a number.
    #[error("compress: diverged in epoch {epoch}; lower the rate")]
    Diverged {
        /// The epoch, from 1.
        epoch: usize,
    },
    /// The parts are not a valid compressed table.
    #[error(transparent)]
    Embedding(#[from] EmbeddingError),
}

/// A compressed table, or half of one, could not be built, read, written or used.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddingError {
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The list of tokens or the table is invalid.
    #[error(transparent)]
    Table(#[from] TableError),
    /// A field has an invalid value.
    #[error("check the compressed table: found {field}: {found}, needed {needed}; compress or download it again")]
    Field {
        /// The field.
        field: &'static str,
        /// Its value.
        found: String,
        /// The values allowed.
        needed: String,
    },
    /// The two halves do not belong together.
    #[error(
        "join the halves of a compressed table: found client {client}, server {server}, needed the same {what}; use \
         the two halves of one compression"
    )]
    Halves {
        /// What differs.
        what: &'static str,
        /// The client half's value.
        client: String,
        /// The server half's value.
        server: String,
    },
    /// A token id is outside the vocabulary.
    #[error(
        "look up a token: found id {id}, needed 0 to {last}; check which vocabulary the ids belong to",
        last = tokens - 1
    )]
    TokenId {
        /// The id.
        id: usize,
        /// Number of tokens in the vocabulary.
        tokens: usize,
    },
    /// A token is not in the vocabulary, which has no row for unknown ones.
    #[error(
        "look up a token: found {token:?}, needed one of the vocabulary's {tokens} tokens; leave it out, or compress \
         the table with a row for unknown tokens"
    )]
    UnknownToken {
        /// The token.
        token: String,
        /// Number of tokens in the vocabulary.
        tokens: usize,
    },
}

impl EmbeddingError {
    /// The error of a field with an invalid value.
    pub(crate) fn field(field: &'static str, found: impl ToString, needed: impl ToString) -> Self {
        Self::Field { field, found: found.to_string(), needed: needed.to_string() }
    }
}

/// A classifier over embeddings could not be trained.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// The reviews could not be split.
    #[error(transparent)]
    Data(#[from] unspoken_store::DataError),
    /// The number of classes is not two.
    #[error("train on reviews: found {found} distinct labels, needed 2; pass a column of two labels")]
    Labels {
        /// Distinct labels found.
        found: usize,
    },
    /// An option is outside its range.
    #[error("train on reviews: found {name} = {found}, needed {needed}; change the option")]
    Option {
        /// The option's name.
        name: &'static str,
        /// Its value.
        found: String,
        /// The values allowed.
        needed: &'static str,
    },
    /// The caller raised the cancellation flag.
    #[error("train on reviews: cancelled in epoch {epoch}; nothing was kept, start again")]
    Cancelled {
        /// The epoch, from 1.
        epoch: usize,
    },
    /// Weights became infinite or not a number.
    #[error("train on reviews: diverged in epoch {epoch}; lower the rate")]
    Diverged {
        /// The epoch, from 1.
        epoch: usize,
    },
    /// The table has another number of tokens than the vocabulary of the task.
    #[error(
        "train on reviews: found a table of {found} tokens, needed the {needed} the task was made with; use one \
         vocabulary"
    )]
    Vocabulary {
        /// Number of tokens of the table.
        found: usize,
        /// Number of tokens of the task.
        needed: usize,
    },
}

/// A linear head could not be read, written, trained or used.
#[derive(Debug, thiserror::Error)]
pub enum HeadError {
    /// The file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The file does not contain a head.
    #[error(
        "read {path}: found {found}, needed {needed}; docs/model-format.md describes the file",
        path = path.display()
    )]
    Content {
        /// The file.
        path: PathBuf,
        /// What was found.
        found: String,
        /// What was needed.
        needed: String,
    },
    /// A part of the head has an invalid value.
    #[error("check the head: found {field}: {found}, needed {needed}; correct it, or train the head again")]
    Field {
        /// The part.
        field: &'static str,
        /// Its value.
        found: String,
        /// The values allowed.
        needed: String,
    },
    /// The head is for embeddings of another width.
    #[error(
        "join head and table: found weights for {found} numbers of an embedding, needed {needed}, as many as the table \
         has; train the head on this table"
    )]
    Width {
        /// Weights of each class.
        found: usize,
        /// Numbers of an embedding.
        needed: usize,
    },
    /// The texts, their labels or an option cannot be used for training.
    #[error("train a head: found {found}, needed {needed}; change the data or the option")]
    Training {
        /// What was found.
        found: String,
        /// What was needed.
        needed: String,
    },
    /// The compressed table is invalid.
    #[error(transparent)]
    Embedding(#[from] EmbeddingError),
    /// The caller raised the cancellation flag.
    #[error("train a head: cancelled; nothing was kept, train again from the start")]
    Cancelled,
}

impl HeadError {
    /// The error of a part with an invalid value.
    pub(crate) fn field(field: &'static str, found: impl ToString, needed: impl ToString) -> Self {
        Self::Field { field, found: found.to_string(), needed: needed.to_string() }
    }
}
