//! What keeps a router from answering.

/// What is wrong with shards. Strangers may read it: shards have numbers here, not addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShardProblem {
    /// There are no shards.
    #[error("shards of a router: found 0, needed the address of each shard")]
    None,
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
    /// A shard, by its number and the number of all, does not fit the others.
    pub fn differs((number, shards): (u32, u32), found: impl Into<String>, needed: impl Into<String>) -> Self {
        ShardProblem::Differs { number, shards, found: found.into(), needed: needed.into() }
    }
}
