//! Indices whose groups of columns are shared among several services, and the router that puts their answers together
//! and serves the index as one.
//!
//! A shard answers the requests of clients with the scores of its groups. The router has no data: it passes a request
//! on to all shards, and puts their answers side by side. All must be of one build.

mod agreed;
mod description;
mod router;

pub use agreed::{Agreed, Shards};
pub use description::{SHARD_PROTOCOL_VERSION, ShardDescription};
pub use router::SearchRouter;
