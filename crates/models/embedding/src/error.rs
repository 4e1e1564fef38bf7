//! Errors of this crate.

use std::path::{Path, PathBuf};

use unspoken_store::StoreError;

use crate::limits::LARGEST_VALUE;

/// A table or a head could not be read, built, compressed, trained, written or used.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddingError {
    /// A file could not be read or written, or a data set could not be split.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The content of a table, a list of tokens or a head is not the expected one.
    #[error("read {path}: found {found}, needed {needed}; {remedy}", path = path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What was found.
        found: String,
        /// What was needed.
        needed: String,
        /// What to do.
        remedy: &'static str,
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
    /// A field of a compressed table or of a head has an invalid value.
    #[error("check the {of}: found {field}: {found}, needed {needed}; correct it, or make or download the {of} again")]
    Field {
        /// `compressed table` or `head`.
        of: &'static str,
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
    /// An option of compression or training is outside its range.
    #[error("check the options: found {name} = {found}, needed {needed}; change the option")]
    Option {
        /// The option's name.
        name: &'static str,
        /// Its value.
        found: String,
        /// The values allowed.
        needed: String,
    },
    /// Texts, labels or tables cannot be used for training.
    #[error("train on texts: found {found}, needed {needed}; change the data")]
    Training {
        /// What was found.
        found: String,
        /// What was needed.
        needed: String,
    },
    /// Weights became infinite or not a number.
    #[error("diverged in epoch {epoch}; lower the rate")]
    Diverged {
        /// The epoch, from 1.
        epoch: usize,
    },
    /// The caller raised the cancellation flag.
    #[error("cancelled in step {step}; nothing was kept, start again")]
    Cancelled {
        /// The step or epoch, from 1.
        step: usize,
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

impl EmbeddingError {
    fn content(path: &Path, found: impl ToString, needed: impl ToString, remedy: &'static str) -> Self {
        Self::Content { path: path.to_owned(), found: found.to_string(), needed: needed.to_string(), remedy }
    }

    /// The error of a file without the expected array.
    pub(crate) fn array(path: &Path, found: impl ToString, needed: impl ToString) -> Self {
        Self::content(path, found, needed, "convert the table, or name another tensor")
    }

    /// The error of a file without a list of tokens.
    pub(crate) fn token_file(path: &Path, found: impl ToString, needed: impl ToString) -> Self {
        Self::content(path, found, needed, "use the list that belongs to the table")
    }

    /// The error of a file without a head.
    pub(crate) fn head_file(path: &Path, found: impl ToString, needed: impl ToString) -> Self {
        Self::content(path, found, needed, "docs/model-format.md describes the file")
    }

    /// The error of a compressed table with an invalid value.
    pub(crate) fn field(field: &'static str, found: impl ToString, needed: impl ToString) -> Self {
        Self::Field { of: "compressed table", field, found: found.to_string(), needed: needed.to_string() }
    }

    /// The error of a head with an invalid value.
    pub(crate) fn head(field: &'static str, found: impl ToString, needed: impl ToString) -> Self {
        Self::Field { of: "head", field, found: found.to_string(), needed: needed.to_string() }
    }

    /// The error of an option outside its range.
    pub(crate) fn option(name: &'static str, found: impl ToString, needed: impl ToString) -> Self {
        Self::Option { name, found: found.to_string(), needed: needed.to_string() }
    }
}

/// Refuses an option unless it is allowed.
pub(crate) fn check_option(
    name: &'static str,
    found: impl ToString,
    allowed: bool,
    needed: &str,
) -> Result<(), EmbeddingError> {
    if allowed { Ok(()) } else { Err(EmbeddingError::option(name, found, needed)) }
}
