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
mod upload;

pub use client::{Answer, EncodedQuestion, PirClient, PirOptions, Question};
pub use description::{Description, PROTOCOL_VERSION};
pub use error::PirError;
pub use frame::{ANSWER_OVERHEAD_BYTES, REQUEST_OVERHEAD_BYTES};
pub use sealed::SealedQuestions;
pub use server::PirServer;
pub use shard::{Agreed, PirRouter, SHARD_PROTOCOL_VERSION, ShardDescription, ShardServer, Shards};
pub use upload::{EncryptedServer, UploadClient, UploadQuestion};

mod proto {
    #![allow(missing_docs)]
    include!(concat!(env!("OUT_DIR"), "/unspoken.pir.v1.rs"));
}
