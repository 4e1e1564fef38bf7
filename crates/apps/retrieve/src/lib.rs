#![doc = include_str!("../README.md")]

mod client;
mod description;
mod error;
mod frame;
mod keys;
mod message;
mod sealed;
mod server;
mod session_guard;
mod shard;
mod together;
mod upload;

pub use client::{Answer, EncodedQuestion, Question, RetrieveClient, RetrieveOptions};
pub use description::{Description, PROTOCOL_VERSION};
pub use error::RetrieveError;
pub use frame::{ANSWER_OVERHEAD_BYTES, REQUEST_OVERHEAD_BYTES};
pub use sealed::SealedQuestions;
pub use server::RetrieveServer;
pub use shard::{
    ForwardedKeys, RetrieveRouter, SHARD_PROTOCOL_VERSION, ShardAccess, ShardDescription, ShardFailure, ShardProblem,
    ShardServer, Shards,
};
pub use upload::{EncryptedServer, UploadClient, UploadQuestion};

mod proto {
    #![allow(missing_docs)]
    include!(concat!(env!("OUT_DIR"), "/unspoken.retrieve.v1.rs"));
}
