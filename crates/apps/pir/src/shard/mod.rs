//! Databases that are cut into shards: the service of a shard, and the router that adds the partial answers of all of
//! them and serves the database as one.
//!
//! A router asks all shards of a database and adds their partial answers (`pir_scheme::dense`). Each shard says its
//! version, its number, and the split to which it belongs; the router adds only partial answers of one split.
//! `Shards::look` finds out whether all shards are there and agree, and takes up a later version when all shards have
//! it. Its result is the readiness of the router. A request fails as soon as one shard fails, with `ShardProblem`,
//! which names the shard and tells clients to ask again. A malformed request is not passed on. How shards are reached,
//! and how often they are tried again, is the business of `ShardAccess`.

mod agreed;
mod description;
mod message;
mod router;
mod server;

pub use agreed::{Agreed, Shards};
pub use description::{SHARD_PROTOCOL_VERSION, ShardDescription};
pub use router::PirRouter;
pub use server::ShardServer;
