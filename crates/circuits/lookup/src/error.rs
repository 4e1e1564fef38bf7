//! Errors of this crate.

use unspoken_ckks::CkksError;

/// Errors of this crate. Each message says what was found and what was needed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LookupError {
    /// Encrypted arithmetic failed.
    #[error(transparent)]
    Ckks(#[from] CkksError),
    /// A table is invalid.
    #[error("table: {what} is {found}; needed {needed}")]
    Table {
        /// The wrong part.
        what: &'static str,
        /// What was found.
        found: String,
        /// What was needed.
        needed: String,
    },
    /// A query does not match the lookup.
    #[error("query: {what} is {found}; needed {needed}")]
    Query {
        /// The wrong part.
        what: &'static str,
        /// What was found.
        found: String,
        /// What was needed.
        needed: String,
    },
    /// A plan cannot run with these parameters.
    #[error("plan '{plan}' cannot run with preset '{preset}': {reason}")]
    LookupPlan {
        /// The plan.
        plan: String,
        /// The preset.
        preset: String,
        /// The reason, and what to do.
        reason: String,
    },
}
