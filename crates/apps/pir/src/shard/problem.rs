//! What keeps a router from answering.

use unspoken_pir_scheme::ShardId;

/// What is wrong with the shards of a database. Strangers may read it: shards have numbers here, not addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShardProblem {
    /// A shard does not answer.
    #[error(
        "shard {number} of {shards} does not answer; needed all shards, because the others alone give no answer; ask \
         again later; the router's log says more"
    )]
    NoAnswer {
        /// Its number, from 1.
        number: u32,
        /// Number of shards.
        shards: u32,
    },
    /// A shard does not fit the others.
    #[error("shard {number} of {shards}: found {found}, needed {needed}")]
    Differs {
        /// Its number, from 1: the number that it had before, or the number of its address.
        number: u32,
        /// Number of shards.
        shards: u32,
        /// What was found.
        found: String,
        /// What was needed, and what to do.
        needed: String,
    },
}

impl ShardProblem {
    /// A shard of another version or split came in place of this one.
    pub(crate) fn replaced(id: ShardId) -> Self {
        ShardProblem::differs(
            (id.number, id.shards),
            "another version of the database, or another way of cutting it into shards",
            "that of the other shards: serve shards of one split",
        )
    }

    pub(crate) fn differs((number, shards): (u32, u32), found: impl Into<String>, needed: impl Into<String>) -> Self {
        ShardProblem::Differs { number, shards, found: found.into(), needed: needed.into() }
    }
}
