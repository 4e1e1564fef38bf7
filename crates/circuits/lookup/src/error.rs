//! What can go wrong with a lookup.

use unspoken_ckks::CkksError;

/// Errors of this crate. Each says what was found and what was needed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LookupError {
    /// Encrypted arithmetic failed.
    #[error(transparent)]
    Ckks(#[from] CkksError),
    /// A table cannot be used.
    #[error("table: {what} is {found}; needed {needed}")]
    Table {
        /// Which part of it.
        what: &'static str,
        /// What it is.
        found: String,
        /// What would do.
        needed: String,
    },
    /// A query does not fit the lookup.
    #[error("query: {what} is {found}; needed {needed}")]
    Query {
        /// Which part of it.
        what: &'static str,
        /// What it is.
        found: String,
        /// What would do.
        needed: String,
    },
    /// A plan cannot be carried out with these parameters.
    #[error("plan '{plan}' cannot run with preset '{preset}': {reason}")]
    Plan {
        /// The plan.
        plan: String,
        /// The preset.
        preset: String,
        /// Why not, and what would help.
        reason: String,
    },
}
