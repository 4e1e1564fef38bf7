//! Databases that are cut into shards: the service of a shard, and the router that adds the partial answers of all of
//! them and serves the database as one.

mod description;
mod message;
mod problem;
mod router;
mod server;
mod shards;

pub use description::{SHARD_PROTOCOL_VERSION, ShardDescription};
pub use problem::ShardProblem;
pub use router::PirRouter;
pub use server::ShardServer;
pub use shards::{ForwardedKeys, ShardAccess, ShardFailure, Shards};
