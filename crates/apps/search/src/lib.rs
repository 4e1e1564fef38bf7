#![doc = include_str!("../README.md")]

mod client;
mod description;
mod error;
mod message;
mod server;
mod shard;

pub use client::{Hit, SearchClient};
pub use description::{Description, PROTOCOL_VERSION};
pub use error::SearchError;
pub use server::SearchServer;
pub use shard::{Agreed, SHARD_PROTOCOL_VERSION, SearchRouter, ShardDescription, Shards};

mod proto {
    #![allow(missing_docs)]
    include!(concat!(env!("OUT_DIR"), "/unspoken.search.v1.rs"));
}
